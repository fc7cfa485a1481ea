"""What the record index learns of a write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, Conflict
from lakeward.format.metadata.record import RecordIndexRecord
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.timeline.commit_metadata import WriteStat, read_commit_metadata
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.protocol.metadata import metadata_writer
from lakeward.protocol.metadata.key_changes import ChangedKeys, WriteChanges
from lakeward.protocol.metadata.key_sorter import KeySorter
from lakeward.read.newest_slice import table_reading
from lakeward.read.slice_keys import slice_keys
from lakeward.storage.local import LocalStorage
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA_TIMELINE
from tests.our_reader import scan
from tests.protocol.metadata.test_metadata_writer import COMPLETED, INSTANT, Desk

FILE_ID = "6a1f0c4e-0d5b-4c56-9d0e-2f6a3f1b7c8d-0"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(copy_golden(GOLDEN, tmp_path / "table"))


def changed(desk: Desk, keys: Mapping[str, str | None], partition: str = "p", name: str = "0") -> ChangedKeys:
    """The file that a target leaves, in two batches."""
    path = desk.folder / f"{name}.keys.arrow"
    schema = pa.schema([("key", pa.string()), ("file_id", pa.string())])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as out:
        for part in (list(keys.items())[:2], list(keys.items())[2:]):
            columns = [pa.array([each[at] for each in part], pa.string()) for at in (0, 1)]
            out.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return ChangedKeys(partition, str(path))


def write(desk: Desk, **changes: object) -> WriteChanges:
    return WriteChanges(scan(desk.base).schema or "", **changes)  # type: ignore[arg-type]


def publish(desk: Desk, changes: WriteChanges) -> WriteStat:
    """What the commit says of the one log file in the record index."""
    desk.commit.prepare(scan(desk.base), [], write=changes)
    desk.publish(desk.commit.stage(scan(desk.base), [], write=changes, fence=lambda: None))
    name = f"{INSTANT}_{COMPLETED}.deltacommit"
    commit = read_commit_metadata((desk.base / METADATA_TIMELINE / name).read_bytes(), file=name, layout=2)
    (stat,) = commit.partition_to_write_stats["record_index"]
    return stat


def test_keys_come_and_go(desk: Desk):
    """The entry says partition, file group and instant; behind the entries is what is gone."""
    keys = changed(desk, {"b": FILE_ID, "gone": None, "a": FILE_ID})
    stat = publish(desk, write(desk, keys=(keys,)))

    zone = scan(desk.base).zone.zone
    assert zone is not None
    entry = RecordIndexRecord(
        partition="p", file_id=FILE_ID, instant_millis=parse_instant_time(INSTANT, zone), position=None
    )
    assert desk.records("record_index") == {"a": entry, "b": entry}
    assert [block.hfile is None for block in desk.blocks("record_index")] == [False, True]
    assert desk.deleted("record_index") == {"gone"}
    assert (stat.num_writes, stat.num_update_writes, stat.num_deletes) == (2, 2, 1)


def test_the_metadata_table_of_version_8(tmp_path: Path):
    """It has the same index, and a shorter schema of its records."""
    desk = Desk(copy_golden("v8_metadata", tmp_path / "table"))
    before = scan(desk.base).config.built_metadata_partitions
    assert "record_index" in before
    publish(desk, write(desk, keys=(changed(desk, {"a": FILE_ID, "gone": None}),)))
    (record,) = desk.records("record_index").values()
    assert isinstance(record, RecordIndexRecord) and record.file_id == FILE_ID
    assert desk.deleted("record_index") == {"gone"}


def test_a_key_that_moved_is_not_gone(desk: Desk):
    """It went from one file group and arrived in another one, whichever target says so first."""
    there = changed(desk, {"k": FILE_ID}, "q")
    publish(desk, write(desk, keys=(there, changed(desk, {"k": None}, name="1"))))
    (record,) = desk.records("record_index").values()
    assert isinstance(record, RecordIndexRecord) and record.partition == "q"
    assert desk.deleted("record_index") == set()


def test_many_keys_are_several_blocks(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """Each of them is sorted, and memory is that of one."""
    monkeypatch.setattr(metadata_writer, "KeySorter", lambda groups: KeySorter(groups, run_bytes=1))
    first = changed(desk, {f"k{number}": FILE_ID for number in range(5)}, name="1")
    second = changed(desk, {"k9": FILE_ID, "k3": None, "x": None}, name="2")
    stat = publish(desk, write(desk, keys=(first, second)))
    blocks = list(desk.blocks("record_index"))
    assert [block.hfile is not None for block in blocks] == [True] * 3 + [False]
    assert set(desk.records("record_index")) == {"k0", "k1", "k2", "k3", "k4", "k9"}
    assert (desk.deleted("record_index"), stat.num_writes, stat.num_deletes) == ({"x"}, 6, 1)


def test_keys_of_what_is_replaced_are_gone_unless_they_came_again(desk: Desk):
    """They are those of the rows that a query finds: two were deleted by a log. Keeps 1 of
    protocol/metadata/key_changes."""
    (group,) = scan(desk.base).file_groups
    (slice_,) = group.slices[:1]
    reading = table_reading(scan(desk.base), merges=True)
    keys = {key for part in slice_keys(LocalStorage(), reading, slice_) for key in part.to_pylist()}
    assert keys == {"k1", "k2", "k3", "k6"}
    again = changed(desk, {"k2": FILE_ID})
    stat = publish(desk, write(desk, keys=(again,), replaced=(("p", group.file_id),)))
    assert set(desk.records("record_index")) == {"k2"}
    assert desk.deleted("record_index") == keys - {"k2"}
    assert stat.num_deletes == len(keys) - 1


def test_what_is_replaced_is_read_again_where_it_changed(desk: Desk):
    """A log was added to the file group since the preparation."""
    timeline = desk.base / ".hoodie" / "timeline"
    last = sorted(path for path in timeline.iterdir() if path.suffix == ".deltacommit")[-1]
    changes = write(desk, replaced=tuple((g.partition_path, g.file_id) for g in scan(desk.base).file_groups))
    hidden = last.rename(desk.base / last.name)
    desk.commit.prepare(scan(desk.base), [], write=changes)
    hidden.rename(last)
    desk.publish(desk.commit.stage(scan(desk.base), [], write=changes, fence=lambda: None))
    assert desk.deleted("record_index") == {"k1", "k2", "k3", "k6"}


def test_a_group_that_is_not_there_is_a_conflict(desk: Desk):
    """Its keys cannot be known."""
    with pytest.raises(Conflict, match="cannot be replaced"):
        desk.commit.prepare(scan(desk.base), [], write=write(desk, replaced=(("p", "unknown"),)))


def test_a_torn_file_of_keys_is_named(desk: Desk):
    """Nothing is published without the keys in it."""
    keys = changed(desk, {"a": FILE_ID})
    Path(keys.path).write_bytes(Path(keys.path).read_bytes()[:-40])
    with pytest.raises(BrokenFile, match=r"0\.keys\.arrow"):
        desk.commit.prepare(scan(desk.base), [], write=write(desk, keys=(keys,)))


def test_keys_are_read_a_batch_at_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """A base file without logs is not merged, and only its keys are read. Keeps 2 of protocol/metadata/key_changes."""
    asked: list[object] = []
    real = ParquetBatches.read

    def read(self: ParquetBatches, columns: list[str], **choice: Any) -> Iterator[pa.RecordBatch]:
        asked.append(columns)
        return real(self, columns, **choice)

    monkeypatch.setattr(ParquetBatches, "read", read)
    (group,) = scan(desk.base).file_groups
    base_file = next(each.base_file for each in group.slices if each.base_file is not None)
    bare = replace(group.slices[0], base_file=base_file, log_files=())
    parts = list(slice_keys(LocalStorage(), table_reading(scan(desk.base), merges=True), bare))
    assert asked == [["_hoodie_record_key"]]
    assert sum(map(len, parts)) == 6
