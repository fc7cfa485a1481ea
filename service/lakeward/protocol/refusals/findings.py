"""Places in a table that some service does not know how to treat. One snapshot in; a finding for each of them out.

Each function is the test of a row of `protocol/refusals/eligibility.py`, which says what it means and whom it stops.

Touches: nothing.
Keeps:   a function that does not know yields the place: what is not known is not taken for harmless.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import orjson

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.column_names import has_columns
from lakeward.format.file_name import is_native_log
from lakeward.format.metadata.partition import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)
from lakeward.format.schema_history import (
    META_NAMES,
    find_change_of_names,
    find_change_of_types,
    read_schema_version,
)
from lakeward.format.supplemental_logging import SUPPLEMENTAL_LOGGING
from lakeward.merge.rules.merge_rules import OPERATION_FIELD, ORDERING_FIELDS_MAX
from lakeward.table.found_link import StandsFor
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import (
    BACKUP_FILE,
    CDC_ENABLED,
    COMMIT_TIME_ORDERING,
    DELETE_FIELD,
    DELETE_MARKER,
    DROPS_PARTITION_COLUMNS,
    EVENT_TIME_ORDERING,
    INDEX_TYPE,
    LEGACY_PAYLOAD_MODES,
    MERGE_PROPERTY,
    META_FIELDS_MODE,
    PARTIAL_UPDATE_MODE,
    PAYLOAD_MODES,
    STORAGE_LAYOUT,
    STRATEGY_MODES,
    UNAVAILABLE_VALUE,
    payload_name,
)
from lakeward.table.table_version import COMPACTABLE_VERSIONS, LOG_COMPACTION_VERSION, RELEASED_VERSIONS
from lakeward.table.timeline.new_time import MAX_WAIT_SECONDS, find_set_back, is_ahead_of_every_clock
from lakeward.table.timeline.timezone import ZoneSource

_METADATA_BOOTSTRAP_INSTANT = "00000000000001"
"""Base files of this instant hold meta columns only; the rows are in files outside the table."""

_METADATA_PARTITIONS = frozenset({FILES, COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS, RECORD_INDEX})
"""Partitions of the metadata table that we write, or that want nothing of a compaction, as secondary indexes do."""

_PARTITIONS_WITHOUT_KEYS = frozenset({FILES, COLUMN_STATS, PARTITION_STATS})

_TYPES_OF_KEYS = frozenset({"string", "int", "long"})
"""Whose values have the same text here and in Java."""

_MAKERS_OF_KEYS = frozenset(
    f"{kind}{avro}" for kind in ("SIMPLE", "NON_PARTITION", "COMPLEX") for avro in ("", "_AVRO")
) | frozenset(f"{kind}{avro}KeyGenerator" for kind in ("Simple", "Nonpartitioned", "Complex") for avro in ("", "Avro"))
"""Key generators that make a key of its fields' texts alone: the types and classes by which tables name them."""

_MERGE_PROPERTIES = (MERGE_PROPERTY, "hoodie.payload.delete.")

_PLANS_OVER_GROUPS = frozenset({"compaction", "logcompaction", "clustering"})

_SCHEMA = "extraMetadata.schema"
_PARTITIONS = "hoodie.table.metadata.partitions"
_TIMEZONE = "hoodie.table.timeline.timezone"


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that a row is about, and the words that complete the row's sentences."""

    subject: str
    """The property or the file that is in the way."""
    words: Mapping[str, object] = field(default_factory=dict)


Test = Callable[[TableSnapshot], Iterable[Finding]]


def _at(subject: str, **words: object) -> Finding:
    return Finding(subject, words)


# ------------------------------------------------------------------------------------------------ properties


def interrupted_properties(snapshot: TableSnapshot) -> Iterator[Finding]:
    if snapshot.loaded_config.backup_present:
        yield _at(f".hoodie/{BACKUP_FILE}")


