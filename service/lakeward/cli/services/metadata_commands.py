"""`lakeward metadata compact|clean|disable|drop|abort-indexing TABLE`: service the metadata table, or take it or a
part of it away.

Touches: stdout, stderr; the table, through `services`, `removal` and `aborting` of `services/metadata/run`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_size
from lakeward.cli.configured_table import ConfiguredTable, OpenedTable, ZonedTable
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import compaction_options, judge_of, serviced_table
from lakeward.cli.services.metadata_view import metadata_done_as_json, metadata_headlines
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.engine.task.entry import merge_metadata_slice_at
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.services.metadata.plan.dead_slices import file_names
from lakeward.services.metadata.plan.due_before_writers import MetadataService
from lakeward.services.metadata.run.indexing_abort import abort_indexing as abort
from lakeward.services.metadata.run.indexing_abort import preview_aborting
from lakeward.services.metadata.run.metadata_round import MetadataServices, MetadataWork
from lakeward.services.metadata.run.removal import Removal, preview_removal, remove_metadata
from lakeward.services.metadata.run.slice_merges import MergeTasks

if TYPE_CHECKING:
    from lakeward.config.settings import LockSettings


def compact(
    *,
    opened: ZonedTable,
    given: LockArguments,
    dry_run: DryRunOption = False,
    verify: Annotated[
        bool | None, typer.Option("--verify/--no-verify", help="Read every new file back; default --verify.")
    ] = None,
    engine: EngineArguments,
) -> Result:
    """Merge the logs of the metadata table into new base files, all of its partitions together.

    Hudi's writers do it by themselves when they begin a write, `lakeward compact` at its end and the daemon as a job of
    its own, each once enough delta commits have come. This does it now. Until it is done, every reader merges the
    logs, and Hudi archives nothing of the table's timeline. What a compaction replaced, `lakeward metadata clean`
    deletes once no reader can need it.
    """
    locks = given.over(opened, dry_run=dry_run)
    options = compaction_options(opened, locks)
    if verify is not None:
        options = replace(options, verify=verify)
    with engine.over(opened.settings, memory_bytes=options.memory_bytes) as engines:
        if not dry_run:
            engines.check()
        tasks = MergeTasks(engines.choose, partial(merge_metadata_slice_at, opened.base_path))
        return _service(opened, options, MetadataService.COMPACTION, tasks, dry_run=dry_run)


def clean(
    *,
    opened: ZonedTable,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Delete the files of the metadata table that its compactions replaced and no reader can need any more.

    By Hudi's own rule: what a reader that began up to 20 commits ago reads stays, and so does what a savepoint or a
    pending instant of the table could go back to. A clean that was interrupted is ended first.
    """
    locks = given.over(opened, dry_run=dry_run)
    options = compaction_options(opened, locks)
    return _service(opened, options, MetadataService.CLEAN, dry_run=dry_run)


