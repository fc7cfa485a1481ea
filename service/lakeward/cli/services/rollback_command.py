"""`lakeward rollback TABLE [INSTANT]`: roll back writes that failed, so that nothing of them is left.

Touches: stdout, stderr; the table, through `services/rollback/run/roll_back.py`.
Keeps:   1. nothing is written without a statement about the table's other writers, nor with --dry-run;
         2. each pending instant that stays is reported, with the reason.
See:     docs/decisions/0032-what-is-rolled-back.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.errors import Cancelled
from lakeward.base.quantities import format_count, format_time
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import serviced_table
from lakeward.engine.dispatch.engine_rule import EngineRule
from lakeward.protocol.pending.rollback import RollbackDecision, Step
from lakeward.services.rollback.run.roll_back import (
    PlannedRollback,
    RollbackReport,
    RolledBackWrite,
    find_decision,
    find_decisions,
    preview,
    roll_back_writes,
)

if TYPE_CHECKING:
    pass


def rollback(
    *,
    opened: ZonedTable,
    instant: Annotated[
        str | None,
        typer.Argument(
            metavar="[INSTANT]",
            help="Instant of the failed write, or of a pending clustering whose plan is to go; without it all failed "
            "writes, the newest first.",
        ),
    ] = None,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Roll back writes whose writer died: delete their files, their part of the metadata table, and their instants.

    Writes whose writer is still running and completed writes are never touched.
    """
    locks = given.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks) as serviced:
        if instant is None:
            found = find_decisions(serviced)
        else:
            found = (find_decision(serviced, instant, accepts_left=dry_run),)
        todo = [decision for decision in found if decision.step is not Step.LEAVE]
        left = [decision for decision in found if decision.step is Step.LEAVE]
        if dry_run:
            return planned_result([preview(serviced, decision) for decision in todo], left)
        try:
            report = roll_back_writes(serviced, [decision.instant for decision in todo], asked=instant)
        except (KeyboardInterrupt, Cancelled) as error:
            error.add_note("A rollback that had begun is ended by the next one, or by the next Hudi writer.")
            raise
    return rolled_back_result(report.rolled_back, [*report.left, *left])


_NOTHING = "No failed write is to be rolled back, and no service that was left unfinished."
_WOULD = {
    Step.RELEASE: "Would release {}, whose plan would stay for the next compaction",
    Step.UNSCHEDULE: "Would unschedule {}",
    Step.DROP: "Would take {} away",
}


def rolled_back_result(done: Sequence[RolledBackWrite], left: Sequence[RollbackDecision]) -> Result:
    lines = [*_rolled_back_lines(done), *_left_lines(left)]
    return Result(document=_rolled_back_json(done, left), lines=lines, is_nothing=not done)


def planned_result(planned: Sequence[PlannedRollback], left: Sequence[RollbackDecision]) -> Result:
    lines = [*_planned_lines(planned), *_left_lines(left)]
    return Result(document=_rollbacks_planned_json(planned, left), lines=lines, is_nothing=not planned)


def in_round(
    done: RollbackReport | tuple[Sequence[PlannedRollback], Sequence[RollbackDecision]], rule: EngineRule
) -> Result:
    """The step of `lakeward service`."""
    if isinstance(done, RollbackReport):
        return rolled_back_result(done.rolled_back, done.left)
    return planned_result(*done)


def _rolled_back_lines(done: Sequence[RolledBackWrite]) -> Iterator[str]:
    if not done:
        yield (_NOTHING)
    for each in done:
        plan = each.planned.plan
        files = format_count(sum(len(names) for names in plan.files.values()), "file")
        why = each.planned.decision.why
        match each.planned.decision.step:
            case Step.RELEASE:
                did = f"Released {plan.action} {plan.instant}, whose plan stays for the next compaction"
            case Step.UNSCHEDULE:
                did = f"Unscheduled {plan.action} {plan.instant}"
            case Step.DROP:
                did = f"Took {plan.action} {plan.instant} away"
            case _:
                did = f"Rolled back {plan.action} {plan.instant} by rollback {each.rollback}"
        yield (f"{did}, because {why}: {files}.")


def _rolled_back_json(done: Sequence[RolledBackWrite], left: Sequence[RollbackDecision]) -> dict[str, Any]:
    rolled_back = [
        _planned_json(each.planned) | {"rollback": each.rollback, "completion_time": each.completion_time}
        for each in done
    ]
    return {"dry_run": False, "rolled_back": rolled_back, "left": [_left_json(each) for each in left]}


def _planned_lines(planned: Sequence[PlannedRollback]) -> Iterator[str]:
    if not planned:
        yield (_NOTHING)
    for each in planned:
        plan, decision = each.plan, each.decision
        files = format_count(sum(len(names) for names in plan.files.values()), "file")
        would = _WOULD.get(decision.step, "Would roll back {}").format(f"{plan.action} {plan.instant}")
        yield (f"{would}, because {decision.why}: {files}.")
        for partition_path, names in plan.files.items():
            for name in names:
                yield (f"  {partition_path or '(none)'}  {name}")


def _rollbacks_planned_json(planned: Sequence[PlannedRollback], left: Sequence[RollbackDecision]) -> dict[str, Any]:
    return {
        "dry_run": True,
        "rolled_back": [_planned_json(each) | {"rollback": None, "completion_time": None} for each in planned],
        "left": [_left_json(each) for each in left],
    }


def _left_lines(left: Sequence[RollbackDecision]) -> Iterator[str]:
    for each in left:
        until = "" if each.until is None else f" (at {format_time(each.until)}, unless something of it changes)"
        yield (f"Left: {each.action} {each.instant}: {each.why}{until}.")


def _planned_json(planned: PlannedRollback) -> dict[str, Any]:
    plan, decision = planned.plan, planned.decision
    return {
        "instant": plan.instant,
        "action": plan.action,
        "step": decision.step.value,
        "reason": decision.reason.value,
        "why": decision.why,
        "was_begun": decision.target is not None,
        "found_by": planned.found_by.value,
        "files": [
            {"partition_path": partition_path, "name": name}
            for partition_path, names in plan.files.items()
            for name in names
        ],
    }


def _left_json(decision: RollbackDecision) -> dict[str, Any]:
    return {
        "instant": decision.instant,
        "action": decision.action,
        "reason": decision.reason.value,
        "why": decision.why,
        "target": decision.target,
        "until": decision.until,
    }
