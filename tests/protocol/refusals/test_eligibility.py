"""Every refusal has a fixture: a golden table with one thing changed, refused for that thing and nothing else."""

from __future__ import annotations

import io
import json
import os
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeward.base.clock import Clock
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.java_properties import dump_properties, parse_properties
from lakeward.format.timeline.commit_metadata import read_commit_metadata, write_commit_metadata
from lakeward.format.timeline.compaction_plan import read_compaction_plan, write_compaction_plan
from lakeward.protocol.refusals.eligibility import (
    ROWS,
    Refusal,
    TableService,
    find_all_refusals,
    find_refusals,
    why_no_work,
)
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.table_config import DROPS_PARTITION_COLUMNS, SLASHES_IN_DATES
from tests.clocks import SettableClock, SkippingClock
from tests.golden_tables import copy_golden
from tests.metadata_golden import rollback_plan

NEWEST = "20261121043709156_20261121043709888.deltacommit"
ROLLBACK = "20261121043711000.rollback.requested"
"""Rolls back, in turn, a write that never completed, the newest that did, the pending compaction, and an unknown
instant."""
PLAN = "20261121043710038.compaction.requested"


OF_NEW_ROWS = frozenset({TableService.CLUSTERING, TableService.WRITING})
MERGING = frozenset({TableService.COMPACTION, TableService.INDEXING, TableService.READING, TableService.VERIFICATION})


def find(base_path: Path, *, timezone: str | None = None, clock: Clock | None = None) -> tuple[Refusal, ...]:
    """What prevents any service but writing and clustering."""
    snapshot = take_snapshot(LocalStorage(), str(base_path), timezone=timezone, clock=clock or SkippingClock())
    return tuple(refusal for refusal in find_all_refusals(snapshot) if not refusal.services <= OF_NEW_ROWS)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table", pending=True)


Change = Callable[[Path], object]


def prop(name: str, value: str | None) -> Change:
    """Set or remove a property; the checksum follows, as it does when a writer changes one."""

    def change(table: Path) -> None:
        file = table / ".hoodie" / "hoodie.properties"
        properties = dict(parse_properties(file.read_bytes()))
        properties.pop(name, None)
        if value is not None:
            properties[name] = value
        properties["hoodie.table.checksum"] = str(zlib.crc32(f".{properties['hoodie.table.name']}".encode()))
        file.write_bytes(dump_properties(properties))

    return change


def props(**values: str) -> Change:
    def change(table: Path) -> None:
        for name, value in values.items():
            prop("hoodie." + name.replace("_", "."), value)(table)

    return change


def marked(field: str, marker: str, *, mode: str, payload: str) -> Change:
    """A table that had a payload class before version 9 by which a column marks rows as deleted."""

    def change(table: Path) -> None:
        for name, value in (("field", field), ("marker", marker)):
            prop(f"hoodie.record.merge.property.hoodie.payload.delete.{name}", value)(table)
        prop("hoodie.record.merge.mode", mode)(table)
        prop("hoodie.table.legacy.payload.class", f"org.apache.hudi.common.model.{payload}")(table)

    return change


def timeline_file(name: str, content: bytes = b"x") -> Change:
    return lambda table: (table / ".hoodie" / "timeline" / name).write_bytes(content)


def newest_commit(edit: Callable[[dict[str, str]], object]) -> Change:
    """Change the extra metadata of the newest completed instant."""

    def change(table: Path) -> None:
        file = table / ".hoodie" / "timeline" / NEWEST
        data = file.read_bytes()
        times = (file.stat().st_atime, file.stat().st_mtime)
        record = read_record(data, file=NEWEST)
        edit(record["extraMetadata"])
        file.write_bytes(write_record(embedded_schema(data), record))
        os.utime(file, times)

    return change


def embedded_schema(data: bytes) -> dict[str, object]:
    import fastavro

    return dict(fastavro.reader(io.BytesIO(data)).writer_schema)  # type: ignore[arg-type]


def base_file(edit: Callable[[Path], object]) -> Change:
    """Its commit says of the file what it is afterwards."""

    def change(table: Path) -> None:
        edit(next((table / "p").glob("*.parquet")))
        (file,) = (table / "p").glob("*.parquet")
        commit = next((table / ".hoodie" / "timeline").glob("*.commit"))
        metadata = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2)
        (stat,) = metadata.partition_to_write_stats["p"]
        shown = replace(stat, path=f"p/{file.name}", file_size_in_bytes=file.stat().st_size)
        times = (commit.stat().st_atime, commit.stat().st_mtime)
        commit.write_bytes(write_commit_metadata(replace(metadata, partition_to_write_stats={"p": (shown,)})))
        os.utime(commit, times)

    return change


def encrypted(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-4] + b"PARE")


def without_record(name: str) -> Change:
    def change(extra: dict[str, str]) -> None:
        extra["schema"] = extra["schema"].replace(f'"{name}"', f'"not_{name}"')

    return newest_commit(change)


def bootstrap_base_file(file: Path) -> None:
    file.rename(file.with_name(re.sub(r"_\d+\.parquet", "_00000000000001.parquet", file.name)))


