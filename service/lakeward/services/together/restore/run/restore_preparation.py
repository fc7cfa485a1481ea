"""What a restore would do, found by reading: what goes, what must be brought back first, or what prevents it.

A restore needs every file of the table as of the commit. Where cleans took some of them, and the quarantine still has
what they took, these cleans are undone first, the newest first and no more of them than must be. Whether that is enough
is found before anything is written: the files that would come back are added to those that are there.

    clean completed, its files kept         it is undone
    clean pending, and begun to keep them   the same, once it is ended
    clean pending, another                  goes off the timeline; what it took already is gone

Touches: storage, reading only: the timeline, one listing a folder, the quarantine where files are missing.
Keeps:   1. no clean is undone of which the restore needs nothing, and none before a later one;
         2. what cannot be brought back is named, with the clean that took it and the reason.
See:     docs/decisions/0035-restore.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeward.base.errors import Refused
from lakeward.base.paths import join
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.clean_plan import clean_plan_root, read_clean_plan
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import Instant, State, comparable_time
from lakeward.format.timeline.restore_plan import PlannedInstant, RestorePlan, read_restore_plan
from lakeward.protocol.pending.stuck_services import check_nothing_lives
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import ServiceAction
from lakeward.services.clean.plan.undo_plan import UndoPlan
from lakeward.services.clean.run.undo_run import undo_plan
from lakeward.services.metadata.run.removal import check_nothing_hidden
from lakeward.services.together.restore.restore_choice import (
    check_layout,
    check_nothing_in_the_way,
    check_readable,
    choose_undos,
    find_later,
    find_target,
)
from lakeward.table.data_files import DataFiles, list_data_files
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.quarantine import load_quarantine
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.cleans import Clean, not_undone, read_cleans
from lakeward.table.timeline.savepoints import read_savepoints
from lakeward.table.timeline.timeline_reader import TimelineReader

_ROWS_STAY = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
"""Operations that change no row."""

OTHERWISE = "a restore would take its files away"
"""What a restore would do to what is at work."""

Names = Mapping[str, tuple[str, ...]]
"""Names of files, by partition path."""


@dataclass(frozen=True, slots=True)
class Undone:
    """An instant that goes, or went."""

    instant: str
    action: str
    is_completed: bool
    operation: str
    """Hudi's name, `UPSERT`; empty for what is pending."""
    inserted: int
    """Rows that it says it wrote, of each kind; none for a service, which changes no row."""
    updated: int
    deleted: int
    files: Names
    bytes: int


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """A clean that is undone before the table goes back."""

    clean: str
    files: int
    """How many come back, of commits that go again among them."""
    bytes: int


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """What a restore does, or would do."""

    target: str
    undone: tuple[Undone, ...]
    """In the order in which they go; none where the table is there already."""
    brought_back: tuple[BroughtBack, ...]
    """In the order in which they are undone, the newest first."""
    cleans: tuple[str, ...]
    """Pending cleans that go."""
    stays_pending: tuple[str, ...]
    """Compactions that were requested before the commit, and stay."""
    has_metadata_table: bool
    pending_restore: str | None
    """The restore to the same commit that was interrupted."""


@dataclass(frozen=True, slots=True)
class Prepared:
    snapshot: TableSnapshot
    plan: RestorePlan
    planned: PlannedRestore
    to_end: tuple[str, ...]
    """Pending cleans that are ended, because what they took is brought back then."""


def scan(table: ServicedTable) -> TableSnapshot:
    """The timeline. What of the files matters is listed as of the commit."""
    return table.snapshot(only=(), service=TableService.RESTORE)


