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
from lakeward.format.metadata.key import secondary_index_key
from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS, RECORD_INDEX
from lakeward.format.metadata.record import BloomFilterRecord, MetadataRecord
from lakeward.index.build_state import metadata_build_folder
from lakeward.protocol.metadata.key_sorter import KeySorter
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.indexing.run.bucket_build import write_buckets
from lakeward.services.indexing.run.build_work import BuildWork
from lakeward.services.together.metadata_index.file_entries import BloomFilterEntries, ColumnStatsEntries, base_files
from lakeward.services.together.metadata_index.group_files import GroupFiles
from lakeward.services.together.metadata_index.initial_build import (
    BuiltPartition,
    PartitionEntries,
    build_partition,
    first_at_work,
)
from lakeward.services.together.metadata_index.key_entries import file_groups_for, minus
from lakeward.services.together.metadata_index.partition_entries import PartitionStatsEntries
from lakeward.services.together.metadata_index.record_entries import RecordEntries
from lakeward.services.together.metadata_index.secondary_entries import SecondaryEntries
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.new_table import COPY_ON_WRITE, NewIndexes
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
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
    base: Path,
    storage: Storage | None = None,
    processes: Processes | None = None,
    make: MakeEntries | None = None,
    *,
    again: bool = False,
    replaces: bool = False,
    **options: object,
) -> BuiltPartition | None:
    storage = storage or LocalStorage()
    table = serviced_table(str(base), storage, processes or ScriptedProcesses(), **options)
    return build_partition(table, (make or of_keys)(base, storage, table), again=again, replaces=replaces)


def index_of(base: Path) -> dict[str, MetadataRecord]:
    return dict(records(base)[RECORD_INDEX])


MakeEntries = Callable[[Path, Storage, ServicedTable], PartitionEntries]


def of_keys(base: Path, storage: Storage, table: ServicedTable) -> RecordEntries:
    return RecordEntries(storage, work(base, storage))


def of_filters(base: Path, storage: Storage, table: ServicedTable) -> BloomFilterEntries:
    return BloomFilterEntries(storage, guard=table.guard, on_unit=lambda done, of: None)


def of_columns(base: Path, storage: Storage, table: ServicedTable) -> ColumnStatsEntries:
    return ColumnStatsEntries(storage, guard=table.guard, on_unit=lambda done, of: None)


def of_partitions(base: Path, storage: Storage, table: ServicedTable) -> PartitionStatsEntries:
    return PartitionStatsEntries(storage, table.clock, guard=table.guard, on_unit=lambda done, of: None)


def build_between(
    base: Path, happens: Callable[[Clock], object], make: MakeEntries = of_keys, **options: object
) -> BuiltPartition | None:
    """What happens once the base files are written. The clock is the one by which the build waits, and skips."""
    storage = LocalStorage()
    table = serviced_table(str(base), storage, ScriptedProcesses(), **options)
    entries = make(base, storage, table)
    write_base = entries.write_base

    def write_and_let_happen(files: GroupFiles) -> None:
        write_base(files)
        happens(table.clock)

    entries.write_base = write_and_let_happen  # type: ignore[method-assign]
    return build_partition(table, entries)


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


@pytest.mark.parametrize("version", [8, 9, 10])
def test_what_is_written_meanwhile(version: int, tmp_path: Path) -> None:
    """Keeps 1 of services/together/metadata_index/key_entries: keys that came, went, and moved, while base files
    were written; and the next write finds the index and keeps it."""
    base = unindexed(tmp_path / "t", version=version)

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


OF_FILES = {BLOOM_FILTERS: of_filters, COLUMN_STATS: of_columns, PARTITION_STATS: of_partitions}