def wrong_checksum(snapshot: TableSnapshot) -> Iterator[Finding]:
    loaded = snapshot.loaded_config
    if not loaded.checksum_ok:
        yield _at(f".hoodie/{loaded.source}: hoodie.table.checksum", right=loaded.config.checksum)


def unknown_version(snapshot: TableSnapshot) -> Iterator[Finding]:
    version = snapshot.config.version
    if not version.is_compactable:
        yield _at(
            "hoodie.table.version",
            value=snapshot.config.get("hoodie.table.version") or "missing",
            known=COMPACTABLE_VERSIONS,
            what="Lakeward"
            if version.is_too_new
            else "the table with a Hudi release that writes one of these versions",
        )


def version_of_appended_logs(snapshot: TableSnapshot) -> Iterator[Finding]:
    if _has_appended_logs(snapshot):
        yield _at(
            "hoodie.table.version", value=snapshot.config.version, known=RELEASED_VERSIONS.replace(" and ", " or ")
        )


def metadata_table_of_appended_logs(snapshot: TableSnapshot) -> Iterator[Finding]:
    names = snapshot.config.metadata_partitions
    if _has_appended_logs(snapshot) and names:
        yield _at(_PARTITIONS, names=", ".join(names), version=snapshot.config.version)


def pending_beside_appended_logs(snapshot: TableSnapshot) -> Iterator[Finding]:
    if _has_appended_logs(snapshot):
        for instant in snapshot.timeline.pending:
            if instant.action != "compaction":
                yield _at(f".hoodie/{instant.file_name}", action=instant.action, time=instant.time)


def _has_appended_logs(snapshot: TableSnapshot) -> bool:
    version = snapshot.config.version
    return version.is_compactable and not version.has_logs_of_one_write


