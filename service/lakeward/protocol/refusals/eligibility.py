"""May this release service this table? One snapshot and a service in, every reason against it out.

A refusal names what is in the way (a property or a file), why that matters and what to do. None at all means that the
service may run; reading with `inspect` is always allowed. What stops one service need not stop another, so each row of
`ROWS` names the services that it stops. What only the blocks inside a log file can say is refused later, while the
slice is read and before anything is written.

A service is in `TableService` from the day on which it asks: whether a row stops one that is not there yet could not be
tested. A new service goes through all rows and adds itself to those whose sentence is true of it.

Touches: nothing.
Keeps:   1. what is not known to be merged right is refused: classes, modes and formats are allowed by list;
         2. ids are stable: scripts and runbooks match on them;
         3. what is broken, and what hides which instants count, stops every service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import Refused
from lakeward.protocol.refusals import findings
from lakeward.protocol.refusals.findings import Finding, Test
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import DROPS_PARTITION_COLUMNS, PARTIAL_UPDATE_MODE


class TableService(StrEnum):
    """What asks for permission, in the words of `inspect`. Full and log compactions are chosen in one planning over one
    snapshot, so they are one service here."""

    ARCHIVING = "archiving"
    """Moving the oldest instants from the active timeline into the archive. Writes no data file."""
    CLEANING = "cleaning"
    """Deleting file slices that nothing needs any more."""
    CLUSTERING = "clustering"
    """Writing the rows of file groups into new ones, which replace them."""
    COMPACTION = "compaction"
    INDEXING = "indexing"
    """Updating indexes of record keys, and comparing them with rows. Writes no file of the table."""
    METADATA = "metadata"
    """Compaction and cleaning of the metadata table."""
    READING = "reading"
    """Giving out the rows that a query finds. Writes nothing."""
    RESTORE = "restore"
    """Going back to a commit, so that nothing of those after it is left."""
    ROLLBACK = "rollback"
    """Rolling back writes that failed."""
    SAVEPOINT = "savepoint"
    """Making a savepoint of a commit, and deleting one. Writes nothing but the savepoint."""
    UNSCHEDULING = "unscheduling"
    """Removing a pending plan from the timeline."""
    UPGRADING = "upgrading"
    """Changing the table's version, to a newer or an older one, or its layout."""
    VERIFICATION = "verification"
    """Merging a sample of file slices twice. Writes nothing."""
    WRITING = "writing"
    """Writing the operator's own rows."""


@dataclass(frozen=True, slots=True)
class Refusal:
    id: str
    subject: str
    """The property or the file that is in the way."""
    why: str
    remedy: str
    services: frozenset[TableService] = frozenset()
    """The services that it stops; none where a command has reasons of its own."""
    is_fault: bool = False
    """Something is broken; otherwise there is something that this release cannot treat."""
    no_work: str = ""
    """What a table of this kind is, in a few words, where that leaves no work for the services at all."""
    is_of_merging: bool = False
    """It stops no reading of rows that are in base files alone."""


@dataclass(frozen=True, slots=True)
class RefusalRow:
    id: str
    what: str
    """The words of the matrix in docs/reference/compatibility.md."""
    stops: frozenset[TableService]
    test: Test
    why: str
    """A sentence with the finding's words in braces, like the remedy."""
    remedy: str
    is_fault: bool = False
    no_work: str = ""
    only_beside_writers: bool = False
    """It prevents nothing where an operator says that no writer is at work."""
    is_of_merging: bool = False
    """It prevents no reading of rows that are in base files alone."""

    def refusal(self, finding: Finding) -> Refusal:
        words = (sentence.format_map(finding.words) for sentence in (self.why, self.remedy, self.no_work))
        why, remedy, no_work = words
        stops, is_of_merging = self.stops, self.is_of_merging
        return Refusal(self.id, finding.subject, why, remedy, stops, self.is_fault, no_work, is_of_merging)


def find_refusals(
    snapshot: TableSnapshot, service: TableService, *, beside_writers: bool = False
) -> tuple[Refusal, ...]:
    """Every reason against running `service` on this table, the most basic first.

    Args:
        beside_writers: no operator said that the writers are stopped.
    """
    found = find_all_refusals(snapshot, beside_writers=beside_writers)
    return tuple(refusal for refusal in found if service in refusal.services)