def indexed(path: Path) -> Path:
    """A table of base files whose metadata table has all that writers keep of files."""
    base = new_table(path, table_type=COPY_ON_WRITE, indexes=NewIndexes(bloom_filters=True))
    write(base, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k3", 1, "b", "x"), ("k4", 1, "c", "x")])
    write(base, [("k1", 2, "a", "later"), ("k5", 2, "b", "y")])
    return base


def test_what_writers_keep_of_files(tmp_path: Path) -> None:
    """Keeps 1 of services/together/metadata_index/unit_entries: filters, ranges of columns and of partitions are those
    that each commit would have brought, also of what is committed meanwhile."""
    base = indexed(tmp_path / "t")
    before = records(base)
    assert all(len(before[partition]) > 3 for partition in OF_FILES)
    definitions = json.loads((base / DEFINITIONS).read_bytes())
    for partition in OF_FILES:
        remove(base, partition)
    twin = Path(shutil.copytree(base, tmp_path / "twin"))
    (twin / DEFINITIONS).unlink()
    for partition, make in OF_FILES.items():
        built = build_between(base, lambda clock: None, make)
        assert built is not None and built.entries == len(before[partition]), partition
    assert records(base) == before

    def happens(clock: Clock) -> None:
        write(twin, [("k6", 3, "b", "z"), ("k7", 3, "d", "z")], clock=clock)
        write(twin, (), "delete_partition", partitions=["c"], clock=clock)

    for partition, make in OF_FILES.items():
        assert build_between(twin, happens if partition == COLUMN_STATS else lambda clock: None, make), partition
    assert json.loads((twin / DEFINITIONS).read_bytes()) == definitions
    clock = SkippingClock()
    clock.slept = 60.0
    write(base, [("k6", 3, "b", "z"), ("k7", 3, "d", "z")], clock=clock)
    write(base, (), "delete_partition", partitions=["c"], clock=clock)
    assert shape_of(twin) == shape_of(base)


def test_many_runs_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of services/together/metadata_index/unit_entries: what is sorted at once does not matter."""
    base = indexed(tmp_path / "t")
    before = records(base)[COLUMN_STATS]
    remove(base, PARTITION_STATS)
    remove(base, COLUMN_STATS)
    module = "lakeward.services.together.metadata_index.unit_entries"
    monkeypatch.setattr(f"{module}._KEYS_AT_ONCE", 3)
    monkeypatch.setattr(f"{module}.KeySorter", partial(KeySorter, run_bytes=1))
    assert build_between(base, lambda clock: None, of_columns) is not None
    assert records(base)[COLUMN_STATS] == before


def shape_of(base: Path) -> object:
    """What is said of live files and of partitions, but for their names and times."""
    found, live = records(base), {name for _, name in base_files(scan(base))} | set(truth(base).values())
    return {
        partition: sorted(
            (each.column, each.min_value, each.max_value, each.value_count)  # type: ignore[union-attr]
            for _, each in found[partition]
            if each.column != "_hoodie_commit_time" and each.file_name in live  # type: ignore[union-attr]
        )
        for partition in (COLUMN_STATS, PARTITION_STATS)
    }


@pytest.mark.parametrize("of", ["hudi", "us"])
def test_statistics_of_logs(of: str, tmp_path: Path) -> None:
    """Keeps 1 of services/together/metadata_index/file_entries: of the rows of each log that a query reads, as its
    writer said them; those of partitions come after those of files."""
    if of == "hudi":
        base = copy_golden(GOLDEN, tmp_path / "t")
    else:
        base = unindexed(tmp_path / "t")
        write(base, [("k1", 3, "a", None), ("k3", 3, "b", "longer")])
        write(base, [("k4", 1, "c", "earlier"), ("k9", 4, "c", "new")])
    before = {partition: dict(found) for partition, found in records(base).items()}
    if BLOOM_FILTERS in before:
        remove(base, BLOOM_FILTERS)
        build_between(base, lambda clock: None, of_filters)
        found = dict(records(base)[BLOOM_FILTERS])
        assert {key: filter_of(each) for key, each in found.items()} == {
            key: filter_of(before[BLOOM_FILTERS][key]) for key in found
        }
    for partition in (PARTITION_STATS, COLUMN_STATS):
        remove(base, partition)
    with pytest.raises(Refused, match="which the metadata table has not"):
        build_between(base, lambda clock: None, of_partitions)
    assert build_between(base, lambda clock: None, of_columns) and build_between(
        base, lambda clock: None, of_partitions
    )
    after = {partition: dict(found) for partition, found in records(base).items()}
    logs = [log.name.text for group in scan(base).file_groups for each in group.read_slices for log in each.row_logs]
    assert logs and {each.file_name for each in after[COLUMN_STATS].values()} >= {*logs}  # type: ignore[union-attr]
    assert repr(after[COLUMN_STATS]) == repr({key: before[COLUMN_STATS][key] for key in after[COLUMN_STATS]})
    assert repr(after[PARTITION_STATS]) == repr(before[PARTITION_STATS])


def filter_of(record: MetadataRecord) -> tuple[str, bytes, str]:
    assert isinstance(record, BloomFilterRecord)
    return record.type_code, record.bloom_filter, record.timestamp


def of_values(column: str = "v") -> MakeEntries:
    def make(base: Path, storage: Storage, table: ServicedTable) -> SecondaryEntries:
        return SecondaryEntries(storage, work(base, storage, column=column), "by_v", column)

    return make


def pairs(base: Path) -> set[str]:
    return {key for key, _ in records(base)["secondary_index_by_v"]}


def true_pairs(base: Path) -> set[str]:
    return {secondary_index_key(row["v"], row["id"]) for row in read_rows(base)}


def test_a_secondary_index(tmp_path: Path) -> None:
    """Each row's value with its key, also of what was written meanwhile; the next write keeps it."""
    base = unindexed(tmp_path / "t")
    write(base, [("k1", 3, "a", None), ("k3", 3, "b", "a$b\\c")])
    with pytest.raises(Refused, match="which the table has not"):
        build_between(base, lambda clock: None, of_values())
    build(base)
    clocks: list[Clock] = []

    def happens(clock: Clock) -> None:
        clocks.append(clock)
        write(base, [("k5", 3, "b", "y"), ("k3", 4, "b", "z"), ("k1", 4, "a", "x")], clock=clock)
        write(base, [("k4", 5, "c", None)], "delete", clock=clock)

    built = build_between(base, happens, of_values(), writers_stopped=False)
    assert built is not None and (built.entries, built.file_groups) == (3, 10)
    assert pairs(base) == true_pairs(base) == {"x$k1", "z$k3", "y$k5"}
    write(base, [("k5", 6, "b", "other")], clock=clocks[0])
    assert pairs(base) == true_pairs(base)
    definitions = json.loads((base / DEFINITIONS).read_bytes())["indexDefinitions"]
    assert definitions["secondary_index_by_v"]["sourceFields"] == ["v"]


def test_a_secondary_index_that_is_not_known(tmp_path: Path) -> None:
    """Keeps of services/together/metadata_index/secondary_entries: of columns of other types, or of another column than
    the table's definition says."""
    base = unindexed(tmp_path / "t")
    build(base)
    with pytest.raises(Refused, match="of the type None"):
        build_between(base, lambda clock: None, of_values("no_such"))
    build_between(base, lambda clock: None, of_values())
    remove(base, "secondary_index_by_v")
    with pytest.raises(Refused, match="The table defines it on v"):
        build_between(base, lambda clock: None, of_values("part"))
    assert build_between(base, lambda clock: None, of_values()) is not None


def test_logs_of_other_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of services/together/metadata_index/file_entries."""
    base = unindexed(tmp_path / "t")
    write(base, [("k1", 3, "a", "x")])
    for partition in (PARTITION_STATS, COLUMN_STATS):
        remove(base, partition)
    other = pa.schema([pa.field("ts", pa.int32())])
    monkeypatch.setattr("lakeward.services.together.metadata_index.file_entries.table_schema", lambda schema: other)
    with pytest.raises(Refused, match="The column ts is of another type in the log"):
        build_between(base, lambda clock: None, of_columns)
    assert COLUMN_STATS not in config(base).metadata_partitions and metadata_leftovers(base) == []


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


def test_a_write_that_begins_before_the_lock(tmp_path: Path) -> None:
    """Keeps 1 of services/together/metadata_index/initial_build: what was seen before the lock is asked again."""
    base = unindexed(tmp_path / "t")
    pending = base / DATA_TIMELINE / "20991231235959999.deltacommit.requested"
    looks: list[TableSnapshot] = []

    class Begins(RecordEntries):
        """Its first question comes once no write was seen."""

        def bytes_missing(self, snapshot: TableSnapshot) -> int:
            looks.append(snapshot)
            pending.touch()
            return super().bytes_missing(snapshot)

    storage = LocalStorage()
    table = serviced_table(str(base), storage, ScriptedProcesses(), writers_stopped=False)
    with pytest.raises(TryLater, match="deltacommit 20991231235959999"):
        build_partition(table, Begins(storage, work(base, storage)))
    assert len(looks) == 1 and RECORD_INDEX not in config(base).metadata_partitions


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
    """Keeps 2 of services/together/metadata_index/key_entries."""
    base = unindexed(tmp_path / "t")
    write(base, [("k1", 3, "b", "x")], "insert")
    with pytest.raises(Refused, match="The key 'k1' is in two file groups"):
        build(base)
    assert RECORD_INDEX not in config(base).metadata_partitions and metadata_leftovers(base) == []


def test_an_index_for_each_partition(tmp_path: Path) -> None:
    """Keeps of services/together/metadata_index/record_entries: neither replaced nor built by one over all partitions,
    and its definition stays."""
    base = unindexed(tmp_path / "t")
    build(base)
    partitioned = (base / DEFINITIONS).read_text().replace('"isPartitioned" : "false"', '"isPartitioned" : "true"')
    (base / DEFINITIONS).write_text(partitioned)
    before = index_of(base)
    with pytest.raises(Refused, match="one for each of its partitions"):
        build(base, replaces=True)
    with pytest.raises(Refused, match="Drop its record index for each partition"):
        build(base, make=of_values())
    assert index_of(base) == before
    remove(base, RECORD_INDEX)
    with pytest.raises(Refused, match="one for each of its partitions"):
        build(base)
    assert (base / DEFINITIONS).read_text() == partitioned and metadata_leftovers(base) == []


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
    built = build(base, again=True)
    assert built is not None and built.instant == "00000000000000004"
    assert places(base) == truth(base)


def make_wrong(base: Path) -> None:
    """The record index does not learn of a write."""
    write(base, [("k1", 3, "a", "x"), ("k8", 3, "a", "x")])
    for file in (base / METADATA / RECORD_INDEX).glob(".record-index-*_2*"):
        file.unlink()


def test_a_wrong_index_is_replaced(tmp_path: Path) -> None:
    """Keeps 3 of services/together/metadata_index/initial_build: what is there stays until the new one is there; then
    writers go on with that one. The record index is not replaced while another index needs it."""
    base = unindexed(tmp_path / "t")
    build(base)
    make_wrong(base)
    assert places(base) != truth(base)
    pending = base / DATA_TIMELINE / "20991231235959999.deltacommit.requested"
    pending.touch()
    with pytest.raises(TryLater, match="deltacommit 20991231235959999"):
        build(base, replaces=True)
    assert places(base) != truth(base) and RECORD_INDEX in config(base).built_metadata_partitions
    pending.unlink()
    built = build(base, replaces=True)
    assert built is not None and built.entries == len(truth(base))
    assert places(base) == truth(base) and metadata_leftovers(base) == []
    assert len(set(config(base).built_metadata_partitions)) == len(config(base).built_metadata_partitions)
    write(base, [("k9", 4, "b", "x")])
    assert places(base) == truth(base)
    before = records(base)[COLUMN_STATS]
    assert build(base, make=of_columns, replaces=True) is not None and records(base)[COLUMN_STATS] == before
    build(base, make=of_values())
    with pytest.raises(Refused, match="secondary_index_by_v: secondary indexes lead"):
        build(base, replaces=True)


def test_a_file_that_reads_back_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps of services/together/metadata_index/group_files: nothing is published."""
    base = unindexed(tmp_path / "t")
    monkeypatch.setattr("lakeward.format.metadata.base_file.read_digest", lambda *of: -1)
    with pytest.raises(VerificationFailed, match="does not hold what was written"):
        build(base)
    assert RECORD_INDEX not in config(base).metadata_partitions and metadata_leftovers(base) == []
    assert build(base, verify=False) is not None


def test_differences_of_frames() -> None:
    """Keeps 3 of services/together/metadata_index/key_entries: sorted keys in frames, of which only those are held
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
