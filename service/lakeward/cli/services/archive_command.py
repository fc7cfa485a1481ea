"""`lakeward archive TABLE`: move the oldest instants into the archive; with --dry-run say which, and what keeps others.

Touches: stdout, stderr; the table, through `services/archive/run/archiver.py`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypeGuard

import typer
from rich.console import Console

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_count, format_duration
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.values import parse_pairs
from lakeward.cli.result import DryRunOption, Result, shown
from lakeward.cli.serviced import serviced_table
from lakeward.cli.terminal import Rendered
from lakeward.engine.dispatch.engine_rule import EngineRule
from lakeward.services.archive.plan.archive_plan import ArchivePlan
from lakeward.services.archive.plan.hudi_archiver_keys import (
    ARCHIVE_SETTINGS,
    archive_options_of,
    merge_archive_settings,
)
from lakeward.services.archive.run.archive_preview import preview_archive
from lakeward.services.archive.run.archiver import Archiver, ArchiveReport
from lakeward.services.archive.settings import ArchiveSettings


def archive(
    *,
    opened: ZonedTable,
    keep_min: Annotated[
        int | None,
        typer.Option("--keep-min", metavar="N", help="How many commits stay at least: hoodie.keep.min.commits; 20."),
    ] = None,
    keep_max: Annotated[
        int | None,
        typer.Option(
            "--keep-max", metavar="N", help="From more commits than that on the oldest go: hoodie.keep.max.commits; 30."
        ),
    ] = None,
    cleaned: Annotated[
        int | None,
        typer.Option(
            "--commits-retained",
            metavar="N",
            help="What cleaning retains, and so cannot go: hoodie.clean.commits.retained; 10.",
        ),
    ] = None,
    delta_commits: Annotated[
        int | None,
        typer.Option(
            "--delta-commits",
            metavar="N",
            help="What triggers a compaction, and so stays: hoodie.compact.inline.max.delta.commits; 5.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=f"A setting of Hudi's archiver: {', '.join(ARCHIVE_SETTINGS)}. The options above win. Repeatable.",
        ),
    ] = None,
    arguments: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Move the oldest commits, cleans and rollbacks from the active timeline into the archive, as Hudi's writers do.

    Nothing goes that a savepoint, a pending instant, the cleaner, the metadata table or a reader may still need; what
    holds the timeline is named.
    """
    given = parse_pairs(settings, like="--set hoodie.keep.max.commits=30")
    configured = opened.table.section(ArchiveSettings).by_hudis_keys(opened.table.as_hudi_has_it)
    options = archive_options_of(
        merge_archive_settings(configured, given),
        commits_min=keep_min,
        commits_max=keep_max,
        commits_cleaned=cleaned,
        delta_commits=delta_commits,
    )
    locks = arguments.over(opened, dry_run=dry_run)
    if dry_run:
        plan = preview_archive(
            opened.storage,
            opened.base_path,
            options,
            clock=SystemClock(),
            timezone=opened.table.timezone,
        )
        return planned_result(plan)
    with serviced_table(opened, locks) as serviced:
        return archived_result(Archiver(serviced, options).archive())


def planned_result(plan: ArchivePlan) -> Result:
    return Rendered(
        document=archive_as_json(plan),
        render=partial(render_archive, plan),
        is_nothing=not (plan.archived or _archives_metadata(plan.metadata)),
    )


def archived_result(report: ArchiveReport) -> Result:
    return Rendered(
        document=archived_as_json(report),
        render=partial(render_archived, report),
        is_nothing=not (report.archived or report.merged_files or _archives_metadata(report.metadata)),
    )


def in_round(done: ArchivePlan | ArchiveReport, rule: EngineRule) -> Result:
    """The step of `lakeward service`."""
    return planned_result(done) if isinstance(done, ArchivePlan) else archived_result(done)


def archive_as_json(plan: ArchivePlan) -> dict[str, Any]:
    return {
        "commits": plan.commits,
        "commits_min": plan.options.commits_min,
        "commits_max": plan.options.commits_max,
        "is_due": plan.is_due,
        "archived": _instants_as_json(plan),
        "leftovers": plan.leftovers,
        "kept": [
            {"from": limit.instant, "reason": limit.reason.value, "explanation": limit.why} for limit in plan.limits
        ],
        "blocked_by": plan.blocked_by and plan.blocked_by.reason.value,
        "metadata_table": _metadata_as_json(plan.metadata),
    }