def prepare(table: ServicedTable, target: str) -> Prepared:
    """Find what a restore to the commit does now, or why it may not. Raises as `restore` does; writes nothing."""
    snapshot = scan(table)
    storage, base_path, config, timeline = table.storage, table.base_path, snapshot.config, snapshot.timeline
    check_nothing_lives(table, snapshot, otherwise=OTHERWISE)
    commit = find_target(timeline, target)
    pending = _pending_restore(table, snapshot, target)
    if pending is None:
        later_ones = find_later(timeline, commit, merge_on_read=config.table_type.upper() != "COPY_ON_WRITE")
        check_nothing_in_the_way(timeline, target, later_ones)
        check_layout(target, later_ones, config.lsm_tree_since)
        plan = RestorePlan(target, tuple(_planned(snapshot, later_ones)))
    else:
        plan = pending[1]
    there = list_data_files(storage, base_path, config, timeline, clock=table.clock)
    if has_metadata_table(config):
        check_nothing_hidden(base_path, [each.partition_path for each in there.files])
    pending_cleans, keeping = _pending_cleans(table, snapshot, there)
    undos: tuple[UndoPlan, ...] = ()
    if pending is None:
        undos, there = _bring_back(table, snapshot, commit, plan, there, pending_cleans)
    files = files_of(there, plan.times)
    undone = tuple(_undone(table, snapshot, each, files.get(each.time, {}), there) for each in once(plan.instants))
    to_end = tuple(undo.run for undo in reversed(undos) if undo.run in keeping)
    planned = PlannedRestore(
        target=target,
        undone=undone,
        brought_back=tuple(BroughtBack(undo.run, len(undo.files), undo.bytes) for undo in undos),
        cleans=tuple(each.instant for each in pending_cleans if each.instant not in to_end),
        stays_pending=tuple(i.time for i in timeline.pending if i.action == "compaction" and i.time not in plan.times),
        has_metadata_table=has_metadata_table(config),
        pending_restore=None if pending is None else pending[0],
    )
    return Prepared(snapshot, plan, planned, to_end)


def once(instants: Iterable[PlannedInstant]) -> list[PlannedInstant]:
    """Each instant as it is named first."""
    return list({each.time: each for each in reversed(tuple(instants))}.values())[::-1]


