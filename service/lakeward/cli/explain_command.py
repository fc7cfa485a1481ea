"""`lakeward explain TABLE`: what compact would do now, and why; with --file or --instant what one of them is, why it is
still there and until when. Reads only.

Touches: stdout; the table and the store, reading only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Refused, UsageError
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.explained import Explained
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.plan import StatedPlan
from lakeward.cli.preview import engine_rule_of, preview, show_preview
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.views.explained import (
    file_as_json,
    instant_as_json,
    judged_by_as_json,
    render_storage,
    storage_as_json,
)
from lakeward.cli.views.plan import explanations_as_json, render_explanations
from lakeward.cli.views.savepoints import explain_pinned, savepoints_as_json
from lakeward.cli.views.terminal import Terminal
from lakeward.config.settings import Writers
from lakeward.config.standing import standing_of
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.services.compaction.plan.decision import PlanOutcome
from lakeward.services.together.explaining.file_explanation import Gone
from lakeward.services.together.explaining.file_sentences import explain_in_sentences
from lakeward.services.together.explaining.instant_explanation import instant_in_sentences

if TYPE_CHECKING:
    from rich.console import Console

    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.services.metadata.plan.trigger import MetadataTrigger


@with_option_groups
def explain(
    *,
    table: TableArgument,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Explain one data file instead: by its path below the table or from the current folder, its whole "
            "path, or its name.",
        ),
    ] = None,
    instant: Annotated[
        str | None,
        typer.Option(metavar="T", help="Explain one instant of the timeline instead, by the digits of its time."),
    ] = None,
    config: ConfigOption = None,
    stated: StatedPlan,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Explain for each file group in one sentence what would happen to it, why, and when that would change; and what
    holds the table's storage and its timeline.

    With --file: which slice a file is in, who wrote it, and what keeps it until when: readers, the clean policy, a
    pending plan, a savepoint, the quarantine; or what happened to it. With --instant: what it is, what happened to the
    files that it wrote, and what keeps it out of the archive. Exit code 3 if nothing is known of the file or instant.
    """
    opened = open_table(table, config)
    if file is None and instant is None:
        _explain_table(opened, config, stated, timezone, as_json=as_json)
        return
    if (file is not None and instant is not None) or not stated.is_silent:
        raise UsageError(
            "--file and --instant go with nothing that is about a plan, nor with each other.",
            remedy="Ask for one of them, without --partition, --file-group, --type and --set.",
        )
    is_known = (
        _explain_file(opened, file, timezone, as_json=as_json)
        if file is not None
        else _explain_instant(opened, instant or "", timezone, as_json=as_json)
    )
    if not is_known:
        raise typer.Exit(3)


def _explain_file(opened: ConfiguredTable, given: str, timezone: str | None, *, as_json: bool) -> bool:
    explained = Explained(opened, timezone=timezone)
    found = explained.file(given)
    if as_json:
        print_json({**file_as_json(found), "judged_by": judged_by_as_json(explained.judged_by)})
    else:
        sentences = explain_in_sentences(found, now=SystemClock().now(), zone=explained.snapshot.zone.zone)
        _print([*sentences, explained.judged_by.sentence])
    return found.verdict is not Gone.UNKNOWN


def _explain_instant(opened: ConfiguredTable, time: str, timezone: str | None, *, as_json: bool) -> bool:
    explained = Explained(opened, timezone=timezone)
    found = explained.instant(time)
    if as_json:
        print_json({**instant_as_json(found), "judged_by": judged_by_as_json(explained.judged_by)})
    else:
        sentences = instant_in_sentences(found, explained.snapshot, now=SystemClock().now())
        _print([*sentences, explained.judged_by.sentence])
    return found.is_known


def _print(sentences: list[str]) -> None:
    console = Terminal()
    for sentence in sentences:
        console.print(sentence, highlight=False, markup=False)


def _explain_table(
    opened: ConfiguredTable, config: Any, stated: StatedPlan, timezone: str | None, *, as_json: bool
) -> None:
    trigger: MetadataTrigger | None = None
    beside_writers = opened.locks.writers is Writers.SHARE
    try:
        found, trigger = preview(opened, config, stated, timezone)
        planned, snapshot = found.outcome, found.snapshot
    except Refused:
        planned, snapshot = PlanOutcome((), ()), opened.snapshot(timezone=timezone)
        standing = standing_of(opened.table, snapshot, beside_writers=beside_writers)
        if not stated.is_silent or standing.may(TableService.COMPACTION) or not standing.may(TableService.CLEANING):
            raise  # there is nothing else that could be said
    standing = standing_of(opened.table, snapshot, beside_writers=beside_writers)
    explained = Explained(opened, timezone=timezone, snapshot=snapshot)
    states, archiving, now = explained.storage_states, explained.archiving, SystemClock().now()
    pinned = explained.pinned

    def document(outcome: PlanOutcome) -> dict[str, Any]:
        return {
            **explanations_as_json(outcome),
            "no_work": standing.no_work or None,
            "refused": {service.value: text for service, text in standing.told.items()},
            "savepoints": savepoints_as_json(pinned, now=now),
            "storage": storage_as_json(states),
            "judged_by": judged_by_as_json(explained.judged_by),
            "archiving_blocked_by": None
            if archiving is None or archiving.blocked_by is None
            else {"reason": archiving.blocked_by.reason.value, "explanation": archiving.blocked_by.why},
        }

    def render(outcome: PlanOutcome, console: Console) -> None:
        render_explanations(outcome, console)
        if standing.no_work:
            console.print(f"There is nothing to compact: {standing.no_work}.", highlight=False, markup=False)
        for service, text in standing.told.items():
            console.print(f"Refused, {service}: {text}", highlight=False, markup=False)
        explain_pinned(pinned, console, now=now)
        render_storage(states, explained.clean, archiving, explained.judged_by, console)

    rule = engine_rule_of(opened, config, stated)
    show_preview(planned, trigger, rule, as_json=as_json, document=document, render=render)
