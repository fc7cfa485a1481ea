"""An index of Lakeward that is filled from another one says what that one says, or is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.engine.task.key_checkpoint import make_checkpoint
from lakeward.engine.task.key_checkpoint_spec import CheckpointSpec
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index import Index, Indexed
from lakeward.index.index_type import IndexType
from lakeward.index.key_checkpoints import KeyCheckpoint
from lakeward.index.location import LOCATIONS
from lakeward.index.metadata_record_index import MetadataRecordIndex
from lakeward.index.overlay import current_index
from lakeward.index.simple import SimpleIndex
from lakeward.services.indexing.run.index_build import IndexBuild, update_and_tidy
from lakeward.services.indexing.run.index_migration import TakenPartitions, migrate_index
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewIndex, NewIndexes
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.faults import Killed
from tests.index.builds import in_process
from tests.index.external.memory_entries import MemoryEntries
from tests.index.following import places, truth
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()
KEYS = ["k1", "k2", "k3", "k4"]
BY_RECORD = NewIndexes(finds_keys=NewIndex.METADATA)


def opened(entries: MemoryEntries, snapshot: TableSnapshot) -> ExternalIndex:
    return ExternalIndex.of(entries, STORAGE, snapshot, limit=RateLimit(None, clock=SkippingClock()))


def simple(snapshot: TableSnapshot) -> Index:
    return SimpleIndex.of(snapshot)


def record(snapshot: TableSnapshot) -> Index:
    return MetadataRecordIndex.of(STORAGE, snapshot, clock=SkippingClock())


def migrate(base: Path, entries: MemoryEntries, source=simple, **words) -> IndexBuild:
    return migrate_index(STORAGE, lambda snapshot: opened(entries, snapshot), source, lambda: scan(base), **words)


def test_from_the_record_index(tmp_path):
    """Each key is where it was, logs or not; stopped midway it begins again; the commits after it are followed."""
    base = new_table(tmp_path / "t", indexes=BY_RECORD)
    write(base, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k3", 1, "b", "x")], index=IndexType.METADATA)
    write(base, [("k2", 2, "a", "x")], "delete", index=IndexType.METADATA)
    entries = MemoryEntries(is_global=True)

    def stop(done: int, of: int) -> None:
        if done:
            raise Killed("the migration")

    with pytest.raises(Killed):
        migrate(base, entries, record, on_part=stop)
    assert opened(entries, scan(base)).indexed() == Indexed()
    assert migrate(base, entries, record).entries == 2
    assert places(opened(entries, scan(base)), KEYS) == truth(base)
    write(base, [("k4", 3, "b", "x")], index=IndexType.METADATA)
    snapshot = scan(base)
    assert places(current_index(STORAGE, snapshot, opened(entries, snapshot)), KEYS) == truth(base)
    assert len(update_and_tidy(STORAGE, lambda of: opened(entries, of), lambda: scan(base)).commits) == 1
    assert places(opened(entries, scan(base)), KEYS) == truth(base)
    with pytest.raises(Refused, match="The index is built already"):
        migrate(base, entries, record)


def test_from_an_index_of_base_files(tmp_path):
    """It is one where no logs are; of a table with some it is refused before anything is put."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k1", 1, "b", "x")])
    entries = MemoryEntries(is_global=False)
    assert migrate(base, entries).entries == 3
    assert places(opened(entries, scan(base)), KEYS) == truth(base)

    write(base, [("k2", 2, "a", "x")], "delete")
    later = MemoryEntries(is_global=False)
    with pytest.raises(Refused, match="where the table has logs"):
        migrate(base, later)
    assert later.tries == []


def test_from_some_partitions(tmp_path):
    """These are taken from the other index, which need not know the keys of logs elsewhere: all others are read from
    their rows, and none of a partition that is named. One that is not there is an error."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "a", "x"), ("k2", 1, "b", "x"), ("k3", 1, "b", "x"), ("k4", 1, "c", "x")])
    write(base, [("k2", 2, "b", "x")], "delete")
    read = []

    def taken(*partitions: str) -> TakenPartitions:
        def run(spec: CheckpointSpec, attempt: int) -> KeyCheckpoint:
            read.append(spec)
            return make_checkpoint(STORAGE, spec, attempt)

        return TakenPartitions(frozenset(partitions), replace(in_process(base), run_task=run))

    entries = MemoryEntries(is_global=True)
    done = migrate(base, entries, taken=taken("a"))
    assert (done.entries, done.groups, done.resumed) == (3, 2, 0)
    assert places(opened(entries, scan(base)), KEYS) == truth(base) and len(read) == 2
    assert sorted(each[:2] for each in entries.tries[0].places) == [("k1", None), ("k3", None), ("k4", None)]

    entries = MemoryEntries(is_global=False)
    assert migrate(base, entries, taken=taken("a", "c")).resumed == 1 and len(read) == 2
    assert places(opened(entries, scan(base)), KEYS) == truth(base)
    with pytest.raises(Refused, match="where the table has logs"):
        migrate(base, MemoryEntries(is_global=True), taken=taken("b", "c"))
    with pytest.raises(UsageError, match="nothing in the partition 'd'"):
        migrate(base, MemoryEntries(is_global=True), taken=taken("a", "d"))


def test_what_it_cannot_hold(tmp_path):
    """A key in two partitions has no two places in an index of which it is one in the table. Keeps 1 of
    services/indexing/run/index_migration."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "a", "x"), ("k1", 1, "b", "x")])
    with pytest.raises(Refused, match="There are 2 locations, and 1 are left here"):
        migrate(base, MemoryEntries(is_global=True))


class WithMore:
    """An index that says that a key is in a file group which is not live."""

    is_global = can_index_log_files = True

    def __init__(self, index: Index) -> None:
        self.index = index

    def parts(self, partitions):
        return [*self.index.parts(partitions), None]

    def look_up(self, storage, part, keys):
        if part is not None:
            return self.index.look_up(storage, part, keys)
        columns = [pa.array([each]) for each in ("k2", "a", "gone-0", "1")]
        return iter([pa.RecordBatch.from_arrays(columns, schema=LOCATIONS)])


def test_a_group_that_is_not_live(tmp_path):
    """Nothing is taken of it, though the other index still has it."""
    base = new_table(tmp_path / "t", indexes=BY_RECORD)
    write(base, [("k1", 1, "a", "x")], index=IndexType.METADATA)
    entries = MemoryEntries(is_global=True)
    assert migrate(base, entries, lambda snapshot: WithMore(record(snapshot))).entries == 1
    assert [list(each.places) for each in entries.tries] == [[("k1", None)]]
