"""A scan of a table: what is in it, in which order it is read, and what it survives."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from lakeward.base.errors import NotATable
from lakeward.format.avro.container import write_record
from lakeward.format.timeline.commit_metadata import (
    CommitMetadata,
    WriteStat,
    read_commit_metadata,
    write_commit_metadata,
)
from lakeward.format.timeline.compaction_plan import read_compaction_plan, write_compaction_plan
from lakeward.format.timeline.savepoint_metadata import SavepointMetadata, write_savepoint_metadata
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from lakeward.table.damaged_file import DamageKind
from lakeward.table.file_group import FileGroup
from lakeward.table.snapshot import SnapshotCache, TableSnapshot, take_snapshot
from lakeward.table.timeline.timeline_reader import TimelineReader
from lakeward.table.timeline.timezone import ZoneSource
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden

PENDING = {"v6": "20261121043716452", "v9": "20261121043710038"}
FILE_ID = {"v6": "5e71f979-4f95-469c-afc2-4c9464978a02-0", "v9": "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"}
PLAN = f"{PENDING['v9']}.compaction.requested"


def scan(table: Path, storage: LocalStorage | None = None, **options: Any) -> TableSnapshot:
    return take_snapshot(storage or LocalStorage(), str(table), clock=SkippingClock(), **options)


def timeline_of(table: Path) -> Path:
    return table / ".hoodie" / "timeline"


@pytest.mark.parametrize("version", ["v6", "v9"])
def test_golden_tables(tmp_path: Path, version: str) -> None:
    """A table that Hudi wrote: one group, its pending plan, the slice to compact under the slice just opened."""
    snapshot = scan(copy_golden(version, tmp_path / "table", pending=True))

    (group,) = snapshot.file_groups
    assert (group.partition_path, group.file_id) == ("p", FILE_ID[version])
    assert [(len(s.log_files), s.base_file is not None) for s in group.slices] == [(0, False), (3, True)]
    assert group.slices[0].base_instant == PENDING[version]
    assert snapshot.pending_compactions == {("p", FILE_ID[version]): PENDING[version]}
    (operation,) = snapshot.plans[PENDING[version]].operations
    assert operation.log_files == tuple(log.name.text for log in group.slices[1].log_files)
    assert snapshot.schema is not None and '"ts"' in snapshot.schema
    assert (snapshot.zone.source, snapshot.zone.zone) == (ZoneSource.INFERRED, datetime.UTC)
    assert not snapshot.frozen and not snapshot.uncommitted_files and not snapshot.timeline.broken


class CountingStorage(LocalStorage):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], object] = lambda method, path: None

    def list(self, folder: str) -> list[FileStatus]:
        self._note("list", folder)
        return super().list(folder)

    def stat(self, path: str) -> FileStatus | None:
        self._note("stat", path)
        return super().stat(path)

    def read(self, path: str) -> bytes:
        self._note("read", path)
        return super().read(path)

    def open_input(self, path: str) -> BinaryIO:
        self._note("open", path)
        return super().open_input(path)

    def _note(self, method: str, path: str) -> None:
        self.calls.append((method, path))
        self.before(method, path)


def test_a_scan_is_cheap(tmp_path: Path) -> None:
    """It takes one listing a folder, no stat, and reads of the completed instants the newest, then each for the files
    it wrote."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    storage = CountingStorage()

    scan(table, storage)

    listed = [path for method, path in storage.calls if method == "list"]
    assert sorted(listed) == sorted(
        {str(table / name) for name in ("", ".hoodie", ".hoodie/timeline", "p", ".hoodie/.schema")}
    )
    assert not [call for call in storage.calls if call[0] == "stat"]
    read = [Path(path).name for method, path in storage.calls if method == "read"]
    completed = sorted(path.name for path in timeline_of(table).iterdir() if "_" in path.name)
    assert read == ["hoodie.properties", PLAN, completed[-1], *completed, completed[0]]


