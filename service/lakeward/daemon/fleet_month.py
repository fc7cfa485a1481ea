"""What the jobs on all tables took that ended this month, for a page that is read often.

The sum goes over every job of the month, of all tables. So it is made at most every `FRESH_SECONDS`, while the page is
read, on a thread of its own; until it is there the page has the last one.

Touches: the store, reading only.
Keeps:   1. no reader waits for the store;
         2. the store is asked once in `FRESH_SECONDS`, whether it answers or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import structlog

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError
from lakeward.base.quantities import month_begun
from lakeward.daemon.status import MonthTotal
from lakeward.state.records import MonthlyCost

FRESH_SECONDS = 300.0

_log = structlog.stdlib.get_logger(__name__)


class FleetMonth:
    def __init__(self, costs_since: Callable[[float], Sequence[MonthlyCost]], clock: Clock) -> None:
        self._costs_since = costs_since
        self._clock = clock
        self._total: MonthTotal | None = None
        self._asked_at: float | None = None
        self._lock = threading.Lock()

    def read(self) -> MonthTotal | None:
        """The newest sum that there is; None before the first, and in a month in which no job has ended."""
        now = self._clock.monotonic()
        with self._lock:
            is_due = self._asked_at is None or now >= self._asked_at + FRESH_SECONDS
            if is_due:
                self._asked_at = now
        if is_due:
            threading.Thread(target=self.ask, name="lakeward-month", daemon=True).start()
        return self._total

    def ask(self) -> None:
        try:
            self._total = MonthTotal.of(self._costs_since(month_begun(self._clock.now())))
        except LakewardError as error:
            _log.debug("what the month took could not be asked for", error=str(error))
