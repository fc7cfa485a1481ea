"""`lakeward index strip-tails TABLE`: no log gets a tail any more, and the logs that have one are compacted away.

    the choice ends -> the logs of the newest slices are looked at -> FULL of each file group that has one with a tail

FULL and not LOG: a LOG leaves the logs that it merged in the slice, and takes two of them at least.

Touches: stdout, stderr; the folder of `index/tail_choice`; the table, through `cli/full_compaction.py`.
Keeps:   1. with --dry-run nothing is written;
         2. logs without tails are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from lakeward.base.quantities import format_count
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.full_compaction import compact_fully
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import compaction_options
from lakeward.index.bloom.log_coverage import LogCoverage, look_at_logs
from lakeward.services.indexing.run.tails import choose_tails
from lakeward.table.file_system_view import GroupId


def strip_tails(
    *, opened: ZonedTable, given: LockArguments, dry_run: DryRunOption = False, engine: EngineArguments
) -> Result:
    """Take the tails of logs away, before a program reads the table that cannot read them.

    No log gets a tail from then on, as after `lakeward index tails TABLE --off`, and each file group that has a log
    with one is compacted (FULL). Files of earlier slices keep their tails until they are cleaned; only queries of an
    earlier moment read them.
    """
    storage = opened.storage
    options = compaction_options(opened, given.over(opened, dry_run=dry_run))
    snapshot = opened.snapshot()
    if not dry_run:
        choose_tails(storage, snapshot, are_written=False)
        snapshot = opened.snapshot()  # with the logs of writes that read the choice before
    seen = look_at_logs(storage, snapshot)
    groups = seen.groups_with_tails(snapshot)
    if not groups:
        return _result(seen.coverage, seen.coverage)
    compacted = compact_fully(opened, groups, options, engine, dry_run=dry_run)
    after = seen.coverage if dry_run else look_at_logs(storage, opened.snapshot()).coverage
    return _result(seen.coverage, after, compacted, is_dry=dry_run)


def _result(before: LogCoverage, after: LogCoverage, groups: Sequence[GroupId] = (), *, is_dry: bool = False) -> Result:
    """
    Args:
        groups: the file groups that were compacted, or would be.
    """
    compacted = format_count(len(groups), "file group")
    if not before.with_tail:
        lines = ["No log of the newest slices has a tail."]
    elif is_dry:
        lines = [f"Dry run: would compact {compacted}, to end {format_count(before.with_tail, 'log')} with a tail."]
    elif after.with_tail:
        lines = [f"Compacted {compacted}. Logs that still have a tail: {after.with_tail:,}. Run the command again."]
    else:
        lines = [f"Compacted {compacted}: no log of the newest slices has a tail any more."]
    document = {
        "file_groups": [{"partition_path": path, "file_id": file_id} for path, file_id in sorted(groups)],
        "before": asdict(before),
        "after": asdict(after),
    }
    return Result(document=document, lines=lines, is_nothing=not before.with_tail)
