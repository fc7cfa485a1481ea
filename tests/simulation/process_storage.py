"""The storage as one process reaches it: with its faults, and with the others acting between its calls.

BEFORE      the call raises and did nothing
LOST_REPLY  the call was carried out, and raises
KILL        the process dies right after the call
TORN        the process dies in the middle of a write: what a torn write leaves is there
PAUSE       the process stops for ten seconds to ten minutes, in front of the call
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, TypeVar

from lakeward.protocol.lock.file_system_lock import SPARK_LOCK
from tests.called_storage import WRITES, CalledStorage
from tests.faults import Killed
from tests.simulation.memory_storage import MemoryStorage
from tests.simulation.world import Process, World

T = TypeVar("T")

WRITES_WEIGH = 5
"""Most calls read; what goes wrong around a write is of more interest."""

PUBLISHING_WEIGHS = 40
"""Weight of what makes something visible, or rolls it back: there are most faults."""

WAKES = 0.15
"""How likely a paused process wakes up just when another one writes."""


class Fault(StrEnum):
    BEFORE = "fails"
    LOST_REPLY = "loses its reply"
    KILL = "is the last one"
    TORN = "is torn"
    PAUSE = "waits"


@dataclass
class Faults:
    """What goes wrong, and how often; each run of the simulation has its own mixture."""

    chance: float = 0.0
    """The chance of each call."""
    kinds: tuple[Fault, ...] = ()
    pause_seconds: tuple[float, float] = (10.0, 600.0)
    """At least and at most; in between another process that writes may wake it up."""
    only_under_lock: bool = False
    """Only to a process that holds the table lock."""


class ProcessStorage(CalledStorage):
    def __init__(self, world: World, process: Process, inner: MemoryStorage, faults: Faults) -> None:
        super().__init__(inner)
        self._world = world
        self._process = process
        self._faults = faults
        self._torn = str(process.pid)

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        if self._faults.kinds and name in WRITES and self._world.random.random() < WAKES:
            self._world.wake_another(self._process)
        self._world.call(self._process)
        fault = self._next_fault(name, path, tear is not None)
        if fault is None:
            return self._do(name, path, act)
        self._world.say(self._process, f"{name} {path} {fault}")
        match fault:
            case Fault.BEFORE:
                raise OSError(f"injected before {name} {path}")
            case Fault.LOST_REPLY:
                self._do(name, path, act)
                raise OSError(f"injected: reply of {name} {path} lost")
            case Fault.PAUSE:
                self._world.pause(self._process, self._faults.pause_seconds)
                return self._do(name, path, act)
            case Fault.TORN if tear is not None:
                self._do(name, path, tear)
            case _:
                self._do(name, path, act)
        self._world.kill(self._process)
        raise Killed(name)

    def _tear_output(self, path: str, file: BinaryIO) -> None:
        """A file whose writer died before it was closed is not there."""

    def _do(self, name: str, path: str, act: Callable[[], T]) -> T:
        self._world.acting = self._process
        try:
            result = act()
        finally:
            self._world.acting = None
        if path.endswith(SPARK_LOCK) and name in ("create", "delete"):
            self._process.holds_lock = name == "create"
        if name in WRITES and not path.endswith("/.aux"):
            self._world.say(self._process, f"{name} {path}")
        return result

    def _next_fault(self, name: str, path: str, tearable: bool) -> Fault | None:
        faults, random = self._faults, self._world.random
        if faults.only_under_lock and not self._process.holds_lock:
            return None
        weighs = WRITES_WEIGH if name in WRITES else 1
        if name in ("link", "rename", "move", "create", "delete", "remove") and (
            "/timeline/" in path or "/.hoodie/" not in path
        ):
            weighs = PUBLISHING_WEIGHS
        if not faults.kinds or random.random() >= faults.chance * weighs:
            return None
        fault = random.choice(faults.kinds)
        if fault is Fault.PAUSE and self._world.current is None:
            return None  # a timer cannot wait
        if fault is Fault.TORN and not tearable:
            fault = Fault.KILL
        if fault is Fault.LOST_REPLY and name not in WRITES:
            fault = Fault.BEFORE
        return fault
