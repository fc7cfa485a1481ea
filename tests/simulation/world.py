"""One thread of fate: a clock that only the simulation moves, a seeded random, processes, and actors that take turns.

An actor is a thread that runs only while it holds the turn; it gives the turn back when it sleeps, when its process is
paused, and, as the seed wants it, in front of any storage call. So two daemons and their writers interleave at every
call that touches a table, and the same seed interleaves them the same way.

    ready actors, due timers --the seed picks one--> it runs until it yields --> the world is looked at --> again
    no actor is ready --> the clock jumps to the first who will be

Keeps:   1. no actor runs without the turn, so nothing needs a lock and a seed is a whole run;
         2. a paused process runs nothing, its timers included; a dead one does nothing any more;
         3. time passes only in calls (a little) and while everybody sleeps;
         4. wall clocks can be set, all together, and a host can sleep: its processes do nothing, and their monotonic
            clocks stand.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from types import TracebackType
from typing import Any
from unittest.mock import patch

from lakeward.base.errors import LakewardError
from lakeward.format.avro.container import read_record
from lakeward.format.timeline.commit_metadata import CommitMetadata, read_commit_metadata
from lakeward.format.timeline.instant import parse_instant
from lakeward.protocol.owner import MAX_ATTEMPT, Owner, Processes
from tests.faults import Killed

START = 1_767_225_600.0  # 2026-01-01, UTC
CALL_SECONDS = 0.001
EXCITED_SECONDS = 0.1
SLEEPS_SECONDS = (5.0, 130.0, 600.0)
STEPS_SECONDS = (1.0, -1.0, 600.0)
"""Steps by which clocks are set; back by no more than writers wait for, who would spin for as long."""
STEPS_MAX = 200_000


class Violation(AssertionError):
    """The service broke a rule; the seed is in the message."""


@dataclass(eq=False)
class Process:
    """What can be paused and killed."""

    name: str
    host: str
    pid: int
    started: float
    skew: float = 0.0
    """How far its wall clock is ahead, in seconds."""
    dead: bool = False
    paused_until: float = 0.0
    may_wake_at: float = 0.0
    """No other process ends its pause before."""
    woke_at: float = 0.0
    holds_lock: bool = False
    """It thinks so."""
    suspended: float = 0.0
    """For how long its host has slept since it began."""


@dataclass(eq=False)
class Actor:
    name: str
    process: Process
    body: Callable[[], None]
    wake: float = 0.0
    done: bool = False
    error: BaseException | None = None
    go: threading.Lock = field(default_factory=threading.Lock)


@dataclass(eq=False)
class Timer:
    process: Process
    interval: float
    due: float
    act: Callable[[], None]


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.time = START
        self.stepped = 0.0
        """How far wall clocks were set forward."""
        self.clocks_are_set = False
        """At some time in this run."""
        self.asleep_until = 0.0
        """Some host is."""
        self.switching = 0.0
        """How likely the turn goes on in front of a storage call."""
        self.trace: list[str] = []
        self.violation: str | None = None
        self.processes: dict[int, Process] = {}
        self.ended = False
        self.after_turn: Callable[[], None] = lambda: None
        """What else must be true whenever an actor gave the turn back."""
        self.acting: Process | None = None
        """Whose call changes the storage just now."""
        self.actors: list[Actor] = []
        """The ones that are not done."""
        self._timers: list[Timer] = []
        self._current: Actor | None = None
        self._excited_until = 0.0
        self._back = threading.Lock()
        self._back.acquire()

    @property
    def wall(self) -> float:
        """What a wall clock shows."""
        return self.time + self.stepped

    # ------------------------------------------------------------------------------------- who there is

    def new_process(self, name: str, host: str) -> Process:
        pid = len(self.processes) + 1
        skew = self.random.uniform(-0.09, 0.09)  # any two clocks are within what Hudi allows
        process = Process(f"{name}#{pid}", host, pid, self.time, skew)
        self.processes[pid] = process
        return process

    def spawn(self, name: str, process: Process, body: Callable[[], None], *, after: float = 0.0) -> Actor:
        actor = Actor(name, process, body, wake=self.time + after)
        actor.go.acquire()
        self.actors.append(actor)
        threading.Thread(target=self._live, args=(actor,), name=name, daemon=True).start()
        return actor

    def every(self, process: Process, interval: float, act: Callable[[], None]) -> Timer:
        timer = Timer(process, interval, self.time + interval, act)
        self._timers.append(timer)
        return timer

    def cancel(self, timer: Timer) -> None:
        self._timers.remove(timer)

    def kill(self, process: Process) -> None:
        self.say(process, "dies")
        process.dead = True
        self._timers = [timer for timer in self._timers if timer.process is not process]

    @property
    def current(self) -> Actor | None:
        """Who has the turn; None for the world itself."""
        return self._current

    # -------------------------------------------------------------------------------------- what is reported

    def say(self, who: Process | str, what: str) -> None:
        name = who if isinstance(who, str) else who.name
        self.trace.append(f"{self.time - START:10.3f} {name:<14} {what}")

    def broken(self, rule: str) -> None:
        """Notes that a rule was broken; the run ends at the next turn, whatever code catches exceptions."""
        if self.violation is None:
            self.violation = rule
            self.say("*** world", rule)

    # -------------------------------------------------------------------------------------- taking turns

    def call(self, process: Process) -> None:
        """In front of each call that touches something shared: a little time passes, and perhaps others run."""
        if process.dead:
            raise Killed(process.name)
        self.time += CALL_SECONDS
        switching = 0.5 if self.time < self._excited_until else self.switching
        if process.paused_until > self.time or (switching and self.random.random() < switching):
            self.yield_until(self.time)
            if process.dead:
                raise Killed(process.name)

    def pause(self, process: Process, seconds: tuple[float, float]) -> None:
        """The process stops where it is, at least and at most for so long."""
        process.may_wake_at = self.time + seconds[0]
        process.paused_until = self.time + self.random.uniform(*seconds)
        self.yield_until(self.time)
        process.woke_at = self.time
        if process.dead:
            raise Killed(process.name)

    def step(self, seconds: float) -> None:
        """Wall clocks are set, all of them."""
        self.stepped += seconds
        self.say("*** world", f"clocks are set by {seconds:+.0f} s")

    def suspend(self, host: str, seconds: float) -> None:
        """A host sleeps: what would have happened there happens so much later. Once at a time."""
        if self.asleep_until > self.time:
            return
        self.asleep_until = self.time + seconds
        self.say("*** world", f"{host} sleeps for {seconds:.0f} s")
        asleep = {each for each in self.processes.values() if each.host == host and not each.dead}
        for process in asleep:
            process.suspended += seconds
            process.paused_until = max(process.paused_until, self.time) + seconds
        for actor in self.actors:
            if actor.process in asleep:
                actor.wake = max(actor.wake, self.time) + seconds
        for timer in self._timers:
            if timer.process in asleep:
                timer.due = max(timer.due, self.time) + seconds

    def set_clocks(self, process: Process, hosts: tuple[str, ...], stop: Callable[[], bool]) -> None:
        """Set them, and let hosts sleep, now and then."""
        while not stop():
            self.sleep(process, self.random.uniform(2.0, 40.0))
            if stop():
                return
            self.clocks_are_set = True
            if not hosts or self.random.random() < 0.5:
                self.step(self.random.choice(STEPS_SECONDS))
            else:
                self.suspend(self.random.choice(hosts), self.random.choice(SLEEPS_SECONDS))

    def wake_another(self, process: Process) -> None:
        """One that is paused wakes up now, and for a moment the two run step by step."""
        paused = [
            each
            for each in self.processes.values()
            if each.may_wake_at <= self.time < each.paused_until and not each.dead
        ]
        if paused:
            woken = self.random.choice(paused)
            self.say(woken, f"wakes up beside {process.name}")
            woken.paused_until = woken.woke_at = self.time
            self._excited_until = self.time + EXCITED_SECONDS

    def sleep(self, process: Process, seconds: float) -> None:
        if process.dead:
            raise Killed(process.name)
        self.yield_until(self.time + seconds)
        if process.dead:
            raise Killed(process.name)

    def yield_until(self, wake: float) -> None:
        actor = self._current
        if actor is None:  # the world itself acts, in a timer: no actor can run meanwhile
            self.time = max(self.time, wake)
            return
        actor.wake = wake
        self._back.release()
        actor.go.acquire()
        if self.ended:
            raise Killed(actor.name)

    def run(self, *, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let everybody act for so long, or until something is true. Whether it became true."""
        end = self.time + seconds
        for _ in range(STEPS_MAX):
            if self.violation is not None:
                raise Violation(self.violation)
            if until():
                return True
            nexts: list[tuple[float, Actor | Timer]] = [
                (max(actor.wake, actor.process.paused_until), actor) for actor in self.actors if not actor.done
            ]
            nexts += [(max(timer.due, timer.process.paused_until), timer) for timer in self._timers]
            ready = [who for at, who in nexts if at <= self.time]
            if not ready:
                first = min((at for at, _ in nexts), default=end)
                if first >= end:
                    self.time = max(self.time, end)
                    return until()
                self.time = first
                continue
            if self.time >= end:
                return until()
            chosen = ready[0] if len(ready) == 1 else self.random.choice(ready)
            if isinstance(chosen, Actor):
                self._resume(chosen)
            else:
                self._ring(chosen)
            self.after_turn()
        raise Violation("The simulation does not end.")

    def end(self) -> None:
        """Let every thread finish."""
        self.ended = True
        for process in self.processes.values():
            process.dead = True
        for actor in self.actors:
            while not actor.done:
                self._resume(actor)

    def _resume(self, actor: Actor) -> None:
        self._current = actor
        actor.go.release()
        self._back.acquire()
        self._current = None
        if actor.error is not None and not self.ended:
            error, actor.error = actor.error, None
            raise error
        if actor.done:
            self.actors.remove(actor)

    def _ring(self, timer: Timer) -> None:
        timer.due = self.time + timer.interval
        with suppress(Killed):
            timer.act()

    def _live(self, actor: Actor) -> None:
        actor.go.acquire()
        try:
            if not self.ended:
                actor.body()
        except Killed:
            pass
        except BaseException as error:
            actor.error = error
        actor.done = True
        self._back.release()