def change_file_times(table: Path) -> None:
    """Takes away what reveals the zone: the times of the files, and the head of the properties."""
    properties = table / ".hoodie" / "hoodie.properties"
    lines = properties.read_bytes().splitlines(keepends=True)
    properties.write_bytes(b"".join(line for line in lines if not line.startswith(b"#")))
    for file in (table / ".hoodie" / "timeline").iterdir():
        os.utime(file, (1e9, 1e9))


def version_of_schema(*names: str, number: int = 20261121043709156) -> dict[str, object]:
    fields = [{"id": place, "name": name, "optional": True, "type": "string"} for place, name in enumerate(names)]
    return {"max_column_id": 9, "version_id": number, "type": "record", "fields": fields}


def schema_history(*versions: dict[str, object], latest: dict[str, object] | None, more: str = "") -> Change:
    """A folder with these versions, newest first, and the newest commit with `latest`."""

    def change(table: Path) -> None:
        folder = table / ".hoodie" / ".schema"
        folder.mkdir()
        (folder / "20261121043709156_20261121043709999.schemacommit").write_text(json.dumps({"schemas": versions}))
        if more:
            (folder / more).touch()
        if latest is not None:
            newest_commit(lambda extra: extra.update(latest_schema=json.dumps(latest)))(table)

    return change


def break_checksum(table: Path) -> None:
    file = table / ".hoodie" / "hoodie.properties"
    file.write_bytes(file.read_bytes().replace(b"hoodie.table.checksum=2", b"hoodie.table.checksum=3"))


def all_schemas_gone(table: Path) -> None:
    for file in (table / ".hoodie" / "timeline").glob("*_*commit"):
        data = file.read_bytes()
        record = read_record(data, file=file.name)
        del record["extraMetadata"]["schema"]
        times = (file.stat().st_atime, file.stat().st_mtime)
        file.write_bytes(write_record(embedded_schema(data), record))
        os.utime(file, times)


def pending_plan(**changes: str) -> Change:
    def change(table: Path) -> None:
        file = table / ".hoodie" / "timeline" / PLAN
        plan = read_compaction_plan(file.read_bytes(), file=PLAN)
        operations = tuple(replace(operation, **changes) for operation in plan.operations)
        file.write_bytes(write_compaction_plan(replace(plan, operations=operations, version=3)))

    return change


def both(first: Change, second: Change) -> Change:
    def change(table: Path) -> None:
        first(table)
        second(table)

    return change


CAPTURING = prop("hoodie.table.cdc.enabled", "true")
VERSION_10 = prop("hoodie.table.version", "10")
LSM_TREE = both(VERSION_10, prop("hoodie.table.storage.layout", "lsm_tree"))


def as_log_compaction(table: Path) -> None:
    file = table / ".hoodie" / "timeline" / PLAN
    file.rename(file.with_name(PLAN.replace("compaction", "logcompaction")))


def older_ordering_property(value: str) -> Change:
    def change(table: Path) -> None:
        prop("hoodie.table.ordering.fields", None)(table)
        prop("hoodie.table.precombine.field", value)(table)

    return change


def with_statistics(change: Change) -> Change:
    """On tables whose metadata table has the ranges of columns."""

    def change_both(table: Path) -> None:
        prop("hoodie.table.metadata.partitions", "files,column_stats")(table)
        change(table)

    return change_both


def version_8(change: Change) -> Change:
    """What holds on tables of version 8 alone."""

    def change_both(table: Path) -> None:
        prop("hoodie.table.version", "8")(table)
        change(table)

    return change_both


COLUMNS = ("id", "part", "ts", "name")
OLD, ALL_COLUMNS = version_of_schema("id", number=0), version_of_schema(*COLUMNS)
UNKNOWN_HISTORIES: tuple[Change, ...] = (
    newest_commit(lambda extra: extra.update(latest_schema="{}")),
    schema_history(ALL_COLUMNS, OLD, latest=None),
    schema_history(ALL_COLUMNS, OLD, latest=version_of_schema(*COLUMNS, number=7)),
    schema_history(OLD, latest=OLD),
    schema_history(ALL_COLUMNS, version_of_schema("key", number=0), latest=ALL_COLUMNS),
    schema_history(ALL_COLUMNS, OLD, latest=ALL_COLUMNS, more="20261121043710000.schemacommit.inflight"),
    schema_history(ALL_COLUMNS, OLD, latest=ALL_COLUMNS, more="unknown"),
    version_8(schema_history(ALL_COLUMNS, OLD, latest=ALL_COLUMNS)),
)


IDS = [
    "base-file-format",
    "bootstrap",
    "broken-pending-plan",
    "bucket-index",
    "cdc-enabled",
    "clocks-set-back",
    "dropped-partition-columns",
    "encrypted-parquet",
    "frozen-timeline",
    "instant-in-future",
    "instants-out-of-order",
    "linked-file",
    "linked-partition",
    "log-file-format",
    "merge-mode",
    "merge-property",
    "merge-strategy",
    "meta-fields-mode",
    "metadata-partition",
    "metadata-partition-inflight",
    "metadata-table",
    "multiple-base-formats",
    "multiple-ordering-fields",
    "native-log-name",
    "nested-ordering-field",
    "no-meta-fields",
    "no-ordering-field",
    "no-record-key",
    "no-schema",
    "not-merge-on-read",
    "operation-column",
    "ordering-field-missing",
    "partial-update-mode",
    "payload-class",
    "pending-indexing",
    "pending-log-compaction",
    "pending-restore",
    "pending-rollback",
    "pending-savepoint",
    "pending-work",
    "plan-operation-type",
    "properties-backup",
    "properties-checksum",
    "schema-on-read",
    "schema-unreadable",
    "storage-layout",
    "table-format",
    "table-version",
    "timeline-layout",
    "timezone-disagrees",
    "timezone-unknown",
    "unknown-action",
    "unreadable-rollback",
    "writers-at-work",
]

