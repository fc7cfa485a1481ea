"""Locks of tables that another daemon services, left by processes of this host that died: only here is known that they
did.

Touches: the locks, on a thread of its own; one look at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from lakeward.daemon.recorder import ReportProblem, Submit
from lakeward.daemon.runner import Lane
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.single_flight import SingleFlight


class DeadLocks:
    def __init__(self, free: Callable[[ServedTable], None], *, submit: Submit, problem: ReportProblem) -> None:
        """
        Args:
            free: frees one table's lock, where its holder is a process of this host that died.
        """
        self._free = free
        self._submit = submit
        self._problem = problem
        self._flight = SingleFlight()

    def free(self, others: Iterable[ServedTable]) -> None:
        """Free what dead processes hold of these tables; nothing is begun while the look before goes on."""
        tables = [table for table in others if table.settings.enabled and table.schedule.shadow is None]
        if tables and self._flight.begin():
            self._submit(Lane.SCAN, partial(self._free_each, tables), then=self._freed, failed=self._not_freed)

    def _free_each(self, tables: Sequence[ServedTable]) -> Mapping[str, Exception]:
        """Returns what went wrong, by table."""
        problems: dict[str, Exception] = {}
        for table in tables:
            try:
                self._free(table)
            except Exception as error:  # one table's, and to be logged on the loop's thread
                problems[table.name] = error
        return problems

    def _freed(self, problems: Mapping[str, Exception]) -> None:
        self._flight.end()
        for table, error in problems.items():
            self._problem(error, what="locks", table=table)

    def _not_freed(self, error: Exception) -> None:
        self._flight.end()
        self._problem(error, what="locks")