def why_no_work(snapshot: TableSnapshot, found: Sequence[Refusal] | None = None) -> str | None:
    """Why there is nothing to compact on a sound table, in a few words. None where there may be, where something is
    broken, and where the table does not say its version.

    Args:
        found: what `find_all_refusals` said of the snapshot, where it was asked already.
    """
    found = find_all_refusals(snapshot) if found is None else found
    refusals = [refusal for refusal in found if TableService.COMPACTION in refusal.services]
    if any(refusal.is_fault for refusal in refusals) or snapshot.config.version.number is None:
        return None
    return next((refusal.no_work for refusal in reversed(refusals) if refusal.no_work), None)


def find_all_refusals(snapshot: TableSnapshot, *, beside_writers: bool = False) -> tuple[Refusal, ...]:
    """Every reason against running any service on this table, the most basic first."""
    rows = (row for row in ROWS if beside_writers or not row.only_beside_writers)
    return tuple(row.refusal(finding) for row in rows for finding in row.test(snapshot))


_ALL = frozenset(TableService)
_LOGS_ARE_MERGED = frozenset({TableService.COMPACTION, TableService.VERIFICATION})
"""The services that have nothing to do where there are no logs."""
_ROWS_ARE_MERGED = _LOGS_ARE_MERGED | {TableService.CLUSTERING, TableService.INDEXING, TableService.READING}
"""The services that merge the rows of file slices."""
_COMPACTION = frozenset({TableService.COMPACTION})
_ROWS_ARE_ORDERED = _ROWS_ARE_MERGED | {TableService.WRITING}
"""The services that must know which of two rows with one key wins."""
_CLUSTERING = frozenset({TableService.CLUSTERING})
_WRITING = frozenset({TableService.CLUSTERING, TableService.WRITING})
"""The services that write rows with all that a writer writes beside them."""
_CLEANING = frozenset({TableService.CLEANING})
_OF_PLANS = frozenset({TableService.COMPACTION, TableService.UNSCHEDULING})
"""The services that carry out pending plans of the table, or unschedule them."""
_WRITES = _ALL - {
    TableService.ARCHIVING,
    TableService.INDEXING,
    TableService.READING,
    TableService.SAVEPOINT,
    TableService.UPGRADING,
    TableService.VERIFICATION,
}
"""The services that write files which the metadata table must know."""
_FILES_ARE_NAMED = _ROWS_ARE_MERGED | {
    TableService.ARCHIVING,
    TableService.CLEANING,
    TableService.RESTORE,
    TableService.ROLLBACK,
    TableService.SAVEPOINT,
    TableService.UPGRADING,
    TableService.WRITING,
}
"""The services that must know every data file of the table."""
_METADATA_IS_WRITTEN = _WRITES - {TableService.RESTORE, TableService.ROLLBACK}
"""The services that write records into the metadata table; a rollback only removes what its instant wrote there, and a
restore all of it."""
_STATISTICS_ARE_WRITTEN = _ROWS_ARE_MERGED | _CLEANING
"""The services that merge rows, or write for each file what the metadata table has of its columns."""
_UNLESS_RESTORED = _ALL - {TableService.RESTORE}
"""All but the service that ends what is pending here, or has words of its own about it."""

_CHANGES = _ALL - {TableService.INDEXING, TableService.READING, TableService.VERIFICATION}
"""The services that change a table; the others only read it."""
_MINTS = _CHANGES - {TableService.ARCHIVING, TableService.UNSCHEDULING}
"""The services that put new times on its timeline."""

_NAME_ZONE = (
    "Name the zone in which the writers run: --timezone Europe/Berlin, or timezone below [defaults] in the "
    "configuration."
)
_LEAVE = "Leave compaction of this table to Hudi."
_LET_HUDI_WRITE = "Let Hudi write into this table."
_LET_HUDI_CLUSTER = "Leave the clustering of this table to Hudi."
_OTHER_FORMAT = "It is {value}; this release merges rows of {wanted} only."