OVERWRITE = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"

UNAVAILABLE_VALUE = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"


def partial_updates(change: Change, mode: str = "IGNORE_DEFAULTS") -> Change:
    def change_both(table: Path) -> None:
        prop("hoodie.table.partial.update.mode", mode)(table)
        change(table)

    return change_both


def with_default(extra: dict[str, str]) -> None:
    schema = json.loads(extra["schema"])
    schema["fields"][-1] |= {"type": "int", "default": 0}
    extra["schema"] = json.dumps(schema)


UNKNOWN_PARTIAL_UPDATES: tuple[Change, ...] = (
    prop("hoodie.table.partial.update.mode", "KEEP_VALUES"),
    prop("hoodie.table.partial.update.mode", "FILL_UNAVAILABLE"),
    partial_updates(newest_commit(with_default)),
    version_8(prop("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS")),
)


def without_keys(change: Change) -> Change:
    def change_both(table: Path) -> None:
        prop("hoodie.populate.meta.fields", "false")(table)
        prop("hoodie.table.keygenerator.type", "SIMPLE")(table)
        change(table)

    return change_both


def with_days_as_keys(extra: dict[str, str]) -> None:
    schema = json.loads(extra["schema"])
    (key,) = [each for each in schema["fields"] if each["name"] == "id"]
    key["type"] = ["null", {"type": "int", "logicalType": "date"}]
    extra["schema"] = json.dumps(schema)


UNKNOWN_KEYS: tuple[Change, ...] = (
    prop("hoodie.table.keygenerator.type", "CUSTOM"),
    prop("hoodie.table.keygenerator.type", None),
    prop("hoodie.table.keygenerator.type", "COMPLEX_AVRO"),
    prop("hoodie.table.metadata.partitions", "files,record_index"),
    newest_commit(with_days_as_keys),
    version_8(prop("hoodie.table.type", "MERGE_ON_READ")),
    VERSION_10,
)