def test_the_timeline_is_listed_before_the_files(tmp_path: Path) -> None:
    """A commit that completes while we scan is not seen at all: its files are hidden, not half seen."""
    table = copy_golden("v9", tmp_path / "table")
    late = "20261121050000000"
    storage = CountingStorage()

    def commit_late(method: str, path: str) -> None:
        if (method, path) == ("list", str(table / "p")):
            (table / "p" / f"late-0_0-0-0_{late}.parquet").write_bytes(b"x")
            (timeline_of(table) / f"{late}_20261121050001000.commit").write_bytes(b"x")

    storage.before = commit_late

    snapshot = scan(table, storage)

    assert snapshot.uncommitted_files == (f"p/late-0_0-0-0_{late}.parquet",)


def test_no_table(tmp_path: Path) -> None:
    """A folder without properties is no table."""
    with pytest.raises(NotATable):
        scan(tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        {"log_files": ("../../outside.log.1_0-0-0",)},
        {"log_files": ("/etc/passwd",)},
        {"base_file": "../x_0-0-0_20261121043703223.parquet"},
        {"partition_path": "../.."},
        {"partition_path": ".hoodie"},
        {"file_id": "../x"},
    ],
)
def test_a_plan_that_leaves_the_table_is_broken(tmp_path: Path, names: dict[str, Any]) -> None:
    """Names out of a plan pass the grammar or the plan is not used: nothing outside is opened or listed."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    file = timeline_of(table) / PLAN
    plan = read_compaction_plan(file.read_bytes(), file=PLAN)
    (operation,) = plan.operations
    text = file.read_bytes()
    file.write_bytes(tampered_plan(text, names))
    storage = CountingStorage()

    snapshot = scan(table, storage)

    (broken,) = snapshot.timeline.broken
    assert broken.instant.time == PENDING["v9"] and not broken.is_completed
    assert "not trusted" in broken.why or "outside" in broken.why or "name" in broken.why
    assert not snapshot.plans and not snapshot.pending_compactions
    assert all(path.startswith(str(table)) and ".." not in path for _, path in storage.calls)
    assert operation.partition_path == "p"


def tampered_plan(data: bytes, names: dict[str, Any]) -> bytes:
    """The plan as someone without our checks would write it."""
    import io

    import fastavro

    reader = fastavro.reader(io.BytesIO(data))
    record: Any = next(reader)
    fields = {"log_files": "deltaFilePaths", "base_file": "dataFilePath", "partition_path": "partitionPath"}
    for name, value in names.items():
        record["operations"][0][fields.get(name, "fileId")] = list(value) if isinstance(value, tuple) else value
    schema: Any = reader.writer_schema
    return write_record(schema, record)


def test_a_group_in_two_pending_plans_is_frozen(tmp_path: Path) -> None:
    """Hudi allows one plan a group; nothing says which of two is right."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    (timeline_of(table) / "20261121043799999.compaction.requested").write_bytes(
        (timeline_of(table) / PLAN).read_bytes()
    )

    snapshot = scan(table)

    assert not snapshot.file_groups
    (frozen,) = snapshot.frozen
    assert frozen.file_id == FILE_ID["v9"]
    assert PENDING["v9"] in frozen.why and "20261121043799999" in frozen.why


