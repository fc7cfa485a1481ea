"""A write that has begun, as the life cycle runs it: its work, whether another write meets it, and its commit.

    work         rows get keys and places; it is chosen which file groups take them -> `.inflight` says so -> files
    preparation  an index of Lakeward by which keys were found takes in what happened to them (`write/own_index`)
    publication  under the lock: another write that landed on one of its groups makes it fail; so does a compaction
                 over a slice whose base file it rewrote, for which Hudi's writers do not look

What a write says of itself: while it is pending, the groups that it updates; completed, each file that it wrote.

    pending     for each partition a stat without a file id with the rows of new keys, and one for each group that rows
                go to with those of known ones (Hudi's workload profile)
    completed   the write stats of its files, the schema; of a replacecommit what was replaced

Touches: the attempt's folder; `.inflight`; new partitions get their metadata file; an index of Lakeward; reads the
         table. What it publishes `protocol/attempts/attempt.py` does; storage, reading timeline files.
Keeps:   1. what is published meets nothing that completed since the write began;
         2. a base file is replaced only if it is still its group's newest, with nothing on top of it that was not
            merged; a slice whose rows were taken, only if it is the group's newest with just these files;
         3. a partition has its metadata file before any file of the write stands in it;
         4. an instant that cannot be read is an error: it may have touched anything;
         5. what a service writes is published only while no write is at work, as the service sees it;
         6. where a service gives up beside writers, its instant is completed by a commit of nothing, and stays.
Source:  BaseCommitActionExecutor.saveWorkloadProfileMetadataToInflight, CommitUtils.buildMetadata (Hudi 1.2);
         ConcurrentOperation (Hudi 1.2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakeward.base.errors import Conflict, LakewardError, NotFound, TryLater
from lakeward.base.paths import join
from lakeward.engine.dispatch.dispatcher import Progress
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.format.partition_metadata import PROPERTIES_NAME, PartitionMetadata, write_partition_metadata
from lakeward.format.timeline.commit_metadata import (
    NO_COMMIT,
    NOTHING_COUNTED,
    CommitMetadata,
    WriteStat,
    read_commit_metadata,
    write_commit_metadata,
    write_replace_metadata,
)
from lakeward.format.timeline.instant import Instant, State, instant_file_name
from lakeward.format.timeline.replace_metadata import read_clustered_groups
from lakeward.index.index_type import IndexType
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.attempts.attempt_files import Winner
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.life_cycle import Unpublished
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.changes import NewFile
from lakeward.protocol.metadata.indexed_by_write import indexed_by_write
from lakeward.protocol.metadata.key_changes import ChangedKeys, WriteChanges
from lakeward.protocol.metadata_part import FileChanges, MetadataPart
from lakeward.protocol.preconditions import check_writers_stopped
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.read.table_rules import merge_rules
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.write.assignment import Assign, Unassigned, assign_rows
from lakeward.write.conflicts import Touched, find_conflict
from lakeward.write.flow.flow import Flow
from lakeward.write.own_index import OwnIndexPart, knows_its_keys, learns_beside
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.tagging.tagging_choice import OpenIndex
from lakeward.write.target import Assignment, HandleKind, TargetResult, WriteContext, WrittenFile, rows_of_targets
from lakeward.write.write_start import BegunWrite, GivesWay, timeline_snapshot

_REPORT_SECONDS = 2.0

GIVEN_UP_KEY = "lakeward.given_up"
"""Entry of a commit of nothing."""

_NO_GROUP = replace(NOTHING_COUNTED, file_id="", prev_commit=NO_COMMIT)


def read_touched(contents: InstantContents, config: TableConfig, instant: Instant) -> Touched:
    """Raises `BrokenFile`.

    The file groups that another instant touched, as its files on the timeline say.

        a completed write      what it wrote, and what it replaced
        a pending replacement  what its profile says that it will write; of a clustering what its plan takes
    """
    if instant.state is State.COMPLETED:
        return _written(contents, config, instant.file_name)
    planned = read_clustered_groups(contents.read(requested := _name(config, instant, State.REQUESTED)), file=requested)
    if planned or instant.action == "clustering":
        return Touched(frozenset(planned))
    try:
        inflight = _name(config, instant, State.INFLIGHT)
        return _written(contents, config, inflight) if contents.read(inflight) else Touched(frozenset())
    except NotFound:
        return Touched(frozenset())  # it does not know yet what it will replace, and will meet this write


def _written(contents: InstantContents, config: TableConfig, name: str) -> Touched:
    metadata = read_commit_metadata(contents.read(name), file=name, layout=config.layout)
    return Touched(metadata.file_groups, metadata.operation_type)


def _name(config: TableConfig, instant: Instant, state: State) -> str:
    return instant_file_name(instant.time, instant.action, state, config.layout)


def write_profile(assignment: Assignment, operation_type: str) -> bytes:
    """What `.inflight` says, once it is known which rows go where."""
    stats: dict[str, list[WriteStat]] = {}
    known = rows_of_targets({place: shares for place, shares in assignment.places.items() if place[1] is not None})
    inserts = rows_of_targets({place: shares for place, shares in assignment.places.items() if place[1] is None})
    new: Counter[str] = Counter()
    for target in assignment.targets:
        of_partition = stats.setdefault(target.partition_path, [])
        new[target.partition_path] += inserts[target.index]
        if target.kind is HandleKind.CREATE:
            new[target.partition_path] += known[target.index]
            continue
        # A group that new rows alone go to is named, too, which Hudi leaves out: compactions wait for those that are.
        of_partition.append(
            replace(
                _NO_GROUP, file_id=target.file_id, prev_commit=target.prev_commit, num_update_writes=known[target.index]
            )
        )
    partitions = {
        path: (replace(_NO_GROUP, num_inserts=new[path]), *of_partition) for path, of_partition in stats.items()
    }
    return write_commit_metadata(
        CommitMetadata(partition_to_write_stats=partitions, compacted=False, operation_type=operation_type)
    )


def completed_write(
    request: WriteRequest,
    results: Sequence[TargetResult],
    schema: str,
    replaced: Mapping[str, tuple[str, ...]],
) -> bytes:
    """The bytes of the completed instant."""
    stats: dict[str, list[WriteStat]] = {}
    for result in results:
        for file in result.files:
            stats.setdefault(result.partition_path, []).append(file.stat)
    metadata = CommitMetadata(
        partition_to_write_stats={path: tuple(each) for path, each in stats.items()},
        compacted=False,
        extra_metadata={"schema": schema, **request.extra_metadata},
        operation_type=request.operation_type,
    )
    if request.operation.replaces:
        return write_replace_metadata(replace(metadata, partition_to_replace_file_ids=replaced))
    return write_commit_metadata(metadata)


@dataclass(frozen=True, slots=True)
class _Work:
    """What was made, before anybody can see it."""

    snapshot: TableSnapshot
    assignment: Assignment
    context: WriteContext
    results: Sequence[TargetResult]
    metadata_part: MetadataPart


class WriteRun:
    def __init__(
        self,
        table: ServicedTable,
        begun: BegunWrite,
        flow: Flow,
        schema: str,
        assign: Assign = assign_rows,
        open_index: OpenIndex | None = None,
        shadow: OpenIndex | None = None,
        yielding: GivesWay | None = None,
        said_of_files: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """
        Args:
            schema: Avro JSON of the table's columns from this write on, without meta columns.
            assign: chooses which file groups take the rows.
            open_index: the index of Lakeward that learns of the write.
            shadow: another one that learns of it, if it can: where it cannot it is behind, and the write goes on.
            yielding: of a service; a write fails where it meets another one, and waits for none.
            said_of_files: entries of the commit beside those of the request, asked for when the files are written.
        """
        self._table = table
        self._yielding = yielding
        self._said_of_files = said_of_files
        self._begun = begun
        self._flow = flow
        self._schema = schema
        self._assign = assign
        self._open_index = open_index
        self._shadow = shadow if learns_beside(begun.snapshot, begun.request) else None
        self._index_parts: list[OwnIndexPart] = []
        self._work: _Work | None = None
        self._groups: tuple[GroupId, ...] = ()
        self._is_publishing = False

    @property
    def attempt(self) -> Attempt:
        return self._begun.attempt

    @property
    def name(self) -> str:
        return f"{self._begun.request.operation_type.lower()} {self._begun.instant}"

    @property
    def groups(self) -> Sequence[GroupId]:
        return self._groups

    @property
    def results(self) -> Sequence[TargetResult]:
        return self._done.results

    @property
    def replaced(self) -> Mapping[str, tuple[str, ...]]:
        return self._done.assignment.replaced

    @property
    def _replaced_groups(self) -> tuple[GroupId, ...]:
        return tuple((path, file_id) for path, file_ids in self.replaced.items() for file_id in file_ids)

    def work(self) -> None:
        table, begun = self._table, self._begun
        table.observer.step(f"{self.name} begins")
        snapshot = table.snapshot(service=TableService.WRITING)
        context = self._context(snapshot)
        assignment = self._assign(
            Unassigned(
                table=table,
                snapshot=snapshot,
                request=begun.request,
                flow=self._flow,
                schema=self._schema,
                instant=begun.instant,
                on_progress=self._report("rows read"),
            )
        )
        self._groups = tuple((target.partition_path, target.file_id) for target in assignment.targets)
        self._begin_partitions(snapshot, {partition_path for partition_path, _ in self._groups})
        self.attempt.files.begin(write_profile(assignment, begun.request.operation_type))
        table.guard()
        results = self._flow.write(context, assignment, on_progress=self._report("file groups written"))
        metadata_part = MetadataPart(table, self.attempt, measured=context.indexed)
        self._work = _Work(snapshot, assignment, context, results, metadata_part)

    def await_writers(self) -> None:
        if self._yielding is not None:
            self._yielding.await_writers()

    def prepare(self) -> None:
        done = self._done
        self.attempt.list_markers(self._winners())
        if has_metadata_table(done.snapshot.config):
            done.metadata_part.prepare(self._of_partitions(), self._file_changes)
        self._enter_indexes()

    def publication(self, fence: Fence) -> Publication | Unpublished:
        table, begun, done = self._table, self._begun, self._done
        snapshot = self._of_partitions()
        self.attempt.check_held()
        if table.options.writers_stopped:
            check_writers_stopped(
                begun.snapshot.timeline, snapshot.timeline, own=begun.instant, meanwhile=f"{self.name} ran"
            )
        self._check_conflicts(snapshot)
        self._check_slices(snapshot)
        if self._yielding is not None and not self._yielding.is_clear():
            return Unpublished.HELD_BACK
        request = replace(begun.request, extra_metadata={**begun.request.extra_metadata, **self._said_of_files()})
        self.attempt.stage(completed_write(request, done.results, self._schema, done.assignment.replaced))
        participants = done.metadata_part.participants(snapshot, self._file_changes, fence=fence)
        if self._yielding is not None and not self._yielding.is_clear():
            # t0 W takes its time and gives the lock back; t1 we take it, and see no write; t2 W's `.requested` comes.
            raise TryLater(
                f"{self.name} met a write that began while it was about to be published.",
                why="That write may have looked at the table before, and would fail for what it then finds replaced.",
                remedy="Run the command again; nothing was published.",
            )
        self._is_publishing = True
        return Publication(
            table.minter(snapshot, zone=begun.zone).mint,
            winners=self._winners(),
            groups=self.groups,
            participants=participants,
        )

    def empty_publication(self, fence: Fence) -> Publication | None:
        """What ends the write beside writers where it fails: a commit of nothing. None where it is rolled back.

            t0 W reads the timeline, on which our `replacecommit.requested` is; t1 it is rolled back; t2 W opens the
            file, to see whether it is a clustering, and fails.

        So the file stays, of an instant that is complete.
        """
        table, begun = self._table, self._begun
        if table.options.writers_stopped or self._is_publishing:
            return None
        fence()
        request = replace(begun.request, extra_metadata={GIVEN_UP_KEY: "true"})
        self.attempt.stage_empty(completed_write(request, (), self._schema, {}))
        return Publication(table.minter(timeline_snapshot(table), zone=begun.zone).mint, groups=self.groups)

    def check_intent(self) -> None:
        """It is our own, and was checked under this lock."""

    @property
    def _done(self) -> _Work:
        assert self._work is not None, "there is a publication after the work"
        return self._work

    def _context(self, snapshot: TableSnapshot) -> WriteContext:
        table, begun, request = self._table, self._begun, self._begun.request
        config = snapshot.config
        indexed = None
        if has_metadata_table(config):
            indexed = indexed_by_write(table.storage, snapshot, self._schema).indexed
        return WriteContext(
            base_path=table.base_path,
            instant=begun.instant,
            attempt=table.owner.attempt,
            attempt_folder=self.attempt.folder,
            operation=request.operation,
            schema=self._schema,
            rules=merge_rules(snapshot),
            deduplicates=request.deduplicates or config.is_lsm_tree,
            indexed=indexed,
            sizes=request.sizes,
            codec=table.options.codec,
            bloom_bytes_max=table.options.bloom_bytes_max,
            verify=table.options.verify,
            wants_keys=RECORD_INDEX in config.built_metadata_partitions
            or self._open_index is not None
            or self._shadow is not None,
            notes_updates=request.moves_rows and request.index.finds_keys_in_base_files,
            memory_bytes=table.options.memory_bytes,
            has_native_logs=config.version.has_native_logs,
            supplemental_logging=config.supplemental_logging,
        )

    def _report(self, what: str) -> Callable[[Progress], None]:
        """Say how far a step is, every few seconds."""
        table, name, said = self._table, self.name, self._table.clock.monotonic()

        def enter(progress: Progress) -> None:
            nonlocal said
            table.guard()
            now = table.clock.monotonic()
            if progress.total and now - said >= _REPORT_SECONDS:
                said = now
                table.observer.step(f"{name}: {what}: {progress.finished} of {progress.total}")

        return enter

    def withdraw(self, error: BaseException) -> None:
        """The write failed with this error: what it put elsewhere than into the table goes."""
        for part in self._index_parts:
            part.withdraw(error, lambda: timeline_snapshot(self._table).timeline)

    def _enter_indexes(self) -> None:
        if self._open_index is not None:
            self._enter_index(self._open_index)
        if self._shadow is not None:
            try:
                self._enter_index(self._shadow)
            except LakewardError as error:
                self._table.observer.step(f"{self.name}: the shadow index was not updated, and is behind: {error}")

    def _enter_index(self, open_index: OpenIndex) -> None:
        snapshot, request = self._done.snapshot, self._begun.request
        self._index_parts.append(part := OwnIndexPart(partial(open_index, snapshot), self._begun.instant))
        part.enter(
            self._table.storage,
            self._changed_keys(),
            undone=[instant for instant in self._begun.ended if snapshot.timeline.find(instant) is None],
            knows_its_keys=lambda index: knows_its_keys(snapshot, request, self._schema, is_global=index.is_global),
        )

    def _changed_keys(self) -> tuple[ChangedKeys, ...]:
        return tuple(
            ChangedKeys(result.partition_path, result.key_changes)
            for result in self.results
            if result.key_changes is not None
        )

    def _file_changes(self) -> FileChanges:
        return FileChanges(self._new_files(), write=self._changes())

    def _changes(self) -> WriteChanges:
        request = self._begun.request
        has_record_index = RECORD_INDEX in self._done.snapshot.config.built_metadata_partitions
        return WriteChanges(
            self._schema,
            keys=self._changed_keys() if has_record_index else (),
            replaced=self._replaced_groups,
            deleted_partitions=request.partitions if request.operation is WriteOperation.DELETE_PARTITION else (),
        )

    def _begin_partitions(self, snapshot: TableSnapshot, partition_paths: set[str]) -> None:
        storage, base_path = self._table.storage, self._table.base_path
        for number, path in enumerate(sorted(partition_paths - set(snapshot.partitions))):
            depth = len(path.split("/")) if path else 0
            folder, staged = join(base_path, path), join(self.attempt.folder, f"partition-{number}")
            storage.make_folder(folder)
            content = write_partition_metadata(PartitionMetadata(self._begun.instant, depth))
            fencing_of(storage).create_beside(staged, join(folder, PROPERTIES_NAME), content)

    def _of_partitions(self) -> TableSnapshot:
        """The table now, with the partitions that the write touches."""
        touched = {partition_path for partition_path, _ in self._groups} | self.replaced.keys()
        return self._table.snapshot(partitions=touched, service=TableService.WRITING)

    def _check_conflicts(self, snapshot: TableSnapshot) -> None:
        table, begun = self._table, self._begun
        contents = InstantContents(table.storage, table.base_path, snapshot.config, snapshot.timeline)
        conflict = find_conflict(
            snapshot.timeline,
            begun.seen,
            begun.instant,
            {*self._groups, *self._replaced_groups},
            is_merge_on_read=snapshot.config.is_merge_on_read,
            by_bucket=begun.request.index is IndexType.BUCKET,
            touched=partial(read_touched, contents, snapshot.config),
        )
        if conflict is not None:
            raise _met(
                self.name, f"Since it began {conflict.action} {conflict.instant} wrote to it meanwhile.", conflict.group
            )
        if snapshot.schema is not None and snapshot.schema not in (self._done.snapshot.schema, self._schema):
            raise Conflict(
                f"The columns of {table.base_path} changed while {self.name} ran.",
                why="Another write brought other columns, which the files of this one do not have.",
                remedy="Run the command again; nothing was published.",
            )

    def _check_slices(self, snapshot: TableSnapshot) -> None:
        newest = {(each.partition_path, each.file_id): each.latest_slice for each in snapshot.file_groups}
        held = {**snapshot.pending_compactions, **snapshot.pending_clusterings}
        for target in self._done.assignment.targets:
            group: GroupId = (target.partition_path, target.file_id)
            if target.kind is not HandleKind.CREATE and group in snapshot.replaced:
                raise _met(self.name, f"It was replaced by {snapshot.replaced[group]}.", group)
            if target.kind is not HandleKind.MERGE:
                continue
            assert target.slice is not None
            slice_ = newest.get(group)
            base = None if slice_ is None or slice_.base_file is None else slice_.base_file.path
            if base != target.slice.base_file or (slice_ is not None and slice_.row_logs):
                raise _met(self.name, "Its newest file slice is another one now.", group)
            if group in held:
                raise _met(self.name, f"Since it began {held[group]} is planned over it.", group)
        held |= snapshot.pending_log_compactions
        if self._begun.request.operation is WriteOperation.DELETE_PARTITION:
            for group in newest:
                if group[1] not in self.replaced.get(group[0], (group[1],)):
                    raise _met(self.name, "It came into a partition that is deleted.", group)
        for taken in self._done.assignment.taken:
            if newest.get(taken.group_id) != taken:
                raise _met(self.name, "Its newest file slice is another one now.", taken.group_id)
            if taken.group_id in held:
                why = f"Since it began {held[taken.group_id]} is planned over it."
                raise _met(self.name, why, taken.group_id)

    def _winners(self) -> list[Winner]:
        return [
            winner
            for result in self.results
            for file in result.files
            for winner in _winners(result.partition_path, file)
        ]

    def _new_files(self) -> list[NewFile]:
        files = []
        for result in self.results:
            for file in result.files:
                name = parse_any_data_file(file.name, native=self._done.context.has_native_logs)
                assert name is not None, "we gave it"
                files.append(
                    NewFile(result.partition_path, name.file_id, file.name, file.size_bytes, file.column_stats)
                )
                if (log := file.change_log) is not None:
                    files.append(NewFile(result.partition_path, name.file_id, log.file_name, log.size_bytes, ()))
        return files


def _winners(partition_path: str, file: WrittenFile) -> Iterator[Winner]:
    yield Winner(partition_path, file.name, file.replaces_base_file)
    if (log := file.change_log) is not None:
        yield Winner(partition_path, log.file_name, replaces_base_file=False)


def _met(name: str, why: str, group: GroupId) -> Conflict:
    return Conflict(
        f"{name} met another writer in file group {group[1]}.",
        why=why,
        remedy="Write the rows again; nothing of this write was published.",
        file_group=group,
    )
