"""The keys of a file slice, left in the folder of a build: whole under their name, in order, and each once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import LakewardError, NotFound
from lakeward.engine.task import key_checkpoint
from lakeward.engine.task.key_checkpoint import make_checkpoint
from lakeward.engine.task.key_checkpoint_spec import CheckpointSpec
from lakeward.index.key_checkpoints import list_checkpoints, read_keys
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.runs.record_sorter import RecordSorter
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read.newest_slice import TableReading, newest_slice, table_reading
from lakeward.storage.local import LocalStorage
from lakeward.storage.metered import MeteredStorage
from lakeward.table.file_group import BaseFile, FileSlice
from tests.clocks import SettableClock
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.memory_objects import MemoryObjects, Objects
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()
NAME = "f-0_0-1-0_20261121050000000.parquet"
MEMORY = 512 * 1024 * 1024


def spec_of(folder: Path, keys: list[str]) -> CheckpointSpec:
    """A base file with these keys, to be read."""
    table = pa.table({"_hoodie_record_key": pa.array(keys, pa.string()), "v": [b"x" * 20] * len(keys)})
    pq.write_table(table, folder / NAME, row_group_size=1000)
    return spec_in(str(folder))


def spec_in(base_path: str, name: str = NAME) -> CheckpointSpec:
    """A base file there, to be read."""
    reading = TableReading(base_path, None, None, "", (), None)
    slice_ = FileSlice("", "f", "20261121050000000", BaseFile("f", "20261121050000000", name, "", 1, "0-1-0"), ())
    return CheckpointSpec(reading, slice_, f"{base_path}/building", "0" * 32, MEMORY)


def keys_in(spec: CheckpointSpec) -> list[str]:
    (made,) = list_checkpoints(STORAGE, spec.folder).values()
    return [key for batch in read_keys(STORAGE, spec.folder, made) for key in batch.to_pylist()]


@pytest.mark.parametrize("memory", [MEMORY, 1], ids=["in memory", "spilled"])
def test_in_order_and_once(memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are sorted by their bytes, and each is there once, however many runs they make. Keeps 2 of
    engine/task/key_checkpoint: the runs are of what logs would take, of which there are none."""
    shown: list[int] = []

    def watched(*given: Any, **words: Any) -> RecordSorter:
        shown.append(words["memory_bytes"])
        return RecordSorter(*given, **words | {"memory_bytes": words["memory_bytes"] if memory == MEMORY else 20_000})

    monkeypatch.setattr(key_checkpoint, "RecordSorter", watched)
    chance = random.Random(7)
    keys = [chance.choice(["", "é", "\U0001f600"]) + str(chance.randrange(3000)) for _ in range(5000)]
    made = make_checkpoint(STORAGE, spec_of(tmp_path, keys), 0)
    assert (made.digest, made.rows) == ("0" * 32, 5000)
    assert keys_in(spec_of(tmp_path, keys)) == sorted(set(keys), key=str.encode)
    assert shown == [MemoryBudget(MEMORY).runs]


def test_keys_of_a_slice(tmp_path: Path) -> None:
    """The keys are those of the rows that a query finds, with logs and deletes."""
    base = new_table(tmp_path / "t")
    write(base, [("k2", 1, "a", "x"), ("k1", 1, "a", "x"), ("k3", 1, "a", "x")])
    write(base, [("k4", 2, "a", "x")])
    write(base, [("k2", 2, "a", None)], "delete")
    snapshot = scan(base)
    (group,) = snapshot.file_groups
    slice_ = newest_slice(group.slices)
    assert slice_ is not None and slice_.log_files
    spec = CheckpointSpec(table_reading(snapshot, merges=True), slice_, str(tmp_path / "building"), "0" * 32, MEMORY)
    make_checkpoint(STORAGE, spec, 0)
    assert keys_in(spec) == ["k1", "k3", "k4"]