def test_a_pending_log_compaction_opens_no_slice(tmp_path: Path) -> None:
    """Its groups are known, and their slices stay as they are."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    (timeline_of(table) / PLAN).rename(timeline_of(table) / f"{PENDING['v9']}.logcompaction.requested")

    snapshot = scan(table)

    assert snapshot.pending_log_compactions == {("p", FILE_ID["v9"]): PENDING["v9"]}
    assert not snapshot.pending_compactions
    assert [len(s.log_files) for s in snapshot.file_groups[0].slices] == [3]


def test_replaced_groups_are_hidden(tmp_path: Path) -> None:
    """A completed replacecommit on the active timeline hides the groups it replaced."""
    table = copy_golden("v9", tmp_path / "table")
    replaced = {"type": "map", "values": {"type": "array", "items": "string"}}
    schema = {
        "type": "record",
        "name": "HoodieReplaceCommitMetadata",
        "fields": [{"name": "partitionToReplaceFileIds", "type": replaced}],
    }
    name = "20261121043720000_20261121043721000.replacecommit"
    (timeline_of(table) / name).write_bytes(write_record(schema, {"partitionToReplaceFileIds": {"p": [FILE_ID["v9"]]}}))

    snapshot = scan(table, timezone="UTC")

    assert not snapshot.file_groups
    assert snapshot.replaced == {("p", FILE_ID["v9"]): "20261121043720000"}
    (gone,) = snapshot.replaced_groups  # their files are still there, and a cleaner must know them
    assert isinstance(gone, FileGroup)
    assert [len(slice_.log_files) for slice_ in gone.slices] == [3]


def test_savepoints_say_which_files_they_pin(tmp_path: Path) -> None:
    """Files are known by their paths. A savepoint that cannot be read is broken: what it pins is not known."""
    table = copy_golden("v9", tmp_path / "table")
    saved = SavepointMetadata("me", "", {"p": ("a.parquet", ".a.log.1_0-0-0"), "": ("b.parquet",)})
    file = timeline_of(table) / "20261121043709156_20261121043720000.savepoint"
    file.write_bytes(write_savepoint_metadata(saved))

    pinned = scan(table).savepointed
    file.write_bytes(b"torn")
    broken = scan(table)

    assert pinned == {"20261121043709156": frozenset({"p/a.parquet", "p/.a.log.1_0-0-0", "b.parquet"})}
    assert [each.instant.action for each in broken.timeline.broken] == ["savepoint"]
    assert not broken.savepointed


def test_schema_is_that_of_the_newest_write_of_rows(tmp_path: Path) -> None:
    """A compaction repeats the schema it planned with; a write that completed before it may have a newer one."""
    table = copy_golden("v9", tmp_path / "table")

    def commit(time: str, action: str, operation_type: str, schema: str) -> None:
        metadata = CommitMetadata(operation_type=operation_type, extra_metadata={"schema": schema})
        (timeline_of(table) / f"{time}000_{time}999.{action}").write_bytes(write_commit_metadata(metadata))

    commit("20261121043720", "deltacommit", "UPSERT", "new")
    commit("20261121043721", "commit", "COMPACT", "old")
    commit("20261121043722", "deltacommit", "LOG_COMPACT", "old")

    assert scan(table, timezone="UTC").schema == "new"


def test_schema_as_of_an_instant_may_be_that_of_a_compaction(tmp_path: Path) -> None:
    """One that was carried out when a column had come or gone, or had a wider type, has written that."""
    table = copy_golden("v9", tmp_path / "table")

    def schema(*columns: str) -> str:
        fields = [{"name": each, "type": "int"} for each in columns]
        return json.dumps({"type": "record", "name": "t", "fields": fields})

    def commit(time: str, action: str, operation_type: str, schema: str) -> None:
        metadata = CommitMetadata(operation_type=operation_type, extra_metadata={"schema": schema})
        (timeline_of(table) / f"{time}000_{time}999.{action}").write_bytes(write_commit_metadata(metadata))

    def newest() -> str | None:
        snapshot = scan(table, timezone="UTC")
        reader = TimelineReader(LocalStorage(), str(table), snapshot.config, snapshot.timeline)
        assert reader.newest_schema()[0] == schema("a", "b")
        return reader.newest_schema(of_services=True)[0]

    commit("20261121043720", "deltacommit", "UPSERT", schema("a", "b"))
    assert newest() == schema("a", "b")
    commit("20261121043721", "commit", "COMPACT", schema("a", "b", "c"))
    assert newest() == schema("a", "b", "c")
    commit("20261121043722", "commit", "COMPACT", schema("a", "c"))
    assert newest() == schema("a", "c")


def test_schema_is_chosen_by_requested_time(tmp_path: Path) -> None:
    """The later request of two writes that overlapped says what the columns are, like in Hudi."""
    table = copy_golden("v9", tmp_path / "table")
    for times, schema in (
        ("20261121043720000_20261121043729000", "first"),
        ("20261121043721000_20261121043722000", "last"),
    ):
        metadata = CommitMetadata(operation_type="UPSERT", extra_metadata={"schema": schema})
        (timeline_of(table) / f"{times}.deltacommit").write_bytes(write_commit_metadata(metadata))

    assert scan(table, timezone="UTC").schema == "last"


def test_a_file_that_vanishes_while_we_scan_is_looked_for_once_more(tmp_path: Path) -> None:
    """Another process may take a completed file between listing and opening: the snapshot is of the timeline without
    it. What stays on the timeline and cannot be read is reported, not raised."""
    table = copy_golden("v9", tmp_path / "table")
    newest = timeline_of(table) / "20261121043709156_20261121043709888.deltacommit"
    storage = CountingStorage()
    storage.before = lambda method, path: newest.unlink() if (method, path) == ("read", str(newest)) else None

    snapshot = scan(table, storage)

    assert not snapshot.timeline.broken
    assert newest.name not in {instant.file_name for instant in snapshot.timeline.instants}
    assert snapshot.schema is not None, "the schema came from the write before"

    newest.write_bytes(b"")
    assert [broken.instant.file_name for broken in scan(table).timeline.broken] == [newest.name]


def test_a_log_of_the_archived_timeline_needs_the_history(tmp_path: Path) -> None:
    """A log older than the active timeline and unknown to the history freezes its group, naming the instant."""
    table = copy_golden("v9", tmp_path / "table")
    for file in timeline_of(table).glob("20261121043706178*"):
        file.unlink()
    for file in timeline_of(table).glob("20261121043703223*"):
        file.unlink()

    snapshot = scan(table)

    (frozen,) = snapshot.frozen
    assert (frozen.file_id, frozen.instant) == (FILE_ID["v9"], "20261121043706178")
    assert not snapshot.file_groups


def test_what_we_write_we_read(tmp_path: Path) -> None:
    """A plan of Lakeward is read back as the plan it was."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    file = timeline_of(table) / PLAN
    plan = replace(read_compaction_plan(file.read_bytes(), file=PLAN), extra_metadata={"by": "us"})
    file.write_bytes(write_compaction_plan(plan))

    assert scan(table).plans == {PENDING["v9"]: plan}