def wrong_layout(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    version = config.version
    if version.is_compactable and config.layout != version.timeline_layout:
        yield _at("hoodie.timeline.layout.version", value=config.layout, version=version, right=version.timeline_layout)


def property_is_true(name: str) -> Test:
    def test(snapshot: TableSnapshot) -> Iterator[Finding]:
        if snapshot.config.is_true(name):
            yield _at(name)

    return test


def property_is_set(name: str) -> Test:
    def test(snapshot: TableSnapshot) -> Iterator[Finding]:
        if snapshot.config.get(name) is not None:
            yield _at(name)

    return test


def property_is_other_than(name: str, wanted: str) -> Test:
    """True where the property is set to another value, in any letters; one that is not set has Hudi's default, which is
    the one wanted."""

    def test(snapshot: TableSnapshot) -> Iterator[Finding]:
        value = snapshot.config.get(name)
        if value is not None and value.upper() != wanted:
            yield _at(name, value=value.upper(), wanted=wanted)

    return test


def unknown_layout(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    layout = config.get(STORAGE_LAYOUT)
    if layout is None or layout.upper() == "DEFAULT" or (config.is_lsm_tree and config.version.has_native_logs):
        return
    yield _at(STORAGE_LAYOUT, value=layout.upper(), version=config.version)


def bucket_index(snapshot: TableSnapshot) -> Iterator[Finding]:
    index = snapshot.config.index_type
    if index is not None and "BUCKET" in index:
        yield _at(INDEX_TYPE, value=index)


def not_merge_on_read(snapshot: TableSnapshot) -> Iterator[Finding]:
    if not snapshot.config.is_merge_on_read:
        yield _at("hoodie.table.type", value=snapshot.config.table_type.upper(), wanted="MERGE_ON_READ")


def no_meta_fields(snapshot: TableSnapshot) -> Iterator[Finding]:
    if not snapshot.config.populate_meta_fields and (why := _why_no_keys_are_made(snapshot)) is not None:
        yield _at("hoodie.populate.meta.fields", why=why)


def selective_meta_fields(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    mode, known = config.get(META_FIELDS_MODE), "ALL" if config.populate_meta_fields else "NONE"
    if mode is not None and mode.strip().upper() != known:
        yield _at(META_FIELDS_MODE, value=mode, wanted=known, populated=str(config.populate_meta_fields).lower())


def unknown_partition_columns(snapshot: TableSnapshot) -> Iterator[Finding]:
    if snapshot.config.drops_partition_columns and (why := _why_no_path_has_values(snapshot)) is not None:
        yield _at(DROPS_PARTITION_COLUMNS, why=why)


def _why_no_path_has_values(snapshot: TableSnapshot) -> str | None:
    """Why it is not certain that paths have the values of the partition columns; None where it is."""
    config = snapshot.config
    name = config.key_generator.rpartition(".")[2]
    if (name and name not in _MAKERS_OF_KEYS) or config.has_slashes_in_dates:
        return "the paths that the table's key generator makes do not have their values as they are"
    if config.cdc_enabled:
        return "what changes of such rows have in these columns was not tried"
    return None


def _why_no_keys_are_made(snapshot: TableSnapshot) -> str | None:
    """Why it is not certain that keys, and what hangs on them, come out as Hudi's; None where it is."""
    config = snapshot.config
    if not config.version.has_merge_properties:
        return "how Hudi merges such tables of this version was not tried"
    if config.version.has_native_logs:
        return "what native logs have in place of the key was not tried"
    name = config.key_generator.rpartition(".")[2]
    if name not in _MAKERS_OF_KEYS:
        return f"what keys the key generator {name or 'of the table, which is not named,'} makes was not tried"
    if name.upper().startswith("COMPLEX") and len(config.record_key_fields) == 1:
        return "a complex key generator makes keys of one field in two ways, by its release and settings"
    indexes = sorted(set(config.built_metadata_partitions) - _PARTITIONS_WITHOUT_KEYS)
    if indexes:
        return f"the metadata table holds {', '.join(indexes)}, by which keys are found"
    kinds = _plain_types(snapshot)
    for field_ in config.record_key_fields if kinds is not None else ():
        if kinds is not None and kinds.get(field_) not in _TYPES_OF_KEYS:
            return f"the text of its key field {field_} is not certain: it is no column of text or whole numbers"
    return None


def _plain_types(snapshot: TableSnapshot) -> dict[str, object] | None:
    """The name of each column's type, None for one that is no plain type; None where there is no readable schema."""
    if known_columns(snapshot) is None or snapshot.schema is None:
        return None
    found: dict[str, object] = {}
    for column in orjson.loads(snapshot.schema)["fields"]:
        kinds = column["type"] if isinstance(column["type"], list) else [column["type"]]
        plain = [_plain_type(kind) for kind in kinds if kind != "null"]
        found[column["name"]] = plain[0] if len(plain) == 1 else None
    return found


def _plain_type(kind: object) -> object:
    # Java's writers say of a text that it is a String in a type of its own, which changes nothing.
    if isinstance(kind, dict):
        return kind.get("type") if "logicalType" not in kind else None
    return kind


def no_record_key(snapshot: TableSnapshot) -> Iterator[Finding]:
    if not snapshot.config.record_key_fields:
        yield _at("hoodie.table.recordkey.fields")


# ------------------------------------------------------------------------------------------------ metadata table


def unknown_metadata_partition(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    has_secondary = config.version.has_secondary_indexes
    unknown = [
        name
        for name in config.built_metadata_partitions
        if name not in _METADATA_PARTITIONS and not (has_secondary and name.startswith(SECONDARY_INDEX_PREFIX))
    ]
    if unknown:
        yield _at(_PARTITIONS, names=", ".join(unknown))


def metadata_table_without_files(snapshot: TableSnapshot) -> Iterator[Finding]:
    built = snapshot.config.built_metadata_partitions
    if built and not has_metadata_table(snapshot.config) and not any(unknown_metadata_partition(snapshot)):
        yield _at(_PARTITIONS, names=", ".join(built))


def metadata_partition_being_built(snapshot: TableSnapshot) -> Iterator[Finding]:
    inflight = snapshot.config.inflight_metadata_partitions
    if inflight:
        yield _at(f"{_PARTITIONS}.inflight", names=", ".join(inflight))


# ------------------------------------------------------------------------------------------------ merging of rows


def unknown_merge_mode(snapshot: TableSnapshot) -> Iterator[Finding]:
    mode = snapshot.config.merge_mode
    if mode not in (COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING):
        yield _at("hoodie.record.merge.mode", mode=mode)


def unknown_payload(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    has_properties = config.version.has_merge_properties
    for name, modes in (
        ("hoodie.compaction.payload.class", PAYLOAD_MODES),
        ("hoodie.table.legacy.payload.class", LEGACY_PAYLOAD_MODES if has_properties else PAYLOAD_MODES),
    ):
        payload = config.get(name)
        if payload is not None and modes.get(payload_name(payload)) != config.merge_mode:
            yield _at(name, payload=payload, mode=config.merge_mode)


def unknown_strategy(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    strategy = config.strategy_id if config.version.checks_merge_strategy else None
    if strategy is not None and STRATEGY_MODES.get(strategy) != config.merge_mode:
        yield _at("hoodie.record.merge.strategy.id", strategy=strategy, mode=config.merge_mode)


def changes_cannot_be_captured(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    if config.cdc_enabled and config.supplemental_logging is not None and not config.version.has_change_capture:
        yield _at(CDC_ENABLED, why="which those are was proved for tables of version 9 only")
    else:
        yield from changes_are_unknown(snapshot)


def changes_are_unknown(snapshot: TableSnapshot) -> Iterator[Finding]:
    """Why it is not certain what a table that captures changes calls one."""
    config = snapshot.config
    if not config.cdc_enabled:
        return
    if config.supplemental_logging is None:
        mode = config.get(SUPPLEMENTAL_LOGGING)
        yield _at(CDC_ENABLED, why=f"no release of Hudi knows {SUPPLEMENTAL_LOGGING}={mode}")
    elif config.layout < 2 and config.is_merge_on_read:
        yield _at(CDC_ENABLED, why="Hudi 1.2.0's own query of changes fails over logs of table version 6")
    elif config.is_lsm_tree:
        yield _at(CDC_ENABLED, why="what Hudi calls a change in the layout lsm_tree is not known")
    elif config.partial_update_mode is not None:
        yield _at(CDC_ENABLED, why="which those are where rows are filled from others is not known")
    elif not config.populate_meta_fields:
        yield _at(CDC_ENABLED, why="which those are of rows without keys is not known")
    elif snapshot.schema_on_read:
        yield _at(CDC_ENABLED, why="how Hudi writes them with schema on read was not tried")


def log_among_captured_changes(snapshot: TableSnapshot) -> Iterator[Finding]:
    if not snapshot.config.cdc_enabled:
        return
    compactions = {instant.time for instant in snapshot.timeline.pending if instant.action == "compaction"}
    for instant, plan in snapshot.plans.items():
        if instant in compactions and any(each.operation_type == "LOG" for each in plan.operations):
            yield _at(CDC_ENABLED, instant=instant)


def partial_update_mode(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    mode = config.partial_update_mode
    if mode is None:
        return
    if not config.version.has_merge_properties or mode not in ("IGNORE_DEFAULTS", "FILL_UNAVAILABLE"):
        yield _at(PARTIAL_UPDATE_MODE, mode=mode, why="this release knows no such rule for tables of this version")
    elif config.is_lsm_tree:
        yield _at(PARTIAL_UPDATE_MODE, mode=mode, why="Hudi's reader of the layout lsm_tree does not combine them")
    elif mode == "FILL_UNAVAILABLE" and config.unavailable_value is None:
        yield _at(PARTIAL_UPDATE_MODE, mode=mode, why=f"{UNAVAILABLE_VALUE} does not say which values are unavailable")
    elif mode == "IGNORE_DEFAULTS" and (names := _columns_with_defaults(snapshot)):
        yield _at(PARTIAL_UPDATE_MODE, mode=mode, why=f"{', '.join(names)} has a default that is not null")


def _columns_with_defaults(snapshot: TableSnapshot) -> list[str]:
    """Whose values Hudi takes for none, or not, by whether they are one object in its memory."""
    if known_columns(snapshot) is None or snapshot.schema is None:
        return []
    return [each["name"] for each in orjson.loads(snapshot.schema)["fields"] if each.get("default") is not None]


def merge_properties(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    marker = config.delete_marker
    columns = known_columns(snapshot)
    # A field of another column, or of none, is not looked for as Hudi does.
    is_known = marker is not None and (columns is None or marker[0] in columns)
    for name in sorted(config.properties):
        known = {DELETE_FIELD, DELETE_MARKER} if is_known else set()
        if config.partial_update_mode == "FILL_UNAVAILABLE" and config.version.has_merge_properties:
            known.add(UNAVAILABLE_VALUE)
        if name.startswith(_MERGE_PROPERTIES) and name not in known:
            yield _at(name)


def several_ordering_fields(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    fields = config.ordering_fields
    if len(fields) > (ORDERING_FIELDS_MAX if config.version.has_several_ordering_fields else 1):
        yield _at(config.ordering_property, number=len(fields), fields=", ".join(fields), version=config.version)


def nested_ordering_field(snapshot: TableSnapshot) -> Iterator[Finding]:
    fields = snapshot.config.ordering_fields
    if any("." in field_ for field_ in fields):
        yield _at(snapshot.config.ordering_property, fields=", ".join(fields))


def no_ordering_field(snapshot: TableSnapshot) -> Iterator[Finding]:
    config = snapshot.config
    if config.merge_mode == EVENT_TIME_ORDERING and not config.ordering_fields:
        yield _at(config.ordering_property)


def missing_ordering_field(snapshot: TableSnapshot) -> Iterator[Finding]:
    columns = known_columns(snapshot)
    if columns is None:
        return
    for field_ in snapshot.config.ordering_fields:
        if "." not in field_ and field_ not in columns:
            yield _at(snapshot.config.ordering_property, field=field_)


# ------------------------------------------------------------------------------------------------ schema


def schema_on_read(snapshot: TableSnapshot) -> Iterator[Finding]:
    if snapshot.schema_on_read and (why := _why_names_do_not_do(snapshot)) is not None:
        yield _at(".hoodie/.schema", why=why)


def any_schema_on_read(snapshot: TableSnapshot) -> Iterator[Finding]:
    if snapshot.schema_on_read:
        yield _at(".hoodie/.schema")


def _why_names_do_not_do(snapshot: TableSnapshot) -> str | None:
    """Why columns of older files cannot be found by their names, as they are here; None where they can."""
    history, latest = snapshot.schema_history, snapshot.latest_schema
    if not snapshot.config.version.has_merge_properties:
        return "tables of this version were not tried."
    if history is None or latest is None:
        return "the newest write and the folder do not both say what the schema is."
    if history.problem is not None:
        return history.problem
    try:
        newest = read_schema_version(latest, where="the newest write")
    except BrokenFile as error:
        return str(error)
    if not history.versions or newest != history.versions[0]:
        return "the newest write and the folder say different things of the schema."
    if (known_columns(snapshot) or frozenset()) - META_NAMES != newest.columns:
        return "the schema of the newest write has other columns than that with ids has."
    if (change := find_change_of_names(history.versions) or find_change_of_types(history.versions)) is not None:
        return f"{change}."
    return None


def no_schema(*, has_statistics: bool) -> Test:
    """The test for tables whose metadata table has column statistics, or for the others."""

    def test(snapshot: TableSnapshot) -> Iterator[Finding]:
        # A table without any completed write has no schema yet, and nothing to compact either.
        is_missing = snapshot.schema is None and bool(snapshot.timeline.completed_writes)
        if is_missing and _has_statistics(snapshot) == has_statistics:
            yield _at(_SCHEMA)

    return test


def unreadable_schema(*, has_statistics: bool) -> Test:
    """The test for tables whose metadata table has column statistics, or for the others."""

    def test(snapshot: TableSnapshot) -> Iterator[Finding]:
        is_unreadable = snapshot.schema is not None and not has_columns(snapshot.schema)
        if is_unreadable and _has_statistics(snapshot) == has_statistics:
            yield _at(_SCHEMA, way_back=way_to_loadable_schema(snapshot))

    return test


def way_to_loadable_schema(snapshot: TableSnapshot) -> str:
    """What helps where Hudi cannot load the newest schema. Its writers do not: they begin with reading it."""
    if snapshot.schema_before is None:
        return "No commit on the active timeline has another schema: write the rows into a new table."
    return (
        f"Take the table back to the commit before: `lakeward restore TABLE --to {snapshot.schema_before}`; then write "
        "again what was written since."
    )


def _has_statistics(snapshot: TableSnapshot) -> bool:
    return COLUMN_STATS in snapshot.config.built_metadata_partitions


def operation_column_in_schema(snapshot: TableSnapshot) -> Iterator[Finding]:
    if OPERATION_FIELD in (known_columns(snapshot) or ()):
        yield _at(_SCHEMA, column=OPERATION_FIELD)


def known_columns(snapshot: TableSnapshot) -> frozenset[str] | None:
    """None where there is no schema, or none that can be read."""
    if snapshot.schema is None:
        return None
    try:
        fields: Iterable[dict[str, str]] = orjson.loads(snapshot.schema)["fields"]
        return frozenset(each["name"] for each in fields)
    except (ValueError, KeyError, TypeError):
        return None


# ------------------------------------------------------------------------------------------------ timeline


def broken_completed_instant(snapshot: TableSnapshot) -> Iterator[Finding]:
    for broken in snapshot.timeline.broken:
        if broken.is_completed:
            yield _at(broken.file, broken=broken.why)


def broken_pending_plan(snapshot: TableSnapshot) -> Iterator[Finding]:
    for broken in snapshot.timeline.broken:
        if not broken.is_completed and broken.instant.action in _PLANS_OVER_GROUPS:
            yield _at(broken.file, broken=broken.why)


def unknown_operation_type(snapshot: TableSnapshot) -> Iterator[Finding]:
    version = snapshot.config.version
    known = {None, "FULL", "LOG"} if snapshot.config.has_log_compaction else {None, "FULL"}
    for instant, plan in sorted(snapshot.plans.items()):
        unknown = {operation.operation_type for operation in plan.operations} - known
        if unknown:
            yield _at(instant, types=", ".join(sorted(map(str, unknown))), version=version)


def plan_over_bootstrap_files(snapshot: TableSnapshot) -> Iterator[Finding]:
    for instant, plan in sorted(snapshot.plans.items()):
        if any(operation.bootstrap_file for operation in plan.operations):
            yield _at(instant)


def unknown_action(snapshot: TableSnapshot) -> Iterator[Finding]:
    for name in snapshot.timeline.unknown:
        yield _at(name)


def pending(action: str) -> Test:
    def test(snapshot: TableSnapshot) -> Iterator[Finding]:
        for instant in snapshot.timeline.pending:
            if instant.action == action:
                yield _at(instant.file_name)

    return test


def pending_rollback(snapshot: TableSnapshot) -> Iterator[Finding]:
    for instant in snapshot.timeline.pending:
        if instant.action == "rollback" and (why := _why_rollback_counts(snapshot, instant.time)) is not None:
            yield _at(instant.file_name, why=why)


def unreadable_rollback(snapshot: TableSnapshot) -> Iterator[Finding]:
    for instant in snapshot.timeline.pending:
        if instant.action == "rollback" and instant.time not in snapshot.rollback_targets:
            yield _at(instant.file_name)


def _why_rollback_counts(snapshot: TableSnapshot, rollback: str) -> str | None:
    """Why we must not work beside the rollback; None where what it rolls back has no readers, like a failed write."""
    target = snapshot.rollback_targets.get(rollback)
    if target is None:
        return None  # `unreadable_rollback`
    if target in snapshot.plans:
        return f"It rolls compaction {target} back, and would delete what an attempt at that plan publishes."
    # t10 a rollback of write A is requested; t20 we merge A's logs into a base file; t30 the rollback deletes the logs.
    # A's rows would stay, in the base file.
    if snapshot.timeline.completion_time(target) is not None:
        return f"It rolls {target} back, whose rows a compaction would keep."
    return None


def pending_log_compaction(snapshot: TableSnapshot) -> Iterator[Finding]:
    if snapshot.config.has_log_compaction:
        return
    for instant in snapshot.timeline.pending:
        if instant.action == "logcompaction":
            yield _at(instant.file_name, version=LOG_COMPACTION_VERSION)


def zone_disagrees(snapshot: TableSnapshot) -> Iterator[Finding]:
    if snapshot.zone.source is ZoneSource.DISAGREES:
        yield _at(_TIMEZONE, zone=snapshot.zone.why)


def zone_unknown(snapshot: TableSnapshot) -> Iterator[Finding]:
    zone = snapshot.zone
    # Before its first commit a table shows no zone, and needs none: there is nothing to plan.
    if zone.source is not ZoneSource.DISAGREES and zone.zone is None and snapshot.timeline.completed:
        yield _at(_TIMEZONE, zone=zone.why)


def instant_in_future(snapshot: TableSnapshot) -> Iterator[Finding]:
    greatest = _greatest_without_zone(snapshot)
    if greatest is not None and is_ahead_of_every_clock(greatest, snapshot.zone.asked_at + MAX_WAIT_SECONDS):
        yield _at(_TIMEZONE, instant=greatest)


def instants_out_of_order(snapshot: TableSnapshot) -> Iterator[Finding]:
    if _greatest_without_zone(snapshot) is not None and snapshot.zone.disorder:
        yield _at(_TIMEZONE, why=snapshot.zone.disorder)


def clocks_set_back(snapshot: TableSnapshot) -> Iterator[Finding]:
    greatest = _greatest_without_zone(snapshot)
    if greatest is None or any(True for _ in instant_in_future(snapshot)):
        return
    with suppress(BrokenFile):  # one that Hudi reserves
        if (where := find_set_back(snapshot.zone, greatest, snapshot.zone.asked_at)) is not None:
            yield _at(_TIMEZONE, instant=greatest, where=where)


def _greatest_without_zone(snapshot: TableSnapshot) -> str | None:
    """The time that a new instant comes after, where no zone says what the writers' clocks show."""
    zone = snapshot.zone
    is_known = zone.zone is not None or zone.source is ZoneSource.DISAGREES
    return None if is_known else snapshot.timeline.latest_time


# ------------------------------------------------------------------------------------------------ files


def linked_partitions(snapshot: TableSnapshot) -> Iterator[Finding]:
    for link in snapshot.links:
        if link.stands_for is StandsFor.PARTITION:
            yield _at(
                link.path,
                why=f"it is the same folder as {link.same_as}"
                if link.same_as is not None
                else "it is a link to a folder",
            )


def linked_files(snapshot: TableSnapshot) -> Iterator[Finding]:
    for link in snapshot.links:
        if link.stands_for is StandsFor.DATA_FILE:
            yield _at(link.path)


def native_logs(snapshot: TableSnapshot) -> Iterator[Finding]:
    for path in snapshot.unrecognised_files:
        if is_native_log(posixpath.basename(path)):
            yield _at(path, version=snapshot.config.version)


def bootstrap_base_files(snapshot: TableSnapshot) -> Iterator[Finding]:
    for group in snapshot.file_groups:
        for slice_ in group.slices:
            if slice_.base_instant == _METADATA_BOOTSTRAP_INSTANT and slice_.base_file is not None:
                yield _at(slice_.base_file.path)


def encrypted_base_files(snapshot: TableSnapshot) -> Iterator[Finding]:
    for facts in snapshot.base_file_facts:
        if facts.is_encrypted:
            yield _at(facts.path)
