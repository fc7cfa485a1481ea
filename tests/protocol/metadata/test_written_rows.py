"""What the commit of a write puts into the metadata table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Conflict, Refused
from lakeward.format.metadata.key import ALL_PARTITIONS, partition_stats_key
from lakeward.format.metadata.record import FilesRecord, PartitionStatsRecord
from lakeward.protocol.metadata.changes import NewFile
from lakeward.protocol.metadata.key_changes import WriteChanges
from lakeward.protocol.metadata.snapshot import check_rows_can_be_written, take_metadata_snapshot
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata.metadata_reader import MetadataReader
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE, GOLDEN, PARTITION_PROPERTY, set_property
from tests.our_reader import scan
from tests.protocol.metadata.test_indexed_by_write import schema_with, source_fields
from tests.protocol.metadata.test_metadata_writer import INSTANT, Desk

EARLIER = "20260101000000000"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    base = copy_golden(GOLDEN, tmp_path / "table")
    set_property(base, PARTITION_PROPERTY, "bloom_filters,column_stats,files,partition_stats")
    return Desk(base)


def changes(desk: Desk) -> WriteChanges:
    return WriteChanges(scan(desk.base).schema or "")


def publish(desk: Desk, files: list[NewFile], write: WriteChanges, *, prepared: bool = True) -> None:
    if prepared:
        desk.commit.prepare(scan(desk.base), files, write=write)
    desk.publish(desk.commit.stage(scan(desk.base), files, write=write, fence=lambda: None))


def wider(file: NewFile, instant: str) -> NewFile:
    """A file of that instant with a greater `ts`."""
    name = file.name.replace(INSTANT, instant)
    stats = [replace(each, file_name=name) for each in file.column_stats]
    stats = [replace(each, max_value=500) if each.column == "ts" else each for each in stats]
    return NewFile("p", file.file_id, name, 5, tuple(stats))


def ranges(desk: Desk) -> dict[str | None, PartitionStatsRecord]:
    found = desk.records("partition_stats").values()
    return {record.column: record for record in found if isinstance(record, PartitionStatsRecord)}


def test_a_write_that_touches_nothing_says_so(desk: Desk):
    """Hudi writes the record of all partitions, empty."""
    publish(desk, [], changes(desk))
    assert desk.records("files") == {ALL_PARTITIONS: FilesRecord({}, is_all_partitions=True)}


def test_a_deleted_partition_stays_listed_without_a_range(desk: Desk):
    """Its files stay until they are cleaned; the ranges of all its columns are deleted."""
    (group,) = scan(desk.base).file_groups
    write = WriteChanges(
        scan(desk.base).schema or "",
        replaced=((group.partition_path, group.file_id),),
        deleted_partitions=(group.partition_path,),
    )
    publish(desk, [], write)
    assert desk.indexed is not None
    assert desk.records("files") == {ALL_PARTITIONS: FilesRecord({}, is_all_partitions=True)}
    assert desk.deleted("partition_stats") == {partition_stats_key(each, "p") for each in desk.indexed.columns}


def test_what_is_replaced_counts_for_no_range(desk: Desk):
    """The new file alone is what the partition holds then."""
    (group,) = scan(desk.base).file_groups
    (file,) = desk.files
    name = file.name.replace(group.file_id, "new-0")
    new = NewFile("p", "new-0", name, 5, tuple(replace(record, file_name=name) for record in file.column_stats))
    write = WriteChanges(scan(desk.base).schema or "", replaced=(("p", group.file_id),))
    publish(desk, [new], write)
    assert (ranges(desk)["ts"].value_count, ranges(desk)["ts"].is_tight) == (3, True)


def test_while_an_earlier_write_is_under_way_a_range_is_added(desk: Desk):
    """It will be read as an older one, so Lakeward's may not take the place of its."""
    (desk.base / DATA_TIMELINE / f"{EARLIER}.deltacommit.requested").touch()
    publish(desk, desk.files, changes(desk))
    assert (ranges(desk)["ts"].min_value, ranges(desk)["ts"].value_count, ranges(desk)["ts"].is_tight) == (9, 3, False)


