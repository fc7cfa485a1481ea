"""`lakeward compact TABLE --metadata`: the metadata table instead of the table.

Touches: stdout, stderr; the table, through `execute/metadata_compaction.py`.
Keeps:   an option that says how rows are merged is refused beside it, not passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.progress_view import open_view
from lakeward.cli.store_options import print_json
from lakeward.clock import SystemClock
from lakeward.commit.owner import Processes
from lakeward.errors import UsageError
from lakeward.execute.compaction_options import CompactionOptions
from lakeward.plan.metadata_services import MetadataBacklog
from lakeward.quantities import spell_size

if TYPE_CHECKING:
    from lakeward.execute.metadata_compaction import CompactedMetadata


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


def compact_metadata(
    opened: ConfiguredTable, options: CompactionOptions, *, dry_run: bool, as_json: bool
) -> CompactedMetadata | MetadataBacklog | None:
    """What was done, or with `dry_run` what is to be done; None where that is nothing."""
    # With the kernels that a daemon leaves to its tasks.
    from lakeward.execute.metadata_compaction import MetadataCompactor

    clock, console = SystemClock(), Console()
    with open_view(Console(stderr=True), clock) as view:
        compactor = MetadataCompactor(
            opened.storage, opened.base_path, options, clock=clock, processes=Processes(), observer=view
        )
        backlog = compactor.preview() if dry_run else None
        done = None if dry_run else compactor.compact()
    if backlog is not None:
        print_json(_backlog_as_json(backlog)) if as_json else console.print(_backlog(backlog), highlight=False)
        return backlog if backlog.is_due else None
    print_json({"metadata_compaction": asdict(done) if done else None}) if as_json else console.print(
        _headline(done), highlight=False
    )
    return done


def _backlog_as_json(backlog: MetadataBacklog) -> dict[str, Any]:
    return {
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


def _backlog(backlog: MetadataBacklog) -> str:
    since = f"its compaction {backlog.compacted_at}" if backlog.compacted_at else "it was built"
    if not backlog.is_due:
        return f"Nothing to compact: no log came to the metadata table since {since}."
    return (
        f"Would compact the metadata table: {len(backlog.slices)} file groups with {backlog.log_files} log files, "
        f"{spell_size(backlog.input_bytes)}; {backlog.delta_commits} delta commits since {since}."
    )


def _headline(done: CompactedMetadata | None) -> str:
    if done is None:
        return "Nothing to compact: no log came to the metadata table since its last compaction."
    return (
        f"[bold]Compaction {done.instant} of the metadata table[/bold]: {done.file_groups} file groups, "
        f"{done.log_files} log files of {done.delta_commits} delta commits, {done.entries:,} records, "
        f"{spell_size(done.input_bytes)} in, {spell_size(done.output_bytes)} out, {done.seconds:.1f} s, committed at "
        f"{done.completion_time}."
    )
