"""What the daily looks at a table have in common: when its day begins, what the store has of the look before, and how
long one may take.

Touches: nothing; the store is asked through the recorder.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, TypeVar

from lakeward.base.clock import Clock
from lakeward.base.errors import Cancelled
from lakeward.base.quantities import DAY_SECONDS, format_duration
from lakeward.daemon.history.recorder import Recorder
from lakeward.protocol.lock.table_lock import Guard

R = TypeVar("R")

SECONDS_MAX = 900.0
"""How long one look may take."""


def day_begun(table: str, at: float) -> float:
    """When the day of the table began in which a time lies: tables of a daemon do not come at once."""
    offset = zlib.crc32(table.encode(errors="surrogateescape")) % int(DAY_SECONDS)
    return at - (at - offset) % DAY_SECONDS


class NewestKnown(Generic[R]):
    """The newest look at each table of which the store has said it, None where there is none. It belongs to the loop's
    thread."""

    def __init__(self, recorder: Recorder, ask: Callable[[Iterable[str]], Mapping[str, R]]) -> None:
        """
        Args:
            ask: the store, on its own thread, for the newest look at each of these tables that has one.
        """
        self._recorder, self._ask = recorder, ask
        self._known: dict[str, R | None] = {}

    def __contains__(self, table: str) -> bool:
        return table in self._known

    def __getitem__(self, table: str) -> R | None:
        return self._known[table]

    def __setitem__(self, table: str, newest: R) -> None:
        self._known[table] = newest

    def forget(self, table: str) -> None:
        self._known.pop(table, None)

    def keep(self, held: frozenset[str]) -> None:
        """Know what the store has of the tables whose leases this daemon has, and of no others."""
        for table in self._known.keys() - held:
            del self._known[table]
        if asked := held - self._known.keys():
            self._recorder.ask(partial(self._ask, asked), partial(self._learn, asked))

    def _learn(self, asked: Iterable[str], found: Mapping[str, R]) -> None:
        for table in asked:
            self._known.setdefault(table, found.get(table))


def is_at_work(began_at: float, clock: Clock) -> bool:
    """Whether a look that has not ended holds back others. One that hangs in its storage, where no guard is asked, does
    so no longer.

    Args:
        began_at: by the monotonic clock.
    """
    return clock.monotonic() < began_at + 2 * SECONDS_MAX


def time_guard(clock: Clock, *, what: str, remedy: str) -> Guard:
    """A guard that stops what takes longer than `SECONDS_MAX` from now on.

    Args:
        what: a sentence that says what was stopped.
    """
    until = clock.monotonic() + SECONDS_MAX

    def guard() -> None:
        if clock.monotonic() > until:
            raise Cancelled(what, why=f"It took longer than {format_duration(SECONDS_MAX)}.", remedy=remedy)

    return guard
