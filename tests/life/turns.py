"""Several processes at one table that take turns at every storage call, in an order that a test states.

    Schedule((0, 12), (1, 3))   process 0 makes 12 calls, process 1 makes 3, then each goes on to its end, in that order

A process that sleeps, as who waits for a lock does, gives the turn away too. Threads hold it one at a time, so equal
schedules give equal runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.life.faulty_memory import FaultyMemory
from tests.simulation.memory_storage import MemoryStorage

SLEEPS_MAX = 5000

Segment = tuple[int, int]
"""The number of a process, and of calls."""
Body = Callable[[FaultyMemory], object]


@dataclass(eq=False)
class Actor:
    number: int
    body: Body
    storage: FaultyMemory
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    is_done: bool = False
    error: BaseException | None = None


class Turns:
    def __init__(
        self, storage: MemoryStorage, bodies: Sequence[Body], schedule: Sequence[Segment], *, sleeps_on: bool = False
    ) -> None:
        """
        Args:
            sleeps_on: a process that sleeps goes on until its calls are made, so that it is also interrupted at calls
                that come after its first sleep.
        """
        self.actors = [Actor(number, body, FaultyMemory(storage)) for number, body in enumerate(bodies)]
        self._schedule = list(schedule)
        self._current: Actor | None = None
        self._left = 0
        self._sleeps = 0
        self._sleeps_on = sleeps_on
        self._back = threading.Semaphore(0)

    def run(self) -> list[BaseException | None]:
        """Everything, to the end. What each process ended with."""
        for actor in self.actors:
            actor.storage.before = lambda call, actor=actor: self._before_call(actor)  # type: ignore[misc]
            threading.Thread(target=self._live, args=(actor,), daemon=True).start()
        while (actor := self._next()) is not None:
            self._current = actor
            actor.go.release()
            self._back.acquire()
        return [actor.error for actor in self.actors]

    def sleeping(self) -> None:
        """The process that has the turn has slept."""
        actor = self._current
        if self._sleeps_on and self._left > 0:
            return
        if actor is None or all(each.is_done for each in self.actors if each is not actor):
            return
        self._sleeps += 1
        assert self._sleeps < SLEEPS_MAX, "processes wait for each other"
        self._schedule = [(each.number, 0) for each in self.actors if each is not actor and not each.is_done]
        self._yield(actor)

    def _next(self) -> Actor | None:
        while self._schedule:
            number, calls = self._schedule.pop(0)
            if not self.actors[number].is_done:
                self._left = calls or -1  # without end
                return self.actors[number]
        self._left = -1
        return next((actor for actor in self.actors if not actor.is_done), None)

    def _before_call(self, actor: Actor) -> None:
        if self._left == 0:
            self._yield(actor)
        self._left -= 1

    def _yield(self, actor: Actor) -> None:
        self._back.release()
        actor.go.acquire()

    def _live(self, actor: Actor) -> None:
        actor.go.acquire()
        try:
            actor.body(actor.storage)
        except BaseException as error:
            actor.error = error
        actor.is_done = True
        self._back.release()
