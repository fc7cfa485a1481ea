"""The record index of the metadata table is built as Hudi's writer builds it, with what writers bring meanwhile."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused, TryLater, VerificationFailed
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.key_checkpoint import make_checkpoint
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.format.metadata.record import MetadataRecord
from lakeward.index.build_state import metadata_build_folder
from lakeward.protocol.owner import Processes
from lakeward.services.indexing.run.bucket_build import write_buckets
from lakeward.services.indexing.run.build_work import BuildWork
from lakeward.services.together.metadata_index.initial_build import BuiltPartition, build_partition, first_at_work
from lakeward.services.together.metadata_index.record_entries import RecordEntries, file_groups_for, minus
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE, GOLDEN, METADATA, PARTITION_PROPERTY, set_property
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import compact_metadata, serviced_table
from tests.services.metadata.run.test_compaction import metadata_leftovers, records
from tests.services.metadata.run.test_removal import config, remove
from tests.write.writing import new_table, write

DEFINITIONS = ".hoodie/.index_defs/index.json"


def work(base: Path, storage: Storage, **words: Any) -> BuildWork:
    """Tasks run in this process, one after the other."""
    folder = metadata_build_folder(str(base))
    tasks = partial(make_checkpoint, storage), partial(write_buckets, storage)
    return BuildWork(folder, lambda size: InProcessDispatcher(), *tasks, **words)


def build(
    base: Path | str, storage: Storage | None = None, processes: Processes | None = None, **options: object
) -> BuiltPartition | None:
    storage = storage or LocalStorage()
    table = serviced_table(str(base), storage, processes or ScriptedProcesses(), **options)
    return build_partition(table, RecordEntries(storage, work(Path(base), storage)))


def index_of(base: Path) -> dict[str, MetadataRecord]:
    return dict(records(base)[RECORD_INDEX])


class Between(RecordEntries):
    """Entries that let something happen once the base files are written."""

    def __init__(self, storage: Storage, given: BuildWork, happens: Callable[[], object]) -> None:
        super().__init__(storage, given)
        self._happens = happens

    def write_base(self, files: Any) -> None:
        super().write_base(files)
        self._happens()


def build_between(base: Path, happens: Callable[[Clock], object], **options: object) -> BuiltPartition | None:
    """The clock is the one by which the build waits, and skips."""
    storage = LocalStorage()
    table = serviced_table(str(base), storage, ScriptedProcesses(), **options)
    return build_partition(table, Between(storage, work(base, storage), lambda: happens(table.clock)))


def unindexed(path: Path, **changes: Any) -> Path:
    """A table of three file groups, one of which has a log with a delete, without a record index."""
    base = new_table(path, **changes)
    write(base, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k3", 1, "b", "x"), ("k4", 1, "c", "x")])
    write(base, [("k2", 2, "a", None)], "delete")
    return base


def truth(base: Path) -> dict[str, str]:
    """The partition of each key, as rows are read."""
    return {row["id"]: row["part"] for row in read_rows(base)}


def places(base: Path) -> dict[str, str | None]:
    return {key: record.partition for key, record in index_of(base).items()}  # type: ignore[union-attr]


def test_as_hudi_built_it(tmp_path: Path) -> None:
    """The keys and places of Hudi's own index of the same table; the definitions, and nothing is left of the build."""
    base = copy_golden(GOLDEN, tmp_path / "t")
    before = {key: (record.partition, record.file_id) for key, record in index_of(base).items()}  # type: ignore[union-attr]
    definitions = json.loads((base / DEFINITIONS).read_bytes())
    remove(base, RECORD_INDEX)
    built = build(base)
    assert built is not None and (built.entries, built.file_groups) == (len(before), 10)
    assert built.instant.startswith("0000000000000000")
    after = {key: (record.partition, record.file_id) for key, record in index_of(base).items()}  # type: ignore[union-attr]
    assert after == before
    assert RECORD_INDEX in config(base).built_metadata_partitions
    assert json.loads((base / DEFINITIONS).read_bytes()) == definitions
    assert metadata_leftovers(base) == [] and not Path(metadata_build_folder(str(base))).exists()
    assert build(base) is None
    assert compact_metadata(base, LocalStorage()) is not None
    assert {key: (each.partition, each.file_id) for key, each in index_of(base).items()} == before  # type: ignore[union-attr]


