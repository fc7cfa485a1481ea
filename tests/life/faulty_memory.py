"""The storage in memory as one process reaches it: it may die at its n-th call, and others act between its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, TypeVar

from tests.called_storage import CalledStorage
from tests.faults import Fault, Faulted
from tests.simulation.memory_storage import MemoryStorage

T = TypeVar("T")


class FaultyMemory(CalledStorage, Faulted):
    def __init__(self, inner: MemoryStorage, fault: Fault | None = None) -> None:
        super().__init__(inner)
        self._fault = fault
        self.calls: list[str] = []
        self.before: Callable[[str], None] = lambda call: None
        """Called with each call, before it is carried out."""

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        self._live()
        self.before(f"{name} {path}")
        return self._carry_out(self.calls, f"{name} {path}", act, tear)

    def _tear_output(self, path: str, file: BinaryIO) -> None:
        """A file whose writer died before it was closed is there with what was flushed."""