def test_a_later_write_that_was_faster_is_a_conflict(desk: Desk):
    """Readers would believe its range, in which our rows are not. Keeps 3 of protocol/metadata/metadata_writer."""
    (file,) = desk.files
    early = Desk(desk.base, instant=EARLIER, number=8)
    with pytest.raises(Conflict, match="later write to the partition 'p'"):
        publish(early, [file], changes(desk))
    assert early.of_instant() == []


def test_two_writes_that_end_the_other_way_round(desk: Desk):
    """The later one ends first, and says nothing exact; the earlier one may then, and readers put both together."""
    earlier = "20261231000000000"
    (file,) = desk.files
    pending = desk.base / DATA_TIMELINE / f"{earlier}.deltacommit.requested"
    pending.touch()
    publish(desk, [file], changes(desk))
    early = Desk(desk.base, instant=earlier, number=8)
    publish(early, [wider(file, earlier)], changes(desk))
    pending.unlink()
    metadata = take_metadata_snapshot(LocalStorage(), scan(desk.base), clock=SkippingClock())
    key = partition_stats_key("ts", "p")
    record = MetadataReader(LocalStorage(), metadata.table).lookup("partition_stats", [key])[key]
    assert isinstance(record, PartitionStatsRecord)
    assert (record.max_value, ranges(early)["ts"].is_tight, ranges(desk)["ts"].is_tight) == (500, True, False)


def test_an_exact_range_below_one_that_is_not_is_a_conflict_too(desk: Desk):
    """The second of two later commits joined its range to the first one's, which is without our rows."""
    pending = desk.base / DATA_TIMELINE / f"{EARLIER}.deltacommit.requested"
    pending.touch()
    (file,) = desk.files
    publish(desk, [file], changes(desk))
    early = Desk(desk.base, instant=EARLIER, number=8)
    with pytest.raises(Conflict, match="later write to the partition 'p'"):
        publish(early, [wider(file, EARLIER)], changes(desk))


def test_a_new_column_is_named_before_the_commit_is_complete(desk: Desk):
    """The definitions name it once the commit is staged; files that were not measured for it are a conflict. Keeps 1 of
    protocol/metadata/indexed_by_write."""
    write = WriteChanges(schema_with(desk.base, "added"))
    with pytest.raises(Conflict, match="indexed columns"):
        desk.commit.stage(scan(desk.base), desk.files, write=write, fence=lambda: None)
    assert "added" not in source_fields(desk.base)
    desk.commit.stage(scan(desk.base), [], write=write, fence=lambda: None)
    assert source_fields(desk.base)[-1] == "added"
    assert not list((desk.base / DATA_TIMELINE).glob(f"{INSTANT}*"))


@pytest.mark.parametrize(
    ("partitions", "inflight", "named"),
    [
        ("files,record_index,secondary_index_by_name", "", "secondary index by_name"),
        ("files,expr_index_day", "", "index expr_index_day"),
        ("files", "record_index", "record_index"),
    ],
)
def test_an_index_that_we_cannot_write_is_refused(desk: Desk, partitions: str, inflight: str, named: str):
    """The error has its name, and comes before anything is written. Keeps of protocol/metadata/snapshot."""
    set_property(desk.base, PARTITION_PROPERTY, partitions)
    set_property(desk.base, f"{PARTITION_PROPERTY}.inflight", inflight)
    with pytest.raises(Refused, match=named):
        check_rows_can_be_written(LocalStorage(), scan(desk.base))


def test_a_record_index_of_each_partition_is_refused(desk: Desk):
    """It has other file groups."""
    set_property(desk.base, PARTITION_PROPERTY, "files,record_index")
    file = desk.base / ".hoodie" / ".index_defs" / "index.json"
    definitions = json.loads(file.read_text())
    definitions["indexDefinitions"]["record_index"]["indexOptions"]["isPartitioned"] = "true"
    file.write_text(json.dumps(definitions))
    with pytest.raises(Refused, match="record index of its own"):
        desk.commit.prepare(scan(desk.base), desk.files, write=changes(desk))
