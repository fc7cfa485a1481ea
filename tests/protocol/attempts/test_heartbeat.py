"""The liveness of an attempt."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakeward.base.errors import AlreadyExists, AttemptLost
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.attempts.heartbeat import (
    EXPIRY_SECONDS,
    INTERVAL_SECONDS,
    WATCH_FOREIGN_SECONDS,
    WATCH_SECONDS,
    WATCH_SECONDS_MAX,
    Heartbeat,
    Life,
    find_intent,
    read_liveness,
    watch,
)
from lakeward.protocol.attempts.heartbeat_line import CommitIntent, heartbeat_path, is_at_work
from lakeward.protocol.creation import read_if_there
from lakeward.protocol.owner import Owner
from lakeward.protocol.times.stillness import Stillness
from lakeward.storage.local import LocalStorage
from tests.clocks import SettableClock, SkippingClock
from tests.memory_objects import MemoryObjects, Objects
from tests.processes import ScriptedProcesses

INSTANT = "20261121043710038"


def see(base: Path, processes: ScriptedProcesses, clock: SkippingClock | None = None) -> Life:
    return read_liveness(LocalStorage(), str(base), INSTANT, clock=clock or SkippingClock(), processes=processes).life


def test_the_life_of_a_heartbeat(tmp_path: Path) -> None:
    """Absent, alive while it beats, expired after Hudi's two intervals and a look that lasts longer than one of
    Lakeward's, dead at once with its process."""
    processes, clock = ScriptedProcesses(), SkippingClock()
    assert see(tmp_path, processes) is Life.ABSENT
    beat = Heartbeat(LocalStorage(), str(tmp_path), INSTANT, processes.new_owner())
    beat.start()
    assert see(tmp_path, processes) is Life.ALIVE
    old = time.time() - EXPIRY_SECONDS - 1
    os.utime(heartbeat_path(str(tmp_path), INSTANT), (old, old))
    assert see(tmp_path, processes, clock) is Life.ALIVE
    clock.sleep(WATCH_SECONDS)
    assert see(tmp_path, processes, clock) is Life.EXPIRED
    beat.beat()
    assert see(tmp_path, processes) is Life.ALIVE
    processes.kill_all()
    assert see(tmp_path, processes) is Life.PROVABLY_DEAD
    beat.end()
    assert see(tmp_path, processes) is Life.ABSENT


def test_hudis_empty_heartbeat_counts_by_its_age(tmp_path: Path) -> None:
    """A foreign heartbeat names no process, so only its age says so."""
    path = Path(heartbeat_path(str(tmp_path), INSTANT))
    path.parent.mkdir(parents=True)
    path.touch()
    processes = ScriptedProcesses()
    processes.kill_all()
    assert see(tmp_path, processes) is Life.ALIVE


