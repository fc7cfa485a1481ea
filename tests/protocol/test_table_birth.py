"""A table is born whole or not at all, its metadata table too, and only where there is nothing."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError, Refused
from lakeward.protocol.table_birth import create_table
from lakeward.storage.local import TEMPORARY_SUFFIX, LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.new_table import NewIndex, NewIndexes, NewTable
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import load_timeline
from tests.clocks import SettableClock, SkippingClock
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.memory_objects import MemoryObjects, Objects
from tests.runs import spread

TABLE = NewTable(
    name="t",
    schema='{"type":"record","name":"t_record","fields":[{"name":"id","type":"string"}]}',
    record_key_fields=("id",),
)
PLAIN = replace(TABLE, has_metadata_table=False)
INDEXED = replace(TABLE, partition_fields=("id",), indexes=NewIndexes(NewIndex.METADATA, bloom_filters=True))
BORN, LATER = 1_700_000_000.0, 1_800_000_000.0


def make(storage: Storage, base: str | Path, table: NewTable = TABLE, *, at: float = BORN) -> None:
    create_table(storage, str(base), table, clock=SettableClock(at))


def files(storage: Storage, folder: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in storage.list(folder):
        found |= files(storage, entry.path) if entry.is_folder else {entry.path: storage.read(entry.path)}
    return found


def whole(storage: Storage, table: NewTable = TABLE) -> dict[str, bytes]:
    """The files of a table that was made without a fault, by their names below its folder."""
    make(storage, "/whole", table)
    return {path.removeprefix("/whole/"): content for path, content in files(storage, "/whole").items()}


WHOLE = whole(MemoryObjects(Objects()))


def state(storage: Storage, base: str) -> dict[str, bytes]:
    """What is there, but for what a dead process had begun to write."""
    found = files(storage, base).items()
    return {path.removeprefix(f"{base}/"): data for path, data in found if not path.endswith(TEMPORARY_SUFFIX)}


@pytest.mark.parametrize("table", [TABLE, PLAIN, INDEXED, replace(INDEXED, version=8), replace(INDEXED, version=10)])
def test_a_table_is_made_where_nothing_is(table: NewTable, tmp_path: Path) -> None:
    """Its metadata table is one that our own reader takes: whole, and without a file."""
    make(LocalStorage(), tmp_path / "t", table)
    base, clock, storage = str(tmp_path / "t"), SkippingClock(), LocalStorage()
    loaded = load_table_config(storage, base, clock=clock)
    assert loaded.checksum_ok and loaded.config.properties == table.properties
    assert (tmp_path / "t/.hoodie/timeline/history").is_dir()
    if table is PLAIN:
        assert [*state(storage, base)] == [".hoodie/hoodie.properties"]
        return
    found = load_metadata_table(storage, base, loaded.config, load_timeline(storage, base, loaded.config), clock=clock)
    groups = {partition: len(slices) for partition, slices in found.slices.items()}
    expected = {"files": 1, "column_stats": 2, "bloom_filters": 4, "record_index": 10, "partition_stats": 1}
    assert groups == {partition: expected[partition] for partition in loaded.config.built_metadata_partitions}
    assert all(f"0000000000000000{number}" in found.valid_instants for number in range(len(groups)))


@pytest.mark.parametrize(
    "there",
    [
        "rows.parquet",
        ".hoodie/hoodie.properties",
        ".hoodie/timeline/1.commit",
        "p/",
        ".hoodie/own/",
        ".hoodie/metadata/.hoodie/hoodie.properties",
        ".hoodie/metadata/files/.files-0000-0_00000000000000000.log.1_0-0-0",
        ".hoodie/metadata/files/own/",
        ".hoodie/hoodie.properties.backup",
    ],
)
def test_nothing_is_made_where_anything_is(there: str, tmp_path: Path) -> None:
    """What is there stays as it is. Keeps 1 of protocol/table_birth."""
    path = tmp_path / there
    (path if there.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
    if not there.endswith("/"):
        path.touch()
    before = sorted(tmp_path.rglob("*"))
    is_table = there == ".hoodie/hoodie.properties"
    with pytest.raises(Refused, match="There is a table already" if is_table else "No table can be created"):
        make(LocalStorage(), tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("inside", ["t", "p/q/t", ".hoodie/t", ".hoodie"])
def test_nothing_is_made_inside_of_a_table(inside: str) -> None:
    """However deep, in an object store, too; beside it a table is made. Keeps 1 of protocol/table_birth."""
    objects = Objects()
    make(MemoryObjects(objects), "s3://lake/orders")
    before = state(MemoryObjects(objects), "s3://lake/orders")
    with pytest.raises(Refused, match="That is inside of the table in s3://lake/orders\\. "):
        make(MemoryObjects(objects), f"s3://lake/orders/{inside}")
    assert state(MemoryObjects(objects), "s3://lake/orders") == before
    make(MemoryObjects(objects), "s3://lake/orders2")


@pytest.mark.parametrize("kind", FaultKind)
def test_at_every_call_it_is_there_whole_or_not_at_all(kind: FaultKind, tmp_path: Path) -> None:
    """The next process goes on with the same files, whenever it comes, or reports that there is a table. A process that
    lost the reply of a create reads the file, and goes on itself. Keeps 2 of protocol/table_birth."""
    trial = FaultyStorage()
    make(trial, tmp_path / "trial")
    assert len(trial.calls) > 30
    storage, expected = LocalStorage(), state(LocalStorage(), str(tmp_path / "trial"))
    for fault in spread(faults_of(kind, trial.calls)):
        base = str(tmp_path / str(fault.call))
        is_read = kind is FaultKind.LOST_REPLY and trial.calls[fault.call].startswith("create ")
        with nullcontext() if is_read else suppress(Killed, OSError):
            make(FaultyStorage(fault), base)
        left = state(storage, base)
        assert not is_read or left == expected
        is_there = ".hoodie/hoodie.properties" in left
        assert left.items() <= expected.items() and (not is_there or left == expected)
        is_claimed = ".hoodie/metadata/.hoodie/hoodie.properties" in left
        with pytest.raises(Refused) if is_there else nullcontext():
            make(storage, base, at=LATER if is_claimed else BORN)
        assert state(storage, base) == expected
        assert is_there or not [path for path in files(storage, base) if path.endswith(TEMPORARY_SUFFIX)]


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.LOST_REPLY, FaultKind.KILL])
def test_in_an_object_store_too(kind: FaultKind) -> None:
    """At every write, with all indexes; a writer that finds the reply lost looks. Keeps 2 of protocol/table_birth."""
    expected, trial = whole(MemoryObjects(Objects()), INDEXED), MemoryObjects(Objects())
    make(trial, "s3://lake/t", INDEXED)
    for call in range(len(trial.writes)):
        objects = Objects()
        storage = MemoryObjects(objects)
        with suppress(Killed, OSError, LakewardError):
            make(MemoryObjects(objects, Fault(kind, call)), "s3://lake/t", INDEXED)
        left = state(storage, "s3://lake/t")
        is_there = ".hoodie/hoodie.properties" in left
        assert left.items() <= expected.items() and (not is_there or left == expected)
        with pytest.raises(Refused) if is_there else nullcontext():
            make(storage, "s3://lake/t", INDEXED, at=LATER if left else BORN)
        assert state(storage, "s3://lake/t") == expected


@pytest.mark.parametrize("other", [replace(TABLE, name="u"), PLAIN, INDEXED, replace(TABLE, version=8)])
def test_parts_of_two_tables_are_not_mixed(other: NewTable) -> None:
    """What was begun is ended with the same words, or by hand. Keeps 1 of protocol/table_birth."""
    objects = Objects()
    with suppress(Killed):
        make(MemoryObjects(objects, Fault(FaultKind.KILL, 3)), "/t")
    left = state(MemoryObjects(objects), "/t")
    assert left.items() < WHOLE.items()
    with pytest.raises(Refused, match="another table, of another name, columns or options, began here"):
        make(MemoryObjects(objects), "/t", other)
    assert state(MemoryObjects(objects), "/t") == left
    make(MemoryObjects(objects), "/t", at=LATER)
    assert state(MemoryObjects(objects), "/t") == WHOLE


@pytest.mark.parametrize("written", [name for name in WHOLE if name.rpartition("/")[2] == "hoodie.properties"])
def test_of_two_at_once_one_makes_it(written: str) -> None:
    """The other one is refused, whether it was the first or the last file that it came too late for."""
    objects = Objects()

    class Late(MemoryObjects):
        def create(self, path: str, data: bytes) -> None:
            if path == f"/t/{written}":
                objects.put(path, b"of another\n")
            super().create(path, data)

    with pytest.raises(Refused, match="Another process created one"):
        make(Late(objects), "/t")
    assert objects.data[f"/t/{written}"][0] == b"of another\n"


def test_of_two_with_the_same_words_both_write_the_same() -> None:
    """A process that lives meets one that takes it for dead: one of them makes the last file."""
    objects = Objects()
    first, second = MemoryObjects(objects), MemoryObjects(objects)

    def overtaken(write: str) -> None:
        if write.endswith("index.json"):
            first.before = lambda write: None
            make(second, "/t", at=LATER)

    first.before = overtaken
    with pytest.raises(Refused, match="Another process created one"):
        make(first, "/t")
    assert state(MemoryObjects(objects), "/t") == WHOLE
