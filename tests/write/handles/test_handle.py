"""Targets of each kind where files stand in their final place from the beginning, and in memory that is short."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, Unsupported
from lakeward.protocol.attempts.attempt_files import attempt_folder, temp_folder
from lakeward.protocol.attempts.heartbeat import Heartbeat
from lakeward.storage.local import LocalStorage
from lakeward.write.handles.handle import write_target
from lakeward.write.target import HandleKind, TargetResult, WriteContext, WriteTarget
from tests.memory_objects import MemoryObjects, Objects
from tests.object_lake import BASE
from tests.processes import ScriptedProcesses
from tests.write.handles.targets import INSTANT, PARTITION, Row, batches, context, target
from tests.write.handles.test_merge import onto

ROWS: list[Row] = [("k1", 6, "A"), ("k2", 7, "gone"), ("k4", 6, "d")]


@pytest.fixture
def objects() -> Objects:
    return Objects()


def of_store(
    store: MemoryObjects, folder: Path, *, is_alive: bool
) -> tuple[WriteContext, dict[HandleKind, WriteTarget]]:
    """A context of an attempt in the store, and a target of each kind."""
    owner = ScriptedProcesses().new_owner()
    if is_alive:
        Heartbeat(store, BASE, INSTANT, owner).start()
    merge = onto(folder, [("k1", 5, "a"), ("k2", 5, "b")])
    assert merge.slice is not None and merge.slice.base_file is not None
    store.create(f"{BASE}/{merge.slice.base_file}", (folder / "table" / merge.slice.base_file).read_bytes())
    of = context(
        folder,
        base_path=BASE,
        attempt=owner.attempt,
        attempt_folder=attempt_folder(BASE, INSTANT, owner.attempt),
        wants_keys=True,
    )
    targets = [
        target(HandleKind.CREATE),
        replace(merge, slice=replace(merge.slice, base_path=BASE)),
        target(HandleKind.APPEND),
    ]
    return of, {each.kind: each for each in targets}


@pytest.mark.parametrize("kind", HandleKind)
def test_in_an_object_store_files_stand_in_their_place(objects: Objects, tmp_path: Path, kind: HandleKind) -> None:
    """Each has a marker from before it; the keys and what says that the target is done lie in the attempt's folder,
    and nothing else is left anywhere."""
    store = MemoryObjects(objects)
    of, targets = of_store(store, tmp_path, is_alive=True)
    before = set(objects.data)
    result = write_target(store, of, targets[kind], batches(ROWS), 2)
    (file,) = result.files
    marker = "MERGE" if kind is HandleKind.MERGE else "CREATE"
    assert result.key_changes is not None
    written = sum(number or 0 for number in (file.stat.num_writes, file.stat.num_deletes))
    assert set(objects.data) - before == {
        f"{BASE}/{PARTITION}/{file.name}",
        f"{temp_folder(BASE, INSTANT)}/{PARTITION}/{file.name}.marker.{marker}",
        result.key_changes,
        f"{of.attempt_folder}/3-2.{written}-rows.done",
    }
    assert result.key_changes.startswith(of.attempt_folder)
    assert len(objects.data[f"{BASE}/{PARTITION}/{file.name}"][0]) == file.size_bytes


@pytest.mark.parametrize("kind", HandleKind)
def test_an_attempt_that_is_over_in_an_object_store(objects: Objects, tmp_path: Path, kind: HandleKind) -> None:
    """A task that wakes up too late writes nothing into the table."""
    store = MemoryObjects(objects)
    of, targets = of_store(store, tmp_path, is_alive=False)
    before = set(objects.data)
    with pytest.raises(AttemptLost):
        write_target(store, of, targets[kind], batches(ROWS), 2)
    assert {path for path in set(objects.data) - before if not path.startswith(of.attempt_folder)} == set()


@pytest.mark.parametrize("kind", HandleKind)
def test_memory_that_is_short(tmp_path: Path, kind: HandleKind) -> None:
    """A merge spills what does not fit, a log has smaller blocks, and they give as many rows."""
    rows: list[Row] = [(f"k{number:04}", number, "gone" if number % 5 == 0 else "x" * 40) for number in range(5_000)]

    def written(memory_bytes: int) -> TargetResult:
        folder = tmp_path / str(memory_bytes)
        to = target(kind)
        if kind is HandleKind.MERGE:
            to = onto(folder, [(f"k{number:04}", 1, "a") for number in range(0, 8_000, 7)])
        of = context(folder, memory_bytes=memory_bytes)
        return write_target(LocalStorage(), of, to, batches(rows), 2)

    (enough,), (short,) = written(2**30).files, written(2**22).files
    for name in ("num_writes", "num_deletes", "num_inserts", "num_update_writes"):
        assert getattr(enough.stat, name) == getattr(short.stat, name)


@pytest.mark.parametrize("kind", HandleKind)
def test_a_row_that_is_too_large_for_the_memory(tmp_path: Path, kind: HandleKind) -> None:
    """It is refused by its key, with how much memory it takes."""
    to = onto(tmp_path, [("k1", 1, "a")]) if kind is HandleKind.MERGE else target(kind)
    large: list[Row] = [("k2", 2, "x" * 5_000_000), ("k3", 2, "b")]
    expected = r"'k2' in the rows that are written is too large\..*Allow operations 301\.0 MiB"
    with pytest.raises(Unsupported, match=expected):
        write_target(LocalStorage(), context(tmp_path, memory_bytes=2**24), to, batches(large), 2)
