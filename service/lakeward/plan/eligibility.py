"""May this release change this table? One snapshot in, every reason against it out.

A refusal names what is in the way (a property or a file), why that matters and what to do. None at all means
that `compact` may schedule and carry out plans; reading with `inspect` is always allowed. What only the blocks
inside a log file can say is refused later, while the slice is read and before anything is written.

Touches: nothing.
Keeps:   1. what is not known to be merged right is refused: classes, modes and formats are allowed by list;
         2. ids are stable: scripts and runbooks match on them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from lakeward.format.file_name import is_native_log
from lakeward.format.metadata_partition import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)
from lakeward.plan.decision import FIRST_VERSION_WITH_LOG
from lakeward.table.base_file_facts import OPERATION_COLUMN
from lakeward.table.found_link import StandsFor
from lakeward.table.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import (
    BACKUP_FILE,
    COMMIT_TIME_ORDERING,
    EVENT_TIME_ORDERING,
    PAYLOAD_MODES,
    STRATEGY_MODES,
    TableConfig,
)
from lakeward.table.timezone import ZoneSource

SUPPORTED_VERSIONS = (8, 9)

_METADATA_BOOTSTRAP_INSTANT = "00000000000001"
"""Base files of this instant hold meta columns only; the rows are in files outside the table."""

_METADATA_PARTITIONS = frozenset({FILES, COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS, RECORD_INDEX})
"""Partitions of the metadata table that we write, or that want nothing of a compaction, as secondary indexes do."""

_MERGE_PROPERTIES = ("hoodie.record.merge.property.", "hoodie.payload.delete.")

_PLANS_OVER_GROUPS = frozenset({"compaction", "logcompaction", "clustering"})


@dataclass(frozen=True, slots=True)
class Refusal:
    id: str
    subject: str
    """The property or the file that is in the way."""
    why: str
    remedy: str


def find_refusals(snapshot: TableSnapshot) -> tuple[Refusal, ...]:
    """Every reason not to change this table, the most basic first."""
    config = snapshot.config
    return (
        *_properties_file(snapshot),
        *_version(config),
        *_metadata_table(snapshot),
        *_services_and_formats(config),
        *_merging(config),
        *_schema(snapshot),
        *_timeline(snapshot),
        *_zone(snapshot),
        *_links(snapshot),
        *_files(snapshot),
    )


def _properties_file(snapshot: TableSnapshot) -> Iterator[Refusal]:
    loaded = snapshot.loaded_config
    if loaded.backup_present:
        yield Refusal(
            "properties-backup",
            f".hoodie/{BACKUP_FILE}",
            "An update of the table's properties is under way or was interrupted.",
            "Wait for it; if no writer is running, let any Hudi writer open the table, which recovers the file.",
        )
    if not loaded.checksum_ok:
        yield Refusal(
            "properties-checksum",
            f".hoodie/{loaded.source}: hoodie.table.checksum",
            f"It must be {loaded.config.checksum} for this database and table name; the file may be torn or edited.",
            "Restore the file from a copy, or correct what was edited.",
        )


def _version(config: TableConfig) -> Iterator[Refusal]:
    if config.version not in SUPPORTED_VERSIONS:
        shown = config.get("hoodie.table.version") or "missing"
        supported = " and ".join(str(version) for version in SUPPORTED_VERSIONS)
        is_newer = config.version is not None and config.version > max(SUPPORTED_VERSIONS)
        yield Refusal(
            "table-version",
            "hoodie.table.version",
            f"It is {shown}; this release changes tables of versions {supported} only.",
            "Upgrade Lakeward, or leave compaction of this table to Hudi."
            if is_newer
            else "Upgrade the table with a Hudi release that writes one of these versions.",
        )
    elif config.layout != 2:
        yield Refusal(
            "timeline-layout",
            "hoodie.timeline.layout.version",
            f"It is {config.layout}, but tables of version {config.version} have layout 2.",
            "Check whether an upgrade of the table was interrupted.",
        )


def _metadata_table(snapshot: TableSnapshot) -> Iterator[Refusal]:
    config = snapshot.config
    built, inflight = config.built_metadata_partitions, config.inflight_metadata_partitions
    # Hudi 1.0 writes its secondary indexes by a reader that wants each column to be required where the schema says so,
    # also inside of others, of which our files do not say it.
    has_secondary = config.version != 8
    unknown = [
        name
        for name in built
        if name not in _METADATA_PARTITIONS and not (has_secondary and name.startswith(SECONDARY_INDEX_PREFIX))
    ]
    if unknown:
        yield Refusal(
            "metadata-partition",
            "hoodie.table.metadata.partitions",
            f"The metadata table holds {', '.join(unknown)}, for which this release cannot write what Hudi's writers "
            "would; queries that rely on it would miss rows, or later writes would fail.",
            "Drop that index with Hudi, or leave compaction of this table to Hudi.",
        )
    elif built and not has_metadata_table(config):
        yield Refusal(
            "metadata-partition",
            "hoodie.table.metadata.partitions",
            f"It names {', '.join(built)} and not `files`, without which there is no metadata table.",
            "Let a Hudi writer write once with the metadata table on, or disable it.",
        )
    if inflight:
        yield Refusal(
            "metadata-partition-inflight",
            "hoodie.table.metadata.partitions.inflight",
            f"An indexer is building {', '.join(inflight)} in the metadata table, or died over it; it may not see what "
            "is written meanwhile.",
            "Wait for it, or drop that index with Hudi.",
        )


def _services_and_formats(config: TableConfig) -> Iterator[Refusal]:
    if config.cdc_enabled:
        yield Refusal(
            "cdc-enabled",
            "hoodie.table.cdc.enabled",
            "A compaction of this table must write change data files, which this release cannot.",
            "Leave compaction of this table to Hudi.",
        )
    if not config.populate_meta_fields:
        yield Refusal(
            "no-meta-fields",
            "hoodie.populate.meta.fields",
            "Rows carry no record key, so it would have to be computed as the table's key generator does.",
            "Leave compaction of this table to Hudi.",
        )
    if not config.record_key_fields:
        yield Refusal(
            "no-record-key",
            "hoodie.table.recordkey.fields",
            "The table has no record key; its keys are generated.",
            "Leave compaction of this table to Hudi.",
        )
    expected = (
        ("not-merge-on-read", "hoodie.table.type", config.table_type.upper(), "MERGE_ON_READ"),
        ("base-file-format", "hoodie.table.base.file.format", config.base_file_format, "PARQUET"),
        (
            "log-file-format",
            "hoodie.table.log.file.format",
            _upper(config, "hoodie.table.log.file.format"),
            "HOODIE_LOG",
        ),
        ("table-format", "hoodie.table.format", _upper(config, "hoodie.table.format"), "NATIVE"),
        ("storage-layout", "hoodie.table.storage.layout", _upper(config, "hoodie.table.storage.layout"), "DEFAULT"),
    )
    for id_, name, value, wanted in expected:
        if value not in (None, wanted):
            yield Refusal(
                id_,
                name,
                f"It is {value}; this release compacts {wanted} only.",
                "Leave compaction of this table to Hudi.",
            )
    if config.is_true("hoodie.table.multiple.base.file.formats.enable"):
        yield Refusal(
            "multiple-base-formats",
            "hoodie.table.multiple.base.file.formats.enable",
            "Base files may have several formats; this release reads Parquet only.",
            "Leave compaction of this table to Hudi.",
        )
    if config.is_true("hoodie.datasource.write.drop.partition.columns"):
        yield Refusal(
            "dropped-partition-columns",
            "hoodie.datasource.write.drop.partition.columns",
            "Partition columns are not in the files, so rows there have fewer columns than the table.",
            "Leave compaction of this table to Hudi.",
        )
    if config.get("hoodie.bootstrap.base.path") is not None:
        yield Refusal(
            "bootstrap",
            "hoodie.bootstrap.base.path",
            "Rows of a bootstrapped table are in files outside of it.",
            "Rewrite the table, for example with insert_overwrite, and remove the property.",
        )


def _merging(config: TableConfig) -> Iterator[Refusal]:
    mode = config.merge_mode
    if mode not in (COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING):
        yield Refusal(
            "merge-mode",
            "hoodie.record.merge.mode",
            f"Rows are merged by {mode} rules, which are Java code that this release does not know.",
            "Use COMMIT_TIME_ORDERING or EVENT_TIME_ORDERING, or leave compaction of this table to Hudi.",
        )
    for name in ("hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class"):
        payload = config.get(name)
        if payload is not None and PAYLOAD_MODES.get(payload.rpartition(".")[2]) != mode:
            yield Refusal(
                "payload-class",
                name,
                f"{payload} is no payload class whose rules are known to be those of {mode}.",
                "Leave compaction of this table to Hudi.",
            )
    # From version 9 on Hudi goes by the mode alone; on version 8 it does not open a table where the two disagree.
    strategy = config.strategy_id
    if config.version == 8 and strategy is not None and STRATEGY_MODES.get(strategy) != mode:
        yield Refusal(
            "merge-strategy",
            "hoodie.record.merge.strategy.id",
            f"{strategy} is no merge strategy whose rules are known to be those of {mode}.",
            "Leave compaction of this table to Hudi.",
        )
    if (partial := config.get("hoodie.table.partial.update.mode")) not in (None, "NONE"):
        yield Refusal(
            "partial-update-mode",
            "hoodie.table.partial.update.mode",
            f"It is {partial}: columns of several versions of a row are combined, which this release cannot.",
            "Leave compaction of this table to Hudi.",
        )
    for name in sorted(config.properties):
        if name.startswith(_MERGE_PROPERTIES):
            yield Refusal(
                "merge-property",
                name,
                "It changes how rows are merged in a way that this release does not follow.",
                "Leave compaction of this table to Hudi.",
            )
    fields = config.ordering_fields
    if len(fields) > 1:
        yield Refusal(
            "multiple-ordering-fields",
            config.ordering_property,
            f"There are {len(fields)} ({', '.join(fields)}); this release orders by one.",
            "Leave compaction of this table to Hudi.",
        )
    if any("." in field for field in fields):
        yield Refusal(
            "nested-ordering-field",
            config.ordering_property,
            f"{', '.join(fields)} lies inside another column.",
            "Leave compaction of this table to Hudi.",
        )
    if mode == EVENT_TIME_ORDERING and not fields:
        yield Refusal(
            "no-ordering-field",
            config.ordering_property,
            "Rows are merged by event time, but no field says which one is newer.",
            "Set the property, or use COMMIT_TIME_ORDERING.",
        )


def _schema(snapshot: TableSnapshot) -> Iterator[Refusal]:
    if snapshot.schema_on_read:
        yield Refusal(
            "schema-on-read",
            ".hoodie/.schema",
            "Columns may have been renamed or retyped; they are matched by id, which this release cannot.",
            "Leave compaction of this table to Hudi.",
        )
    if snapshot.schema is None:
        # A table without any completed write has no schema yet, and nothing to compact either.
        if snapshot.timeline.completed_writes:
            yield Refusal(
                "no-schema",
                "extraMetadata.schema",
                "No completed write on the active timeline says what the table's columns are.",
                "Let any Hudi writer commit once.",
            )
        return
    columns = _columns(snapshot.schema)
    if columns is None:
        yield Refusal(
            "schema-unreadable",
            "extraMetadata.schema",
            "The schema in the newest write is not that of an Avro record.",
            "Let any Hudi writer commit once.",
        )
        return
    if OPERATION_COLUMN in columns:
        yield _operation_column("extraMetadata.schema")
    for field in snapshot.config.ordering_fields:
        if "." not in field and field not in columns:
            yield Refusal(
                "ordering-field-missing",
                snapshot.config.ordering_property,
                f"{field} is no column of the table.",
                "Correct the property.",
            )


def _timeline(snapshot: TableSnapshot) -> Iterator[Refusal]:
    timeline = snapshot.timeline
    for broken in timeline.broken:
        if broken.is_completed:
            yield Refusal(
                "frozen-timeline",
                broken.file,
                f"This completed instant cannot be relied on. {broken.why}",
                "Restore the file from a copy; nothing else can say what the instant did.",
            )
        elif broken.instant.action in _PLANS_OVER_GROUPS:
            yield Refusal(
                "broken-pending-plan",
                broken.file,
                f"Nobody can tell which file groups this pending plan holds. {broken.why}",
                "Delete the file if its writer is gone; it published nothing.",
            )
    version = snapshot.config.version or 0
    has_log = version >= FIRST_VERSION_WITH_LOG
    known_types = {None, "FULL", "LOG"} if has_log else {None, "FULL"}
    for instant_time, plan in sorted(snapshot.plans.items()):
        unknown = {op.operation_type for op in plan.operations} - known_types
        if unknown:
            yield Refusal(
                "plan-operation-type",
                instant_time,
                f"This pending plan holds operations of type {', '.join(sorted(map(str, unknown)))}, "
                f"which this release does not carry out on tables of version {version}.",
                "Let the program that wrote the plan finish it.",
            )
        if any(op.bootstrap_file for op in plan.operations):
            yield Refusal(
                "bootstrap",
                instant_time,
                "This pending plan reads files outside the table.",
                "Leave compaction of this table to Hudi.",
            )
    for name in timeline.unknown:
        yield Refusal(
            "unknown-action",
            name,
            "The timeline holds an action that this release does not know.",
            "Upgrade Lakeward, or find out which program wrote it.",
        )
    for instant in timeline.pending:
        if instant.action in ("restore", "indexing"):
            yield Refusal(
                f"pending-{instant.action}",
                instant.file_name,
                f"A{'n' if instant.action[0] == 'i' else ''} {instant.action} is under way or was interrupted.",
                "Wait for it, or let Hudi finish it.",
            )
        elif instant.action == "rollback" and (why := _of_what_counts(snapshot, instant.time)) is not None:
            yield Refusal(
                "pending-rollback",
                instant.file_name,
                f"A rollback is under way or was interrupted. {why}",
                "Wait for it, or let a Hudi writer write once, which finishes it.",
            )
        elif instant.action == "logcompaction" and not has_log:
            yield Refusal(
                "pending-log-compaction",
                instant.file_name,
                f"A log compaction waits, which this release carries out on tables of version {FIRST_VERSION_WITH_LOG} "
                "only, and a compaction over it would be wasted work for whoever does.",
                "Let the program that scheduled it carry it out or roll it back.",
            )


def _of_what_counts(snapshot: TableSnapshot, rollback: str) -> str | None:
    """Why we must not work beside the rollback; None where what it takes back counts for nobody, as a failed write."""
    target = snapshot.rollback_targets.get(rollback)
    if target is None:
        return "What it takes back cannot be read."
    if target in snapshot.plans:
        return f"It takes compaction {target} back, and would delete what an attempt at that plan publishes."
    # t10 a rollback of write A is requested; t20 we merge A's logs into a base file; t30 the rollback deletes the logs.
    # A's rows would stay, in the base file.
    if snapshot.timeline.completion_time(target) is not None:
        return f"It takes {target} back, whose rows a compaction would keep."
    return None


def _zone(snapshot: TableSnapshot) -> Iterator[Refusal]:
    zone = snapshot.zone
    if zone.source is ZoneSource.DISAGREES:
        yield Refusal(
            "timezone-disagrees",
            "hoodie.table.timeline.timezone",
            f"Instants are in the writers' local time, and {zone.why}. One in the writers' future would hide what "
            "they commit until then.",
            "Give the zone in which the writers run.",
        )
    # Before its first commit a table shows no zone, and needs none: there is nothing to plan.
    elif zone.zone is None and snapshot.timeline.completed:
        yield Refusal(
            "timezone-unknown",
            "hoodie.table.timeline.timezone",
            f"Instants are in the writers' local time, and which that is cannot be told: {zone.why}.",
            "Name the zone in which the writers run: --timezone Europe/Berlin, or timezone in the configuration.",
        )


def _links(snapshot: TableSnapshot) -> Iterator[Refusal]:
    for link in snapshot.links:
        if link.stands_for is StandsFor.PARTITION:
            yield Refusal(
                "linked-partition",
                link.path,
                f"It is the same folder as {link.same_as}, so its rows would be read and compacted twice."
                if link.same_as is not None
                else "It is a link to a folder: its rows are another table's, or would be read and compacted twice.",
                "Remove it, or replace it by a folder of its own.",
            )
        elif link.stands_for is StandsFor.DATA_FILE:
            yield Refusal(
                "linked-file",
                link.path,
                "It is a link by the name of a data file, and what it leads to need not be the table's.",
                "Remove it, or replace it by the file.",
            )


def _files(snapshot: TableSnapshot) -> Iterator[Refusal]:
    for path in snapshot.unrecognised_files:
        if is_native_log(posixpath.basename(path)):
            yield Refusal(
                "native-log-name",
                path,
                f"It has the name of a log of table version 10 in a table of version {snapshot.config.version}, whose "
                "readers take it for a base file.",
                "Find out who wrote it, and let that program upgrade the table, or take the file out.",
            )
    for group in snapshot.file_groups:
        for slice_ in group.slices:
            if slice_.base_instant == _METADATA_BOOTSTRAP_INSTANT and slice_.base_file is not None:
                yield Refusal(
                    "bootstrap",
                    slice_.base_file.path,
                    "It holds meta columns only; its rows are in a file outside the table.",
                    "Rewrite the table, for example with insert_overwrite.",
                )
    for facts in snapshot.base_file_facts:
        if facts.is_encrypted:
            yield Refusal(
                "encrypted-parquet",
                facts.path,
                "The file or some of its columns are encrypted, and this release has no keys.",
                "Leave compaction of this table to Hudi.",
            )
        if facts.has_operation_column:
            yield _operation_column(facts.path)


def _operation_column(subject: str) -> Refusal:
    return Refusal(
        "operation-column",
        subject,
        f"Rows carry {OPERATION_COLUMN}, so some of them are deletes in a form that this release does not merge.",
        "Leave compaction of this table to Hudi.",
    )


def _columns(schema: str) -> frozenset[str] | None:
    try:
        fields: Iterable[dict[str, str]] = orjson.loads(schema)["fields"]
        return frozenset(field["name"] for field in fields)
    except (ValueError, KeyError, TypeError):
        return None


def _upper(config: TableConfig, name: str) -> str | None:
    value = config.get(name)
    return None if value is None else value.upper()