def test_what_is_written_meanwhile(tmp_path: Path) -> None:
    """Keeps 1 of services/together/metadata_index/record_entries: keys that came, went, and moved, while base files
    were written; and the next write finds the index and keeps it."""
    base = unindexed(tmp_path / "t")

    clocks: list[Clock] = []

    def happens(clock: Clock) -> None:
        clocks.append(clock)
        write(base, [("k5", 3, "b", "y"), ("k6", 3, "d", "y"), ("k1", 4, "a", "y")], clock=clock)
        write(base, [("k3", 5, "b", None)], "delete", clock=clock)
        write(base, (), "delete_partition", partitions=["c"], clock=clock)

    built = build_between(base, happens, writers_stopped=False)
    assert built is not None and built.entries == 3
    assert places(base) == truth(base) == {"k1": "a", "k5": "b", "k6": "d"}
    write(base, [("k7", 6, "a", "z"), ("k5", 6, "b", "z")], clock=clocks[0])
    write(base, [("k6", 7, "d", None)], "delete", clock=clocks[0])
    assert places(base) == truth(base) == {"k1": "a", "k5": "b", "k7": "a"}


def test_a_pending_write(tmp_path: Path) -> None:
    """Keeps 1 and 4 of services/together/metadata_index/initial_build: while a write is pending, alive or dead, nothing
    is published; it is named, and the wait ends."""
    base = unindexed(tmp_path / "t")
    before = config(base)
    pending = base / DATA_TIMELINE / "20991231235959999.deltacommit.requested"
    for options in ({"writers_stopped": True}, {"writers_stopped": False}):
        with pytest.raises(TryLater, match="deltacommit 20991231235959999"):
            build_between(base, lambda clock: pending.touch(), **options)
        pending.unlink()
        assert config(base) == before and not (base / METADATA / RECORD_INDEX).exists()
        assert metadata_leftovers(base) == []
    assert build(base) is not None and places(base) == truth(base)


def test_what_is_at_work(tmp_path: Path) -> None:
    """A plan that is begun later reads the properties then; what moves no key is not waited for."""
    base = unindexed(tmp_path / "t")
    folder = base / DATA_TIMELINE
    for name, holds_back in (
        ("compaction.requested", False),
        ("compaction.inflight", False),
        ("clustering.requested", False),
        ("clustering.inflight", True),
        ("commit.requested", True),
        ("replacecommit.requested", True),
        ("rollback.requested", True),
        ("clean.inflight", False),
    ):
        (folder / f"20991231235959999.{name}").write_bytes(b"x")
        assert (first_at_work(scan_timeline(base)) is not None) == holds_back, name
        (folder / f"20991231235959999.{name}").unlink()


def scan_timeline(base: Path) -> Any:
    from lakeward.table.timeline.timeline import load_timeline

    return load_timeline(LocalStorage(), str(base), config(base))


def test_a_key_twice(tmp_path: Path) -> None:
    """Keeps 2 of services/together/metadata_index/record_entries."""
    base = unindexed(tmp_path / "t")
    write(base, [("k1", 3, "b", "x")], "insert")
    with pytest.raises(Refused, match="The key 'k1' is in two file groups"):
        build(base)
    assert RECORD_INDEX not in config(base).metadata_partitions and metadata_leftovers(base) == []


def test_a_table_without_a_metadata_table(tmp_path: Path) -> None:
    base = copy_golden("v9", tmp_path / "t")
    with pytest.raises(Refused, match="has no metadata table"):
        build(base)


