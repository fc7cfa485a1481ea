"""What a rollback did, or would do, for people and as JSON.

Touches: stdout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from lakeward.base.quantities import format_time
from lakeward.cli.result import print_json
from lakeward.protocol.pending.rollback import RollbackDecision, Step
from lakeward.services.rollback.run.rolling_back import PlannedRollback, RolledBackWrite

_NOTHING = "No failed write is to be rolled back, and no service that was left unfinished."
_WOULD = {
    Step.RELEASE: "Would release {}, whose plan would stay for the next compaction",
    Step.UNSCHEDULE: "Would unschedule {}",
    Step.DROP: "Would take {} away",
}


def tell_rolled_back(done: Sequence[RolledBackWrite], left: Sequence[RollbackDecision], *, as_json: bool) -> None:
    if as_json:
        print_json(rolled_back_as_json(done, left))
        return
    if not done:
        typer.echo(_NOTHING)
    for each in done:
        plan = each.planned.plan
        files = _files(sum(len(names) for names in plan.files.values()))
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
        typer.echo(f"{did}, because {why}: {files}.")
    _tell_left(left)


def rolled_back_as_json(done: Sequence[RolledBackWrite], left: Sequence[RollbackDecision]) -> dict[str, Any]:
    rolled_back = [
        _planned_json(each.planned) | {"rollback": each.rollback, "completion_time": each.completion_time}
        for each in done
    ]
    return {"dry_run": False, "rolled_back": rolled_back, "left": [_left_json(each) for each in left]}


def tell_rollbacks_planned(
    planned: Sequence[PlannedRollback], left: Sequence[RollbackDecision], *, as_json: bool
) -> None:
    if as_json:
        print_json(rollbacks_planned_as_json(planned, left))
        return
    if not planned:
        typer.echo(_NOTHING)
    for each in planned:
        plan, decision = each.plan, each.decision
        files = _files(sum(len(names) for names in plan.files.values()))
        would = _WOULD.get(decision.step, "Would roll back {}").format(f"{plan.action} {plan.instant}")
        typer.echo(f"{would}, because {decision.why}: {files}.")
        for partition_path, names in plan.files.items():
            for name in names:
                typer.echo(f"  {partition_path or '(none)'}  {name}")
    _tell_left(left)


def rollbacks_planned_as_json(planned: Sequence[PlannedRollback], left: Sequence[RollbackDecision]) -> dict[str, Any]:
    return {
        "dry_run": True,
        "rolled_back": [_planned_json(each) | {"rollback": None, "completion_time": None} for each in planned],
        "left": [_left_json(each) for each in left],
    }


def _tell_left(left: Sequence[RollbackDecision]) -> None:
    for each in left:
        until = "" if each.until is None else f" (at {format_time(each.until)}, unless something of it changes)"
        typer.echo(f"Left: {each.action} {each.instant}: {each.why}{until}.")


def _files(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"


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
