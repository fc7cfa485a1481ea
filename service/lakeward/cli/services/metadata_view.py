"""The services of the metadata table, as JSON and as lines: whether they are due, and what they did.

Touches: a console.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeward.base.errors import VerificationFailed
from lakeward.base.quantities import format_duration, format_instant, format_size
from lakeward.cli.result import Result
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.engine.dispatch.engine_rule import EngineRule
from lakeward.services.metadata.plan.due_before_writers import MetadataService, MetadataTrigger
from lakeward.services.metadata.run.early_service import MetadataReport

if TYPE_CHECKING:
    from lakeward.services.metadata.run.metadata_round import MetadataDone


def metadata_report_as_json(report: MetadataReport) -> dict[str, Any]:
    """The report as JSON, which stands beside what was done to the table."""
    return {
        "metadata_table": metadata_trigger_as_json(report.trigger),
        **metadata_done_as_json(report.done),
        "metadata_left": None if report.left is None else str(report.left),
    }


def in_round(done: MetadataReport | MetadataTrigger | None, rule: EngineRule) -> Result:
    """What compaction's step of `lakeward service` and `lakeward compact` say of the metadata table; of a dry run
    whether its services are due."""
    if not isinstance(done, MetadataReport):
        return Rendered(
            document={"metadata_table": metadata_trigger_as_json(done)},
            render=partial(_render_trigger, done),
            is_nothing=not (done and done.is_due),
        )
    return Rendered(
        document=metadata_report_as_json(done),
        render=partial(render_metadata_report, done),
        is_nothing=done.done is None,
        error=done.left if isinstance(done.left, VerificationFailed) else None,
    )


def metadata_trigger_as_json(trigger: MetadataTrigger | None) -> dict[str, Any] | None:
    """None where there is no metadata table, or it is left to its writers."""
    return None if trigger is None else {**asdict(trigger), "is_due": trigger.is_due}


def render_metadata_report(report: MetadataReport, console: Terminal) -> None:
    """Nothing where there was nothing to do."""
    if report.left is not None:
        console.print(f"The metadata table was left as it is: {report.left}", highlight=False)
    for line in metadata_headlines(report.done):
        console.print(line, highlight=False)


def _render_trigger(trigger: MetadataTrigger | None, console: Terminal) -> None:
    if trigger is not None:
        word = "due" if trigger.is_due else "not due"
        console.print(f"The metadata table is {word} for compaction: {trigger.why}.", highlight=False)


def metadata_done_as_json(done: MetadataDone | None, only: MetadataService | None = None) -> dict[str, Any]:
    printed: dict[str, Any] = {}
    if only is not MetadataService.COMPACTION:
        printed["metadata_clean"] = asdict(done.clean) if done and done.clean else None
    if only is not MetadataService.CLEAN:
        printed["metadata_compaction"] = asdict(done.compaction) if done and done.compaction else None
    return printed


def metadata_headlines(done: MetadataDone | None) -> Iterator[str]:
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
