"""`lakeward unschedule TABLE [INSTANT]`: remove a pending plan of Lakeward, so that its file groups are free.

Touches: stdout, stderr; the table, through `services/compaction/run/unschedule.py`.
Keeps:   1. nothing is written without a statement about the table's other writers, nor with --dry-run;
         2. a plan that another engine wrote stays without --foreign, and the error says how that engine unschedules it.
See:     docs/decisions/0009-plans-expire.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import serviced_table
from lakeward.protocol.pending.pending_work import PendingWork, pending_work
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import label
from lakeward.services.compaction.run.unschedule import (
    StillScheduled,
    Unscheduled,
    preview_unscheduling,
    why_scheduled,
)
from lakeward.services.compaction.run.unschedule import unschedule as unschedule_plan


def unschedule(
    *,
    opened: ZonedTable,
    instant: Annotated[
        str | None,
        typer.Argument(
            metavar="[INSTANT]", help="Instant of the plan; optional if Lakeward has only one pending plan."
        ),
    ] = None,
    given: LockArguments,
    foreign: Annotated[
        bool,
        typer.Option(
            "--foreign",
            help="Also a plan of another engine: with --writers stopped, or once nothing of the plan has changed for "
            "rollback.silent_after.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
) -> Result:
    """Remove a pending compaction that Lakeward planned. No row changes; its file groups can be planned again.

    With --foreign also one that another engine planned.
    """
    if foreign and instant is None:
        raise UsageError(
            "--foreign goes with an INSTANT.",
            why="What another engine planned is removed only by name.",
            remedy="`lakeward inspect` shows what is pending.",
        )
    locks = given.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks) as serviced:
        pending = pending_work(serviced.snapshot(only=(), service=TableService.UNSCHEDULING))
        if instant is None and not any(work.is_own for work in pending):
            return _nothing_result(pending)
        chosen = instant or _only(pending, opened.base_path)
        act = preview_unscheduling if dry_run else unschedule_plan
        ended = act(serviced, chosen, foreign=foreign)
    if isinstance(ended, StillScheduled):
        raise why_scheduled(ended, next((work for work in pending if work.instant == chosen), None))
    would = "Would unschedule" if dry_run else "Unscheduled"
    groups = format_count(len(ended.groups), "file group")
    attempt = (
        f"{', and roll back' if dry_run else ', and rolled back'} an attempt that died"
        if ended.attempt_rolled_back
        else ""
    )
    return Result(
        document={"unscheduled": _as_json(ended), "dry_run": dry_run},
        lines=[
            f"{would} {label(ended.action)} {ended.instant}{attempt}. It holds {groups}:",
            *(f"  {partition_path or '(none)'}  {file_id}" for partition_path, file_id in ended.groups),
        ],
    )


def _only(pending: Sequence[PendingWork], table: str) -> str:
    own = [work.instant for work in pending if work.is_own]
    if len(own) > 1:
        raise UsageError(
            f"Several plans of Lakeward are pending: {', '.join(own)}.",
            why="Only one can be unscheduled at a time.",
            remedy=f"Name one: lakeward unschedule {table} {own[0]}.",
        )
    return own[0]


def _nothing_result(pending: Sequence[PendingWork]) -> Result:
    others = [work.instant for work in pending]
    foreign = f" Of other engines: {', '.join(others)}." if others else ""
    return Result(
        document={"unscheduled": None, "foreign": others}, lines=[f"No plan of Lakeward is pending.{foreign}"]
    )


def _as_json(ended: Unscheduled) -> dict[str, Any]:
    return {
        "instant": ended.instant,
        "action": ended.action.pending,
        "attempt_undone": ended.attempt_rolled_back,
        "groups": [{"partition_path": partition, "file_id": file_id} for partition, file_id in ended.groups],
    }
