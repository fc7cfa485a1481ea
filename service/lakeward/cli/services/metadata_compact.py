"""The metadata table's own services, as `lakeward metadata compact|clean` and `lakeward compact` do and print them.

Touches: stdout, stderr; the table, through `services/metadata/run/services.py`.
Keeps:   an option that says how rows are merged is refused beside it, not passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_size
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.interrupts import interruptible
from lakeward.cli.result import print_json
from lakeward.cli.views.metadata import metadata_done_as_json, metadata_headlines
from lakeward.cli.views.progress import open_view
from lakeward.cli.views.terminal import Terminal
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.services.metadata.plan.cleaning import file_names
from lakeward.services.metadata.plan.trigger import MetadataService
from lakeward.services.metadata.run.services import MetadataServices
from lakeward.storage.storage import join

if TYPE_CHECKING:
    from lakeward.services.metadata.run.services import MetadataWork


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
        print_json(metadata_done_as_json(done, only))
    else:
        for line in metadata_headlines(done):
            console.print(line, highlight=False)
        if done.clean is None and only is MetadataService.CLEAN:
            console.print("Nothing to clean: every file of the metadata table may still be read.")
        if done.compaction is None and only is not MetadataService.CLEAN:
            console.print("Nothing to compact: no log was added to the metadata table since its last compaction.")
    return done.clean is not None or done.compaction is not None


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
