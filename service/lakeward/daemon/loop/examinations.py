"""The doctor's daily look at each table: when it is due, and what it found.

    lease gained -> the store is asked when the table was examined last, also by another daemon
    a poll       -> `begin`: due, calm -> worker -> result -> the store, events of what came and went, pages, metrics

A day of a table begins at a time of the day that its name says, so that the tables of a daemon do not come at once. An
examination waits while a job of its table runs, for half a day at most; of all tables one is under way at a time, since
each has a listing and a snapshot of its own in memory.

Touches: the table, reading only, on a thread of its own; the store, through the recorder.
Keeps:   1. each table is examined once in each of its days, whichever daemon has its lease and however often they
            start, and one whose day passed without is examined at once;
         2. one examination is at work at a time, and it is stopped after `daily.SECONDS_MAX`;
         3. what could not be looked at is remembered as that, beside what was seen before;
         4. a finding that comes or goes is an event, and a pattern that could not be looked for is neither.
See:     docs/decisions/0179-the-doctor-comes-by-itself.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from lakeward.base.clock import Clock
from lakeward.base.quantities import DAY_SECONDS, format_count
from lakeward.daemon.history.recorder import Recorder, ReportProblem, Submit
from lakeward.daemon.loop.daily import NewestKnown, day_begun, is_at_work, time_guard
from lakeward.daemon.runner import Lane
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.work.worker import Worker
from lakeward.state.records import ExaminationRecord

PATIENCE_SECONDS = DAY_SECONDS / 2
"""How long it waits for a moment in which no job of its table runs."""


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A pattern that a table has since the examination before, or has no more."""

    code: str
    has_come: bool
    grade: str
    text: str


class Examinations:
    """Examinations of the tables whose leases this daemon has. All methods belong to the loop's thread."""

    def __init__(
        self,
        worker: Worker,
        recorder: Recorder,
        *,
        submit: Submit,
        changed: Callable[[str, FindingChange], None],
        problem: ReportProblem,
        clock: Clock,
    ) -> None:
        """
        Args:
            changed: called with each finding that came or went.
        """
        self._worker = worker
        self._recorder = recorder
        self._submit = submit
        self._changed = changed
        self._problem = problem
        self._clock = clock
        self.known: NewestKnown[ExaminationRecord] = NewestKnown(recorder, recorder.examined)
        self._under_way: dict[str, float] = {}
        """When each began, by the monotonic clock."""

    @property
    def are_any(self) -> bool:
        return bool(self._under_way)

    def newest(self, table: ServedTable) -> ExaminationRecord | None:
        """One that says nothing where the store has none; None where the store has not said."""
        if table.name not in self.known:
            return None
        return self.known[table.name] or ExaminationRecord(table.watched_since)

    def begin(self, table: ServedTable, *, is_busy: bool) -> None:
        """Nothing happens where another examination is under way, or none of the table is due.

        Args:
            is_busy: a job of the table runs.
        """
        newest = self.newest(table)
        if newest is None or table.name in self._under_way:
            return
        if any(is_at_work(began_at, self._clock) for began_at in self._under_way.values()):
            return
        now = self._clock.now()
        day = day_begun(table.name, now)
        if day <= newest.tried_at:
            return
        if is_busy and now < day + PATIENCE_SECONDS:
            return
        self._under_way[table.name] = self._clock.monotonic()
        guard = time_guard(
            self._clock,
            what="The examination was stopped.",
            remedy="Run `lakeward doctor` with the table, which takes as long as it needs.",
        )
        self._submit(
            Lane.SCAN,
            partial(self._worker.examine, table, guard),
            then=partial(self._ended, table.name),
            failed=partial(self._failed, table.name),
        )

    def _failed(self, table: str, error: Exception) -> None:
        text = self._problem(error, table=table, what="doctor").text
        self._ended(table, ExaminationRecord(self._clock.now(), problem=text))

    def _ended(self, table: str, found: ExaminationRecord) -> None:
        self._under_way.pop(table, None)
        if table not in self.known:
            return  # its lease went meanwhile, and the daemon that has it looks by itself
        before = self.known[table]
        if found.document is None and before is not None:
            found = replace(found, looked_at=before.looked_at, document=before.document)
        self.known[table] = found
        changes = () if found.problem is not None else tuple(changes_between(before, found))
        self._recorder.examined_table(table, found, changes)
        for change in changes:
            self._changed(table, change)


def changes_between(before: ExaminationRecord | None, now: ExaminationRecord) -> Iterator[FindingChange]:
    """What came, the worst first, and what went."""
    old = {} if before is None or before.document is None else {each["code"]: each for each in before.document["found"]}
    document = now.document or {"found": [], "unseen": []}
    found = {each["code"]: each for each in document["found"]}
    for code, each in found.items():
        if code not in old:
            places = ", ".join(symptom["subject"] for symptom in each["symptoms"][:_PLACES_NAMED])
            more = each["places"] - _PLACES_NAMED
            rest = f" and {format_count(more, 'more place')}" if more > 0 else ""
            yield FindingChange(code, True, each["grade"], f"{each['grade']}: {each['title']} ({code}): {places}{rest}")
    unseen = {each["code"] for each in document["unseen"]}
    for code, each in old.items():
        if code not in found and code not in unseen:
            yield FindingChange(code, False, each["grade"], f"no more: {each['title']} ({code})")


_PLACES_NAMED = 3