class Steps:
    """A machine whose wall clock is set, and who beats there; files carry that clock's time."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.clock = SettableClock(time.time())
        self.processes = ScriptedProcesses()
        self.path = Path(heartbeat_path(str(base), INSTANT))
        self.path.parent.mkdir(parents=True)
        self.shown: list[str] = []

    def beat(self) -> None:
        self.path.touch()
        os.utime(self.path, (self.clock.now(),) * 2)

    def life(self) -> Life:
        return read_liveness(LocalStorage(), str(self.base), INSTANT, clock=self.clock, processes=self.processes).life

    def watch(self, *, beat_each: float | None) -> float:
        """For how long it is watched."""
        started = self.clock.monotonic()
        beat_at = started + (beat_each or 0.0)

        def on_wait(what: str, seconds: float) -> None:
            nonlocal beat_at
            self.shown.append(what)
            if beat_each is not None and self.clock.monotonic() >= beat_at:
                self.beat()
                beat_at += beat_each

        watch(LocalStorage(), str(self.base), [INSTANT], clock=self.clock, processes=self.processes, on_wait=on_wait)
        return self.clock.monotonic() - started


@pytest.mark.parametrize("step", [1.0, -1.0, 600.0, -600.0])
@pytest.mark.parametrize(("own", "interval"), [(True, INTERVAL_SECONDS), (False, 60.0)])
def test_setting_the_clock_ends_no_heartbeat(tmp_path: Path, step: float, own: bool, interval: float) -> None:
    """Lakeward's and Hudi's are watched for longer than an interval: the next beat is made by the same clock. So it is
    when the machine wakes up. Keeps 3 of protocol/attempts/heartbeat."""
    steps = Steps(tmp_path)
    steps.beat()
    if own:
        steps.path.write_bytes(steps.processes.new_owner().to_line())
        steps.beat()
    assert steps.life() is Life.ALIVE
    steps.clock.step(step)
    assert steps.life() is Life.ALIVE
    steps.watch(beat_each=interval - 1)
    assert steps.life() is Life.ALIVE


@pytest.mark.parametrize(("own", "seconds"), [(True, WATCH_SECONDS), (False, WATCH_FOREIGN_SECONDS)])
def test_the_dead_are_watched_for_an_interval(tmp_path: Path, own: bool, seconds: float) -> None:
    """A process watches once, with a word about it; one that watched it already, or meets one that is not too old,
    waits for nothing."""
    steps = Steps(tmp_path)
    steps.path.write_bytes(steps.processes.new_owner().to_line() if own else b"")
    steps.beat()
    assert steps.watch(beat_each=None) == 0.0
    steps.clock.sleep(EXPIRY_SECONDS + 1)
    assert steps.watch(beat_each=None) == 0.0 and steps.life() is Life.EXPIRED
    steps.processes.stillness = Stillness()
    assert steps.life() is Life.ALIVE and not steps.shown
    assert steps.watch(beat_each=None) == pytest.approx(seconds)
    assert "too old" in steps.shown[0]
    assert steps.life() is Life.EXPIRED


def test_who_beats_by_a_clock_that_runs_behind_is_never_dead(tmp_path: Path) -> None:
    """Its beats are old when they are made; watching it ends all the same."""
    steps = Steps(tmp_path)
    steps.clock.step(-600.0)
    steps.beat()
    steps.clock.step(600.0)
    beats = iter(range(1000))

    def beat() -> None:
        old = steps.clock.now() - 600.0 + next(beats) / 1000
        os.utime(steps.path, (old, old))

    steps.beat = beat  # type: ignore[method-assign]
    assert steps.watch(beat_each=20.0) >= WATCH_SECONDS_MAX
    assert steps.life() is Life.ALIVE


def test_of_two_starters_one_wins_and_the_loser_touches_nothing(tmp_path: Path) -> None:
    """The second start fails; beating or stopping the loser leaves the winner's heartbeat as it is. Keeps 1 of
    protocol/attempts/heartbeat."""
    processes = ScriptedProcesses()
    winner = Heartbeat(LocalStorage(), str(tmp_path), INSTANT, processes.new_owner())
    loser = Heartbeat(LocalStorage(), str(tmp_path), INSTANT, processes.new_owner())
    winner.start()
    with pytest.raises(AlreadyExists):
        loser.start()
    loser.beat()
    loser.end()
    assert winner.is_own()
    assert not loser.is_own()


# ---------------------------------------------------------------------------------------------- in an object store

BASE = "s3://lake/orders"


def in_store(store: MemoryObjects, owner: Owner) -> Heartbeat:
    return Heartbeat(store, BASE, INSTANT, owner)


def fence_off(store: MemoryObjects, by: Owner) -> bool:
    return fencing_of(store).fence_off(BASE, BASE, INSTANT, by=by)


def test_a_beat_in_an_object_store_is_a_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is replaced by itself, which makes it young again; never another attempt's. Keeps 2 of
    protocol/attempts/heartbeat."""
    store, processes = MemoryObjects(Objects()), ScriptedProcesses()
    own, hudis = (in_store(store, processes.new_owner()) for _ in range(2))
    monkeypatch.setattr("tests.memory_objects.time.time", lambda: 1000.0)
    own.start()
    monkeypatch.setattr("tests.memory_objects.time.time", lambda: 1020.0)
    hudis.beat()
    status = store.stat(heartbeat_path(BASE, INSTANT))
    assert status is not None and status.modified == 1000.0
    own.beat()
    status = store.stat(heartbeat_path(BASE, INSTANT))
    assert status is not None and status.modified == 1020.0
    assert own.is_own() and not hudis.is_own()
    hudis.remove()
    own.remove()
    own.beat()
    assert store.stat(heartbeat_path(BASE, INSTANT)) is None


