"""The metadata table's own services, as `lakeward metadata compact|clean` and `lakeward compact` do and print them.

Touches: stdout, stderr; the table, through `services/metadata/run/services.py`.
Keeps:   an option that says how rows are merged is refused beside it, not passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakeward.base.clock import SystemClock
from lakeward.base.errors import BrokenFile, Unsupported, UsageError
from lakeward.base.quantities import format_duration, format_instant, format_size
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.interrupts import interruptible
from lakeward.cli.options.store import print_json
from lakeward.cli.views.progress import open_view
from lakeward.cli.views.terminal import Terminal
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.services.metadata.plan.cleaning import file_names
from lakeward.services.metadata.plan.compact_after import MetadataCompactAfter
from lakeward.services.metadata.plan.trigger import MetadataService, MetadataTrigger
from lakeward.services.metadata.run.trigger import MetadataReport, scan_trigger
from lakeward.storage.storage import join
from lakeward.table.table_config import load_table_config

if TYPE_CHECKING:
    from lakeward.services.metadata.run.services import MetadataDone, MetadataWork


def check_goes_with_metadata(given: Mapping[str, object]) -> None:
    """Raise `UsageError` where one of these options was given.

    Args:
        given: by its name; None and empty ones were not given.
    """
    for option, value in given.items():
        if value:
            raise UsageError(
                f"{option} does not go with --metadata.",
                why="The metadata table is compacted as a whole and in this process: that is what Hudi archives by.",
                remedy="Leave one of the two out.",
            )


def service_metadata_now(
    opened: ConfiguredTable,
    options: CompactionOptions,
    only: MetadataService | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> bool:
    """Clean the metadata table, compact it, or do both where `only` is None; with `dry_run` say what would be done.
    Returns whether there was, or is, something to do."""
    # With the kernels that a daemon leaves to its tasks.
    from lakeward.services.metadata.run.services import MetadataServices

    clock, console = SystemClock(), Terminal()
    with open_view(Terminal(stderr=True), clock) as view, interruptible() as guard:
        services = MetadataServices(
            opened.storage, opened.base_path, options, clock=clock, processes=Processes(), observer=view, guard=guard
        )
        work = services.preview(only) if dry_run else None
        done = None if dry_run else services.run(only)
    if work is not None:
        print_json(_work_as_json(work)) if as_json else console.print(_work(work), highlight=False)
        return work.is_due
    assert done is not None, "it is either a preview or a run"
    if as_json:
        print_json(_done_as_json(done, only))
    else:
        for line in _headlines(done):
            console.print(line, highlight=False)
        if done.clean is None and only is MetadataService.CLEAN:
            console.print("Nothing to clean: every file of the metadata table may still be read.")
        if done.compaction is None and only is not MetadataService.CLEAN:
            console.print("Nothing to compact: no log was added to the metadata table since its last compaction.")
    return done.clean is not None or done.compaction is not None


def metadata_report_as_json(report: MetadataReport) -> dict[str, Any]:
    """The report as JSON, which stands beside what was done to the table."""
    return {
        "metadata_table": metadata_trigger_as_json(report.trigger),
        **_done_as_json(report.done),
        "metadata_left": None if report.left is None else str(report.left),
    }


def metadata_trigger_as_json(trigger: MetadataTrigger | None) -> dict[str, Any] | None:
    """None where there is no metadata table, or it is left to its writers."""
    return None if trigger is None else {**asdict(trigger), "is_due": trigger.is_due}


def render_metadata_report(report: MetadataReport, console: Terminal) -> None:
    """Nothing where there was nothing to do."""
    if report.left is not None:
        console.print(f"The metadata table was left as it is: {report.left}", highlight=False)
    for line in _headlines(report.done):
        console.print(line, highlight=False)


def metadata_trigger_of(opened: ConfiguredTable, after: MetadataCompactAfter) -> MetadataTrigger | None:
    """None also where the metadata table cannot be read: then it is not compacted either, and `inspect` says why."""
    clock = SystemClock()
    config = load_table_config(opened.storage, opened.base_path, clock=clock).config
    try:
        return scan_trigger(opened.storage, opened.base_path, config, after=after, clock=clock)
    except (Unsupported, BrokenFile):
        return None


def render_metadata_trigger(trigger: MetadataTrigger | None, console: Terminal) -> None:
    if trigger is not None:
        word = "due" if trigger.is_due else "not due"
        console.print(f"Services of the metadata table are {word}: {trigger.why}.", highlight=False)


def _done_as_json(done: MetadataDone | None, only: MetadataService | None = None) -> dict[str, Any]:
    printed: dict[str, Any] = {}
    if only is not MetadataService.COMPACTION:
        printed["metadata_clean"] = asdict(done.clean) if done and done.clean else None
    if only is not MetadataService.CLEAN:
        printed["metadata_compaction"] = asdict(done.compaction) if done and done.compaction else None
    return printed


def _work_as_json(work: MetadataWork) -> dict[str, Any]:
    printed: dict[str, Any] = {}
    if (backlog := work.backlog) is not None:
        printed |= {
            "compacted_at": backlog.compacted_at,
            "delta_commits": backlog.delta_commits,
            "is_due": backlog.is_due,
            "file_groups": [
                {
                    "partition": slice_.partition_path,
                    "file_id": slice_.file_id,
                    "base_file": slice_.base_file.name if slice_.base_file else None,
                    "log_files": len(slice_.log_files),
                    "bytes": slice_.base_bytes + slice_.log_bytes,
                }
                for slice_ in backlog.slices
            ],
        }
    if (dead := work.dead) is not None:
        printed["clean"] = {
            "earliest_retained": dead.earliest_retained.time if dead.earliest_retained else None,
            "bytes": dead.bytes,
            "files": [join(slice_.partition_path, name) for slice_ in dead.slices for name in file_names(slice_)],
        }
    return printed


def _work(work: MetadataWork) -> str:
    lines = []
    if (dead := work.dead) is not None:
        if dead.slices and dead.earliest_retained:
            lines.append(
                f"Would clean the metadata table: {dead.files} files, {format_size(dead.bytes)}, which nothing read "
                f"since {dead.earliest_retained.time} can need."
            )
        elif work.backlog is None:
            lines.append("Nothing to clean: every file of the metadata table may still be read.")
    if (backlog := work.backlog) is not None:
        since = f"its compaction {backlog.compacted_at}" if backlog.compacted_at else "it was built"
        if backlog.is_due:
            lines.append(
                f"Would compact the metadata table: {len(backlog.slices)} file groups with {backlog.log_files} log "
                f"files, {format_size(backlog.input_bytes)}; {backlog.delta_commits} delta commits since {since}."
            )
        else:
            lines.append(f"Nothing to compact: no log was added to the metadata table since {since}.")
    return "\n".join(lines)


def _headlines(done: MetadataDone | None) -> Iterator[str]:
    if done is None:
        return
    if done.clean is not None:
        clean = done.clean
        yield (
            f"[bold]Clean {clean.instant} of the metadata table[/bold]: {clean.files} files deleted, readable as of "
            f"{clean.earliest_retained} and later, {format_duration(clean.seconds)}, "
            f"committed at {format_instant(clean.completion_time)}."
        )
    if done.compaction is None:
        return
    compaction = done.compaction
    yield (
        f"[bold]Compaction {compaction.instant} of the metadata table[/bold]: {compaction.file_groups} file groups, "
        f"{compaction.log_files} log files of {compaction.delta_commits} delta commits, {compaction.entries:,} "
        f"records, {format_size(compaction.input_bytes)} in, {format_size(compaction.output_bytes)} out, "
        f"{format_duration(compaction.seconds)}, committed at {format_instant(compaction.completion_time)}."
    )
