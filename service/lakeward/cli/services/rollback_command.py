"""`lakeward rollback TABLE [INSTANT]`: roll back writes that failed, so that nothing of them is left.

Touches: stdout, stderr; the table, through `services/rollback/run/rolling_back.py`.
Keeps:   1. nothing is written without a statement about the table's other writers, nor with --dry-run;
         2. each pending instant that stays is reported, with the reason.
See:     docs/decisions/0032-what-is-rolled-back.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.errors import Cancelled, LakewardError, Refused, TryLater, UsageError
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.result import DebugOption, JsonOption
from lakeward.cli.services.serviced import serviced_table
from lakeward.cli.views.rollback import tell_rollbacks_planned, tell_rolled_back
from lakeward.protocol.pending.rollback import RollbackReason, Step
from lakeward.services.rollback.run.rolling_back import find_decisions, preview, read_timeline, roll_back_writes

if TYPE_CHECKING:
    from lakeward.protocol.pending.rollback import RollbackDecision
    from lakeward.protocol.serviced_table import ServicedTable
    from lakeward.table.timeline.timeline import Timeline


@with_option_groups
def rollback(
    *,
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(
            metavar="[INSTANT]", help="Instant of the failed write; without it all failed writes, the newest first."
        ),
    ] = None,
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Dry run: list what would be rolled back, file by file, and write nothing."),
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Roll back writes whose writer died: delete their files, their part of the metadata table, and their instants.

    Writes whose writer is still running and completed writes are never touched.
    """
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks, timezone=timezone) as serviced:
        found = find_decisions(serviced)
        if instant is not None:
            found = (_the_one(serviced, found, instant, dry_run=dry_run),)
        todo = [decision for decision in found if decision.step is not Step.LEAVE]
        left = [decision for decision in found if decision.step is Step.LEAVE]
        if dry_run:
            planned = [preview(serviced, decision) for decision in todo]
            tell_rollbacks_planned(planned, left, as_json=as_json)
            return
        try:
            report = roll_back_writes(serviced, [decision.instant for decision in todo])
        except (KeyboardInterrupt, Cancelled) as error:
            error.add_note("A rollback that had begun is ended by the next one, or by the next Hudi writer.")
            raise
    tell_rolled_back(report.rolled_back, [*report.left, *left], as_json=as_json)


def _the_one(
    serviced: ServicedTable, found: Sequence[RollbackDecision], instant: str, *, dry_run: bool
) -> RollbackDecision:
    """The decision about the instant that was named. Raises why it is not rolled back, but for a dry run, which reports
    what ends it.
    """
    ended = next((each for each in found if each.target == instant), None)
    decision = ended or next((each for each in found if each.instant == instant), None)
    if decision is None:
        raise _not_pending(read_timeline(serviced), instant)
    if dry_run or decision.step is not Step.LEAVE:
        return decision
    what, why = f"{decision.action} {decision.instant} is not rolled back.", f"{_sentence(decision.why)}."
    if decision.reason is RollbackReason.LIVE_WRITER:
        raise TryLater(what, why=why, remedy="Wait until it ends, or stop it where it runs, and try again.")
    raise Refused(what, why=why, remedy="`lakeward rollback TABLE --dry-run` names all that is pending.")


def _not_pending(timeline: Timeline, instant: str) -> LakewardError:
    if any(each.time == instant for each in timeline.completed):
        return Refused(
            f"{instant} is completed, and is not rolled back.",
            why="Readers may have seen its rows, and later commits may rest on them.",
            remedy="Write the rows again, or take the table back to the commit before it: lakeward restore TABLE --to.",
        )
    return UsageError(
        f"Nothing is pending at {instant}.",
        why="It is not on the timeline: rolled back already, archived, or never there.",
        remedy="`lakeward inspect` shows what is pending.",
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
