"""Give a table another layout, as `services/together/versions/plan/layout_change.py` says.

    no lock  heartbeats are watched until they can be known; the keys of base files are read whose order is not known
    yet lock     nothing is at work, and nothing came since -> what is next: a step, or the property
    no lock  the step: failed writes rolled back, logs compacted, base files sorted; and all over again

What was read is remembered by this process alone, by the file's name and size; so a process that begins again looks at
the table, reads the files, and does what is left. Until the property changes the table has its old layout, and is
sound: sorted files are files.

All writers are stopped, as for a change of the version (`services/together/versions/run/version_step.py`), and for the
same reason.

Touches: `hoodie.properties`, under the lock, with no other process at work; the keys of base files, reading; what
         rolling back, compacting and sorting touch.
Keeps:   1. stopped at any call, the table has its old layout or the new one, and the next run does what is left;
         2. nothing is written to a table that is refused, nor while anything of it is at work;
         3. no table becomes `lsm_tree` unless a listing under the lock finds a base file that was read and is sorted in
            every file group, and no log on it;
         4. what lands while files are read makes the run fail, before it changes the layout.
See:     docs/decisions/0070-a-table-becomes-lsm-tree.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakeward.base.errors import Refused, TryLater, VerificationFailed
from lakeward.base.paths import join
from lakeward.engine.dispatch.dispatcher import Dispatcher, Progress, make_ready, results_of
from lakeward.engine.task.order_check import OrderCheck
from lakeward.protocol.pending.rollback import Step
from lakeward.protocol.pending.stuck_services import check_nothing_lives
from lakeward.protocol.preconditions import check_writers_stopped
from lakeward.protocol.refusals.eligibility import TableService, find_refusals, refuse
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.rollback.run.failed_writes import judge, watch_writers
from lakeward.services.together.versions.plan.change_step import ChangeStep, StepKind
from lakeward.services.together.versions.plan.layout_change import (
    LayoutChange,
    StorageLayout,
    find_unknown,
    groups_to_merge,
    layout_of,
    plan_layout_change,
    slices_to_sort,
)
from lakeward.services.together.versions.run.version_step import Compact, scan, take_steps
from lakeward.table.file_group import BaseFile, FileSlice
from lakeward.table.file_order import FileOrder
from lakeward.table.file_system_view import GroupId
from lakeward.table.listing_source import ListingSource
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import (
    LSM_TREE,
    OTHER_BUCKETS,
    STORAGE_LAYOUT,
    TableConfig,
    hoodie_folder,
)

SORTED_AT_ONCE = 64 * 1024**3
"""Bytes of base files that one commit takes the place of: what is lost where the process dies over it."""

_OTHERWISE = "it uses the layout that the table had when it began"
_REPORT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class LayoutWork:
    """What does the steps, and where the reading runs."""

    compact: Compact
    """FULL of the file groups with these ids, by their keys, and what pending plans hold of them."""
    sort: Callable[[Sequence[FileSlice]], object]
    """Base files again, by their keys."""
    choose_dispatcher: Callable[[int], Dispatcher]
    check_order: Callable[[OrderCheck, int], FileOrder]
    """Called where the work runs; has its own access to the storage."""
    sorted_at_once: int = SORTED_AT_ONCE


class KnownOrders:
    """In which order base files are, as far as they were read."""

    def __init__(self, table: ServicedTable, work: LayoutWork) -> None:
        self._table = table
        self._work = work
        self.by_file: dict[BaseFile, FileOrder] = {}

    def learn(self, snapshot: TableSnapshot) -> None:
        """Read the keys of the files that are not known yet. Raises what reading them does."""
        files = find_unknown(snapshot, self.by_file)
        if not files:
            return
        table, total = self._table, sum(each.size for each in files)
        dispatcher = self._work.choose_dispatcher(total)
        make_ready(dispatcher, table)
        table.observer.step(f"reading the keys of base files on {dispatcher.name}: {len(files)}")
        outcomes = dispatcher.run(
            self._work.check_order,
            [OrderCheck(table.base_path, each.path) for each in files],
            description="reading the keys of base files",
            on_progress=self._report(),
        )
        self.by_file |= dict(zip(files, results_of(outcomes), strict=True))

    def _report(self) -> Callable[[Progress], None]:
        table, said = self._table, self._table.clock.monotonic()

        def report(progress: Progress) -> None:
            nonlocal said
            table.guard()
            if (now := table.clock.monotonic()) - said >= _REPORT_SECONDS:
                said = now
                table.observer.step(f"base files read: {progress.finished} of {progress.total}")

        return report


def preview_layout_change(table: ServicedTable, target: StorageLayout, work: LayoutWork) -> LayoutChange:
    """What `change_layout` would do now, or why it would not: raises as that does. Writes nothing, reads the keys of
    base files, and may wait for heartbeats."""
    watch_writers(table, scan(table))
    orders = KnownOrders(table, work)
    snapshot = _scan_all(table)
    _prepare(table, snapshot, target, orders)
    if target is StorageLayout.LSM_TREE and layout_of(snapshot) is not target:
        orders.learn(snapshot)
    return _prepare(table, snapshot, target, orders)


def change_layout(table: ServicedTable, target: StorageLayout, work: LayoutWork) -> LayoutChange:
    """Bring the table to this layout. Returns what was done. Idempotent.

    Raises:
        Refused: the table, or what is on its timeline, does not allow it; its layout was not changed.
        LockHeld, TryLater, Conflict: another process is at work.
        BrokenFile: properties, or a base file, that are not whole.
        Whatever a service raises that is a step on the way.
    """
    assert table.options.writers_stopped, "nothing protects a writer from a change of the layout"
    orders, were_sorted = KnownOrders(table, work), set[GroupId]()
    before: TableSnapshot
    snapshot: TableSnapshot

    def look() -> None:
        nonlocal before
        before = _scan_all(table)
        if target is StorageLayout.LSM_TREE and layout_of(before) is not target:
            _prepare(table, before, target, orders)  # what is refused is not even read
            orders.learn(before)

    def plan() -> LayoutChange:
        nonlocal snapshot
        snapshot = _scan_all(table)
        check_writers_stopped(before.timeline, snapshot.timeline, own="", meanwhile="its files were read")
        change = _prepare(table, snapshot, target, orders)
        steps = [step for step in change.steps if step.kind is not StepKind.VERIFICATION]
        is_last = bool(steps) and steps[0].kind is StepKind.PROPERTIES
        if is_last and target is StorageLayout.LSM_TREE and (unread := find_unknown(snapshot, orders.by_file)):
            raise _came_since(table, unread[0])
        return change

    def do(step: ChangeStep) -> ChangeStep:
        if step.kind is StepKind.COMPACTION:
            work.compact(groups_to_merge(snapshot))
            return step
        chosen = _first(slices_to_sort(snapshot, orders.by_file), work.sorted_at_once)
        if again := [each for each in chosen if each.group_id in were_sorted]:
            raise _out_of_order_again(again[0])
        work.sort(chosen)
        were_sorted.update(each.group_id for each in chosen)
        paths = tuple(each.base_file.path for each in chosen if each.base_file is not None)
        return replace(step, subjects=paths, bytes=sum(each.base_bytes for each in chosen))

    return take_steps(table, plan, do, places=(table.base_path,), look=look)


def _first(slices: Sequence[FileSlice], bytes_max: int) -> list[FileSlice]:
    """So many that they are no larger together, and one at least."""
    chosen, size = [slices[0]], slices[0].base_bytes
    for slice_ in slices[1:]:
        if (size := size + slice_.base_bytes) > bytes_max:
            break
        chosen.append(slice_)
    return chosen


def _scan_all(table: ServicedTable) -> TableSnapshot:
    """All of its files, as the storage lists them."""
    return table.snapshot(service=TableService.UPGRADING, listing=ListingSource.STORAGE)


def _prepare(table: ServicedTable, snapshot: TableSnapshot, target: StorageLayout, orders: KnownOrders) -> LayoutChange:
    check_nothing_lives(table, snapshot, otherwise=_OTHERWISE)
    failed = [each.instant for each in judge(table, snapshot) if each.step is not Step.LEAVE]
    change = plan_layout_change(snapshot, target, failed, orders.by_file)
    if not change.steps:
        return change
    if target is StorageLayout.LSM_TREE:
        _check_layout(table, snapshot)
    kinds = {step.kind for step in change.steps}
    for kind, service in _SERVICES.items():
        if kind in kinds:
            refuse(table.base_path, find_refusals(snapshot, service))
    return change


_SERVICES = {
    StepKind.ROLLBACK: TableService.ROLLBACK,
    StepKind.COMPACTION: TableService.COMPACTION,
    StepKind.SORTING: TableService.WRITING,
}


def _check_layout(table: ServicedTable, snapshot: TableSnapshot) -> None:
    """What its services and writers would be refused for once it has the layout is refused now."""
    if table.storage.list(join(hoodie_folder(table.base_path), OTHER_BUCKETS)):
        raise Refused(
            f"{table.base_path} cannot become {LSM_TREE}: its buckets are not all of one number.",
            why=f"There is .hoodie/{OTHER_BUCKETS}, in which Hudi keeps those of consistent hashing, whose file groups "
            "it merges in no order.",
            remedy="Leave it in its layout; nothing was changed.",
        )
    then = _in_layout(snapshot, LSM_TREE)
    refusals = list(find_refusals(then, TableService.WRITING))
    if snapshot.config.is_merge_on_read:
        known = {(each.id, each.subject) for each in refusals}
        more = find_refusals(then, TableService.COMPACTION)
        refusals += [each for each in more if (each.id, each.subject) not in known]
    refuse(table.base_path, refusals)


def _in_layout(snapshot: TableSnapshot, layout: str) -> TableSnapshot:
    """The table as its services find it once it has the layout and no plan is pending any more."""
    config = TableConfig({**snapshot.config.properties, STORAGE_LAYOUT: layout})
    left = tuple(each for each in snapshot.timeline.instants if each.action not in ("compaction", "logcompaction"))
    return replace(
        snapshot,
        loaded_config=replace(snapshot.loaded_config, config=config),
        timeline=replace(snapshot.timeline, instants=left),
        plans={},
    )


def _out_of_order_again(slice_: FileSlice) -> VerificationFailed:
    return VerificationFailed(
        f"File group {slice_.file_id} in partition '{slice_.partition_path}' was sorted, and is out of order again.",
        why="A process wrote to it since, or the sorting is wrong.",
        remedy="See `lakeward inspect` for what wrote to it last; the layout was not changed.",
    )


def _came_since(table: ServicedTable, file: BaseFile) -> TryLater:
    return TryLater(
        f"{table.base_path} has {file.path}, which was not there when its files were read.",
        why="A process wrote it, and no instant on the timeline says so.",
        remedy="Stop that process, and give the command again; the layout was not changed.",
    )