def disable(
    *,
    opened: OpenedTable,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Remove the whole metadata table: readers list the storage. The next Hudi writer with it on rebuilds it.

    `lakeward metadata drop` removes one partition of it.
    """
    locks = given.over(opened, dry_run=dry_run)
    return remove_partition(opened, None, locks, dry_run=dry_run)


def drop(
    *,
    opened: OpenedTable,
    partition: Annotated[
        str,
        typer.Argument(metavar="PARTITION", help="A partition of the metadata table, for example column_stats."),
    ],
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Remove one partition of the metadata table, for example because it is wrong. The next Hudi writer whose options
    keep it rebuilds it, or `lakeward index build TABLE --type metadata`."""
    locks = given.over(opened, dry_run=dry_run)
    return remove_partition(opened, partition, locks, dry_run=dry_run)


def abort_indexing(
    *,
    opened: ZonedTable,
    instant: Annotated[
        str | None,
        typer.Argument(metavar="[INSTANT]", help="Instant of the indexing; without it the oldest pending one."),
    ] = None,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """End an indexing that was begun and whose process is gone: delete what it was building, and its plan.

    Hudi does not resume an indexing, and until it is removed the table refuses writes. An index that is built already
    stays. It counts as gone with --writers stopped, or once nothing of it has changed for rollback.silent_after.
    """
    locks = given.over(opened, dry_run=dry_run)
    judge = judge_of(opened, locks)
    zone = opened.table.timezone
    if dry_run:
        done = preview_aborting(judge, instant, timezone=zone)
    else:
        done = abort(judge, instant, timezone=zone, lock=locks.options)
    if done is None:
        return Result(document={"aborted": None, "dry_run": dry_run}, lines=["No indexing is pending."])
    decision = done.decision
    aborted = {
        "instant": decision.instant,
        "reason": decision.reason.value,
        "why": decision.why,
        "removed": [asdict(removal) for removal in done.removals],
        "kept": list(done.kept),
    }
    lines = [f"{'Would abort' if dry_run else 'Aborted'} indexing {decision.instant}, because {decision.why}."]
    lines += [f"  {line}" for removal in done.removals for line in removal_lines(removal, dry_run=dry_run)]
    if done.kept:
        lines.append(f"  Built, or of which nothing was there: {', '.join(done.kept)}.")
    return Result(document={"aborted": aborted, "dry_run": dry_run}, lines=lines)


def _service(
    opened: ConfiguredTable,
    options: CompactionOptions,
    only: MetadataService,
    tasks: MergeTasks | None = None,
    *,
    dry_run: bool,
) -> Result:
    """Clean the metadata table, or compact it; with `dry_run` say what would be done."""
    with serviced_table(opened, options) as serviced:
        services = MetadataServices(serviced, tasks=tasks)
        work = services.preview(only) if dry_run else None
        done = None if dry_run else services.run(only)
    if work is not None:
        return Result(document=_work_as_json(work), lines=_work_lines(work), is_nothing=not work.is_due)
    assert done is not None, "it is either a preview or a run"

    def render(console: Terminal) -> None:
        for line in metadata_headlines(done):
            console.print(line, highlight=False)
        if done.clean is None and only is MetadataService.CLEAN:
            console.print("Nothing to clean: every file of the metadata table may still be read.")
        if done.compaction is None and only is not MetadataService.CLEAN:
            console.print("Nothing to compact: no log was added to the metadata table since its last compaction.")

    return Rendered(
        document=metadata_done_as_json(done, only),
        render=render,
        is_nothing=done.clean is None and done.compaction is None,
    )


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
            "files": [f"{slice_.partition_path}/{name}" for slice_ in dead.slices for name in file_names(slice_)],
        }
    return printed


def _work_lines(work: MetadataWork) -> list[str]:
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
    return lines


def remove_partition(opened: ConfiguredTable, partition: str | None, locks: LockSettings, *, dry_run: bool) -> Result:
    """Remove it, or with None the metadata table as a whole, and say what went."""
    clock, processes = SystemClock(), Processes()
    shown: set[str] = set()

    def on_wait(what: str, seconds: float) -> None:
        if what not in shown:
            shown.add(what)
            typer.echo(f"Waiting: {what}.", err=True)

    where = (opened.storage, opened.base_path, partition)
    if dry_run:
        removal = preview_removal(*where, clock=clock, processes=processes, on_wait=on_wait)
    else:
        removal = remove_metadata(*where, lock=locks.options, clock=clock, processes=processes, on_wait=on_wait)
    return Result(document=asdict(removal) | {"dry_run": dry_run}, lines=removal_lines(removal, dry_run=dry_run))


def removal_lines(removal: Removal, *, dry_run: bool) -> list[str]:
    """What went, or would go, in lines."""
    if removal.is_empty:
        return ["The table has no metadata table. Nothing to remove."]
    would = "Would take" if dry_run else "Took"
    lines = []
    if removal.named:
        lines.append(f"{would} {', '.join(removal.named)} out of hoodie.table.metadata.partitions.")
    if removal.left:
        lines.append(f"{'Would keep' if dry_run else 'Kept'} {', '.join(removal.left)}.")
    if removal.folders:
        size = format_size(removal.size_bytes)
        verb = "Would delete" if dry_run else "Deleted"
        lines.append(f"{verb} {', '.join(removal.folders)}: {removal.files} files, {size}.")
    if not dry_run:
        what = "it" if removal.partition is None else removal.partition
        if removal.is_rebuilt:
            lines.append(f"The next Hudi writer whose options keep {what} rebuilds it.")
        elif removal.partition is None:
            lines.append(
                "No release of Hudi writes tables of version 10, so nothing rebuilds it before the downgrade "
                "(`lakeward table downgrade`). The table works without."
            )
        else:
            lines.append(
                f"No release of Hudi writes tables of version 10, so none rebuilds {what} before the downgrade "
                "(`lakeward table downgrade`); `lakeward index build TABLE --type metadata` does. The table works "
                "without."
            )
    return lines
