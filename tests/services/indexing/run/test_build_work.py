"""What a build reads, what of it is there already, and what its tasks are given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import NotFound, TryLater
from lakeward.engine.dispatch.dispatcher import Done, Progress
from lakeward.engine.task.key_checkpoint import make_checkpoint
from lakeward.engine.task.key_checkpoint_spec import CheckpointSpec
from lakeward.index.build_state import BuildState
from lakeward.index.key_checkpoints import KeyCheckpoint
from lakeward.protocol.progress import Engine
from lakeward.services.indexing.run.build_work import build_state, make_missing, remove_checkpoints
from lakeward.services.indexing.run.index_build import build_index
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SettableClock
from tests.index.builds import build_folder, in_process
from tests.index.external.memory_entries import MemoryEntries
from tests.our_reader import scan
from tests.write.own_index import opener
from tests.write.writing import new_table, write

STORAGE = LocalStorage()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A table of three file groups."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "a", "x"), ("k2", 1, "b", "x"), ("k3", 1, "c", "x")])
    return base


def state_now(base: Path, snapshot: TableSnapshot | None = None) -> BuildState:
    return build_state(STORAGE, snapshot or scan(base), str(build_folder(base)))


def read_by(base: Path, **words: object) -> list[str]:
    """The partitions of which keys are read when all that is missing is made."""
    read: list[str] = []

    def make(spec: CheckpointSpec, attempt: int) -> KeyCheckpoint:
        read.append(spec.slice_.partition_path)
        return make_checkpoint(STORAGE, spec, attempt)

    work = in_process(base, **words)
    work = replace(work, run_task=make)
    snapshot = scan(base)
    assert not make_missing(STORAGE, snapshot, state_now(base, snapshot), work).missing
    return sorted(read)


def test_what_is_there_is_not_read_again(base: Path) -> None:
    """Keeps 1 of services/indexing/run/build_work: of a later snapshot the file groups are read that were written
    since, or are new, and of those that went nothing counts."""
    assert read_by(base) == ["a", "b", "c"] and read_by(base) == []
    bytes_before = state_now(base).bytes
    write(base, [("k2", 2, "b", "y"), ("k4", 2, "d", "x")])
    write(base, (), "delete_partition", partitions=["c"])
    state = state_now(base)
    assert (len(state.slices), len(state.made), len(state.missing)) == (3, 1, 2)
    assert state.bytes > state.bytes_missing > 0 and state.bytes != bytes_before
    assert read_by(base) == ["b", "d"] and read_by(base) == []
    (build_folder(base) / next(iter(state.made.values())).name).unlink()
    assert read_by(base) == ["a"]
    remove_checkpoints(STORAGE, str(build_folder(base)))
    assert read_by(base) == ["a", "b", "d"]


class Reported:
    """A dispatcher that says that it does two tasks at once, and does none."""

    engine, name, is_ready, is_on_this_machine, parallelism = Engine.LOCAL, "none", True, False, 2

    def __init__(self) -> None:
        self.specs: list[CheckpointSpec] = []

    def run(self, task, specs, *, description, on_progress):
        self.specs = list(specs)
        on_progress(Progress(len(specs), len(specs)))
        return [Done(number, None) for number in range(len(specs))]

    def probe(self, guard) -> None:
        guard()


def test_the_rate_is_shared(base: Path) -> None:
    """Keeps 2 of services/indexing/run/build_work: tasks that run at the same time have a part of the rate each; and
    where checkpoints are gone that tasks made, that is no complete build."""
    shown = Reported()
    asked: list[int] = []

    def choose(size: int) -> Reported:
        asked.append(size)
        return shown

    snapshot = scan(base)
    state = state_now(base, snapshot)
    work = replace(in_process(base), choose_dispatcher=choose, memory_bytes=5, bytes_per_second=100)
    with pytest.raises(NotFound, match="Checkpoints of the build are gone"):
        make_missing(STORAGE, snapshot, state, work)
    assert asked == [state.bytes] and len(shown.specs) == 3
    assert {(spec.bytes_per_second, spec.memory_bytes) for spec in shown.specs} == {(50, 5)}
    with pytest.raises(TryLater, match="files go while they are read"):
        build_index(STORAGE, opener(MemoryEntries(is_global=True)), lambda: scan(base), work)


def test_what_is_shown_meanwhile(base: Path) -> None:
    """How far it is is reported when it begins, now and then, and at the end."""
    shown: list[int] = []
    clock = SettableClock()

    def on_state(state: BuildState) -> None:
        shown.append(len(state.made))
        clock.time += 6.0

    def on_group(done: int, of: int) -> None:
        assert of == 3
        clock.time += 6.0

    read: list[int] = []
    work = in_process(base, on_state=on_state, on_group=on_group, on_read=read.append, clock=clock)
    snapshot = scan(base)
    make_missing(STORAGE, snapshot, state_now(base, snapshot), work)
    assert shown == [0, 1, 2, 3, 3]
    assert read[0] == 0 and read == sorted(read)
    assert read[-1] == sum(slice_.base_bytes + slice_.log_bytes for slice_ in snapshot.latest_slices)
    make_missing(STORAGE, snapshot, state_now(base, snapshot), work)
    assert shown == [0, 1, 2, 3, 3, 3]
    assert isinstance(in_process(base).clock, SystemClock)
