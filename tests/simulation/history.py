"""One history in the simulated world, which a seed means: tables in memory, writers, processes that service the tables,
faults, and clocks that are set. First a while of everything, then peace, in which everything must rest.

Two kinds of history share this: `compactors.py`, two processes that compact one table, and `daemons.py`, two whole
daemons with a store and several tables. LAKEWARD_SEED=7 runs one seed, LAKEWARD_RUNS=10000 as many, else what CI has
time for.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import pytest

from tests.runs import runs
from tests.simulation.memory_storage import MemoryStorage
from tests.simulation.process_storage import Faults
from tests.simulation.world import Process, Violation, World, simulated
from tests.simulation.writer import Table, Writer, write_for_ever

CHUNKS = 8
IN_CI = 4
EACH_CHUNK = [pytest.param(chunk, marks=() if chunk < IN_CI else pytest.mark.wide) for chunk in range(CHUNKS)]
"""A test runs every eighth seed, so that test workers share them. Half of them are left to `make interop`."""
TRACED = 80
"""Lines of what happened last, which a failure shows."""


class History(ABC):
    tables: Sequence[Table]

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = world = World(seed)
        self.storage = MemoryStorage(lambda: world.wall)
        self.faults = Faults()
        self.peace = False

    @abstractmethod
    def live(self) -> None:
        """A while of everything."""

    @abstractmethod
    def come_to_rest(self) -> None:
        """Faults stop and writers finish; then looks at all that must be true in the end."""

    def end(self) -> None:
        self.world.end()

    def play(self) -> Self:
        """The whole history. A failure carries the seed, and the end of what happened."""
        world = self.world
        try:
            with simulated(world):
                self.live()
                world.say("*** world", "peace")
                self.come_to_rest()
                if world.violation is not None:
                    raise Violation(world.violation)
        except BaseException as error:
            trace = "\n".join(world.trace[-TRACED:])
            error.add_note(f"LAKEWARD_SEED={self.seed} repeats this run, which ended so:\n{trace}")
            raise
        finally:
            self.end()
        return self

    def spawn(self, name: str, host: str, body: Callable[[Process], None], *, after: float = 0.0) -> None:
        """A new process that does this."""
        process = self.world.new_process(name, host)
        self.world.spawn(process.name, process, partial(body, process), after=after)

    def spawn_writer(self, number: int, table: Table, *, busy: tuple[float, float], **words: Any) -> None:
        """One that writes until there is peace, and may die over it."""
        process = self.world.new_process(f"writer-{number}", f"writers-{number}")
        dies = self.world.random.choice([0.0, 0.2])
        writer = Writer(table, process)
        write = partial(write_for_ever, writer, dies=dies, busy=busy, stop=lambda: self.peace, **words)
        self.world.spawn(process.name, process, write)

    def spawn_clocks(self, hosts: tuple[str, ...]) -> None:
        """Clocks are set, and these hosts sleep, until there is peace."""
        self.spawn("clocks", "nowhere", lambda process: self.world.set_clocks(process, hosts, lambda: self.peace))

    def spawn_last_writer(self, number: int, *, rolls_back: bool = True) -> None:
        """One that rolls back what dead writers left."""

        def finish(process: Process) -> None:
            for table in self.tables:
                while table.dead_writes and rolls_back:
                    Writer(table, process).roll_back()

        self.spawn(f"writer-{number}", f"writers-{number}", finish)

    def restart(self, name: str, host: str, *, within: float) -> Process:
        """The process of this actor has died; the next one begins after a while."""
        actor = self.world.current
        assert actor is not None
        process = actor.process = self.world.new_process(name, host)
        self.world.sleep(process, self.world.random.uniform(1.0, within))
        return process


def play_chunk(chunk: int, default: int, history: Callable[[int], History]) -> None:
    """Plays the seeds of this chunk."""
    if (seed := os.environ.get("LAKEWARD_SEED")) is not None:
        seeds = [int(seed)] if int(seed) % CHUNKS == chunk else []
    else:
        seeds = list(range(chunk, runs(default), CHUNKS))
    for each in seeds:
        history(each).play()