CASES: list[tuple[str, str, Change]] = [
    ("table-version", "hoodie.table.version", prop("hoodie.table.version", "7")),
    ("table-version", "hoodie.table.version", prop("hoodie.table.version", "11")),
    ("table-version", "hoodie.table.version", prop("hoodie.table.version", None)),
    ("meta-fields-mode", "hoodie.meta.fields.mode", prop("hoodie.meta.fields.mode", "COMMIT_TIME_ONLY")),
    ("meta-fields-mode", "hoodie.meta.fields.mode", prop("hoodie.meta.fields.mode", "NONE")),
    ("timeline-layout", "hoodie.timeline.layout.version", prop("hoodie.timeline.layout.version", "3")),
    (
        "metadata-partition",
        "hoodie.table.metadata.partitions",
        prop("hoodie.table.metadata.partitions", "files,expr_index_idx_datestr"),
    ),
    (
        "metadata-partition",
        "hoodie.table.metadata.partitions",
        prop("hoodie.table.metadata.partitions", "files,vector_index"),
    ),
    (
        "metadata-partition",
        "hoodie.table.metadata.partitions",
        prop("hoodie.table.metadata.partitions", "column_stats"),
    ),
    (
        "metadata-partition",
        "hoodie.table.metadata.partitions",
        version_8(prop("hoodie.table.metadata.partitions", "files,record_index,secondary_index_by_name")),
    ),
    (
        "metadata-partition-inflight",
        "hoodie.table.metadata.partitions.inflight",
        prop("hoodie.table.metadata.partitions.inflight", "record_index"),
    ),
    (
        "cdc-enabled",
        "hoodie.table.cdc.enabled",
        props(table_cdc_enabled="true", table_cdc_supplemental_logging_mode="ALL"),
    ),
    ("cdc-enabled", "hoodie.table.cdc.enabled", version_8(CAPTURING)),
    ("cdc-enabled", "hoodie.table.cdc.enabled", both(CAPTURING, LSM_TREE)),
    (
        "cdc-enabled",
        "hoodie.table.cdc.enabled",
        props(table_cdc_enabled="true", table_partial_update_mode="IGNORE_DEFAULTS"),
    ),
    ("cdc-enabled", "hoodie.table.cdc.enabled", without_keys(CAPTURING)),
    ("cdc-enabled", "hoodie.table.cdc.enabled", both(CAPTURING, schema_history(ALL_COLUMNS, OLD, latest=ALL_COLUMNS))),
    ("cdc-enabled", "hoodie.table.cdc.enabled", both(CAPTURING, pending_plan(operation_type="LOG"))),
    *(("no-meta-fields", "hoodie.populate.meta.fields", without_keys(change)) for change in UNKNOWN_KEYS),
    ("no-record-key", "hoodie.table.recordkey.fields", prop("hoodie.table.recordkey.fields", None)),
    ("not-merge-on-read", "hoodie.table.type", prop("hoodie.table.type", "COPY_ON_WRITE")),
    ("base-file-format", "hoodie.table.base.file.format", prop("hoodie.table.base.file.format", "ORC")),
    ("log-file-format", "hoodie.table.log.file.format", prop("hoodie.table.log.file.format", "NATIVE_LOG")),
    ("table-format", "hoodie.table.format", prop("hoodie.table.format", "iceberg")),
    ("storage-layout", "hoodie.table.storage.layout", prop("hoodie.table.storage.layout", "lsm_tree")),
    ("storage-layout", "hoodie.table.storage.layout", both(VERSION_10, prop("hoodie.table.storage.layout", "other"))),
    (
        "partial-update-mode",
        "hoodie.table.partial.update.mode",
        both(LSM_TREE, prop("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS")),
    ),
    (
        "multiple-base-formats",
        "hoodie.table.multiple.base.file.formats.enable",
        prop("hoodie.table.multiple.base.file.formats.enable", "true"),
    ),
    ("bootstrap", "hoodie.bootstrap.base.path", prop("hoodie.bootstrap.base.path", "/elsewhere")),
    ("merge-mode", "hoodie.record.merge.mode", prop("hoodie.record.merge.mode", "CUSTOM")),
    ("payload-class", "hoodie.compaction.payload.class", prop("hoodie.compaction.payload.class", "com.example.Own")),
    (
        "payload-class",
        "hoodie.table.legacy.payload.class",
        prop("hoodie.table.legacy.payload.class", "org.apache.hudi.common.model.AWSDmsAvroPayload"),
    ),
    # A user's own class, with the name of one of Hudi's.
    (
        "payload-class",
        "hoodie.compaction.payload.class",
        prop("hoodie.compaction.payload.class", "com.example.DefaultHoodieRecordPayload"),
    ),
    # A known payload whose rules are those of the other mode.
    ("payload-class", "hoodie.compaction.payload.class", prop("hoodie.compaction.payload.class", OVERWRITE)),
    (
        "merge-strategy",
        "hoodie.record.merge.strategy.id",
        version_8(prop("hoodie.record.merge.strategy.id", "ce9acb64-bde0-424c-9b91-f6ebba25356d")),
    ),
    *(("partial-update-mode", "hoodie.table.partial.update.mode", change) for change in UNKNOWN_PARTIAL_UPDATES),
    (
        "merge-property",
        UNAVAILABLE_VALUE,
        prop(UNAVAILABLE_VALUE, "?"),
    ),
    ("pending-log-compaction", "20261121043710038.logcompaction.requested", partial_updates(as_log_compaction)),
    (
        "merge-property",
        "hoodie.record.merge.property.hoodie.payload.delete.field",
        prop("hoodie.record.merge.property.hoodie.payload.delete.field", "name"),
    ),
    ("merge-property", "hoodie.record.merge.property.x", prop("hoodie.record.merge.property.x", "1")),
    ("merge-property", "hoodie.payload.delete.marker", prop("hoodie.payload.delete.marker", "D")),
    (
        "payload-class",
        "hoodie.table.legacy.payload.class",
        prop("hoodie.table.legacy.payload.class", "org.apache.hudi.common.model.AWSDmsAvroPayload"),
    ),
    (
        "multiple-ordering-fields",
        "hoodie.table.ordering.fields",
        prop("hoodie.table.ordering.fields", "ts,name,ts,name,ts,name,ts"),
    ),
    (
        "multiple-ordering-fields",
        "hoodie.table.ordering.fields",
        version_8(prop("hoodie.table.ordering.fields", "ts,name")),
    ),
    ("nested-ordering-field", "hoodie.table.ordering.fields", prop("hoodie.table.ordering.fields", "a.ts")),
    ("no-ordering-field", "hoodie.table.ordering.fields", prop("hoodie.table.ordering.fields", None)),
    ("ordering-field-missing", "hoodie.table.ordering.fields", prop("hoodie.table.ordering.fields", "updated_at")),
    ("ordering-field-missing", "hoodie.table.ordering.fields", without_record("ts")),
    ("ordering-field-missing", "hoodie.table.precombine.field", version_8(older_ordering_property("updated_at"))),
    *(("schema-on-read", ".hoodie/.schema", change) for change in UNKNOWN_HISTORIES),
    ("no-schema", "extraMetadata.schema", all_schemas_gone),
    ("no-schema", "extraMetadata.schema", with_statistics(all_schemas_gone)),
    ("schema-unreadable", "extraMetadata.schema", newest_commit(lambda extra: extra.update(schema='"int"'))),
    (
        "schema-unreadable",
        "extraMetadata.schema",
        with_statistics(newest_commit(lambda extra: extra.update(schema='"int"'))),
    ),
    (
        "operation-column",
        "extraMetadata.schema",
        newest_commit(
            lambda extra: extra.update(schema=extra["schema"].replace('"name":"name"', '"name":"_hoodie_operation"'))
        ),
    ),
    ("encrypted-parquet", "p/", base_file(encrypted)),
    ("bootstrap", "p/", base_file(bootstrap_base_file)),
    (
        "native-log-name",
        "p/",
        lambda t: (t / "p/x-0_0-1-2_20261121043709156_1.log.parquet").write_bytes(b"x"),
    ),
    ("native-log-name", "p/", lambda t: (t / "p/x-0_0-1-2_20261121043709156_1.deletes.avro").write_bytes(b"x")),
    (
        "properties-backup",
        ".hoodie/hoodie.properties.backup",
        lambda t: (t / ".hoodie/hoodie.properties.backup").touch(),
    ),
    ("properties-checksum", ".hoodie/hoodie.properties: hoodie.table.checksum", break_checksum),
    ("frozen-timeline", f".hoodie/timeline/{NEWEST}", timeline_file(NEWEST, b"")),
    ("frozen-timeline", f".hoodie/timeline/{NEWEST}", timeline_file(NEWEST, b"Obj\x01torn")),
    (
        "frozen-timeline",
        ".hoodie/timeline/20261121043709156_20261121043709999.deltacommit",
        timeline_file("20261121043709156_20261121043709999.deltacommit"),
    ),
    ("broken-pending-plan", f".hoodie/timeline/{PLAN}", timeline_file(PLAN, b"")),
    ("broken-pending-plan", f".hoodie/timeline/{PLAN}", timeline_file(PLAN, b"Obj\x01torn")),
    ("unknown-action", "20261121043711000.upgrade.requested", timeline_file("20261121043711000.upgrade.requested")),
    ("plan-operation-type", "20261121043710038", pending_plan(operation_type="SIDEWAYS")),
    ("plan-operation-type", "20261121043710038", version_8(pending_plan(operation_type="LOG"))),
    ("pending-log-compaction", "20261121043710038.logcompaction.requested", version_8(as_log_compaction)),
    ("bootstrap", "20261121043710038", pending_plan(bootstrap_file="/elsewhere/x.parquet")),
    ("pending-restore", "20261121043711000.restore.requested", timeline_file("20261121043711000.restore.requested")),
    (
        "pending-savepoint",
        "20261121043709156.savepoint.inflight",
        timeline_file("20261121043709156.savepoint.inflight"),
    ),
    ("pending-indexing", "20261121043711000.indexing.inflight", timeline_file("20261121043711000.indexing.inflight")),
    ("pending-rollback", ROLLBACK, timeline_file(ROLLBACK, rollback_plan("20261121043709156"))),
    ("pending-rollback", ROLLBACK, timeline_file(ROLLBACK, rollback_plan("20261121043710038"))),
    ("unreadable-rollback", ROLLBACK, timeline_file(ROLLBACK, b"")),
    ("linked-partition", "q", lambda t: (t / "q").symlink_to("p")),
    ("linked-partition", "q", lambda t: (t / "q").symlink_to(".")),
    ("linked-partition", "q", lambda t: (t / "q").symlink_to("/etc")),
    ("linked-file", "p/", lambda t: (t / "p" / "x_0-0-0_20261121043709156.parquet").symlink_to("/etc/passwd")),
    ("linked-file", "p/", lambda t: (t / "p" / ".x_20261121043709156.log.1_0-0-0").symlink_to("nowhere")),
    ("linked-file", "p/", lambda t: (t / "p" / ".hoodie_partition_metadata.parquet").symlink_to("/etc/passwd")),
]