def test_a_dead_build(tmp_path: Path) -> None:
    """Keeps 2 of services/together/metadata_index/initial_build: what a process that died while it published left is
    rolled back, and what lies in the partition's place goes, by the next build."""
    base = unindexed(tmp_path / "t")
    storage = FaultyStorage()
    build(Path(shutil.copytree(base, tmp_path / "whole")), storage)
    moves = [n for n, call in enumerate(storage.calls) if call.startswith("move") and RECORD_INDEX in call]
    processes = ScriptedProcesses()
    with pytest.raises(Killed):
        build(base, FaultyStorage(Fault(FaultKind.KILL, moves[3])), processes)
    processes.kill_all()
    assert (base / METADATA / ".hoodie/timeline/00000000000000003.deltacommit.inflight").exists()
    assert build(base, processes=processes) is not None
    assert places(base) == truth(base) and metadata_leftovers(base) == []


def test_an_unnamed_partition_is_replaced(tmp_path: Path) -> None:
    """Keeps 3 of services/together/metadata_index/initial_build: what no property names is no index."""
    base = unindexed(tmp_path / "t")
    build(base)
    set_property(base, PARTITION_PROPERTY, ",".join(p for p in config(base).metadata_partitions if p != RECORD_INDEX))
    write(base, [("k8", 3, "a", "x")])
    built = build(base)
    assert built is not None and built.instant == "00000000000000004"
    assert places(base) == truth(base)


def test_a_file_that_reads_back_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps of services/together/metadata_index/group_files: nothing is published."""
    base = unindexed(tmp_path / "t")
    monkeypatch.setattr("lakeward.services.together.metadata_index.group_files.read_digest", lambda *of: -1)
    with pytest.raises(VerificationFailed, match="does not hold what was written"):
        build(base)
    assert RECORD_INDEX not in config(base).metadata_partitions and metadata_leftovers(base) == []
    assert build(base, verify=False) is not None


def test_differences_of_frames() -> None:
    """Keeps 3 of services/together/metadata_index/record_entries: sorted keys in frames, of which only those are held
    that overlap, and sets."""
    dice = random.Random(7)
    for _ in range(200):
        one, other = ({f"k{dice.randrange(60):02d}" for _ in range(dice.randrange(40))} for _ in range(2))
        found = [key for keys in minus(frames(one, dice), frames(other, dice)) for key in keys.to_pylist()]
        assert found == sorted(one - other)
    others = iter([pa.array([f"a{number}"]) for number in range(5)] + [pa.array(["x"]), pa.array(["z"])])
    assert [keys.to_pylist() for keys in minus(iter([pa.array(["b", "c", "x"])]), others)] == [["b", "c"]]
    assert next(others).to_pylist() == ["z"]


def frames(keys: set[str], dice: random.Random) -> Iterator[pa.StringArray]:
    rest = sorted(keys)
    while rest:
        size = dice.randrange(1, 6)
        yield pa.array(rest[:size], pa.string())
        rest = rest[size:]


@pytest.mark.parametrize(("keys", "groups"), [(0, 10), (111_848_100, 10), (400_000_000, 35), (10**12, 10_000)])
def test_file_groups(keys: int, groups: int) -> None:
    assert file_groups_for(keys) == groups


def test_snapshots_are_fresh(tmp_path: Path) -> None:
    """The last look at the table's rows is under the lock."""
    base = unindexed(tmp_path / "t")
    seen: list[TableSnapshot] = []

    class Looks(RecordEntries):
        def read(self, snapshot: TableSnapshot) -> None:
            seen.append(snapshot)
            super().read(snapshot)

    storage = LocalStorage()
    table = serviced_table(str(base), storage, ScriptedProcesses())
    build_partition(table, Looks(storage, work(base, storage)))
    assert len(seen) == 2 and seen[-1].timeline.instants == scan(base).timeline.instants
