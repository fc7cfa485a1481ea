"""Works under way, of which there is one of a kind at a time: one flight, polls and plans, dead locks, counts.

    begin -> True    the caller starts the work, and calls `end` with its result, whatever it is
          -> False   it is under way; `end` will say that it was asked for meanwhile

A storage or a store that hangs thus holds one thread for each kind of work, however often the daemon asks. A poll or a
plan is stopped at its next question.

Touches: the locks of other daemons' tables, on a thread of its own. `guard` is called on the scan's thread, all else on
         the loop's.
Keeps:   1. between a `begin` that returned True and its `end`, no other `begin` does;
         2. however often it was asked for meanwhile, `end` says so once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from lakeward.base.errors import Cancelled
from lakeward.daemon.history.recorder import ReportProblem, Submit
from lakeward.daemon.metrics.specs import WatchedStep
from lakeward.daemon.runner import Lane
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import StorageSample
from lakeward.daemon.work.worker import Worker
from lakeward.protocol.problem import is_foreseen


class SingleFlight:
    def __init__(self) -> None:
        self._is_under_way = False
        self._is_wanted = False

    @property
    def is_under_way(self) -> bool:
        return self._is_under_way

    def begin(self) -> bool:
        """True where the work is to be started now."""
        if self._is_under_way:
            self._is_wanted = True
            return False
        self._is_under_way, self._is_wanted = True, False
        return True

    def end(self) -> bool:
        """The work has a result. True where it was asked for since it began."""
        self._is_under_way = False
        return self._is_wanted


@dataclass(frozen=True, slots=True)
class ScanWatch:
    """One poll or plan."""

    table: str
    is_plan: bool
    stopped: list[str] = field(default_factory=list)

    def guard(self) -> None:
        """Raises `Cancelled` once the scan was stopped."""
        if self.stopped:
            raise Cancelled("The scan was stopped.", why=self.stopped[0], remedy="It is repeated.")


class Scans:
    """All of them, by the ids of their works."""

    def __init__(self) -> None:
        self._watches: dict[str, ScanWatch] = {}

    @property
    def are_any(self) -> bool:
        return bool(self._watches)

    def begin(self, work_id: str, table: str, *, is_plan: bool) -> ScanWatch:
        watch = self._watches[work_id] = ScanWatch(table, is_plan)
        return watch

    def end(self, work_id: str) -> None:
        """It has a result, or could not begin."""
        self._watches.pop(work_id, None)

    def stop(self, work_id: str, why: str) -> None:
        """Nothing happens where it has ended."""
        if (watch := self._watches.get(work_id)) is not None:
            watch.stopped.append(why)

    def stuck_step(self, table: str) -> WatchedStep:
        """What of the table was stopped and has not answered; its job, where no scan was."""
        watch = next((each for each in self._watches.values() if each.table == table and each.stopped), None)
        if watch is None:
            return WatchedStep.JOB
        return WatchedStep.PLAN if watch.is_plan else WatchedStep.POLL


class DeadLocks:
    """Locks of tables that another daemon services, left by processes of this host that died: only here is known that
    they did."""

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


class StorageCounts:
    """Counts of what holds the storage of tables, one of a table at a time; polls and plans go on meanwhile."""

    def __init__(
        self, worker: Worker, *, submit: Submit, counted: Callable[[str, StorageSample], None], problem: ReportProblem
    ) -> None:
        self._worker = worker
        self._submit = submit
        self._counted = counted
        self._problem = problem
        self._counting: set[str] = set()

    @property
    def are_any(self) -> bool:
        return bool(self._counting)

    def begin(self, table: ServedTable) -> None:
        """Nothing happens where the table is being counted, or no count is due."""
        if table.name in self._counting or not self._worker.is_count_due(table.name):
            return
        self._counting.add(table.name)
        self._submit(
            Lane.SCAN,
            partial(self._worker.count, table),
            then=partial(self._end, table.name),
            failed=partial(self._not_counted, table.name),
        )

    def _end(self, table: str, sample: StorageSample | None) -> None:
        self._counting.discard(table)
        if sample is not None:
            self._counted(table, sample)

    def _not_counted(self, table: str, error: Exception) -> None:
        """Plans and jobs say what cannot be read; a count is tried again with the next of them."""
        self._counting.discard(table)
        if not is_foreseen(error):
            self._problem(error, table=table)
