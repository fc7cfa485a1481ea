"""Delete for good what the quarantine has held for long enough, or what it holds too much of.

    no lock  what is due is found
    lock     held against the timeline; each run is marked as going
    no lock  files, then manifests

In an object store the files stand in their places, so they are held against the table once more: what is needed by now
stays, and so does what the metadata table lists again because it was rebuilt; the next clean judges that.

Touches: the quarantine; in an object store files that its manifests name, through `protocol/quarantine.py`.
Keeps:   1. what a pending clean sets aside is left alone;
         2. a file that stands in its place goes only if nothing needs it, and no metadata table lists it;
         3. an undo that was given up holds nothing back, and one that is done leaves the files where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.protocol.quarantine import begin_purge, purge
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.plan.purge_rules import PurgeReason, find_due
from lakeward.services.clean.plan.validity import find_needed, groups_of_files
from lakeward.services.clean.run.orphans import still_orphans
from lakeward.services.clean.run.undo_run import settle_undo
from lakeward.table.listing_source import ListingSource, find_table_partitions
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.quarantine import Quarantine, QuarantinedRun, QuarantineKind, load_quarantine


@dataclass(frozen=True, slots=True)
class PurgedRun:
    """A run of which nothing comes back any more."""

    run: str
    reason: PurgeReason
    files: int
    bytes: int


def purge_quarantine(
    table: ServicedTable, *, bytes_max: int | None, age_seconds_max: float | None = None
) -> tuple[PurgedRun, ...]:
    """Purge what is due; arguments as for `find_due`. Raises what taking the lock raises."""
    storage, base_path = table.storage, table.base_path

    def due(found: Quarantine) -> list[tuple[QuarantinedRun, PurgeReason]]:
        now = table.clock.now()
        runs = find_due(found.runs, now=now, bytes_max=bytes_max, age_seconds_max=age_seconds_max)
        return [(each.run, each.reason) for each in runs]

    found = load_quarantine(storage, base_path)
    if not due(found) and not any(run.undone_by for run in found.runs):
        return ()
    begun: list[tuple[QuarantinedRun, PurgeReason, list[str]]] = []
    with table.locked() as fence:
        snapshot = table.snapshot(only=(), service=TableService.CLEANING)
        pending = {instant.time for instant in snapshot.timeline.pending}
        for run in load_quarantine(storage, base_path).runs:
            if run.undone_by is not None and run.run not in pending:
                settle_undo(table, snapshot, run, fence)
        for run, reason in due(load_quarantine(storage, base_path)):
            if run.run in pending:
                continue
            in_place = _files_in_place(table, run) if run.in_place else []
            if in_place is None:
                table.observer.step(f"logs that retired by clean {run.run} stay: they are needed")
                continue
            fence()
            if begin_purge(storage, base_path, run):
                begun.append((run, reason, in_place))
    for run, _, in_place in begun:
        table.guard()
        purge(storage, base_path, run, in_place)
        table.observer.step(f"quarantine of {run.run} purged, files: {len(run.files)}")
    return tuple(PurgedRun(run.run, reason, len(run.files), run.bytes) for run, reason, _ in begun)


def _files_in_place(table: ServicedTable, run: QuarantinedRun) -> list[str] | None:
    """Paths of the files that stand in their places and that nothing needs. None where logs that retired wait for what
    needs one of them: no listing shows them that a later clean would take."""
    if run.kind is QuarantineKind.ORPHANS:
        return still_orphans(table, run.files)
    by_partition: dict[str, list[str]] = {}
    for file in run.files:
        by_partition.setdefault(file.partition_path, []).append(file.name)
    snapshot = table.snapshot(only=set(groups_of_files(by_partition)), service=TableService.CLEANING)
    stays = set(find_needed(snapshot, by_partition))
    if stays and run.kind is QuarantineKind.RETIRED:
        return None
    if has_metadata_table(snapshot.config):
        listed = find_table_partitions(
            table.storage,
            table.base_path,
            snapshot.config,
            snapshot.timeline,
            source=ListingSource.METADATA,
            clock=table.clock,
            only=by_partition,
        )
        prefix = f"{table.base_path}/"
        stays |= {status.path.removeprefix(prefix) for each in listed.partitions for status in each.files}
    return [file.path for file in run.files if file.path not in stays]