def test_a_log_operation_of_a_hybrid_plan_opens_no_slice(tmp_path: Path) -> None:
    """Each operation of a hybrid plan says its type; LOG leaves the group's slices as they are."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    file = timeline_of(table) / PLAN
    plan = read_compaction_plan(file.read_bytes(), file=PLAN)
    operations = tuple(replace(operation, operation_type="LOG") for operation in plan.operations)
    file.write_bytes(write_compaction_plan(replace(plan, operations=operations, version=3)))

    snapshot = scan(table)

    assert snapshot.pending_log_compactions and not snapshot.pending_compactions
    assert [len(s.log_files) for s in snapshot.file_groups[0].slices] == [3]


def complete_with_a_log(table: Path, instant: str, action: str) -> None:
    """The instant is completed as this action, by a commit that names the one log that it wrote."""
    output = table / "p" / f".{FILE_ID['v9']}_{instant}.log.1_0-0-0"
    shutil.copyfile(next((table / "p").glob(".*.log.*")), output)
    stat = WriteStat(file_id=FILE_ID["v9"], path=f"p/{output.name}", file_size_in_bytes=output.stat().st_size)
    metadata = write_commit_metadata(CommitMetadata(partition_to_write_stats={"p": (stat,)}))
    (timeline_of(table) / f"{instant}_20261121043712000.{action}").write_bytes(metadata)


def test_a_completed_log_compaction_says_which_logs_it_merged(tmp_path: Path) -> None:
    """The plan that it left on the timeline says so. A pending one, or a plan that cannot be read, says nothing."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    requested = timeline_of(table) / "20261121043711000.logcompaction.requested"
    (timeline_of(table) / PLAN).rename(requested)
    assert scan(table).log_compactions == {}

    complete_with_a_log(table, "20261121043711000", "deltacommit")
    ((group_id, (merged,)),) = scan(table, timezone="UTC").log_compactions.items()
    assert group_id == ("p", FILE_ID["v9"])
    assert (merged.instant, len(merged.log_files)) == ("20261121043711000", 3)

    requested.write_bytes(b"torn")
    assert scan(table, timezone="UTC").log_compactions == {}


