"""Undo a clustering: each slice that it replaced becomes a file group again, and the file groups that it made go.

    no lock   what dead processes of Lakeward left is ended -> the newest clustering that is not undone -> plan
              -> the rows that it made are those that it replaced, by their digests -> the slices become files
    lock      each file group that it made is still as it made it -> metadata table -> `.replacecommit`

On the timeline it is a clustering like any other, with the same attempt, checks and records in the metadata table: so
it may run beside writers, and what they wrote to other file groups stays. The new file groups have other ids than those
of before. What a clean set aside is read where the quarantine keeps it.

Touches: reads the timeline, a listing of the table, the quarantine; the table, as `clusterer` does.
Keeps:   1. the table has the same rows before and after, each with its commit time and its sequence number;
         2. where a slice of before does not have the rows that the clustering made of it, nothing is written;
         3. where a file group that the clustering made is written to meanwhile, nothing is published;
         4. a clustering that was undone is passed over, and so is its undo;
         5. a file group that comes back keeps the record of its layout.
See:     docs/decisions/0167-a-clustering-is-undone-by-another.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from lakeward.base.errors import Refused
from lakeward.base.quantities import format_count
from lakeward.engine.dispatch.dispatcher import Dispatcher, Progress, make_ready
from lakeward.engine.task.verification import check_digest
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.commit_metadata import CLUSTER, CommitMetadata
from lakeward.merge.digest import sum_of_digests
from lakeward.protocol.preconditions import check_space
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.read.slice_input import SliceInput
from lakeward.services.clustering.plan.clustering_undo import (
    ClusteringUndo,
    made_by,
    plan_clustering_undo,
    refused_gone,
    replaced_by,
)
from lakeward.services.clustering.plan.layout_record import LAYOUT_KEY, PACKED_KEY, LayoutRecord, write_records
from lakeward.services.clustering.plan.run_record import RECORD_KEY, read_record, record_of
from lakeward.services.clustering.run.clusterer import (
    ClusteringReport,
    clusterable,
    new_group,
    replace_groups,
    slice_inputs,
    take_newest,
)
from lakeward.services.clustering.run.group_file import WrittenGroup
from lakeward.services.clustering.run.layout_records import load_layout_records
from lakeward.services.clustering.run.moving_flow import RunTask
from lakeward.services.clustering.run.returned_rows import DigestSpec, ReturnSpec, SliceDigest
from lakeward.table.data_files import list_data_files
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import FileSystemView, GroupId
from lakeward.table.quarantine import QuarantinedFile, QuarantineKind, load_quarantine, quarantined_path
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline_reader import TimelineReader
from lakeward.write.assignment import Unassigned
from lakeward.write.flow.rowless import WithoutRows, run_items
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.target import Assignment, TargetResult, WriteContext
from lakeward.write.whole_write import known_schema
from lakeward.write.write_start import end_dead_writes

Places = Mapping[str, str]
"""Maps the path of a file that a clean moved to the folder below which it has that path now."""


@dataclass(frozen=True, slots=True)
class UndoneClustering:
    clustering: str
    """The instant of the clustering."""
    report: ClusteringReport
    """The undo as a clustering; without an instant for a preview."""


def preview_undo(table: ServicedTable) -> UndoneClustering:
    """What `undo_clustering` would do now; raises as that does. Writes nothing."""
    undo, _ = _plan(table, clusterable(table))
    return UndoneClustering(undo.clustering, ClusteringReport(undo.plan))


def undo_clustering(
    table: ServicedTable, choose_dispatcher: Callable[[int], Dispatcher], run_task: RunTask
) -> UndoneClustering:
    """Raises `Refused` where the active timeline has no clustering, or the newest cannot be undone, and what `cluster`
    raises."""
    end_dead_writes(table)
    snapshot = clusterable(table)
    undo, roots = _plan(table, snapshot)
    schema = known_schema(snapshot)
    assert schema is not None, "there are files"
    size = sum(each.bytes for each in undo.before)
    check_space(table, size, what="the undo of a clustering", remedy="Make room, or clean the table first.")
    dispatcher = choose_dispatcher(size + undo.plan.input_bytes)
    make_ready(dispatcher, table)
    request = WriteRequest(
        WriteOperation.INSERT_OVERWRITE,
        service=CLUSTER,
        extra_metadata={
            PACKED_KEY: f"{undo.plan.input_groups} file groups into {undo.plan.outputs}",
            RECORD_KEY: record_of(undo.plan, undoes=undo.clustering),
        },
    )
    records = load_layout_records(table.storage, table.base_path, snapshot, of=undo.before)
    flow = _ReturningFlow(dispatcher, run_task, undo, roots, records)
    report = replace_groups(table, undo.plan, request, flow, flow.assign, schema, flow.said_of_files)
    return UndoneClustering(undo.clustering, report)


def _plan(table: ServicedTable, snapshot: TableSnapshot) -> tuple[ClusteringUndo, Mapping[GroupId, str]]:
    """The plan, and where the slices of before are that a clean moved. Raises `Refused`."""
    reader = TimelineReader(table.storage, table.base_path, snapshot.config, snapshot.timeline)
    clustering, commit = _newest(table, snapshot, reader)
    without, places = _without(table, snapshot, reader, clustering, replaced_by(commit))
    undo = plan_clustering_undo(clustering, commit, snapshot, without)
    return undo, _roots(clustering, undo.before, places)


def _newest(table: ServicedTable, snapshot: TableSnapshot, reader: TimelineReader) -> tuple[str, CommitMetadata]:
    """The newest clustering that made file groups and is not undone. Raises `Refused`."""
    completed = sorted(snapshot.timeline.completed_writes, key=lambda each: each.completion_time or each.time)
    undone = set[str]()
    for each in reversed(completed):
        commit = reader.commit_metadata(each) if each.action == "replacecommit" else None
        if commit is None or not commit.is_clustering or not made_by(commit):
            continue
        run = read_record(commit, instant=each.time, completed_at=0.0)
        if run is not None and run.undoes:
            undone.add(run.undoes)
        elif each.time not in undone:
            return each.time, commit
    raise Refused(
        f"No clustering of {table.base_path} can be undone.",
        why="There is none on the active timeline" + (" that is not undone already." if undone else "."),
        remedy="An archived one cannot be undone; `lakeward inspect` shows the timeline.",
    )


def _without(
    table: ServicedTable,
    snapshot: TableSnapshot,
    reader: TimelineReader,
    clustering: str,
    replaced: frozenset[GroupId],
) -> tuple[FileSystemView, Places]:
    """The table as it would be if the clustering had never been, and where the files are that a clean set aside."""
    storage, base_path, config, timeline = table.storage, table.base_path, snapshot.config, snapshot.timeline
    there = list_data_files(storage, base_path, config, timeline, clock=table.clock)
    aside: dict[str, QuarantinedFile] = {}
    places: dict[str, str] = {}
    for run in load_quarantine(storage, base_path).runs:
        if run.kind is not QuarantineKind.CLEAN or run.problem or run.is_purging or run.undone_by is not None:
            continue
        for file in run.files:
            name = parse_any_data_file(file.name, native=config.version.has_native_logs)
            if name is None or (file.partition_path, name.file_id) not in replaced:
                continue
            if file.name not in there.sizes.get(file.partition_path, {}):
                aside[file.path] = file
                if not run.in_place:
                    places[file.path] = quarantined_path(base_path, run.run, "")
    if aside:
        there = there.with_files(storage, base_path, config, aside.values())
    return there.without({clustering}, tuple(reader.written_files())), places


def _roots(clustering: str, before: Iterable[FileSlice], places: Places) -> Mapping[GroupId, str]:
    """The folders below which slices are that a clean moved. Raises `Refused`."""
    found: dict[GroupId, str] = {}
    for slice_ in before:
        roots = {places.get(file.path) for file in slice_.files}
        if len(roots) > 1:
            raise refused_gone(clustering, slice_.group_id, "a clean has moved a part of its files, and is not over")
        if (root := roots.pop()) is not None:
            found[slice_.group_id] = root
    return found


def _not_the_same(clustering: str, made: Sequence[SliceDigest], before: Sequence[SliceDigest]) -> Refused:
    rows = (format_count(sum(each.rows for each in of), "row") for of in (made, before))
    return Refused(
        f"Clustering {clustering} cannot be undone: it made other rows than those of the file groups that it replaced.",
        why=f"It made {next(rows)}, and {next(rows)} would come back; their values or meta columns differ. Hudi's "
        "clusterings give rows other commit times with hoodie.clustering.preserve.commit.metadata=false.",
        remedy="Leave the table as it is. Cluster again for another layout; `lakeward verify` looks for damage.",
    )


class _ReturningFlow(WithoutRows):
    """A flow whose rows come from slices that were replaced, and go to new file groups, one for each."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        run_task: RunTask,
        undo: ClusteringUndo,
        roots: Mapping[GroupId, str],
        records: Mapping[GroupId, LayoutRecord],
    ) -> None:
        """
        Args:
            roots: the folders below which slices have their paths that are not in the table.
            records: the layouts of the slices that were replaced.
        """
        self._dispatcher = dispatcher
        self._run_task = run_task
        self._undo = undo
        self._roots = roots
        self._records = records
        self._made: Sequence[SliceInput] = ()
        self._before: Sequence[SliceInput] = ()
        self._written: Sequence[WrittenGroup] = ()

    def assign(self, write: Unassigned) -> Assignment:
        table, snapshot = write.table, write.snapshot
        taken, replaced = take_newest(write, self._undo.plan.packed)
        self._made = tuple(slice_inputs(table, snapshot, taken))
        self._before = tuple(
            replace(each, base_path=self._roots.get((each.partition_path, each.file_id), each.base_path))
            for each in slice_inputs(table, snapshot, self._undo.before)
        )
        targets = tuple(new_group(number, each.partition_path) for number, each in enumerate(self._undo.before))
        return Assignment(targets, {}, replaced, taken)

    def write(
        self, context: WriteContext, assignment: Assignment, *, on_progress: Callable[[Progress], None]
    ) -> list[TargetResult]:
        read = [*self._made, *self._before]
        named = [(each.partition_path, each.file_id) for each in read]
        specs = [DigestSpec(each) for each in read]
        found = cast(
            list[SliceDigest],
            run_items(self._dispatcher, self._run_task, context, specs, "reading", named, on_progress),
        )
        made, before = found[: len(self._made)], found[len(self._made) :]
        digest = sum_of_digests(each.digest for each in made)
        if sum_of_digests(each.digest for each in before) != digest:
            raise _not_the_same(self._undo.clustering, made, before)
        returning = [
            ReturnSpec(target, slice_input, of.rows)
            for target, slice_input, of in zip(assignment.targets, self._before, before, strict=True)
        ]
        self._written = cast(
            list[WrittenGroup],
            run_items(
                self._dispatcher,
                self._run_task,
                context,
                returning,
                "clustering",
                named[len(self._made) :],
                on_progress,
            ),
        )
        check_digest(merged=digest, written=sum_of_digests(each.digest for each in self._written))
        return [each.result for each in self._written]

    def said_of_files(self) -> dict[str, str]:
        records = tuple(self._layouts())
        return {LAYOUT_KEY: write_records(records)} if records else {}

    def _layouts(self) -> Iterator[LayoutRecord]:
        for slice_, written in zip(self._undo.before, self._written, strict=True):
            record = self._records.get(slice_.group_id)
            for file in written.result.files if record is not None else ():
                assert record is not None and file.stat.file_id is not None
                yield replace(record, group_id=(slice_.partition_path, file.stat.file_id))
