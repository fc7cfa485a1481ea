"""`lakeward jobs`, `job`, `costs` and `events`: what the daemons run and did, as the store has it.

Touches: stdout; the store, reading only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_duration, format_number, format_size, format_time
from lakeward.cli.configured_table import ConfigOption
from lakeward.cli.daemon.control_commands import TableArgument, table_name
from lakeward.cli.options.store import UrlOption, opened_store, read_settings
from lakeward.cli.result import Result
from lakeward.cli.terminal import WIDE_CELLS, Column, NameCell, Rendered, Terminal, new_table
from lakeward.config.job_card import format_core_seconds
from lakeward.config.job_summary import summarise_job
from lakeward.state.records import CleanerProgress, JobRecord
from lakeward.surface.documents import EventDocument, JobDocument, MonthDocument, is_clean, progress_of
from lakeward.surface.store_answers import StoreAnswers

LimitOption = Annotated[int, typer.Option(min=1, metavar="N", help="How many, the newest first.")]


def jobs(
    table: TableArgument = None,
    limit: LimitOption = 20,
    config: ConfigOption = None,
    url: UrlOption = None,
) -> Result:
    """Show what the daemons run and ran."""
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        name = None if table is None else table_name(store, settings, table, clock.now())
        found = store.jobs.latest(name, limit)
        cleans = {job.id: store.jobs.progress(job.id) for job in found if is_clean(job)}
    document = [JobDocument.of(job, cleans.get(job.id)).as_json() for job in found]
    if not found:
        return Result(document=document, lines=["No job is known."])
    return Rendered(document=document, render=partial(_render_jobs, found, cleans))


def _render_jobs(
    found: Sequence[JobRecord], cleans: Mapping[str, Sequence[CleanerProgress]], console: Terminal
) -> None:
    ended = ("ended",) if console.width >= WIDE_CELLS else ()
    columns = dict.fromkeys(("job", "table", "service", "began", *ended, "result"), Column.FIXED)
    view = new_table(columns | {"table": Column.ELASTIC})
    for job in found:
        at = () if not ended else ("" if job.ended_at is None else format_time(job.ended_at),)
        cells = (job.service, format_time(job.began_at), *at, _doing(job) if job.ended_at is None else job.result or "")
        view.add_row(Text(job.id), NameCell(job.table), *map(Text, cells))
    console.print(view)
    for job in found:
        if described := _described(job, cleans.get(job.id, ())):
            console.print(Text(f"{job.id}: {described}"))


def _doing(job: JobRecord) -> str:
    return "waits" if progress_of(job).get("waiting_for") else "runs"


def _progress_lines(job: JobRecord) -> list[str]:
    progress = progress_of(job)
    waits = progress.get("waiting_for")
    wait = f"waits since {format_time(progress['waiting_since'])}: {waits}" if waits else ""
    return [str(each) for each in (wait, progress.get("step"), progress.get("sentence")) if each]


def _described(job: JobRecord, cleans: Sequence[CleanerProgress]) -> str:
    """What a job did, how far its cleans are while they are not done, and what went wrong."""
    under_way = [
        f"clean {each.instant}: {each.files:,} of {each.files_total:,} files deleted"
        for each in cleans
        if each.files < each.files_total
    ]
    words = (job.instant or "", summarise_job(job.figures), *_progress_lines(job), *under_way, job.error or "")
    return ". ".join(each.rstrip(".") for each in words if each)


def job(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="The id of a job, as `lakeward jobs` lists it.")],
    config: ConfigOption = None,
    url: UrlOption = None,
) -> Result:
    """Show one job: why, what it took and what was predicted, and when it pays back."""
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        answer = StoreAnswers(store, clock).job(job_id)
    found, card = answer.record, answer.card
    ended = "" if found.ended_at is None else f", ended {format_time(found.ended_at)}"
    result = found.result or _doing(found)
    lines = [
        f"{found.service} of {found.table}: {result}",
        f"Began {format_time(found.began_at)}{ended}",
        _described(found, answer.cleans or ()),
        *(() if card is None else (f"{label}: {text}" for label, text in card.lines())),
    ]
    return Result(document=answer.document.as_json(), lines=[line for line in lines if line])


def costs(
    table: TableArgument = None,
    config: ConfigOption = None,
    url: UrlOption = None,
) -> Result:
    """Show what the daemons' jobs took, by month, table and service, and what Hudi's default would have taken.

    Once a day each merge-on-read table's own commits are replayed with Hudi's default: a compaction of all file groups
    after five delta commits. Where that replay is off by more than 15% from the bytes that compactions really wrote,
    what was saved is left out.
    """
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        name = None if table is None else table_name(store, settings, table, clock.now())
        found = StoreAnswers(store, clock).costs(name)
    document = [month.as_json() for month in found]
    if not found:
        return Result(document=document, lines=["No job has ended yet, and no day was compared with Hudi's default."])
    return Rendered(document=document, render=partial(_render_costs, found))


def _render_costs(found: Sequence[MonthDocument], console: Terminal) -> None:
    names = ("month", "table", "service", "jobs", "failed", "took", "read", "written", "predicted", "actual")
    view = new_table(dict.fromkeys(names, Column.FIXED) | {"table": Column.ELASTIC})
    for month in found:
        cells = (
            *(format_number(month.jobs), format_number(month.failed), format_duration(month.seconds)),
            *(format_size(month.read_bytes), format_size(month.written_bytes)),
            *(format_core_seconds(month.predicted_seconds), format_core_seconds(month.actual_seconds)),
        )
        view.add_row(month.month, NameCell(month.table), month.service, *cells)
    console.print(view)
    console.print(Text("Predicted and actual are core-seconds; without a figure: nothing is predicted of the service."))
    if any(month.beside_hudi for month in found):
        _render_beside_hudi(found, console)


def _render_beside_hudi(found: Sequence[MonthDocument], console: Terminal) -> None:
    names = ("month", "table", "days", "wrote", "Hudi would", "took", "Hudi would take", "saved", "replay")
    view = new_table(dict.fromkeys(names, Column.FIXED) | {"table": Column.ELASTIC})
    for month in found:
        if (beside := month.beside_hudi) is None:
            continue
        days = f"{beside.days} of {beside.days + beside.unknown_days}" if beside.unknown_days else f"{beside.days}"
        factor = "-" if beside.replay_factor is None else f"{beside.replay_factor:.2f}"
        cells = (
            *(days, format_size(beside.written_bytes), format_size(beside.hudi_written_bytes)),
            *(format_core_seconds(beside.core_seconds), format_core_seconds(beside.hudi_core_seconds)),
            *(format_core_seconds(beside.saved_core_seconds), factor),
        )
        view.add_row(month.month, NameCell(month.table), *cells)
    console.print(Text(""))
    console.print(view)
    console.print(
        Text(
            "Beside Hudi's default, a compaction after 5 delta commits: core-seconds of compactions and of reading "
            "logs by the planner's model, of days that are over. Replay: bytes by the model over bytes that were "
            "written; beyond 0.85 to 1.15, or without any, nothing is said to be saved."
        )
    )


def events(
    table: TableArgument = None,
    limit: LimitOption = 50,
    config: ConfigOption = None,
    url: UrlOption = None,
) -> Result:
    """Show what happened, the newest first."""
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        name = None if table is None else table_name(store, settings, table, clock.now())
        found = store.events.latest(name, limit)
    document = [EventDocument.of(event).as_json() for event in found]
    if not found:
        return Result(document=document, lines=["Nothing is known to have happened."])
    fixed, elastic = Column.FIXED, Column.ELASTIC
    view = new_table({"at": fixed, "kind": fixed, "table": elastic, "what": elastic})
    for event in found:
        view.add_row(format_time(event.at), Text(event.kind), NameCell(event.table or ""), Text(event.text))
    return Rendered(document=document, render=lambda console: console.print(view))