@pytest.mark.parametrize(
    ("refusal_id", "subject", "change"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)]
)
def test_refused(table: Path, refusal_id: str, subject: str, change: Change) -> None:
    """Keeps 1 of protocol/refusals/eligibility, and Keeps of protocol/refusals/findings: the one thing changed is the
    one reason, with its subject, why it matters and what to do."""
    change(table)

    refusals = find(table)

    # A commit that can no longer be read takes the file's time with it.
    (refusal,) = [found for found in refusals if found.id != "timezone-unknown"]
    assert refusal.id == refusal_id
    assert refusal.subject.startswith(subject)
    assert refusal.why.endswith(".") and refusal.remedy.endswith(".")
    assert not set("{}") & set(refusal.why + refusal.remedy)


@pytest.mark.parametrize("mode", [None, "OP_KEY_ONLY", "data_before", "DATA_BEFORE_AFTER"])
def test_a_table_that_captures_changes_is_compacted(table: Path, mode: str | None) -> None:
    """Keeps 1 of protocol/refusals/eligibility, the other way round: in each mode that Hudi knows, of which one is the
    default."""
    CAPTURING(table)
    prop("hoodie.table.cdc.supplemental.logging.mode", mode)(table)
    assert find(table) == ()


def test_timezone_disagrees(table: Path) -> None:
    """A zone given against what the files show is refused, naming both."""
    (refusal,) = find(table, timezone="Asia/Tokyo")
    assert refusal.id == "timezone-disagrees"
    assert "Asia/Tokyo" in refusal.why and "+00:00" in refusal.why


def written_in_two_zones(table: Path) -> None:
    """A delta commit an hour back by its name, with a file that is newer than all others."""
    change_file_times(table)
    late = table / ".hoodie" / "timeline" / "20261121033700000_20261121033700500.deltacommit"
    late.write_bytes(b"{}")
    os.utime(late, (1e9 + 600, 1e9 + 600))