@pytest.mark.parametrize("kind", ["LOG", "FULL", None])
def test_a_completed_hybrid_plan_says_which_logs_it_merged(tmp_path: Path, kind: str | None) -> None:
    """Its operations of type LOG do, and no others."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    requested = timeline_of(table) / PLAN
    plan = read_compaction_plan(requested.read_bytes(), file=PLAN)
    operations = tuple(replace(operation, operation_type=kind) for operation in plan.operations)
    requested.write_bytes(write_compaction_plan(replace(plan, operations=operations, version=3 if kind else 2)))
    assert scan(table).log_compactions == {}

    complete_with_a_log(table, PENDING["v9"], "commit")

    merged = {
        group_id: [len(each.log_files) for each in done] for group_id, done in scan(table).log_compactions.items()
    }
    assert merged == ({("p", FILE_ID["v9"]): [3]} if kind == "LOG" else {})


def test_a_pending_write_may_say_which_groups_it_touches(tmp_path: Path) -> None:
    """It names the groups that it updates, and any group of a partition that it inserts into; silent ones are not
    listed."""
    table = copy_golden("v9", tmp_path / "table")
    silent, torn, reporting = (timeline_of(table) / f"2026112105000000{n}.deltacommit.inflight" for n in range(3))
    silent.write_bytes(b"")
    torn.write_bytes(b"Obj")
    stats = {"p": (WriteStat(file_id="", num_inserts=0), WriteStat(file_id="a-0")), "q": (WriteStat(num_inserts=1),)}
    reporting.write_bytes(write_commit_metadata(CommitMetadata(partition_to_write_stats=stats)))

    ((instant, profile),) = scan(table).write_profiles.items()

    assert instant == "20261121050000002"
    assert profile.may_touch("p", "a-0") and profile.may_touch("q", "b-0")
    assert not profile.may_touch("p", "b-0") and not profile.may_touch("r", "a-0")


def test_rows_of_base_files_come_from_the_commits_that_wrote_them(tmp_path: Path) -> None:
    """No base file is opened for it; a base whose commit is not on the active timeline is not there."""
    base = copy_golden("v9", tmp_path / "table")
    assert list(scan(base).base_rows.values()) == [6]
    for path in (base / ".hoodie/timeline").glob("20261121043703223*"):
        path.unlink()
    assert scan(base).base_rows == {}


@pytest.fixture
def twins(tmp_path: Path) -> Path:
    """A table with the same file group in two partitions."""
    table = copy_golden("v9", tmp_path / "table")
    shutil.copytree(table / "p", table / "q")
    for commit in timeline_of(table).glob("*_*.*commit"):
        metadata = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2)
        (stat,) = metadata.partition_to_write_stats["p"]
        stats = {path: (replace(stat, path=f"{path}/{Path(stat.path or '').name}"),) for path in ("p", "q")}
        times = (commit.stat().st_atime, commit.stat().st_mtime)
        commit.write_bytes(write_commit_metadata(replace(metadata, partition_to_write_stats=stats)))
        os.utime(commit, times)
    return table


def test_a_scan_at_some_groups_lists_no_other_partition(twins: Path) -> None:
    """What it says of those groups is what a scan of everything says, and nothing else is opened."""
    group = ("p", FILE_ID["v9"])
    storage = CountingStorage()
    everything, narrow = scan(twins), scan(twins, storage, only={group})
    assert [each.partition_path for each in everything.file_groups] == ["p", "q"]
    assert narrow.file_groups == everything.file_groups[:1]
    assert narrow.base_file_facts == everything.base_file_facts[:1]
    assert narrow.base_rows == {path: rows for path, rows in everything.base_rows.items() if path.startswith("p/")}
    assert (narrow.plans, narrow.schema, narrow.zone) == (everything.plans, everything.schema, everything.zone)
    assert [path for _, path in storage.calls if path.startswith(f"{twins}/q") or path == str(twins)] == []
    nothing = scan(twins, only=())
    assert (nothing.file_groups, nothing.timeline) == ((), everything.timeline)
    assert scan(twins, only={("no such partition", "x")}).partitions == ()


def test_a_group_that_does_not_matter_is_not_opened(twins: Path) -> None:
    """It lies in a partition that is listed, and nothing is read of its base file."""
    narrow = scan(twins, only={("p", "another-0"), ("q", FILE_ID["v9"])})
    assert [each.partition_path for each in narrow.file_groups] == ["p", "q"]
    assert [facts.path.partition("/")[0] for facts in narrow.base_file_facts] == ["q"]


def test_a_reader_with_a_cache_sees_what_any_reader_sees(twins: Path) -> None:
    """Files that came, grew or went, and partitions that did."""
    cache = SnapshotCache()

    def check(**options: Any) -> None:
        assert scan(twins, cache=cache, **options) == scan(twins, **options)

    log = max((twins / "q").glob(".*.log.*"))
    check()
    with log.open("ab") as file:
        file.write(b"x")
    check()
    renamed = log.with_name(log.name.replace(".log.1_0-", ".log.1_1-"))
    assert renamed != log
    log.rename(renamed)
    check()
    check(only={("p", FILE_ID["v9"])})
    renamed.unlink()
    check()
    shutil.rmtree(twins / "q")
    check()


def test_a_plan_is_taken_apart_once_for_many_looks(tmp_path: Path) -> None:
    """It is read each time all the same: rewritten under its name, it is another plan."""
    table, cache = copy_golden("v9", tmp_path / "table", pending=True), SnapshotCache()
    requested = timeline_of(table) / PLAN
    first = scan(table, cache=cache).plans[PENDING["v9"]]
    assert scan(table, cache=cache).plans[PENDING["v9"]] is first

    status, (operation,) = requested.stat(), first.operations
    other = replace(first, operations=(replace(operation, base_instant="20261121043703224"),))
    requested.write_bytes(write_compaction_plan(other))
    os.utime(requested, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert scan(table, cache=cache).plans[PENDING["v9"]] == other
    requested.write_bytes(b"no plan")
    assert scan(table, cache=cache).plans == {}


def test_a_base_file_is_opened_once_for_many_looks(twins: Path) -> None:
    """They never change; but one that could not be read is tried again."""
    cache, storage = SnapshotCache(), CountingStorage()
    first = scan(twins, storage, cache=cache)
    opened = [path for method, path in storage.calls if (method, path[-8:]) == ("open", ".parquet")]
    assert len(opened) == 2
    assert scan(twins, storage, cache=cache) == first
    assert [path for method, path in storage.calls if (method, path[-8:]) == ("open", ".parquet")] == opened

    base = next((twins / "q").glob("*.parquet"))
    whole = base.read_bytes()
    cache = SnapshotCache()
    base.write_bytes(bytes(len(whole)))
    (group,) = scan(twins, cache=cache).frozen
    assert [file.kind for file in group.damage] == [DamageKind.UNREADABLE]
    base.write_bytes(whole)
    assert scan(twins, cache=cache) == scan(twins)
