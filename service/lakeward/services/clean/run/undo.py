"""Undo a clean whose files are still there: they come back, and the table can be read as of before it again.

    pending    cleans that were begun are ended first, an undo that a dead process began among them
    schedule   lock: nothing forbids it -> the quarantine says that it begins -> U.clean.requested, of no files
    carry out  `undo_run.py`, through the life cycle that all services have
    forget     what the quarantine still has of the run goes

Touches: the table, through `commit`.
Keeps:   1. what forbids an undo is said before anything is written;
         2. beside a clean of another process nothing is undone.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.errors import TryLater
from lakeward.format.timeline.clean_plan import CleanPlan, Retained, clean_plan_root, write_clean_plan
from lakeward.format.timeline.instant import State
from lakeward.protocol.preconditions import check_metadata_table
from lakeward.protocol.progress import Phase
from lakeward.protocol.quarantine import begin_undo, forget_run
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import ServiceAction
from lakeward.services.clean.plan.decision import SAVEPOINTED_TIMESTAMPS
from lakeward.services.clean.plan.undo_plan import UndoPlan
from lakeward.services.clean.run.cleaner import Cleaner, check_readable_by_writers
from lakeward.services.clean.run.undo_run import settle_undo, undo_plan
from lakeward.table.quarantine import QuarantinedRun, load_quarantine
from lakeward.table.timeline.cleans import UNDO_OF, read_cleans
from lakeward.table.timeline.service_instants import PLANNED_BY


@dataclass(frozen=True, slots=True)
class UndoneClean:
    plan: UndoPlan
    instant: str | None
    """The clean that undoes it; None where nothing was written."""
    completion_time: str | None


def preview_undo(table: ServicedTable, run: str) -> UndoneClean:
    """What would come back now. Takes no lock and writes nothing. Raises `Refused`, `UsageError`."""
    snapshot = table.snapshot(only=(), service=TableService.CLEANING)
    check_readable_by_writers(snapshot)
    return UndoneClean(undo_plan(table, snapshot, run), None, None)


def undo_clean(table: ServicedTable, run: str) -> UndoneClean:
    """Undo the clean of this instant. Raises `Refused`, `UsageError`, `TryLater`, `Conflict`."""
    cleaner = Cleaner(table, {})
    before = load_quarantine(table.storage, table.base_path).find(run)
    ended = cleaner.end_pending()
    if ended.waiting:
        raise TryLater(
            f"Clean {ended.waiting[0].instant} is pending.",
            why=f"It is left alone: {ended.waiting[0].why}.",
            remedy="Run the command again when it has ended.",
        )
    if before is not None and (done_before := _ended_just_now(table, before)) is not None:
        return done_before
    with table.measured(Phase.SCHEDULE):
        instant, plan = _schedule(table, run)
    done = cleaner.carry_out(instant, recovered=False)
    if done is None or done.undoes != run:
        raise TryLater(
            f"Clean {run} is not undone: clean {instant} was ended without it.",
            why="Another engine ended it, or something came that forbids it.",
            remedy="Run the command again; what the quarantine has stays there.",
        )
    if (left := load_quarantine(table.storage, table.base_path).find(run)) is not None:
        forget_run(table.storage, table.base_path, left)
    return UndoneClean(plan, instant, done.completion_time)


def _ended_just_now(table: ServicedTable, run: QuarantinedRun) -> UndoneClean | None:
    """The undo that a dead process had begun, and that is completed by now."""
    snapshot = table.snapshot(only=(), service=TableService.CLEANING)
    cleans = read_cleans(table.storage, table.base_path, snapshot.config, snapshot.timeline)
    undo = next((clean for clean in cleans if clean.undoes == run.run), None)
    if undo is None:
        return None
    forget_run(table.storage, table.base_path, run)
    earliest = Retained(undo.earliest_retained, "commit", State.COMPLETED.name)
    completed = next(each for each in snapshot.timeline.completed if each.time == undo.instant)
    return UndoneClean(UndoPlan(run.run, run.files, earliest), undo.instant, completed.completion_time)


def _schedule(table: ServicedTable, run: str) -> tuple[str, UndoPlan]:
    """Write down that the clean is being undone, if it may be."""
    storage, base_path = table.storage, table.base_path
    with table.locked() as fence:
        snapshot = table.snapshot(only=(), service=TableService.CLEANING)
        found = load_quarantine(storage, base_path).find(run)
        if found is not None and found.undone_by is not None:
            settle_undo(table, snapshot, found, fence)
        plan = undo_plan(table, snapshot, run)
        check_metadata_table(table, snapshot)
        (instant,) = table.minter(snapshot).mint()
        fence()
        begin_undo(storage, base_path, run, instant)
        extra = {PLANNED_BY: "lakeward", UNDO_OF: run}
        if snapshot.timeline.savepoints:
            extra[SAVEPOINTED_TIMESTAMPS] = ",".join(sorted(snapshot.timeline.savepoints))
        written = CleanPlan(
            earliest_retained=plan.earliest,
            last_completed=snapshot.timeline.completed_writes[-1].time,
            files={},
            extra_metadata=extra,
        )
        fence()
        table.attempt(snapshot, instant, ServiceAction.CLEAN).files.request(
            write_clean_plan(written, root=clean_plan_root(base_path))
        )
    table.observer.step(f"clean {instant} scheduled, which undoes {run}, files: {len(plan.files)}")
    return instant, plan