def _metadata_as_json(metadata: ArchivePlan | ArchiveReport | str | None) -> dict[str, Any] | None:
    """How long the metadata table's own timeline is, what goes from it, and why the rest does not."""
    match metadata:
        case None:
            return None
        case str():
            return {"commits": None, "archived": [], "left": metadata}
        case ArchivePlan():
            blocked = metadata.blocked_by
            left = None if blocked is None else blocked.why
            return {"commits": metadata.commits, "archived": _instants_as_json(metadata), "left": left}
        case ArchiveReport():
            document = _metadata_as_json(metadata.plan)
            assert document is not None, "a plan has one"
            return document | {
                "archived": _instants_as_json(metadata),
                "left": metadata.left or document["left"],
            }


def archived_as_json(report: ArchiveReport) -> dict[str, Any]:
    return archive_as_json(report.plan) | {
        "archived": _instants_as_json(report),
        "left": report.left or None,
        "merged_files": report.merged_files,
        "seconds": report.seconds,
        "metadata_table": _metadata_as_json(report.metadata),
    }


def _archives_metadata(
    metadata: ArchivePlan | ArchiveReport | str | None,
) -> TypeGuard[ArchivePlan | ArchiveReport]:
    return isinstance(metadata, ArchivePlan | ArchiveReport) and bool(metadata.archived)


def render_archived(report: ArchiveReport, console: Console) -> None:
    _render_own(report, console)
    _render_metadata(report.metadata, console, "went into its own archive")


def _render_metadata(metadata: ArchivePlan | ArchiveReport | str | None, console: Console, what: str) -> None:
    """A line about the metadata table, where there is something to say."""
    if isinstance(metadata, str):
        console.print(f"The metadata table's timeline stays as it is: {shown(metadata)}", highlight=False, markup=False)
    elif _archives_metadata(metadata):
        number, last = format_count(len(metadata.archived), "instant"), metadata.archived[-1].time
        console.print(f"Of the metadata table's timeline {number} {what}, up to {last}.", highlight=False)


def _render_own(report: ArchiveReport, console: Console) -> None:
    if report.archived:
        number = format_count(len(report.archived), "instant")
        first, last = report.archived[0].time, report.archived[-1].time
        console.print(
            f"Archived {number}, {first} to {last}, in {format_duration(report.seconds)}.",
            highlight=False,
        )
        if not report.plan.is_due:
            return
    elif not report.plan.is_due:
        console.print(f"Nothing to archive: {_on_timeline(report.plan)}", highlight=False)
        return
    else:
        console.print("Nothing was archived.")
    if report.left:
        console.print(f"The rest stays for now: {shown(report.left)}.", highlight=False, markup=False)
    _render_limits(report.plan, console)


def render_archive(plan: ArchivePlan, console: Console) -> None:
    _render_plan(plan, console)
    _render_metadata(plan.metadata, console, "would go into its own archive")


def _render_plan(plan: ArchivePlan, console: Console) -> None:
    if not plan.is_due and not plan.archived:
        console.print(_on_timeline(plan), highlight=False)
        return
    for instant in plan.archived:
        console.print(f"{instant.time} {instant.action}", highlight=False)
    would = f"{format_count(len(plan.archived), 'instant')} would go" if plan.archived else "Nothing would go"
    console.print(f"{would}; {plan.commits} completed commits are on the timeline.", highlight=False)
    if plan.leftovers:
        console.print(
            f"The archive has {format_count(plan.leftovers, 'instant')} of these already: an archiver died over them.",
            highlight=False,
        )
    _render_limits(plan, console)


def _render_limits(plan: ArchivePlan, console: Console) -> None:
    for limit in plan.limits:
        console.print(
            f"Kept from {limit.instant} on ({limit.reason}): {shown(limit.why)}", highlight=False, markup=False
        )


def _on_timeline(plan: ArchivePlan) -> str:
    return f"The active timeline has {plan.commits} completed commits, of up to {plan.options.commits_max}."


def _instants_as_json(plan: ArchivePlan | ArchiveReport) -> list[dict[str, Any]]:
    return [
        {"instant": instant.time, "action": instant.action, "completion_time": instant.completion_time}
        for instant in plan.archived
    ]