def test_without_a_zone(table: Path) -> None:
    """Services go on but for what makes the order of times doubtful, and writes are refused. Reading never asks."""
    changes = set(TableService) - {TableService.INDEXING, TableService.READING, TableService.VERIFICATION}
    change_file_times(table)
    long_after = SettableClock(datetime(2027, 6, 1, tzinfo=UTC).timestamp())
    assert {refusal.id for refusal in find_without_zone(table, TableService.WRITING, long_after)} == {
        "timezone-unknown"
    }
    for service in set(TableService) - OF_NEW_ROWS:
        assert find_without_zone(table, service, long_after) == (), service

    before = SettableClock(datetime(2026, 11, 19, tzinfo=UTC).timestamp())
    for service in changes:
        (future, *_) = (r for r in find_without_zone(table, service, before) if r.id == "instant-in-future")
        assert "No clock on earth shows 2026112104" in future.why and "[defaults]" in future.remedy
    for service in (TableService.INDEXING, TableService.READING, TableService.VERIFICATION):
        assert find_without_zone(table, service, before) == ()

    written_in_two_zones(table)
    for service in changes | {TableService.INDEXING}:
        (order, *_) = (r for r in find_without_zone(table, service, long_after) if r.id == "instants-out-of-order")
        assert "20261121033700500 is before 2026112104" in order.why and "[defaults]" in order.remedy
    assert find_without_zone(table, TableService.VERIFICATION, long_after) == ()


def test_clocks_that_are_set_back_about_now(table: Path) -> None:
    """A copy of a table whose newest commit is of the hour that comes twice. Archiving mints no time."""
    change_file_times(table)
    newest = table / ".hoodie" / "timeline" / "20271031025000000_20271031025000500.deltacommit"
    newest.write_bytes(b"{}")
    os.utime(newest, (1e9, 1e9))
    summer = SettableClock(datetime(2027, 10, 31, 0, 55, tzinfo=UTC).timestamp())
    (refusal,) = find_without_zone(table, TableService.CLEANING, summer)
    assert refusal.id == "clocks-set-back" and "20271031025000500" in refusal.why and "[defaults]" in refusal.remedy
    assert find_without_zone(table, TableService.ARCHIVING, summer) == ()
    in_the_evening = SettableClock(datetime(2027, 10, 31, 9, tzinfo=UTC).timestamp())
    assert find_without_zone(table, TableService.CLEANING, in_the_evening) == ()


def find_without_zone(table: Path, service: TableService, clock: Clock) -> tuple[Refusal, ...]:
    return find_refusals(take_snapshot(LocalStorage(), str(table), clock=clock), service)


CASES_OF_WRITING: list[tuple[str, str, Change]] = [
    ("no-meta-fields", "hoodie.populate.meta.fields", prop("hoodie.populate.meta.fields", "false")),
    (
        "dropped-partition-columns",
        "hoodie.datasource.write.drop.partition.columns",
        prop("hoodie.datasource.write.drop.partition.columns", "true"),
    ),
    (
        "partial-update-mode",
        "hoodie.table.partial.update.mode",
        prop("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS"),
    ),
    ("schema-on-read", ".hoodie/.schema", schema_history(ALL_COLUMNS, OLD, latest=ALL_COLUMNS)),
]


CASES_OF_CLUSTERING: list[tuple[str, str, Change]] = [
    ("bucket-index", "hoodie.index.type", prop("hoodie.index.type", "BUCKET")),
]


@pytest.mark.parametrize(
    ("refusal_id", "subject", "change"), CASES_OF_CLUSTERING, ids=[case[0] for case in CASES_OF_CLUSTERING]
)
def test_what_is_not_clustered(table: Path, refusal_id: str, subject: str, change: Change) -> None:
    """Keeps 4 of services/clustering/run/clusterer: each stops this service alone, and Hudi may do it."""
    change(table)
    (refusal,) = find_refusals(read(table), TableService.CLUSTERING)
    assert (refusal.id, refusal.subject, refusal.services) == (refusal_id, subject, {TableService.CLUSTERING})
    assert refusal.remedy == "Leave the clustering of this table to Hudi."


CASES_OF_READING: list[tuple[str, str, Mapping[str, str | None], str]] = [
    (
        "dropped-partition-columns",
        DROPS_PARTITION_COLUMNS,
        {SLASHES_IN_DATES: "true"},
        "the paths that the table's key generator makes do not have their values as they are.",
    ),
    (
        "dropped-partition-columns",
        DROPS_PARTITION_COLUMNS,
        {"hoodie.table.keygenerator.type": "TIMESTAMP", "hoodie.table.keygenerator.class": None},
        "the paths that the table's key generator makes do not have their values as they are.",
    ),
]


@pytest.mark.parametrize(("refusal_id", "subject", "changes", "why"), CASES_OF_READING)
def test_what_is_not_read(
    table: Path, refusal_id: str, subject: str, changes: Mapping[str, str | None], why: str
) -> None:
    """Rows whose columns are not certain; where the columns' values are those of the path nothing is refused."""
    prop(subject, "true")(table)
    assert find_refusals(read(table), TableService.READING) == ()
    for name, value in changes.items():
        prop(name, value)(table)
    (refusal,) = [each for each in find_refusals(read(table), TableService.READING) if each.id == refusal_id]
    assert refusal.subject == subject and refusal.why.endswith(why)


