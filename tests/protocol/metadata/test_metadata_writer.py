"""The metadata table's part of a commit: what is prepared, what is read again under the lock, when it fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, Conflict
from lakeward.format.file_name import LogFileName, parse_log_file
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.key import partition_stats_key
from lakeward.format.metadata.log_file import MetadataBlock, metadata_blocks
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.metadata.record import FilesRecord, MetadataRecord, PartitionStatsRecord
from lakeward.format.stats.column_range import ColumnRange
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.protocol.attempts.attempt_files import attempt_folder
from lakeward.protocol.metadata.changes import NewFile
from lakeward.protocol.metadata.delta_commit import COMMIT_FILE, StagedDeltaCommit
from lakeward.protocol.metadata.metadata_writer import DeltaCommitWriter
from lakeward.protocol.metadata.snapshot import take_metadata_snapshot
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.metadata_golden import (
    GOLDEN,
    METADATA,
    METADATA_TIMELINE,
    PARTITION_PROPERTY,
    set_property,
    write_rollback_plan,
)
from tests.our_reader import scan

INSTANT = "20270101000000000"
COMPLETED = "20270101000000500"


class Desk:
    """A golden table, and a log file that an attempt says it made for its one file group."""

    def __init__(
        self, base: Path, storage: LocalStorage | None = None, *, instant: str = INSTANT, number: int = 7
    ) -> None:
        self.base = base
        self.instant = instant
        self.number = number
        self.storage = storage or LocalStorage()
        self.folder = Path(attempt_folder(str(base), instant, number))
        self.folder.mkdir(parents=True)
        self.pending = True
        self.indexed = take_metadata_snapshot(self.storage, scan(base), clock=SkippingClock()).indexed
        assert self.indexed is not None
        self.commit = self.open(self.indexed)

    def open(self, measured: IndexedColumns) -> DeltaCommitWriter:
        return DeltaCommitWriter(
            self.storage,
            self.instant,
            folder=str(self.folder),
            number=self.number,
            measured=measured,
            clock=SkippingClock(),
        )

    @property
    def files(self) -> list[NewFile]:
        (group,) = scan(self.base).file_groups
        name = LogFileName(group.file_id, INSTANT, 1, "0-7-0").text
        assert self.indexed is not None
        columns, version = self.indexed.columns, self.indexed.version
        stats = log_column_stats(name, {"ts": ColumnRange(9, 99, 3, 0)}, columns=columns, version=version)
        return [NewFile("p", group.file_id, name, 123, tuple(stats))]

    def stage(self, fence: Callable[[], None] = lambda: None) -> StagedDeltaCommit:
        return self.commit.stage(scan(self.base), self.files, fence=fence)

    def publish(self, staged: StagedDeltaCommit | None = None, fence: Callable[[], None] = lambda: None) -> None:
        staged = staged or self.stage()
        staged.publish(COMPLETED, is_pending=lambda: self.pending, fence=fence)

    def of_instant(self) -> list[str]:
        return sorted(path.name for path in (self.base / METADATA).rglob(f"*{self.instant}*"))

    def records(self, partition: str) -> dict[str, MetadataRecord]:
        records: dict[str, MetadataRecord] = {}
        for block in self.blocks(partition):
            if block.hfile is not None and block.schema_json is not None:
                codec = metadata_codec(block.schema_json)
                records |= {key.decode(): codec.decode(value, block.where) for key, value in block.hfile.entries()}
        return records

    def deleted(self, partition: str) -> set[str]:
        return {key for block in self.blocks(partition) for key in block.deleted_keys}

    def blocks(self, partition: str) -> Iterator[MetadataBlock]:
        for path in (self.base / METADATA / partition).glob(f".*_{self.instant}.log.*"):
            with path.open("rb") as file:
                for block in metadata_blocks(file, path.stat().st_size, path.name):
                    assert isinstance(block, MetadataBlock)
                    yield block

    def range_of_ts(self) -> tuple[object, object]:
        record = self.records("partition_stats")[partition_stats_key("ts", "p")]
        assert isinstance(record, PartitionStatsRecord)
        return record.min_value, record.max_value


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(copy_golden(GOLDEN, tmp_path / "table"))


def snapshot(desk: Desk) -> TableSnapshot:
    return scan(desk.base)


def test_it_is_one_delta_commit(desk: Desk):
    """It is requested, inflight and completed, and has a log file for each file group with records, in the commit with
    its size. Keeps 2 of protocol/metadata/metadata_writer."""
    desk.commit.prepare(snapshot(desk), desk.files)
    desk.publish()

    names = [parsed for name in desk.of_instant() if (parsed := parse_instant(name, 2)) is not None]
    assert [(each.action, each.completion_time) for each in names if each.state is State.COMPLETED] == [
        ("deltacommit", COMPLETED)
    ]
    assert {each.state for each in names} == set(State)
    file = f"{INSTANT}_{COMPLETED}.deltacommit"
    metadata = read_commit_metadata((desk.base / METADATA_TIMELINE / file).read_bytes(), file=file, layout=2)
    assert metadata.operation_type == "UPSERT_PREPPED"
    assert "_hoodie_commit_time" not in str(metadata.schema) and "filesystemMetadata" in str(metadata.schema)
    stats = [stat for each in metadata.partition_to_write_stats.values() for stat in each]
    assert sorted(str(stat.path) for stat in stats) == sorted(
        str(path.relative_to(desk.base / METADATA)) for path in (desk.base / METADATA).glob(f"*/.*_{INSTANT}.log.*")
    )
    for stat in stats:
        assert stat.file_size_in_bytes == (desk.base / METADATA / str(stat.path)).stat().st_size
        assert stat.num_writes == stat.num_update_writes and stat.prev_commit == INSTANT
    assert sum(stat.num_writes or 0 for stat in stats) == sum(
        len(desk.records(partition)) for partition in metadata.partition_to_write_stats
    )


def test_without_preparation_it_is_the_same(desk: Desk, tmp_path: Path):
    """What was prepared for nothing is made under the lock."""
    desk.publish()
    prepared = Desk(copy_golden(GOLDEN, tmp_path / "prepared"))
    prepared.commit.prepare(snapshot(prepared), prepared.files)
    prepared.publish()

    for partition in ("files", "column_stats", "partition_stats", "bloom_filters"):
        assert desk.records(partition) == prepared.records(partition)
    assert desk.of_instant() == prepared.of_instant()


def test_partitions_are_those_of_the_moment(desk: Desk):
    """One that was dropped since the preparation gets nothing. Keeps 1 of protocol/metadata/metadata_writer."""
    desk.commit.prepare(snapshot(desk), desk.files)
    set_property(desk.base, PARTITION_PROPERTY, "files,record_index")
    desk.publish()

    logs = [log for name in desk.of_instant() if (log := parse_log_file(name)) is not None]
    assert [log.file_id for log in logs] == ["files-0000-0"]
    assert sorted(path.name for path in desk.folder.iterdir()) == [COMMIT_FILE], "what was prepared is gone"


def test_files_are_those_of_the_moment(desk: Desk):
    """A result that was dropped since the preparation is not listed."""
    (file,) = desk.files
    overtaken = NewFile("p", file.file_id, LogFileName(file.file_id, INSTANT, 1, "1-7-0").text, 5, ())
    desk.commit.prepare(snapshot(desk), [*desk.files, overtaken])
    desk.publish()

    record = desk.records("files")["p"]
    assert isinstance(record, FilesRecord)
    assert list(record.entries) == [file.name]


def test_files_that_came_since_count_for_the_partition(desk: Desk):
    """Their statistics are looked up under the lock."""
    timeline = desk.base / ".hoodie" / "timeline"
    last = sorted(path for path in timeline.iterdir() if path.suffix == ".deltacommit")[-2:]
    hidden = [path.rename(desk.base / path.name) for path in last]
    desk.commit.prepare(snapshot(desk), desk.files)
    for path in hidden:
        path.rename(timeline / path.name)
    desk.publish()

    assert desk.range_of_ts() == (9, 99)
    record = desk.records("partition_stats")[partition_stats_key("ts", "p")]
    assert isinstance(record, PartitionStatsRecord)
    (group,) = scan(desk.base).file_groups
    assert len(group.slices[0].log_files) == 3
    # Rows of the base file, of the two upserts, and of the new log; the deletes of the last write are no rows.
    assert record.value_count == 6 + 2 + 2 + 3


def test_columns_that_were_not_measured_are_a_conflict(desk: Desk):
    """The index definitions changed while files were merged: nothing is published."""
    desk.commit.prepare(snapshot(desk), desk.files)
    file = desk.base / ".hoodie" / ".index_defs" / "index.json"
    definitions = json.loads(file.read_text())
    definitions["indexDefinitions"]["column_stats"]["sourceFields"].remove("name")
    file.write_text(json.dumps(definitions))

    with pytest.raises(Conflict, match="indexed columns"):
        desk.publish()
    assert desk.of_instant() == []


def test_leftovers_of_the_instant_go_first(desk: Desk):
    """What an earlier attempt left is deleted, and only under a lock that is proved."""
    (desk.base / METADATA_TIMELINE / f"{INSTANT}.deltacommit.inflight").touch()
    (desk.base / METADATA_TIMELINE / f"{INSTANT}.deltacommit.requested").touch()
    hudis = desk.base / METADATA / "files" / f".files-0000-0_{INSTANT}.log.1_9-9-9"
    hudis.write_bytes(b"#HUDI#")
    proofs: list[str] = []
    staged = desk.stage(fence=lambda: proofs.append("proved"))

    assert proofs == ["proved"]
    assert desk.of_instant() == []
    desk.publish(staged)
    assert hudis.name not in desk.of_instant()


def test_a_rollback_that_hudi_began_is_waited_for(desk: Desk):
    """It would delete what we write now."""
    write_rollback_plan(desk.base, "20270101000000001", INSTANT)

    with pytest.raises(Conflict, match="under way or was interrupted"):
        desk.publish()


@pytest.mark.parametrize("pending", [True, False])
def test_an_attempt_that_was_taken_over_moves_nothing_in(desk: Desk, pending: bool):
    """Its folder is gone. If no process goes on with the plan, the attempt rolls back what only it knows of."""
    staged = desk.stage()
    desk.folder.rename(desk.folder.with_name("dead"))
    desk.pending = pending

    with pytest.raises(AttemptLost):
        desk.publish(staged)
    left = [f"{INSTANT}.deltacommit.inflight", f"{INSTANT}.deltacommit.requested"]
    assert desk.of_instant() == (left if pending else [])


def test_an_attempt_that_is_taken_over_in_between_completes_nothing(tmp_path: Path):
    """Renaming its folder away stops the log files that are still in it, and the commit."""

    class Overtaken(LocalStorage):
        moved = 0

        def move(self, source: str, target: str) -> None:
            super().move(source, target)
            self.moved += 1
            if self.moved == 2:
                folder = Path(attempt_folder(str(tmp_path / "table"), INSTANT, 7))
                folder.rename(folder.with_name("dead"))

    desk = Desk(copy_golden(GOLDEN, tmp_path / "table"), Overtaken())
    with pytest.raises(AttemptLost):
        desk.publish()
    assert len([name for name in desk.of_instant() if parse_log_file(name)]) == 2
    assert not list((desk.base / METADATA_TIMELINE).glob(f"{INSTANT}_*"))


def test_the_lock_is_proved_before_it_is_completed(desk: Desk):
    """The proof comes before anything is in its place, and again after the log files are. Keeps 1 of
    protocol/metadata/delta_commit."""
    staged = desk.stage()
    proofs: list[int] = []

    def fence() -> None:
        proofs.append(len([name for name in desk.of_instant() if parse_log_file(name)]))
        if len(proofs) == 2:
            raise Conflict("no")

    with pytest.raises(Conflict):
        desk.publish(staged, fence)
    assert proofs == [0, len(staged.logs)]
    assert not list((desk.base / METADATA_TIMELINE).glob(f"{INSTANT}_*"))


def test_bounded_reads_under_the_lock(desk: Desk):
    """What was prepared is not read again: of column_stats no file is opened."""
    opened: list[str] = []

    class Watched(LocalStorage):
        def open_input(self, path: str):  # type: ignore[no-untyped-def]
            opened.append(path)
            return super().open_input(path)

    desk.commit._storage = Watched()
    desk.commit.prepare(snapshot(desk), desk.files)
    assert any("col-stats" in path for path in opened)
    opened.clear()
    desk.stage()
    assert [path for path in opened if "col-stats" in path] == []
