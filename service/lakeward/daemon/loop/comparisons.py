"""Each day of each table beside Hudi's default: when one is due, and what came out.

    lease gained -> the store is asked which day of the table was compared last, also by another daemon
    a poll       -> `begin`: a day is over -> worker -> figures of it -> the store, metrics

A day is one of UTC, as months are. It is compared some time in the day after it, at a time that the table's name says.
Days follow one after another, since each needs what the one before carried over. After a gap of more than
`DAYS_BEHIND_MAX` days those before are left out.

Touches: the table, reading only, on a thread of its own; the store, through the recorder.
Keeps:   1. each day that a table is watched in from its beginning on is compared once, whichever daemon has its lease;
         2. one comparison is at work at a time, and it is stopped after `daily.SECONDS_MAX`;
         3. a day of which nothing can be said is remembered as that, with why, and is no day without costs.
See:     docs/decisions/0185-what-a-month-saved.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from lakeward.base.clock import Clock
from lakeward.base.quantities import DAY_SECONDS
from lakeward.daemon.history.recorder import Recorder, ReportProblem, Submit
from lakeward.daemon.loop.daily import NewestKnown, day_begun, is_at_work, time_guard
from lakeward.daemon.runner import Lane
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.work.worker import Worker
from lakeward.state.records import ComparedDay

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
        self.known: NewestKnown[ComparedDay] = NewestKnown(recorder, recorder.newest_compared)
        self._under_way: str | None = None
        self._began_at = 0.0

    @property
    def is_any(self) -> bool:
        return self._under_way is not None

    def begin(self, table: ServedTable) -> None:
        """Nothing happens where another comparison is under way, or no day of the table is due."""
        if table.name not in self.known or (self.is_any and is_at_work(self._began_at, self._clock)):
            return
        before = self.known[table.name]
        day = self._day_due(table, before)
        if day is None:
            return
        self._under_way, self._began_at = table.name, self._clock.monotonic()
        if before is not None and before.day != day - 1:
            before = None
        guard = time_guard(
            self._clock,
            what="The comparison with Hudi's default was stopped.",
            remedy="Run `lakeward simulate` with the table, which takes as long as it needs.",
        )
        self._submit(
            Lane.SCAN,
            partial(self._worker.compare, table, day, before, guard),
            then=partial(self._ended, table.name, day),
            failed=partial(self._failed, table.name, day),
        )

    def _day_due(self, table: ServedTable, before: ComparedDay | None) -> int | None:
        last = math.floor(day_begun(table.name, self._clock.now()) / DAY_SECONDS) - 1
        first = math.ceil(table.watched_since / DAY_SECONDS)
        if before is not None:
            first = max(first, before.day + 1)
        return max(first, last - DAYS_BEHIND_MAX + 1) if first <= last else None

    def _failed(self, table: str, day: int, error: Exception) -> None:
        text = self._problem(error, table=table, what="comparison with Hudi's default").text
        self._ended(table, day, ComparedDay(table, day, self._clock.now(), problem=text))

    def _ended(self, table: str, day: int, found: ComparedDay | None) -> None:
        if self._under_way == table:
            self._under_way = None
        if table not in self.known:
            return  # its lease went meanwhile, and the daemon that has it compares by itself
        self.known[table] = found or ComparedDay(table, day, self._clock.now())  # not asked about that day again
        if found is None:
            return
        self._recorder.compared(found)
        self._compared(found)