def read(table: Path) -> TableSnapshot:
    return take_snapshot(LocalStorage(), str(table), timezone=None, clock=SkippingClock())


@pytest.mark.parametrize(
    ("refusal_id", "subject", "change"), CASES_OF_WRITING, ids=[case[0] for case in CASES_OF_WRITING]
)
def test_what_is_merged_and_not_written(table: Path, refusal_id: str, subject: str, change: Change) -> None:
    """Keeps 1 of protocol/refusals/eligibility: rows of forms that this release merges and was not tried to write."""
    change(table)
    snapshot = take_snapshot(LocalStorage(), str(table), timezone=None, clock=SkippingClock())
    found = [refusal for refusal in find_all_refusals(snapshot) if TableService.WRITING in refusal.services]
    assert [(refusal.id, refusal.subject) for refusal in found] == [(refusal_id, subject)]
    assert found[0].remedy == "Let Hudi write into this table."


CASES_OF_6: list[tuple[str, str, Change]] = [
    ("writers-at-work", "hoodie.table.version", lambda table: None),
    ("metadata-table", "hoodie.table.metadata.partitions", prop("hoodie.table.metadata.partitions", "files")),
    (
        "pending-work",
        ".hoodie/20261121043719000.deltacommit.requested",
        lambda table: (table / ".hoodie" / "20261121043719000.deltacommit.requested").touch(),
    ),
    (
        "pending-work",
        ".hoodie/20261121043719000.inflight",
        lambda table: (table / ".hoodie" / "20261121043719000.inflight").touch(),
    ),
]


@pytest.mark.parametrize(("id_", "subject", "change"), CASES_OF_6)
def test_version_6(tmp_path: Path, id_: str, subject: str, change: Change) -> None:
    """Its rows are merged with the writers stopped, no metadata table and nothing pending but compactions, of Hudi's
    or Lakeward's; they are read, verified, and indexes are kept, whatever is there; no other service may run."""
    table = copy_golden("v6", tmp_path / "table", pending=True)
    change(table)
    snapshot = take_snapshot(LocalStorage(), str(table), timezone="UTC", clock=SkippingClock())
    beside = find_refusals(snapshot, TableService.COMPACTION, beside_writers=True)
    assert {(refusal.id, refusal.subject) for refusal in beside} == {
        ("writers-at-work", "hoodie.table.version"),
        (id_, subject),
    }
    with_writers_stopped = find_refusals(snapshot, TableService.COMPACTION)
    assert with_writers_stopped == tuple(refusal for refusal in beside if refusal.id != "writers-at-work")
    for service in MERGING - {TableService.COMPACTION}:
        assert find_refusals(snapshot, service) == ()
    for service in set(TableService) - MERGING:
        assert "table-version" in {refusal.id for refusal in find_refusals(snapshot, service)}


def test_every_refusal_has_a_fixture() -> None:
    """No row is without a case here."""
    tested = [case[0] for case in (*CASES, *CASES_OF_6, *CASES_OF_WRITING, *CASES_OF_CLUSTERING, *CASES_OF_READING[:1])]
    tested += ["timezone-disagrees", "timezone-unknown"]
    tested += ["instant-in-future", "instants-out-of-order", "clocks-set-back"]
    ids = [row.id for row in ROWS]
    assert {id_ for id_ in ids if tested.count(id_) < ids.count(id_)} == set()
    assert set(tested) == set(ids)


def test_ids_keep_their_spelling() -> None:
    """Keeps 2 of protocol/refusals/eligibility: scripts and runbooks match on these."""
    assert sorted({row.id for row in ROWS}) == IDS


def test_what_is_broken_stops_every_service() -> None:
    """Keeps 3 of protocol/refusals/eligibility: a torn timeline or torn properties hide which instants count."""
    every = frozenset(TableService)
    # A restore ends a pending one, and says itself what prevents it.
    stops_all = {row.id for row in ROWS if row.stops in (every, every - {TableService.RESTORE})}
    assert stops_all >= {
        "properties-backup",
        "properties-checksum",
        "table-version",
        "timeline-layout",
        "frozen-timeline",
        "broken-pending-plan",
        "unknown-action",
        "pending-restore",
        "pending-rollback",
    }