def files_of(there: DataFiles, instants: frozenset[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """The data files that each instant wrote: names by partition path."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for path, sizes in there.sizes.items():
        for name in sorted(sizes):
            parsed = parse_any_data_file(name, native=there.native)
            if parsed is not None and parsed.instant in instants:
                of = found.setdefault(parsed.instant, {})
                of[path] = (*of.get(path, ()), name)
    return found


def _planned(snapshot: TableSnapshot, later_ones: Iterable[Instant]) -> Iterator[PlannedInstant]:
    """Plans as Hudi does, but for a completed clustering, which is named a second time as what it is once its completed
    file is gone: a process of Hudi's that ends our restore then finds it, too."""
    clusterings = {i.time for i in snapshot.timeline.instants if i.action == "clustering"}
    for each in later_ones:
        yield PlannedInstant(each.time, each.action)
        if each.state is State.COMPLETED and each.time in clusterings:
            yield PlannedInstant(each.time, "clustering")


def _pending_restore(table: ServicedTable, snapshot: TableSnapshot, target: str) -> tuple[str, RestorePlan] | None:
    """A restore that was interrupted, which must lead to where this one does. Raises `Refused`."""
    pending = [each.time for each in snapshot.timeline.pending if each.action == "restore"]
    if not pending:
        return None
    requested = join(timeline_folder(table.base_path, snapshot.config), f"{pending[-1]}.restore.requested")
    plan = read_restore_plan(table.storage.read(requested), file=requested)
    if plan.target != target:
        raise Refused(
            f"The table cannot go back to {target}: restore {pending[-1]} to {plan.target} is pending.",
            why="It was interrupted, and what it rolls back may be gone in part.",
            remedy=f"End it first: lakeward restore TABLE --to {plan.target} --writers stopped.",
        )
    return pending[-1], plan


def _pending_cleans(
    table: ServicedTable, snapshot: TableSnapshot, there: DataFiles
) -> tuple[tuple[Clean, ...], frozenset[str]]:
    """The pending cleans as if they had been of what is gone already, and the instants of those that had begun to keep
    what they take."""
    cleans: list[Clean] = []
    pending = [each.time for each in snapshot.timeline.pending if each.action == ServiceAction.CLEAN.pending]
    for instant in pending:
        requested = table.attempt(snapshot, instant, ServiceAction.CLEAN).files.requested
        plan = read_clean_plan(table.storage.read(requested), root=clean_plan_root(table.base_path), file=requested)
        gone = {
            path: tuple(name for name in names if name not in there.sizes.get(path, {}))
            for path, names in plan.files.items()
        }
        cleans.append(Clean(instant, True, "", gone))
    runs = load_quarantine(table.storage, table.base_path).runs if pending else ()
    return tuple(cleans), frozenset(run.run for run in runs if run.manifests and run.run in pending)


def _bring_back(
    table: ServicedTable,
    snapshot: TableSnapshot,
    commit: Instant,
    plan: RestorePlan,
    there: DataFiles,
    pending: Sequence[Clean],
) -> tuple[tuple[UndoPlan, ...], DataFiles]:
    """The cleans that must be undone, and all files as they are then. Raises `Refused`."""
    storage, base_path, config, timeline = table.storage, table.base_path, snapshot.config, snapshot.timeline
    written = tuple(TimelineReader(storage, base_path, config, timeline).written_files())
    saved = read_savepoints(storage, base_path, config, timeline)
    savepoint = next((each for each in saved if each.instant == commit.time), None)
    completed = [each for each in read_cleans(storage, base_path, config, timeline) if each.is_completed]
    cleaning: list[TableSnapshot] = []

    def with_files(undos: Sequence[UndoPlan]) -> DataFiles:
        more = {file.path: file for undo in undos for file in undo.files}
        return there.with_files(storage, base_path, config, more.values()) if more else there

    def check(cleans: Sequence[Clean], undos: Sequence[UndoPlan]) -> None:
        then = with_files(undos)
        check_readable(
            commit,
            plan.times,
            then.without(plan.times, written),
            then.content.replaced,
            not_undone(cleans),
            savepoint,
            then.sizes,
            timeline,
            native=then.native,
        )

    def undo(clean: str, cleans: Sequence[Clean]) -> UndoPlan:
        if not cleaning:  # what forbids a clean forbids its undo
            cleaning.append(table.snapshot(only=(), service=TableService.CLEANING))
        return undo_plan(table, cleaning[0], clean, cleans=cleans)

    cleans = sorted((*completed, *pending), key=lambda each: comparable_time(each.instant))
    undos = choose_undos(commit, cleans, undo=undo, check=check)
    return undos, with_files(undos)


def _undone(
    table: ServicedTable, snapshot: TableSnapshot, instant: PlannedInstant, files: Names, there: DataFiles
) -> Undone:
    found = snapshot.timeline.find_write(instant.time)
    size = sum(there.sizes[path][name] for path, names in files.items() for name in names)
    if found is None or found.state is not State.COMPLETED:
        return Undone(instant.time, instant.action, False, "", 0, 0, 0, files, size)
    file = join(timeline_folder(table.base_path, snapshot.config), found.file_name)
    metadata = read_commit_metadata(table.storage.read(file), file=file, layout=snapshot.config.layout)
    operation = metadata.operation_type or ""
    stats = [] if operation in _ROWS_STAY else [s for each in metadata.partition_to_write_stats.values() for s in each]
    return Undone(
        instant=instant.time,
        action=instant.action,
        is_completed=True,
        operation=operation,
        inserted=sum(stat.num_inserts or 0 for stat in stats),
        updated=sum(stat.num_update_writes or 0 for stat in stats),
        deleted=sum(stat.num_deletes or 0 for stat in stats),
        files=files,
        bytes=size,
    )