def test_of_stating_an_intent_and_fencing_off_one_succeeds() -> None:
    """What was stated stays; an attempt that was fenced off states nothing. Either can be done twice. Keeps 1 of
    protocol/attempts/fencing."""
    store, processes = MemoryObjects(Objects()), ScriptedProcesses()
    publisher, roller = processes.new_owner(), processes.new_owner()
    own = in_store(store, publisher)
    own.start()
    own.state_intent("1_2.commit")
    own.state_intent("1_2.commit")
    own.beat()
    assert own.is_own()
    assert not fence_off(store, roller)
    assert find_intent(store, BASE, INSTANT) == CommitIntent(publisher.attempt, "1_2.commit")
    own.remove()

    assert fence_off(store, roller)
    with pytest.raises(AttemptLost):
        own.state_intent("1_2.commit")
    own.start()
    assert fence_off(store, roller)
    assert fence_off(store, roller)
    with pytest.raises(AttemptLost):
        own.state_intent("1_2.commit")
    assert not own.is_own() and find_intent(store, BASE, INSTANT) is None
    liveness = read_liveness(store, BASE, INSTANT, clock=SkippingClock(), processes=processes)
    assert (liveness.life, liveness.owner) == (
        Life.ALIVE,
        roller,
    )
    in_store(store, roller).end()
    assert read_liveness(store, BASE, INSTANT, clock=SkippingClock(), processes=processes).life is Life.ABSENT


def test_both_completed_files_are_in_one_intent() -> None:
    """A table with a metadata table has two; a line that names something else than files states no intent. Keeps of
    protocol/attempts/heartbeat_line."""
    store, owner = MemoryObjects(Objects()), ScriptedProcesses().new_owner()
    own = in_store(store, owner)
    own.start()
    own.state_intent("1_3.commit", metadata="1_2.deltacommit")
    assert find_intent(store, BASE, INSTANT) == CommitIntent(owner.attempt, "1_3.commit", "1_2.deltacommit")
    assert len([write for write in store.writes if write.startswith("replace")]) == 1
    line, version = store.read_version(heartbeat_path(BASE, INSTANT))
    store.replace(heartbeat_path(BASE, INSTANT), line.replace(b'"1_2.deltacommit"', b"7"), expected=version)
    assert find_intent(store, BASE, INSTANT) is None


@pytest.mark.parametrize("states", [True, False])
def test_a_beat_between_read_and_write_is_no_obstacle(states: bool) -> None:
    """It changes the version and nothing else, so the process that met it reads again."""
    objects, processes = Objects(), ScriptedProcesses()
    owner = processes.new_owner()
    own, store = in_store(MemoryObjects(objects), owner), MemoryObjects(objects)
    own.start()
    beats = iter([own.beat, own.beat])
    store.before = lambda write: next(beats, lambda: None)()
    if states:
        in_store(store, owner).state_intent("1_2.commit")
    else:
        assert fence_off(store, processes.new_owner())
    assert len(store.writes) == 3
    assert (find_intent(store, BASE, INSTANT) is not None) == states


def test_tasks_work_for_an_attempt_that_is_alive() -> None:
    """No task works for one that is fenced off, over, gone, another, or publishing without it."""
    store, processes = MemoryObjects(Objects()), ScriptedProcesses()
    owner = processes.new_owner()
    own = in_store(store, owner)

    def check(attempt: int = owner.attempt) -> bool:
        return is_at_work(read_if_there(store, heartbeat_path(BASE, INSTANT)) or b"", attempt)

    assert not check()
    own.start()
    assert check() and not check(owner.attempt + 1)
    own.beat()
    assert check()
    own.state_intent("1_2.commit")
    assert not check()
    own.end()
    assert not check()
    own.remove()
    own.start()
    fence_off(store, owner)
    assert not check()
    own.remove()
    store.create(heartbeat_path(BASE, INSTANT), b"")
    assert not check()


def test_in_an_object_store_a_heartbeat_is_handed_on() -> None:
    """An attempt that ended leaves its heartbeat to the next one, of two starters to one; no late request deletes
    it meanwhile, because none is made."""
    store, processes = MemoryObjects(Objects()), ScriptedProcesses()
    first, second, third = (in_store(store, processes.new_owner()) for _ in range(3))
    first.start()
    first.end()
    first.end()
    assert read_liveness(store, BASE, INSTANT, clock=SkippingClock(), processes=processes).life is Life.ABSENT
    second.start()
    with pytest.raises(AlreadyExists):
        third.start()
    first.end()
    assert second.is_own()
    assert not [write for write in store.writes if write.startswith("delete")]


def test_of_two_that_take_an_ended_heartbeat_one_wins() -> None:
    """Both have read that it ended."""
    objects, processes = Objects(), ScriptedProcesses()
    ended, faster = (in_store(MemoryObjects(objects), processes.new_owner()) for _ in range(2))
    ended.start()
    ended.end()
    store = MemoryObjects(objects)
    meanwhile = iter([faster.start])
    store.before = lambda write: next(meanwhile, lambda: None)() if write.startswith("replace") else None
    slower = in_store(store, processes.new_owner())
    with pytest.raises(AlreadyExists):
        slower.start()
    assert faster.is_own() and not slower.is_own()