@pytest.mark.parametrize(
    ("change", "may_run"),
    [
        (
            props(table_cdc_enabled="true", table_cdc_supplemental_logging_mode="ALL"),
            set(TableService) - {TableService.COMPACTION, *OF_NEW_ROWS},
        ),
        (
            both(CAPTURING, pending_plan(operation_type="LOG")),
            set(TableService) - {TableService.COMPACTION},
        ),
        (
            prop("hoodie.table.type", "COPY_ON_WRITE"),
            set(TableService) - {TableService.COMPACTION, TableService.VERIFICATION},
        ),
        (
            prop("hoodie.compaction.payload.class", "com.example.Own"),
            set(TableService) - {*MERGING, *OF_NEW_ROWS},
        ),
        (
            all_schemas_gone,
            set(TableService) - {*MERGING, TableService.CLUSTERING},
        ),
        (
            with_statistics(all_schemas_gone),
            set(TableService) - {*MERGING, TableService.CLEANING, TableService.CLUSTERING},
        ),
        (
            prop("hoodie.table.metadata.partitions", "files,vector_index"),
            {
                TableService.ARCHIVING,
                TableService.INDEXING,
                TableService.READING,
                TableService.RESTORE,
                TableService.ROLLBACK,
                TableService.SAVEPOINT,
                TableService.UPGRADING,
                TableService.VERIFICATION,
            },
        ),
        (
            prop("hoodie.table.storage.layout", "lsm_tree"),
            {
                TableService.ARCHIVING,
                TableService.METADATA,
                TableService.SAVEPOINT,
                TableService.UNSCHEDULING,
                TableService.UPGRADING,
            },
        ),
        (
            prop("hoodie.table.base.file.format", "ORC"),
            {TableService.METADATA, TableService.UNSCHEDULING},
        ),
        (timeline_file("20261121043709156.savepoint.inflight"), set(TableService) - {TableService.CLEANING}),
        (timeline_file(NEWEST, b""), set()),
        (lambda table: None, set(TableService)),
    ],
    ids=[
        "cdc",
        "cdc-with-log",
        "copy-on-write",
        "payload",
        "no-schema",
        "no-schema-for-statistics",
        "metadata-partition",
        "layout",
        "base-file-format",
        "pending-savepoint",
        "torn-timeline",
        "nothing",
    ],
)
def test_what_stops_one_service_need_not_stop_another(table: Path, change: Change, may_run: set[TableService]) -> None:
    """A service is refused for its own reasons."""
    change(table)
    snapshot = take_snapshot(LocalStorage(), str(table), timezone=None, clock=SkippingClock())
    assert {service for service in TableService if not find_refusals(snapshot, service)} == may_run


@pytest.mark.parametrize(
    "change",
    [
        lambda table: None,
        props(record_merge_mode="COMMIT_TIME_ORDERING"),
        prop("hoodie.table.legacy.payload.class", "org.apache.hudi.common.model.DefaultHoodieRecordPayload"),
        marked("name", "D", mode="COMMIT_TIME_ORDERING", payload="AWSDmsAvroPayload"),
        marked("name", "d", mode="EVENT_TIME_ORDERING", payload="debezium.MySqlDebeziumAvroPayload"),
        prop("hoodie.table.ordering.fields", "ts,name"),
        prop("hoodie.table.timeline.timezone", "UTC"),
        prop("hoodie.table.metadata.partitions", ""),
        prop("hoodie.table.metadata.partitions", "files"),
        prop("hoodie.table.metadata.partitions", "bloom_filters,column_stats,files,partition_stats,record_index"),
        prop("hoodie.table.metadata.partitions", "files,record_index,secondary_index_by_name"),
        prop("hoodie.table.partial.update.mode", "NONE"),
        prop("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS"),
        partial_updates(prop(UNAVAILABLE_VALUE, "?"), "FILL_UNAVAILABLE"),
        prop("hoodie.something.unknown", "1"),
        version_8(older_ordering_property("ts")),
        version_8(prop("hoodie.record.merge.strategy.id", "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5")),
        timeline_file(ROLLBACK, rollback_plan("20261121043710900")),
        without_keys(prop("hoodie.table.metadata.partitions", "files,column_stats")),
        without_keys(prop("hoodie.table.keygenerator.type", "NON_PARTITION_AVRO")),
        schema_history(ALL_COLUMNS, OLD, latest=ALL_COLUMNS, more="20261121043709156.schemacommit.requested"),
    ],
)
def test_accepted(table: Path, change: Change) -> None:
    """What this release merges right is not refused, with a pending plan of Hudi's or without."""
    change(table)
    assert find(table) == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(prop("hoodie.table.type", "COPY_ON_WRITE"), "copy-on-write", id="copy-on-write"),
        pytest.param(
            prop("hoodie.table.version", "11"), "table version 11, whose services are left to Hudi", id="version"
        ),
        pytest.param(prop("hoodie.table.version", None), None, id="no version"),
        pytest.param(prop("hoodie.record.merge.mode", "CUSTOM"), None, id="a merge mode"),
        pytest.param(lambda table: None, None, id="sound"),
    ],
)
def test_tables_that_leave_no_work(table: Path, change: Change, why: str | None) -> None:
    """What a table is by its kind is no trouble; what it is set to, or lacks, is. What is broken is trouble on any."""

    def found() -> str | None:
        return why_no_work(take_snapshot(LocalStorage(), str(table), timezone="UTC", clock=SkippingClock()))

    change(table)
    assert found() == why
    (table / ".hoodie/hoodie.properties").rename(table / ".hoodie/hoodie.properties.backup")
    assert found() is None


def test_an_empty_table_is_not_refused(tmp_path: Path) -> None:
    """A table without any write has nothing to compact, so that its clock, which cannot be known, does not matter."""
    (tmp_path / ".hoodie" / "timeline").mkdir(parents=True)
    source = copy_golden("v9", tmp_path / "golden")
    (tmp_path / ".hoodie" / "hoodie.properties").write_bytes((source / ".hoodie" / "hoodie.properties").read_bytes())
    for file in (source / "p").iterdir():
        file.unlink()

    assert find(tmp_path) == ()
