"""Find data files that no instant owns, and set them aside when two looks, the age limit apart, agree.

    look        no lock   the table is listed, and held against the timeline, the archive, heartbeats and markers
    set aside   lock      the candidates again -> what was recorded long ago goes into the quarantine -> the rest is
                          recorded
    restore     lock      what one call set aside is put back

Touches: files that are proved orphan files, and the quarantine, through `protocol/quarantine.py`.
Keeps:   1. a look writes nothing;
         2. what is set aside was judged under the lock, after the last listing;
         3. what was recorded and is no candidate any more is forgotten;
         4. what was set aside can be put back;
         5. beside writers nothing is set aside that was unchanged for less than a day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lakeward.base.errors import Refused, UsageError
from lakeward.base.paths import join, parent
from lakeward.base.quantities import write_duration
from lakeward.format.file_name import parse_any_data_file
from lakeward.protocol.attempts.attempt_files import temp_folder
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.quarantine import FileRemoval, begin_undo, bring_back, forget_run, record_strays
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.plan.orphans import OrphanDecision, OrphanFacts, StrayFile, decide_orphans
from lakeward.services.clean.plan.validity import groups_of_files
from lakeward.table.listing_source import ListingSource, find_table_partitions
from lakeward.table.metadata.metadata_table import has_metadata_table, metadata_base_path
from lakeward.table.quarantine import QuarantinedFile, QuarantinedRun, QuarantineKind, load_quarantine
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.stray_record import RecordedStray, load_recorded
from lakeward.table.timeline.archived import load_archived_times
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.rollbacks import rolled_back_by

AGE_SECONDS = 24 * 3600.0
"""How long a file must have been unchanged, and recorded: no write beside this process is that slow."""


@dataclass(frozen=True, slots=True)
class OrphanReport:
    decisions: tuple[OrphanDecision, ...]
    """What was found, as it was judged."""
    recorded: int
    """Files that the record has now and had not before."""
    run: str | None
    """What the quarantine calls those that were set aside; None where none was."""
    kept_until: float | None = None


def look(table: ServicedTable, *, age_seconds: float) -> tuple[OrphanDecision, ...]:
    """Every file that no reader sees, with what is known of it. Takes no lock and writes nothing."""
    # The metadata table knows no file of an instant that did not complete.
    snapshot = table.snapshot(service=TableService.CLEANING, listing=ListingSource.STORAGE)
    return judge_strays(table, snapshot, age_seconds=age_seconds)


def set_orphans_aside(table: ServicedTable, *, age_seconds: float, keep_seconds: float) -> OrphanReport:
    """Record what is found, and set aside what an earlier look recorded `age_seconds` ago. Raises `UsageError`.

    Args:
        keep_seconds: how long the quarantine has them.
    """
    if age_seconds < AGE_SECONDS and not table.options.writers_stopped:
        raise UsageError(
            f"--age {write_duration(age_seconds)} is too short beside writers.",
            why="A write may be slower than that, and its file is not on the timeline before it is done.",
            remedy="Give 1d or more, or stop the writers and say --writers stopped.",
        )
    seen = {each.file.path: each for each in look(table, age_seconds=age_seconds)}
    candidates = {path for path, each in seen.items() if each.is_recordable}
    storage, base_path = table.storage, table.base_path
    before = load_recorded(storage, base_path)
    if not candidates and not before:
        return OrphanReport(tuple(seen.values()), 0, None)
    with table.locked() as fence:
        now = table.clock.now()
        judged = {each.file.path: each for each in _judge_again(table, candidates, age_seconds=age_seconds)}
        recorded = {
            path: RecordedStray(each.file.size, now if each.recorded_since is None else each.recorded_since)
            for path, each in judged.items()
            if each.is_recordable and not each.is_removable
        }
        goes = [each.file for each in judged.values() if each.is_removable]
        run = f"orphans-{int(now * 1000)}" if goes else None
        if run is not None:
            removal = FileRemoval(storage, base_path)
            fence()
            removal.keep(
                run,
                [_quarantined(file) for file in goes],
                kind=QuarantineKind.ORPHANS,
                attempt=table.owner.attempt,
                since=now,
                keep_until=now + keep_seconds,
            )
            fence()
            removal.take(file.path for file in goes)
            table.observer.step(f"orphan files set aside: {len(goes)}")
        if recorded != before:
            fence()
            record_strays(storage, base_path, recorded, now=now)
    decisions = tuple((seen | judged)[path] for path in sorted(seen))
    new = len(recorded.keys() - before.keys())
    return OrphanReport(decisions, new, run, None if run is None else now + keep_seconds)


def preview_orphans(table: ServicedTable, run: str) -> QuarantinedRun:
    """What would be put back now. Writes nothing. Raises `Refused`, `UsageError`."""
    table.snapshot(only=(), service=TableService.CLEANING)
    found = load_quarantine(table.storage, table.base_path).find(run)
    if found is None or found.kind is not QuarantineKind.ORPHANS:
        raise UsageError(
            f"The quarantine has no orphan files of {run}.", remedy="`lakeward quarantine list` shows what there is."
        )
    if found.problem is not None or found.is_purging:
        raise Refused(
            f"{run} cannot be put back.",
            why=found.problem or "It is being purged.",
            remedy="What is left lies below `files` in the quarantine, by its paths in the table.",
        )
    return found


def restore_orphans(table: ServicedTable, run: str) -> QuarantinedRun:
    """Put back what one call set aside. Raises `Refused`, `UsageError`, `Conflict`."""
    storage, base_path = table.storage, table.base_path
    with table.locked() as fence:
        found = preview_orphans(table, run)
        fence()
        begin_undo(storage, base_path, run, run.removeprefix("orphans-"))
        bring_back(storage, base_path, run, found.files)
        forget_run(storage, base_path, found)
    table.observer.step(f"{run} put back, files: {len(found.files)}")
    return found


def still_orphans(table: ServicedTable, files: Iterable[QuarantinedFile]) -> list[str]:
    """Paths of those of the files that stand in their places and are orphan files yet. Under the lock."""
    decisions = _judge_again(table, {file.path for file in files}, age_seconds=0.0)
    return [each.file.path for each in decisions if each.is_recordable]


def _judge_again(table: ServicedTable, paths: Collection[str], *, age_seconds: float) -> list[OrphanDecision]:
    by_partition: dict[str, list[str]] = {}
    for path in paths:
        by_partition.setdefault(path.rpartition("/")[0], []).append(path.rpartition("/")[2])
    snapshot = table.snapshot(only=set(groups_of_files(by_partition)), service=TableService.CLEANING)
    return [each for each in judge_strays(table, snapshot, age_seconds=age_seconds) if each.file.path in paths]


def _quarantined(file: StrayFile) -> QuarantinedFile:
    partition_path, _, name = file.path.rpartition("/")
    return QuarantinedFile(partition_path, name, file.size)


def judge_strays(table: ServicedTable, snapshot: TableSnapshot, *, age_seconds: float) -> tuple[OrphanDecision, ...]:
    """What is known of each file of the snapshot that no reader sees; the storage was listed for it."""
    storage, base_path = table.storage, table.base_path
    names: dict[str, set[str]] = {}
    for path in snapshot.uncommitted_files:
        names.setdefault(path.rpartition("/")[0], set()).add(path.rpartition("/")[2])
    files = [
        StrayFile(join(partition, status.name), status.size, status.modified)
        for partition, wanted in names.items()
        for status in storage.list(join(base_path, partition))
        if status.name in wanted and not status.is_folder and not status.is_link
    ]
    named = (parse_any_data_file(file.path.rpartition("/")[2], native=True) for file in files)
    instants = {parsed.instant for parsed in named if parsed is not None}
    archived = load_archived_times(storage, base_path, snapshot.config, instants)
    contents = InstantContents(storage, base_path, snapshot.config, snapshot.timeline)
    facts = OrphanFacts(
        now=table.clock.now(),
        age_seconds=age_seconds,
        rolled_back=rolled_back_by(contents, snapshot.timeline) if files else {},
        archived=archived.completion_times,
        history_problem=archived.problems[0] if archived.problems else None,
        beating=_names(table, parent(heartbeat_path(base_path, "0")))
        | _names(table, parent(heartbeat_path(metadata_base_path(base_path), "0"))),
        marked=_names(table, parent(temp_folder(base_path, "0"))),
        named=_named(snapshot),
        listed=_listed(table, snapshot, names),
        recorded=load_recorded(storage, base_path),
    )
    return decide_orphans(files, snapshot.timeline, facts)


def _names(table: ServicedTable, folder: str) -> set[str]:
    return {status.name for status in table.storage.list(folder)}


def _named(snapshot: TableSnapshot) -> set[str]:
    savepointed = {path for paths in snapshot.savepointed.values() for path in paths}
    planned = {
        join(operation.partition_path, name)
        for plan in snapshot.plans.values()
        for operation in plan.operations
        for name in operation.file_names
    }
    return savepointed | planned


def _listed(table: ServicedTable, snapshot: TableSnapshot, partitions: Iterable[str]) -> set[str]:
    partitions = list(partitions)
    if not partitions or not has_metadata_table(snapshot.config):
        return set()
    listed = find_table_partitions(
        table.storage,
        table.base_path,
        snapshot.config,
        snapshot.timeline,
        source=ListingSource.METADATA,
        clock=table.clock,
        only=partitions,
    )
    return {status.path.removeprefix(f"{table.base_path}/") for each in listed.partitions for status in each.files}