class Turnstile:
    """A lock among actors: who waits for it lets the others run."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        until = self._world.time + timeout if timeout >= 0 else inf
        while self._held:
            if not blocking or self._world.time >= until:
                return False
            self._world.sleep(self._process, CALL_SECONDS)
        self._held = True
        return True

    def release(self) -> None:
        self._held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@dataclass(frozen=True)
class SimulatedClock:
    """The clock of one process."""

    world: World
    process: Process

    def now(self) -> float:
        return self.world.wall + self.process.skew

    def monotonic(self) -> float:
        return self.world.time - self.process.started - self.process.suspended

    def sleep(self, seconds: float) -> None:
        self.world.sleep(self.process, seconds)


class SimulatedProcesses(Processes):
    """What one process knows of the others: on its own host everything, of other hosts nothing."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__()
        self._world = world
        self._process = process

    def new_owner(self) -> Owner:
        attempt = self._world.random.randrange(MAX_ATTEMPT) + 1
        process = self._process
        return Owner(attempt, process.host, "boot", "ns", process.pid, process.started, None, "")

    def is_provably_dead(self, owner: Owner) -> bool:
        if owner.attempt in self._given_up:
            return True
        return owner.host == self._process.host and self._world.processes[owner.pid].dead


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Renewals are timers of the world instead of threads; the process that starts one has the turn. And since the same
    bytes and names are decoded a thousand times in a run, they are decoded once."""

    class SimulatedRenewal:
        def __init__(self, renew: Callable[[], None], *, interval_seconds: float) -> None:
            self._renew = renew
            self._interval = interval_seconds
            self._timer: Timer | None = None
            self.last_failure: Exception | None = None

        def __enter__(self) -> SimulatedRenewal:
            assert world.current is not None
            self._timer = world.every(world.current.process, self._interval, self._act)
            return self

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None:
            if self._timer in world._timers:
                world.cancel(self._timer)

        def _act(self) -> None:
            try:
                self._renew()
                self.last_failure = None
            except (LakewardError, OSError) as failure:
                self.last_failure = failure

    with (
        patch("lakeward.protocol.lock.table_lock.Renewal", SimulatedRenewal),
        patch("lakeward.protocol.life_cycle.Renewal", SimulatedRenewal),
        decoding_once(),
    ):
        yield


@contextmanager
def decoding_once() -> Iterator[None]:
    """Equal bytes of a timeline file are decoded once: many runs read the same ones over and over."""
    with (
        patch("lakeward.table.timeline.timeline_reader.read_commit_metadata", _read_commit_metadata_once),
        patch("lakeward.table.timeline.timeline.parse_instant", _parse_instant_once),
        patch("lakeward.format.timeline.commit_metadata.read_record", _read_record_once),
        patch("lakeward.format.timeline.compaction_plan.read_record", _read_record_once),
    ):
        yield


@lru_cache(maxsize=4096)
def _read_record_of(data: bytes) -> dict[str, Any]:
    return read_record(data, file="in a simulation")


@lru_cache(maxsize=4096)
def _read_commit_metadata_of(data: bytes, layout: int) -> CommitMetadata:
    return read_commit_metadata(data, file="in a simulation", layout=layout)


def _read_commit_metadata_once(data: bytes, *, file: str, layout: int) -> CommitMetadata:
    return _read_commit_metadata_of(data, layout)


_parse_instant_once = lru_cache(maxsize=8192)(parse_instant)


def _read_record_once(data: bytes, *, file: str) -> dict[str, Any]:
    return _read_record_of(data)
