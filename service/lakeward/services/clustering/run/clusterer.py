"""Give the rows of a table's file groups to new ones, as one commit that replaces them: small ones are packed, or rows
are brought together by columns.

    no lock   what dead processes of Lakeward left is ended -> plan -> no write at work
    lock      no write is at work -> the instant stands on the timeline as that of a write which replaces groups, and
              names none of them yet
    no lock   `.inflight` -> the slices become files of new groups -> no write at work
    lock      each slice is still its group's newest, and no write is at work -> metadata table -> `.replacecommit`;
              else a `.replacecommit` of nothing, since a writer may be about to open `.replacecommit.requested`

The instant is in the names of its files, so it stands on the timeline before the first of them. In this form it holds
no writer up, and a writer that cleans up after failed writes rolls it back when its process died, with its files. As a
pending clustering it would stay there for ever, or have writers refuse updates.

A write that is at work when the groups are replaced may have looked at them before: it would fail, or its rows would
be where no reader looks. So none may be: neither one whose heartbeat beats, nor one that is pending and seems dead,
until it is rolled back.

Touches: the table, through `write/write_start.py` and `write/write_run.py`; through a dispatcher the files.
Keeps:   1. the table has the same rows before and after, each with its commit time and its sequence number;
         2. nothing is published while a pending write may touch one of the partitions, where writers are not stopped;
         3. where a slice is another one when it is published, nothing is, and nothing of the attempt is left but a
            commit of nothing beside writers;
         4. a table on which packing would harm is refused by name;
         5. its instant is put on the timeline while no write is at work there, as the lock shows it.
See:     docs/decisions/0137-the-form-of-a-pending-clustering.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast
from uuid import uuid4

import pyarrow as pa

from lakeward.base.errors import Conflict, Refused
from lakeward.base.paths import join
from lakeward.engine.dispatch.dispatcher import Dispatcher, make_ready
from lakeward.format.avro.schema import table_schema
from lakeward.format.timeline.commit_metadata import CLUSTER
from lakeward.protocol.life_cycle import run_attempt
from lakeward.protocol.metadata.snapshot import check_rows_can_be_written
from lakeward.protocol.pause_of_writers import PauseOfWriters
from lakeward.protocol.preconditions import check_space
from lakeward.protocol.refusals.eligibility import TableService, find_refusals, refuse
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.read.newest_slice import table_reading
from lakeward.read.slice_input import SliceInput
from lakeward.services.clustering.plan.hudi_plan import BY_KEY, HudiPlanKeys, plan_as_hudi, read_hudi_keys
from lakeward.services.clustering.plan.layout import Layout
from lakeward.services.clustering.plan.layout_plan import plan_layout
from lakeward.services.clustering.plan.layout_record import LAYOUT_KEY, PACKED_KEY, write_records
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import PackedGroup, PackPlan, plan_packing
from lakeward.services.clustering.plan.partition_filter import EVERY_PARTITION
from lakeward.services.clustering.plan.requested_plan import plan_as_requested
from lakeward.services.clustering.plan.run_record import RECORD_KEY, record_of
from lakeward.services.clustering.run.layout_records import load_layout_records
from lakeward.services.clustering.run.moving_flow import MovedGroup, MovingFlow, RunTask
from lakeward.services.clustering.run.packed_file import PackSpec
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.new_table import COPY_ON_WRITE
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import OTHER_BUCKETS, hoodie_folder
from lakeward.write.assignment import Assign, Unassigned
from lakeward.write.flow.flow import Flow
from lakeward.write.flow.rowless import RowlessFlow
from lakeward.write.request import FileSizes, WriteOperation, WriteRequest
from lakeward.write.target import Assignment, HandleKind, TargetResult, WriteContext, WriteTarget
from lakeward.write.whole_write import known_schema
from lakeward.write.write_run import WriteRun
from lakeward.write.write_start import begin_in_pause, end_dead_writes

_MOVED = 4
"""Rows on their way take so many times what they take in files, about."""


@dataclass(frozen=True, slots=True)
class ClusteringReport:
    plan: PackPlan
    instant: str | None = None
    """None where there was nothing to do."""
    completion_time: str | None = None
    results: tuple[TargetResult, ...] = ()

    @property
    def output_groups(self) -> int:
        return sum(len(result.files) for result in self.results)

    @property
    def output_bytes(self) -> int:
        return sum(file.size_bytes for result in self.results for file in result.files)

    @property
    def rows(self) -> int:
        return sum(file.stat.num_writes or 0 for result in self.results for file in result.files)


def preview_clustering(
    table: ServicedTable,
    options: PackOptions,
    partitions: Collection[str] | None = None,
    excluded: Collection[GroupId] = (),
) -> PackPlan:
    """The plan that `cluster` would make now; nothing is written. Raises `Refused`."""
    snapshot = clusterable(table)
    return _plan(table, snapshot, _chosen(table, snapshot, options), partitions, excluded)


def cluster(
    table: ServicedTable,
    options: PackOptions,
    choose_dispatcher: Callable[[int], Dispatcher],
    run_task: RunTask,
    *,
    partitions: Collection[str] | None = None,
    excluded: Collection[GroupId] = (),
    depth: str = "",
) -> ClusteringReport:
    """
    Args:
        excluded: file groups that are parked or paused.
        depth: what a filter on the columns reads before, for the commit to say.
        choose_dispatcher: from the bytes that are read to what runs the work.
        run_task: called where the work runs; has its own access to the storage.

    Raises `Refused`, `TryLater` where writers leave no gap, `Conflict` where a slice is another one meanwhile, and what
    the life cycle raises; then nothing is left of it."""
    end_dead_writes(table)
    snapshot = clusterable(table)
    options = _chosen(table, snapshot, options)
    plan = _plan(table, snapshot, options, partitions, excluded)
    if not plan.packed:
        return ClusteringReport(plan)
    schema = known_schema(snapshot)
    assert schema is not None, "there are files"
    moves = options.layout.columns not in ((), BY_KEY.columns) or any(each.outputs > 1 for each in plan.packed)
    space = plan.input_bytes * (1 + _MOVED if moves else 1)
    check_space(table, space, what="clustering", remedy="Make room, or clean the table first.")
    dispatcher = choose_dispatcher(plan.input_bytes)
    make_ready(dispatcher, table)
    counts = f"{plan.input_groups} file groups into {plan.outputs}"
    request = WriteRequest(
        WriteOperation.INSERT_OVERWRITE,
        service=CLUSTER,
        sizes=FileSizes(max_file=options.target_bytes),
        extra_metadata={PACKED_KEY: counts, RECORD_KEY: record_of(plan, depth=depth)},
    )
    packing = _Packing(plan.packed)
    flow: Flow
    if moves:
        flow = moving = MovingFlow(dispatcher, run_task, options.layout, lambda: packing.moved)

        def said_of_files() -> dict[str, str]:
            return {LAYOUT_KEY: write_records(moving.records)}
    else:
        write_packed = cast(Callable[[WriteContext, PackSpec, int], TargetResult], run_task)
        flow = RowlessFlow(dispatcher, write_packed, lambda _: packing.specs, description="clustering")
        said_of_files = dict
    return replace_groups(table, plan, request, flow, packing.assign, schema, said_of_files)


def replace_groups(
    table: ServicedTable,
    plan: PackPlan,
    request: WriteRequest,
    flow: Flow,
    assign: Assign,
    schema: str,
    said_of_files: Callable[[], Mapping[str, str]],
) -> ClusteringReport:
    """The attempt, in a pause of the writers. Raises as `cluster` does.

    Args:
        plan: says which file groups go.
        flow: makes the files of those that come.
    """
    yielding = PauseOfWriters(table, {group.partition_path for group in plan.packed})
    begun = begin_in_pause(table, request, yielding)
    yielding.own = begun.instant
    run = WriteRun(table, begun, flow, schema, assign, yielding=yielding, said_of_files=said_of_files)
    completion_time = run_attempt(table, run, give_up=run.empty_publication)
    return ClusteringReport(plan, begun.instant, completion_time, tuple(run.results))


def take_newest(
    write: Unassigned, planned: Iterable[PackedGroup]
) -> tuple[tuple[FileSlice, ...], dict[str, tuple[str, ...]]]:
    """(the slices that go, the ids of their file groups by partition path). Raises `Refused`, and `Conflict` where one
    of them is not the newest of its group any more."""
    refuse(write.table.base_path, find_refusals(write.snapshot, TableService.CLUSTERING))
    latest = {slice_.group_id: slice_ for slice_ in write.snapshot.latest_slices}
    taken = tuple(slice_ for group in planned for slice_ in group.slices)
    replaced: dict[str, tuple[str, ...]] = {}
    for slice_ in taken:
        if latest.get(slice_.group_id) != slice_:
            raise Conflict(
                f"File group {slice_.file_id} has another newest slice than when it was chosen.",
                why="Another process works on the table.",
                remedy="Run the command again; nothing was published.",
                file_group=slice_.group_id,
            )
        replaced[slice_.partition_path] = (*replaced.get(slice_.partition_path, ()), slice_.file_id)
    return taken, replaced


def new_group(number: int, partition_path: str) -> WriteTarget:
    """A file group that comes, of one file."""
    return WriteTarget(number, HandleKind.CREATE, partition_path, f"{uuid4()}-0", rolls_over=False)


def slice_inputs(table: ServicedTable, snapshot: TableSnapshot, slices: Iterable[FileSlice]) -> Iterator[SliceInput]:
    """What reading each of them needs."""
    reading = table_reading(snapshot, merges=True)
    for slice_ in slices:
        yield replace(
            reading.slice_input(slice_),
            memory_bytes=table.options.memory_bytes,
            widens_nested_floats=snapshot.config.version.widens_floats_alike,
        )


def _plan(
    table: ServicedTable,
    snapshot: TableSnapshot,
    options: PackOptions,
    partitions: Collection[str] | None,
    excluded: Collection[GroupId],
) -> PackPlan:
    if options.requested is not None:
        return plan_as_requested(snapshot, options.requested.groups, instant=options.requested.instant)
    if options.partitions != EVERY_PARTITION:
        paths = {slice_.partition_path for slice_ in snapshot.latest_slices}
        partitions = options.partitions.choose(paths if partitions is None else paths & set(partitions))
    if options.hudi_keys is not None:
        keys = _hudi_keys(table, options.hudi_keys)
        return plan_as_hudi(snapshot, keys, options, partitions=partitions, excluded=excluded)
    if not options.layout.columns:
        return plan_packing(snapshot, options, partitions=partitions, excluded=excluded)
    records = load_layout_records(table.storage, table.base_path, snapshot)
    return plan_layout(snapshot, options, records, partitions=partitions, excluded=excluded)


def clusterable(table: ServicedTable) -> TableSnapshot:
    """The table, all of it, where nothing is against packing. Raises `Refused`."""
    snapshot = table.snapshot(service=TableService.CLUSTERING)
    check_clusterable(table.storage, snapshot)
    return snapshot


def _chosen(table: ServicedTable, snapshot: TableSnapshot, options: PackOptions) -> PackOptions:
    """With the layout that fits the table. Raises `Refused` where none does."""
    layout = options.layout.chosen(is_lsm_tree=snapshot.config.is_lsm_tree)
    target_bytes = options.target_bytes
    if options.hudi_keys is not None:
        keys = _hudi_keys(table, options.hudi_keys)
        layout, target_bytes = keys.layout, keys.target_file_bytes
    is_hudis = options.hudi_keys is not None or options.requested is not None
    if layout.columns and not (layout == BY_KEY and is_hudis):
        _check_columns(table, snapshot, layout)
    return replace(options, layout=layout, target_bytes=target_bytes)


def _hudi_keys(table: ServicedTable, keys: Mapping[str, str]) -> HudiPlanKeys:
    return read_hudi_keys(keys, hour=datetime.fromtimestamp(table.clock.now()).hour)


def _check_columns(table: ServicedTable, snapshot: TableSnapshot, layout: Layout) -> None:
    if snapshot.config.is_lsm_tree and not layout.is_by_key:
        raise Refused(
            f"{table.base_path} has the layout lsm_tree, whose files are in the order of their keys.",
            why=f"With {layout.mode} they would be in another one.",
            remedy="Use --mode hybrid: columns choose a row's file group, and each file stays in the order of keys.",
        )
    text = known_schema(snapshot)
    if text is None:
        return  # there is no file
    schema = table_schema(text)
    for name in layout.columns:
        if name not in schema.names or name.startswith("_hoodie_"):
            raise Refused(
                f"{table.base_path} has no column {name} to cluster by.",
                why=f"Its columns are {', '.join(each for each in schema.names if not each.startswith('_hoodie_'))}.",
                remedy="Name one of these with --by; columns inside of others cannot be named.",
            )
        if pa.types.is_nested(schema.field(name).type):
            raise Refused(
                f"{table.base_path} cannot be clustered by the column {name}.",
                why=f"Its values have no order: {schema.field(name).type}.",
                remedy="Name a column of numbers, texts or times.",
            )


def check_clusterable(storage: Storage, snapshot: TableSnapshot) -> None:
    """Raise `Refused` for what the table's timeline and properties do not show."""
    check_rows_can_be_written(storage, snapshot)
    if storage.list(join(hoodie_folder(snapshot.base_path), OTHER_BUCKETS)):
        raise Refused(
            f"Small file groups of {snapshot.base_path} are not packed.",
            why=f"There is .hoodie/{OTHER_BUCKETS}: the table's buckets hash consistently, or differ in their number "
            "from partition to partition, and writers find keys by file groups that must stay.",
            remedy="Leave the clustering of this table to Hudi.",
        )


class _Packing:
    """Assigns planned groups to new ones."""

    def __init__(self, planned: Collection[PackedGroup]) -> None:
        self._planned = planned
        self.specs: list[PackSpec] = []
        """What becomes each new group, once they are assigned, where each is packed by itself."""
        self.moved: list[MovedGroup] = []
        """The same, for each group of the plan."""

    def assign(self, write: Unassigned) -> Assignment:
        table, snapshot = write.table, write.snapshot
        taken, replaced = take_newest(write, self._planned)
        # Compactions to come, which are spared sorting, there are none of.
        any_order = snapshot.config.table_type.upper() == COPY_ON_WRITE
        targets: list[WriteTarget] = []
        for group in self._planned:
            slices = tuple(slice_inputs(table, snapshot, group.slices))
            new = tuple(new_group(len(targets) + number, group.partition_path) for number in range(group.outputs))
            targets += new
            self.specs.append(PackSpec(new[0], slices, in_any_order=any_order))
            self.moved.append(MovedGroup(slices, tuple(slice_.bytes for slice_ in group.slices), new))
        return Assignment(tuple(targets), {}, replaced, taken)
