"""A storage that fails, dies, loses a reply or tears a write at its n-th call.

BEFORE      the call raises and did nothing
LOST_REPLY  the call was carried out, and raises
KILL        the process dies right after the call: no later call of this storage does anything
TORN        the process dies in the middle of the write: half of the bytes are there
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, TypeVar

from lakeward.storage.local import LocalStorage
from tests.called_storage import TEARABLE, WRITES, CalledStorage
from tests.runs import ASKED, NIGHTLY

T = TypeVar("T")


class FaultKind(StrEnum):
    BEFORE = "before"
    LOST_REPLY = "lost-reply"
    KILL = "kill"
    TORN = "torn"


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    call: int
    """Counted from 0."""


def faults_of(kind: FaultKind, calls: Sequence[str], where: Sequence[int] | None = None) -> list[Fault]:
    """The calls at which this kind of fault differs from another one: a process that dies after a read left what it
    left before it, and a reply lost by a read is a failed read.

    Of reads in a row that fail, the first and the last are enough for CI: each of them leaves what the others leave.
    All of them are had by `make crashes` and `make nightly`.

    Args:
        where: which calls; all of them unless it says otherwise.
    """
    wanted = {FaultKind.TORN: TEARABLE, FaultKind.LOST_REPLY: WRITES, FaultKind.KILL: WRITES}.get(kind)
    numbers = list(where if where is not None else range(len(calls)))
    writes = [calls[number].split()[0] in WRITES for number in numbers]
    if wanted is None and ASKED is None and not NIGHTLY:
        beside = zip(numbers, [True, *writes[:-1]], writes, [*writes[1:], True], strict=True)
        return [Fault(kind, number) for number, before, here, after in beside if before or here or after]
    return [Fault(kind, number) for number in numbers if wanted is None or calls[number].split()[0] in wanted]


class Killed(BaseException):
    """The process is dead; no code may catch this."""


class Faulted:
    """One process with at most one fault; what it did before it died is done, and nothing after that."""

    _fault: Fault | None = None
    _dead = False

    def _live(self) -> None:
        if self._dead:
            raise Killed

    def _carry_out(
        self, earlier: list[str], call: str, act: Callable[[], T], tear: Callable[[], None] | None = None
    ) -> T:
        """Carries out a call that is counted, the one after `earlier`, to which it is added."""
        self._live()
        number = len(earlier)
        earlier.append(call)
        if self._fault is None or self._fault.call != number:
            return act()
        match self._fault.kind:
            case FaultKind.BEFORE:
                raise OSError(f"injected before {call}")
            case FaultKind.LOST_REPLY:
                act()
                raise OSError(f"injected: reply of {call} lost")
            case FaultKind.TORN if tear is not None:
                self._dead = True
                tear()
            case _:
                act()
                self._dead = True
        raise Killed(call)


class FaultyStorage(CalledStorage, Faulted):
    """`LocalStorage` with at most one fault; keeps the names of all calls."""

    def __init__(self, fault: Fault | None = None) -> None:
        super().__init__(LocalStorage())
        self._fault = fault
        self.calls: list[str] = []

    def call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        """One call of the process, counted with all others; so are those to what else it changes."""
        return self._carry_out(self.calls, f"{name} {path}", act, tear)

    _call = call

    def _tear_output(self, path: str, file: BinaryIO) -> None:
        file.flush()
        size = os.path.getsize(path)
        file.close()
        os.truncate(path, size // 2)
