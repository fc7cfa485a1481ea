"""Each day of each table beside Hudi's default: when one is due, and what came out.

    lease gained -> the store is asked which day of the table was compared last, also by another daemon
    a poll       -> `begin`: a day is over -> worker -> figures of it -> the store, metrics

A day is one of UTC, as months are. It is compared some time in the day after it, at a time that the table's name says.
Days follow one after another, since each needs what the one before carried over. After a gap of more than
`DAYS_BEHIND_MAX` days those before are left out.

Touches: the table, reading only, on a thread of its own; the store, through the recorder.
Keeps:   1. each day that a table is watched in from its beginning on is compared once, whichever daemon has its lease;
         2. one comparison is at work at a time, and it is stopped after `SECONDS_MAX`;
         3. a day of which nothing can be said is remembered as that, with why, and is no day without costs.
See:     docs/decisions/0185-what-a-month-saved.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from lakeward.base.clock import Clock
from lakeward.base.errors import Cancelled
from lakeward.base.quantities import DAY_SECONDS, format_duration
from lakeward.daemon.history.recorder import Recorder, ReportProblem, Submit
from lakeward.daemon.loop.examinations import day_begun
from lakeward.daemon.runner import Lane
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.work.worker import Worker
from lakeward.protocol.lock.table_lock import Guard
from lakeward.state.records import ComparedDay

SECONDS_MAX = 900.0
"""How long one comparison may take."""

DAYS_BEHIND_MAX = 7
"""How many days are made up for, after a daemon did not run."""


class DailyComparisons:
    """All methods belong to the loop's thread."""

    def __init__(
        self,
        worker: Worker,
        recorder: Recorder,
        *,
        submit: Submit,
        compared: Callable[[ComparedDay], None],
        problem: ReportProblem,
        clock: Clock,
    ) -> None:
        """
        Args:
            compared: called with each day that was compared.
        """
        self._worker = worker
        self._recorder = recorder
        self._submit = submit
        self._compared = compared
        self._problem = problem
        self._clock = clock
        self._known: dict[str, ComparedDay | None] = {}
        """The newest day of each table of which the store has said it, None where there is none."""
        self._under_way: str | None = None
        self._began_at = 0.0

    @property
    def is_any(self) -> bool:
        return self._under_way is not None

    def forget(self, table: str) -> None:
        self._known.pop(table, None)

    def keep(self, held: frozenset[str]) -> None:
        """Know what the store has of the tables whose leases this daemon has, and of no others."""
        for table in self._known.keys() - held:
            del self._known[table]
        if asked := held - self._known.keys():
            self._recorder.ask(partial(self._recorder.newest_compared, asked), partial(self._learn, asked))

    def _learn(self, asked: Iterable[str], found: Mapping[str, ComparedDay]) -> None:
        for table in asked:
            self._known.setdefault(table, found.get(table))

    def begin(self, table: ServedTable) -> None:
        """Nothing happens where another comparison is under way, or no day of the table is due."""
        if table.name not in self._known or self._is_one_at_work:
            return
        before = self._known[table.name]
        day = self._day_due(table, before)
        if day is None:
            return
        self._under_way, self._began_at = table.name, self._clock.monotonic()
        if before is not None and before.day != day - 1:
            before = None
        self._submit(
            Lane.SCAN,
            partial(self._worker.compare, table, day, before, self._guard()),
            then=partial(self._ended, table.name, day),
            failed=partial(self._failed, table.name, day),
        )

    def _day_due(self, table: ServedTable, before: ComparedDay | None) -> int | None:
        last = math.floor(day_begun(table.name, self._clock.now()) / DAY_SECONDS) - 1
        first = math.ceil(table.watched_since / DAY_SECONDS)
        if before is not None:
            first = max(first, before.day + 1)
        return max(first, last - DAYS_BEHIND_MAX + 1) if first <= last else None

    @property
    def _is_one_at_work(self) -> bool:
        """One that hangs in its storage, where no guard is asked, holds back no others."""
        return self._under_way is not None and self._clock.monotonic() < self._began_at + 2 * SECONDS_MAX

    def _guard(self) -> Guard:
        until = self._clock.monotonic() + SECONDS_MAX

        def guard() -> None:
            if self._clock.monotonic() > until:
                raise Cancelled(
                    "The comparison with Hudi's default was stopped.",
                    why=f"It took longer than {format_duration(SECONDS_MAX)}.",
                    remedy="Run `lakeward simulate` with the table, which takes as long as it needs.",
                )

        return guard

    def _failed(self, table: str, day: int, error: Exception) -> None:
        text = self._problem(error, table=table, what="comparison with Hudi's default").text
        self._ended(table, day, ComparedDay(table, day, self._clock.now(), problem=text))

    def _ended(self, table: str, day: int, found: ComparedDay | None) -> None:
        if self._under_way == table:
            self._under_way = None
        if table not in self._known:
            return  # its lease went meanwhile, and the daemon that has it compares by itself
        self._known[table] = found or ComparedDay(table, day, self._clock.now())  # not asked about that day again
        if found is None:
            return
        self._recorder.compared(found)
        self._compared(found)
