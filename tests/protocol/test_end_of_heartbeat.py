"""Ending a heartbeat ends one's own, however long a process sleeps between looking at it and removing it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.attempts.heartbeat import Heartbeat, read_liveness
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.faults import FaultyStorage
from tests.memory_objects import MemoryObjects, Objects
from tests.processes import ScriptedProcesses

T = TypeVar("T")

INSTANT = "20261121043710038"


class SleepingStorage(FaultyStorage):
    """Something else happens right before the first call of that name."""

    def __init__(self, name: str, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._name = name
        self._meanwhile = meanwhile

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        if name == self._name:
            self._name = ""
            self._meanwhile()
        return super()._call(name, path, act, tear)


def names(base: Path) -> list[str]:
    return sorted(path.name for path in (base / ".hoodie/.heartbeat").iterdir())


@pytest.mark.parametrize("ends", ["its own", "a dead one"])
def test_who_took_over_meanwhile_keeps_its_heartbeat(tmp_path: Path, ends: str) -> None:
    """t0 A sees a heartbeat that is to go, and is stopped; t1 B takes over, and beats; t2 A wakes up. Keeps 2 of
    protocol/attempts/folder_fencing."""
    processes = ScriptedProcesses()
    a, b = processes.new_owner(), processes.new_owner()
    path = Path(heartbeat_path(str(tmp_path), INSTANT))
    first, second = (Heartbeat(LocalStorage(), str(tmp_path), INSTANT, owner) for owner in (a, b))
    first.start()

    def take_over() -> None:
        path.unlink()
        second.start()

    sleeping = SleepingStorage("rename", take_over)
    if ends == "its own":
        Heartbeat(sleeping, str(tmp_path), INSTANT, a).end()
    else:
        judged = read_liveness(LocalStorage(), str(tmp_path), INSTANT, clock=SkippingClock(), processes=processes)
        Heartbeat(sleeping, str(tmp_path), INSTANT, processes.new_owner()).end(judged.owner)
    assert second.is_own()
    assert names(tmp_path) == [INSTANT]
    second.end()
    assert names(tmp_path) == []


def test_a_heartbeat_whose_place_was_taken_while_it_was_judged_is_gone(tmp_path: Path) -> None:
    """B's heartbeat was renamed by mistake, and before that was reverted C saw none: B finds that it is lost."""
    processes = ScriptedProcesses()
    a, b, c = (processes.new_owner() for _ in range(3))
    path = Path(heartbeat_path(str(tmp_path), INSTANT))
    first, second, third = (Heartbeat(LocalStorage(), str(tmp_path), INSTANT, owner) for owner in (a, b, c))
    first.start()

    class SleepingTwice(SleepingStorage):
        def read(self, path: str) -> bytes:
            if not path.endswith(INSTANT):
                third.start()
            return super().read(path)

    def take_over() -> None:
        path.unlink()
        second.start()

    Heartbeat(SleepingTwice("rename", take_over), str(tmp_path), INSTANT, a).end()
    assert third.is_own() and not second.is_own()
    assert names(tmp_path) == [INSTANT]


@pytest.mark.parametrize("whose", ["the dead one's", "its remover's", "a successor's"])
def test_in_an_object_store_it_is_its_removers_own(whose: str) -> None:
    """A took a dead heartbeat over, and was stopped while it rolled back; B did so after it, and began again. What the
    dead one that stated its intent is not taken over, and goes with its heartbeat once it is rolled forward."""
    processes, base = ScriptedProcesses(), "s3://lake/t"
    dead, a, b = (processes.new_owner() for _ in range(3))
    objects = Objects()
    storage = MemoryObjects(objects)
    Heartbeat(storage, base, INSTANT, dead).start()
    judged = read_liveness(storage, base, INSTANT, clock=SkippingClock(), processes=processes)
    successor = Heartbeat(storage, base, INSTANT, b)
    if whose != "the dead one's":
        assert fencing_of(storage).fence_off(base, base, INSTANT, by=a)
    if overtaken := whose == "a successor's":
        assert fencing_of(storage).fence_off(base, base, INSTANT, by=b)
        storage.delete(heartbeat_path(base, INSTANT))
        successor.start()
    Heartbeat(storage, base, INSTANT, a).remove(judged.owner)
    assert successor.is_own() == overtaken
    assert len(objects.data) == (1 if overtaken else 0)