def test_a_file_that_is_not_in_the_order_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found by that order does not count."""

    def by_order_or_not(*_: object, by_order: bool, **__: object) -> Iterator[pa.Array]:
        yield pa.array(["wrong"] if by_order else ["b", "a"])
        if by_order:
            raise NotSorted("It is not sorted.")

    monkeypatch.setattr(key_checkpoint, "slice_keys", by_order_or_not)
    spec = spec_of(tmp_path, [])
    assert make_checkpoint(STORAGE, spec, 0).rows == 2
    assert keys_in(spec) == ["a", "b"]


@pytest.mark.parametrize("kind", [FaultKind.KILL, FaultKind.TORN, FaultKind.BEFORE, FaultKind.LOST_REPLY])
def test_whole_or_not_there(kind: FaultKind, tmp_path: Path) -> None:
    """Keeps 1 of engine/task/key_checkpoint: at whichever call the task is stopped, a checkpoint that has its name is
    whole, and a second attempt reads it; and one that was made meanwhile stays."""
    keys = [f"k{number}" for number in range(50)]
    for number in range(100):
        (tmp_path / str(number)).mkdir()
        spec = spec_of(tmp_path / str(number), keys)
        storage = FaultyStorage(Fault(kind, number))
        with suppress(Killed, OSError, LakewardError):
            make_checkpoint(storage, spec, 0)
        if list_checkpoints(STORAGE, spec.folder):
            assert keys_in(spec) == sorted(keys)
        make_checkpoint(STORAGE, spec, 1)
        assert keys_in(spec) == sorted(keys)
        if number >= len(storage.calls):
            break
    else:
        raise AssertionError("it was stopped at every call")
    made = Path(spec.folder, list_checkpoints(STORAGE, spec.folder)["0" * 32].name)
    made.write_bytes(b"another task's")
    make_checkpoint(STORAGE, spec, 2)
    assert made.read_bytes() == b"another task's"
    assert [path.name for path in Path(spec.folder).iterdir()] == [made.name]


@pytest.mark.parametrize("kind", [FaultKind.KILL, FaultKind.BEFORE, FaultKind.LOST_REPLY])
def test_in_an_object_store(kind: FaultKind, tmp_path: Path) -> None:
    """Keeps 1 of engine/task/key_checkpoint: there a file has its name from the beginning, and is there once it is
    whole."""
    spec_of(tmp_path, ["b", "a"])
    spec = spec_in("s3://lake/t")
    for number in range(9):
        objects = Objects()
        objects.put(f"s3://lake/t/{NAME}", (tmp_path / NAME).read_bytes())
        with suppress(Killed, OSError, LakewardError):
            make_checkpoint(MemoryObjects(objects, Fault(kind, number)), spec, 0)
        store = MemoryObjects(objects)
        for attempt in range(2):
            made = make_checkpoint(store, spec, attempt)
            assert [key for keys in read_keys(store, spec.folder, made) for key in keys.to_pylist()] == ["a", "b"]
        assert len(store.list(spec.folder)) == 1


def test_no_faster_than_shown(tmp_path: Path) -> None:
    """Keeps 3 of engine/task/key_checkpoint: by its clock the task takes as long as what it reads needs."""
    for rows in (20_000, 20):
        folder = tmp_path / str(rows)
        folder.mkdir()
        spec = spec_of(folder, [f"{number:040}" for number in range(rows)])
        clock = SettableClock()
        make_checkpoint(STORAGE, spec, 0, clock=clock)
        assert clock.time == 0.0
        meter = MeteredStorage(STORAGE)
        make_checkpoint(meter, replace(spec, folder=f"{folder}/limited", bytes_per_second=1000.0), 0, clock=clock)
        assert clock.time >= meter.bytes_read / 1000 > rows / 1000
    with pytest.raises(NotFound):
        make_checkpoint(STORAGE, spec_in(str(tmp_path), "none.parquet"), 0, clock=clock)