ROWS: tuple[RefusalRow, ...] = (
    RefusalRow(
        "properties-backup",
        "an interrupted update of the properties",
        _ALL,
        findings.interrupted_properties,
        "An update of the table's properties is under way or was interrupted.",
        "Wait for it; if no writer is running, let any Hudi writer open the table, which recovers the file.",
        is_fault=True,
    ),
    RefusalRow(
        "properties-checksum",
        "properties whose checksum is wrong",
        _ALL,
        findings.wrong_checksum,
        "It must be {right} for this database and table name; the file may be torn or edited.",
        "Restore the file from a copy, or correct what was edited.",
        is_fault=True,
    ),
    RefusalRow(
        "table-version",
        "a table version other than 6, 8, 9 and 10",
        _ALL,
        findings.unknown_version,
        "It is {value}; this release changes tables of versions {known} only.",
        "Upgrade {what}, or leave the table's services to Hudi.",
        no_work="table version {value}, whose services are left to Hudi",
    ),
    RefusalRow(
        "table-version",
        "version 6",
        _ALL - (_ROWS_ARE_MERGED - _CLUSTERING),
        findings.version_of_appended_logs,
        "It is {value}, of which this release compacts and verifies tables and checks Hudi's indexes, and does nothing "
        "else: logs are named by the slice or the plan that they lie on, not by their writes.",
        "Leave the table's other services to Hudi, or upgrade it with a Hudi release that writes version {known}.",
        no_work="table version {value}, whose services but compaction are left to Hudi",
    ),
    RefusalRow(
        "writers-at-work",
        "version 6, beside writers",
        _COMPACTION,
        findings.version_of_appended_logs,
        "It is {value}: a write that is under way while a compaction is planned puts its rows where readers look for "
        "them no more.",
        "Stop the table's writers and say so: `--writers stopped`, or locks.writers in the configuration.",
        only_beside_writers=True,
        no_work="table version {value}, which is compacted with its writers stopped only",
    ),
    RefusalRow(
        "metadata-table",
        "on version 6, a metadata table",
        _COMPACTION,
        findings.metadata_table_of_appended_logs,
        "The table has a metadata table ({names}), into which this release does not write on version {version}; "
        "readers would miss all rows that a compaction moves.",
        "Let its writers write once with hoodie.metadata.enable=false, which removes it, and keep that setting.",
    ),
    RefusalRow(
        "pending-work",
        "on version 6, anything pending but a compaction",
        _COMPACTION,
        findings.pending_beside_appended_logs,
        "{action} {time} is under way or was interrupted. It may still put rows, or a rollback of it, into logs of the "
        "slices that a compaction ends.",
        "Wait for it; where its process is gone, let a Hudi writer write once, which rolls it back.",
    ),
    RefusalRow(
        "timeline-layout",
        "a timeline layout that is not the version's",
        _ALL,
        findings.wrong_layout,
        "It is {value}, but tables of version {version} have layout {right}.",
        "Check whether an upgrade of the table was interrupted.",
    ),
    RefusalRow(
        "metadata-partition",
        "partitions of the metadata table that this release does not know; on version 8 `secondary_index_*`",
        _METADATA_IS_WRITTEN,
        findings.unknown_metadata_partition,
        "The metadata table holds {names}, for which this release cannot write what Hudi's writers would; queries that "
        "rely on it would miss rows, or later writes would fail.",
        "Drop that index with Hudi, or leave compaction of this table to Hudi.",
    ),
    RefusalRow(
        "metadata-partition",
        "a metadata table without its partition `files`",
        _WRITES,
        findings.metadata_table_without_files,
        "It names {names} and not `files`, without which there is no metadata table.",
        "Let a Hudi writer write once with the metadata table on, or disable it.",
    ),
    RefusalRow(
        "metadata-partition-inflight",
        "a partition of the metadata table that is being built",
        _WRITES,
        findings.metadata_partition_being_built,
        "An indexer is building {names} in the metadata table, or died over it; it may not see what is written "
        "meanwhile.",
        "Wait for it, or drop that index with Hudi.",
    ),
    RefusalRow(
        "cdc-enabled",
        "change data capture, but from version 9 on in the layout `default` (whole rows, known modes)",
        _COMPACTION | _WRITING,
        findings.changes_cannot_be_captured,
        "A service that rewrites a base file of this table must write the changes beside it, and {why}.",
        "Leave compaction of this table, and writing into it, to Hudi.",
    ),
    RefusalRow(
        "bucket-index",
        "the bucket index",
        _CLUSTERING,
        findings.bucket_index,
        "It is {value}: a file group is a bucket, where writers look for its keys, and they fail "
        "where a bucket has two.",
        _LET_HUDI_CLUSTER,
    ),
    RefusalRow(
        "cdc-enabled",
        "change data capture, with a LOG in a pending compaction",
        _COMPACTION,
        findings.log_among_captured_changes,
        "The pending compaction {instant} has a LOG in it, at which readers of changes fail.",
        _LEAVE,
    ),
    RefusalRow(
        "no-meta-fields",
        "rows without meta fields, but keys of text and whole numbers by simple, non-partitioned and complex key "
        "generators on version 9, without indexes of keys in the metadata table",
        _ROWS_ARE_MERGED,
        findings.no_meta_fields,
        "Rows carry no record key, which has to be made as the key generator does, and {why}.",
        _LEAVE,
        is_of_merging=True,
    ),
    RefusalRow(
        "no-meta-fields",
        "rows without meta fields",
        _WRITING,
        findings.property_is_other_than("hoodie.populate.meta.fields", "TRUE"),
        "Rows carry no record key, and this release writes rows with their keys only.",
        _LET_HUDI_WRITE,
    ),
    RefusalRow(
        "meta-fields-mode",
        "some of the meta fields only",
        _ROWS_ARE_ORDERED,
        findings.selective_meta_fields,
        "It is {value} where hoodie.populate.meta.fields is {populated}, which goes with {wanted}: rows carry some of "
        "their meta fields, and without a key they cannot be merged.",
        _LEAVE,
        is_of_merging=True,
    ),
    RefusalRow(
        "dropped-partition-columns",
        "partition columns that are not in the files",
        _WRITING,
        findings.property_is_true(DROPS_PARTITION_COLUMNS),
        "Rows are stored without the columns of their partition, and this release writes rows with all of their "
        "columns.",
        _LET_HUDI_WRITE,
    ),
    RefusalRow(
        "dropped-partition-columns",
        "partition columns that are not in the files, but by simple and complex key generators, without captured "
        "changes",
        frozenset({TableService.CLUSTERING, TableService.READING}),
        findings.unknown_partition_columns,
        "Rows are stored without the columns of their partition, and {why}.",
        _LEAVE,
    ),
    RefusalRow(
        "no-record-key",
        "no record key",
        _ROWS_ARE_ORDERED,
        findings.no_record_key,
        "The table has no record key: writers make keys up, and what Hudi does with updates and deletes there was not "
        "tried.",
        _LEAVE,
        is_of_merging=True,
    ),
    RefusalRow(
        "not-merge-on-read",
        "COPY_ON_WRITE",
        _LOGS_ARE_MERGED,
        findings.not_merge_on_read,
        _OTHER_FORMAT,
        _LEAVE,
        no_work="copy-on-write",
    ),
    RefusalRow(
        "base-file-format",
        "base files other than Parquet",
        _FILES_ARE_NAMED,
        findings.property_is_other_than("hoodie.table.base.file.format", "PARQUET"),
        _OTHER_FORMAT,
        _LEAVE,
    ),
    RefusalRow(
        "log-file-format",
        "log files other than Hudi's log format",
        _FILES_ARE_NAMED,
        findings.property_is_other_than("hoodie.table.log.file.format", "HOODIE_LOG"),
        _OTHER_FORMAT,
        _LEAVE,
    ),
    RefusalRow(
        "table-format",
        "a table format other than Hudi's own",
        _ALL,
        findings.property_is_other_than("hoodie.table.format", "NATIVE"),
        "It is {value}; this release services tables of format {wanted} only.",
        "Leave the services of this table to Hudi.",
    ),
    RefusalRow(
        "storage-layout",
        "a storage layout other than `default` and, from version 10 on, `lsm_tree`",
        _ROWS_ARE_ORDERED | {TableService.CLEANING, TableService.RESTORE, TableService.ROLLBACK},
        findings.unknown_layout,
        "It is {value}; this release knows which files belong together in the layout DEFAULT and, from version 10 on, "
        "in LSM_TREE. The table is of version {version}.",
        _LEAVE,
    ),
    RefusalRow(
        "multiple-base-formats",
        "base files of several formats",
        _FILES_ARE_NAMED,
        findings.property_is_true("hoodie.table.multiple.base.file.formats.enable"),
        "Base files may have several formats; this release reads Parquet only.",
        _LEAVE,
    ),
    RefusalRow(
        "bootstrap",
        "a bootstrapped table",
        _FILES_ARE_NAMED,
        findings.property_is_set("hoodie.bootstrap.base.path"),
        "Rows of a bootstrapped table are in files outside of it.",
        "Rewrite the table, for example with insert_overwrite, and remove the property.",
    ),
    RefusalRow(
        "merge-mode",
        "a merge mode other than commit time and event time",
        _ROWS_ARE_ORDERED,
        findings.unknown_merge_mode,
        "Rows are merged by {mode} rules, which are Java code that this release does not know.",
        "Use COMMIT_TIME_ORDERING or EVENT_TIME_ORDERING, or leave compaction of this table to Hudi.",
        is_of_merging=True,
    ),
    RefusalRow(
        "payload-class",
        "a payload class that is not known to follow the merge mode",
        _ROWS_ARE_ORDERED,
        findings.unknown_payload,
        "{payload} is no payload class whose rules are known to be those of {mode}.",
        _LEAVE,
        is_of_merging=True,
    ),
    RefusalRow(
        "merge-strategy",
        "on version 8, a merge strategy that is not known to follow the merge mode",
        _ROWS_ARE_ORDERED,
        findings.unknown_strategy,
        "{strategy} is no merge strategy whose rules are known to be those of {mode}.",
        _LEAVE,
        is_of_merging=True,
    ),
    RefusalRow(
        "partial-update-mode",
        "partial updates, but `IGNORE_DEFAULTS` (no column has a default) and `FILL_UNAVAILABLE` on version 9",
        _ROWS_ARE_MERGED,
        findings.partial_update_mode,
        "It is {mode}: columns of several versions of a row are combined, and {why}.",
        _LEAVE,
        is_of_merging=True,
    ),
    RefusalRow(
        "partial-update-mode",
        "partial updates",
        _WRITING,
        findings.property_is_other_than(PARTIAL_UPDATE_MODE, "NONE"),
        "It is {value}: columns of several versions of a row are combined, which this release does not do as it "
        "writes.",
        _LET_HUDI_WRITE,
    ),
    RefusalRow(
        "merge-property",
        "properties of a merger or a payload class, but a mark of deletion in a column of its own on version 9",
        _ROWS_ARE_ORDERED,
        findings.merge_properties,
        "It changes how rows are merged in a way that this release does not follow.",
        _LEAVE,
        is_of_merging=True,
    ),
    RefusalRow(
        "multiple-ordering-fields",
        "more than six ordering fields; on version 8, more than one",
        _ROWS_ARE_ORDERED,
        findings.several_ordering_fields,
        "There are {number} ({fields}), which is more than this release orders tables of version {version} by.",
        _LEAVE,
        is_of_merging=True,
    ),
    RefusalRow(
        "nested-ordering-field",
        "an ordering field inside another column",
        _ROWS_ARE_ORDERED,
        findings.nested_ordering_field,
        "{fields} lies inside another column, and how Hudi compares such values was not tried.",
        _LEAVE,
        is_of_merging=True,
    ),
    RefusalRow(
        "no-ordering-field",
        "event time ordering without an ordering field",
        _ROWS_ARE_ORDERED,
        findings.no_ordering_field,
        "Rows are merged by event time, but no field says which one is newer.",
        "Set the property, or use COMMIT_TIME_ORDERING.",
        is_of_merging=True,
    ),
    RefusalRow(
        "schema-on-read",
        "schema on read, but on version 9 columns that were added, dropped and moved, and whole numbers that became "
        "wider",
        _ROWS_ARE_MERGED,
        findings.schema_on_read,
        "Columns are matched by id, which this release does not do, and matching by name would give other columns: "
        "{why}",
        _LEAVE,
    ),
    RefusalRow(
        "schema-on-read",
        "schema on read",
        _WRITING,
        findings.any_schema_on_read,
        "Columns have ids, of which this release writes none.",
        _LET_HUDI_WRITE,
    ),
    RefusalRow(
        "no-schema",
        "no schema in the active timeline",
        _ROWS_ARE_MERGED,
        findings.no_schema(has_statistics=False),
        "No completed write on the active timeline says what the table's columns are.",
        "Let any Hudi writer commit once.",
    ),
    RefusalRow(
        "no-schema",
        "no schema in the active timeline, and column statistics in the metadata table",
        _STATISTICS_ARE_WRITTEN,
        findings.no_schema(has_statistics=True),
        "No completed write on the active timeline says what the table's columns are, so neither which of them have "
        "statistics in the metadata table.",
        "Let any Hudi writer commit once.",
    ),
    RefusalRow(
        "schema-unreadable",
        "a schema that is not that of an Avro record",
        _ROWS_ARE_ORDERED,
        findings.unreadable_schema(has_statistics=False),
        "The schema in the newest write is not that of an Avro record with columns.",
        "{way_back}",
        is_fault=True,
    ),
    RefusalRow(
        "schema-unreadable",
        "a schema that is not that of an Avro record, and column statistics in the metadata table",
        _STATISTICS_ARE_WRITTEN | _WRITING,
        findings.unreadable_schema(has_statistics=True),
        "The schema in the newest write is not that of an Avro record with columns, so it does not say either which "
        "columns have statistics in the metadata table.",
        "{way_back}",
        is_fault=True,
    ),
    RefusalRow(
        "operation-column",
        "the column `_hoodie_operation` in the schema",
        _ROWS_ARE_ORDERED,
        findings.operation_column_in_schema,
        "It has {column} among the table's own columns, where Hudi's writers never put it: they add it to files.",
        _LEAVE,
    ),
    RefusalRow(
        "ordering-field-missing",
        "an ordering field that is no column",
        _ROWS_ARE_MERGED,
        findings.missing_ordering_field,
        "{field} is no column of the table.",
        "Correct the property.",
        is_of_merging=True,
    ),
    RefusalRow(
        "frozen-timeline",
        "a completed instant that cannot be relied on",
        _ALL,
        findings.broken_completed_instant,
        "This completed instant cannot be relied on. {broken}",
        "Restore the file from a copy; nothing else can say what the instant did.",
        is_fault=True,
    ),
    RefusalRow(
        "broken-pending-plan",
        "a pending plan that cannot be read",
        _ALL,
        findings.broken_pending_plan,
        "The file groups that this pending plan holds are unknown. {broken}",
        "Delete the file if its writer is gone; it published nothing.",
        is_fault=True,
    ),
    RefusalRow(
        "plan-operation-type",
        "a pending plan with operations of an unknown type",
        _OF_PLANS,
        findings.unknown_operation_type,
        "This pending plan holds operations of type {types}, which this release does not carry out on tables of "
        "version {version}.",
        "Let the program that wrote the plan finish it.",
    ),
    RefusalRow(
        "bootstrap",
        "a pending plan over bootstrap files",
        _COMPACTION,
        findings.plan_over_bootstrap_files,
        "This pending plan reads files outside the table.",
        _LEAVE,
    ),
    RefusalRow(
        "unknown-action",
        "an unknown action on the timeline",
        _ALL,
        findings.unknown_action,
        "The timeline holds an action that this release does not know.",
        "Upgrade Lakeward, or find out which program wrote it.",
    ),
    RefusalRow(
        "pending-restore",
        "a pending restore",
        _UNLESS_RESTORED,
        findings.pending("restore"),
        "A restore is under way or was interrupted.",
        "Wait for it; where it was interrupted, end it with `lakeward restore`, or let Hudi finish it.",
    ),
    RefusalRow(
        "pending-savepoint",
        "a savepoint that was begun and not completed",
        _CLEANING,
        findings.pending("savepoint"),
        "A savepoint is being made, or its maker died over it, and which files it keeps is not written yet.",
        "Wait for it; where its maker is gone, make it again, or delete what was begun: `lakeward savepoint delete`.",
    ),
    RefusalRow(
        "pending-indexing",
        "a pending indexing",
        _WRITES | {TableService.UPGRADING},
        findings.pending("indexing"),
        "An indexing is under way or was interrupted.",
        "Wait for it; where its process is gone: `lakeward metadata abort-indexing`.",
    ),
    RefusalRow(
        "pending-rollback",
        "a pending rollback, unless it rolls back a write that never completed",
        _UNLESS_RESTORED,
        findings.pending_rollback,
        "A rollback is under way or was interrupted. {why}",
        "Wait for it, or let a Hudi writer write once, which finishes it.",
    ),
    RefusalRow(
        "unreadable-rollback",
        "a pending rollback whose plan cannot be read",
        _UNLESS_RESTORED - {TableService.ROLLBACK},
        findings.unreadable_rollback,
        "What it rolls back cannot be read. It may just be being written; where that stays so, no engine can end it.",
        "Wait a moment; where it stays so, stop the writers and give `lakeward rollback TABLE --writers stopped`: it "
        "takes it away, and rolls its write back by another one.",
    ),
    RefusalRow(
        "pending-log-compaction",
        "on version 8 or with partial updates, a pending log compaction",
        _OF_PLANS,
        findings.pending_log_compaction,
        "A log compaction waits, which this release carries out from version {version} on, without partial updates; "
        "and a compaction over it would be wasted work for the program that scheduled it.",
        "Let the program that scheduled it carry it out or roll it back.",
    ),
    RefusalRow(
        "timezone-disagrees",
        "a time zone that the table contradicts",
        _CHANGES,
        findings.zone_disagrees,
        "Instants are in the writers' local time, and {zone}. One in the writers' future would hide what they commit "
        "until then.",
        "Give the zone in which the writers run; without one only writes are refused.",
    ),
    RefusalRow(
        "timezone-unknown",
        "an unknown time zone",
        _WRITING,
        findings.zone_unknown,
        "Instants are in the writers' local time, and the zone is unknown: {zone}. Services use the greatest time of "
        "the table, but rows are written by the writers' clock.",
        _NAME_ZONE,
    ),
    RefusalRow(
        "instant-in-future",
        "no time zone, and an instant later than every clock on earth",
        _CHANGES,
        findings.instant_in_future,
        "No clock on earth shows {instant} yet, so what writers commit lies below it, and so would our work.",
        f"Find out which clock made it: `lakeward inspect` names every instant in the future. {_NAME_ZONE}",
    ),
    RefusalRow(
        "instants-out-of-order",
        "no time zone, and newest instants in another order by their names than by their files' times",
        _CHANGES | {TableService.INDEXING},
        findings.instants_out_of_order,
        "Writers are in two time zones, or their clocks were set back, so what they commit next may lie below our "
        "work: {why}.",
        _NAME_ZONE,
    ),
    RefusalRow(
        "clocks-set-back",
        "no time zone, and clocks that are set back about now, where the writers may be",
        _MINTS,
        findings.clocks_set_back,
        "In {where} the clocks are set back about now and show {instant}, the greatest time of the table, once more. "
        "What writers commit then would lie below our work.",
        f"Wait for some hours. {_NAME_ZONE}",
    ),
    RefusalRow(
        "linked-partition",
        "a link, or a folder mounted a second time, where a partition would be",
        _FILES_ARE_NAMED,
        findings.linked_partitions,
        "Rows behind it are another table's, or would be read and compacted twice: {why}.",
        "Remove it, or replace it by a folder of its own.",
        is_fault=True,
    ),
    RefusalRow(
        "linked-file",
        "a link where a data file would be",
        _FILES_ARE_NAMED,
        findings.linked_files,
        "It is a link by the name of a data file, and what it leads to need not be the table's.",
        "Remove it, or replace it by the file.",
        is_fault=True,
    ),
    RefusalRow(
        "native-log-name",
        "names of table version 10's logs",
        _FILES_ARE_NAMED,
        findings.native_logs,
        "It has the name of a log of table version 10 in a table of version {version}, whose readers take it for a "
        "base file.",
        "Find out who wrote it, and let that program upgrade the table, or take the file out.",
        is_fault=True,
    ),
    RefusalRow(
        "bootstrap",
        "a base file without its rows",
        _FILES_ARE_NAMED,
        findings.bootstrap_base_files,
        "It holds meta columns only; its rows are in a file outside the table.",
        "Rewrite the table, for example with insert_overwrite.",
    ),
    RefusalRow(
        "encrypted-parquet",
        "encrypted Parquet files",
        _ROWS_ARE_ORDERED,
        findings.encrypted_base_files,
        "The file or some of its columns are encrypted, and this release has no keys.",
        _LEAVE,
    ),
)


def refuse(base_path: str, refusals: Sequence[Refusal]) -> None:
    """Raise `Refused` naming every refusal; return when there is none."""
    if not refusals:
        return
    raise Refused(
        f"{base_path} cannot be serviced: {', '.join(refusal.id for refusal in refusals)}.",
        why=" ".join(f"{refusal.subject}: {refusal.why}" for refusal in refusals),
        remedy=" ".join(dict.fromkeys(refusal.remedy for refusal in refusals)),
    )
