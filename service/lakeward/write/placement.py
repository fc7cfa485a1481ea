"""Choose the file group that each row of a write goes to: workload and snapshot in, targets out.

                          copy on write, every index    merge on read: others                merge on read: bucket
    new key               into small base files, else   into small base files without        new base file where the
                          new ones                      logs, else new ones                  bucket has none, else log
    known key             base file rewritten        log; the base file again where new    log
                                                        keys of this write go there, too
    delete, known key     as a known key                as a known key                       log
    delete, unknown key   nowhere                       nowhere                              log; nowhere without group
    insert                every key is a new one; a bucket takes it as above
    bulk_insert           new base files alone; a bucket takes it as above
    insert_overwrite      new base files alone; the groups of the partitions that are written, or of all, go

Where an operator lets new keys go into logs (`index/log_inserts`), an upsert that finds keys there puts them on the
smallest slices, by base file and logs, as many of them as it takes, and into new files what does not fit there.

Sizes decide which group takes new keys, as in Hudi: base files below a limit are filled up to another one. In its
row writer's bulk_insert Hudi opens a second group in a bucket, after which it refuses the partition; that is not done
here, and buckets that have two are refused.

Touches: nothing. Equal inputs, and equal uuids, give equal assignments.
Keeps:   1. a file group is one target at most, and a bucket one file group;
         2. no row goes into a group that is frozen, or that a pending clustering will replace;
         3. a new key goes into no group that a pending compaction holds;
         4. no row goes into a partition that the table's readers would not list, or that hides another one from them.
Source:  UpsertPartitioner, SparkUpsertDeltaCommitPartitioner, AverageRecordSizeEstimator, BucketIdentifier,
         SparkRejectUpdateStrategy (Hudi 1.2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil
from typing import Final

from lakeward.base.errors import Refused, TryLater, UsageError
from lakeward.format.file_name import parse_base_file
from lakeward.format.timeline.commit_metadata import NO_COMMIT, CommitMetadata
from lakeward.index.index_type import IndexType
from lakeward.index.simple_bucket import BUCKET_DIGITS, bucket_of
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.table.file_group import FileGroup, FileSlice, FrozenGroup
from lakeward.table.hidden_group import hidden_for_now, hiding_write
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.partition import paths_above
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig
from lakeward.write.request import FileSizes, WriteOperation, WriteRequest
from lakeward.write.target import Assignment, HandleKind, Share, SliceNames, Workload, WriteTarget, rows_of_targets

_LIKELY_BUCKETS: Final = 10_000
"""A random id has eight decimal digits in front in one of forty cases, and a number below this in one of 400,000."""
_NAMED: Final = 3
"""File groups that an error names."""


def place(
    snapshot: TableSnapshot,
    workload: Workload,
    request: WriteRequest,
    *,
    instant: str,
    schema: str,
    row_bytes: int | None,
    new_uuid: Callable[[], str],
    memory_bytes: int = MEMORY_BYTES,
    into_logs: bool = False,
    looks_into_logs: bool = False,
) -> Assignment:
    """The targets of a write, and the shares that they have of its rows.

    Args:
        snapshot: of the partitions of the workload at least; of all for insert_overwrite_table.
        instant: the write's own.
        schema: Avro JSON of the rows that are written, by which base files are read that are merged.
        row_bytes: how large a row is in a base file, where `average_row_bytes` knows it.
        memory_bytes: what a merge may take.
        into_logs: an operator lets new keys go into logs.
        looks_into_logs: an index of base files finds keys in logs, too.

    Raises `Refused` for file groups that the rows belong to and that cannot be written, and for an index that is not
    the one that the table's file groups were made by; `TryLater` where a pending write is in the way; `UsageError` for
    a partition to delete that is not there.
    """
    replaced = _replaced(snapshot, workload, request)
    _check_partitions(snapshot, {*replaced, *(partition_path for partition_path, _ in workload.rows)})
    if request.operation is WriteOperation.DELETE_PARTITION:
        return Assignment((), {}, replaced)
    finds_there = request.index.keeps_places or looks_into_logs
    into_logs = into_logs and finds_there and puts_into_logs(snapshot.config, request)
    placing = _Placing(snapshot, request, instant, schema, row_bytes, new_uuid, memory_bytes, replaced, into_logs)
    partitions: dict[str, dict[str | None, int]] = defaultdict(dict)
    for (partition_path, at), rows in workload.rows.items():
        partitions[partition_path][at] = rows
    for partition_path in sorted(partitions):
        if request.index is IndexType.BUCKET:
            placing.place_in_buckets(partition_path, partitions[partition_path])
        else:
            placing.place_by_size(partition_path, partitions[partition_path])
    return Assignment(placing.expecting(), placing.places, replaced)


def puts_into_logs(config: TableConfig, request: WriteRequest) -> bool:
    """Whether new keys of such a write go into logs where an operator lets them, and its index finds them there.

    Operations that look for no key keep each row, and in a log rows of one key are folded.
    """
    return config.is_merge_on_read and request.operation is WriteOperation.UPSERT


def average_row_bytes(commits: Iterable[CommitMetadata], sizes: FileSizes) -> int | None:
    """How large a row is in a base file: by the newest commit whose base files are large enough together; None
    where there is none.

    Args:
        commits: completed commits and delta commits, the newest first; read no further than needed.
    """
    for commit in commits:
        stats = [
            stat
            for stat in chain.from_iterable(commit.partition_to_write_stats.values())
            if stat.path is not None and parse_base_file(stat.path.rpartition("/")[2]) is not None
        ]
        written = sum(stat.total_write_bytes or 0 for stat in stats)
        rows = sum(stat.num_writes or 0 for stat in stats)
        if written > sizes.small_file and rows:
            return max(written // rows, 1)
    return None


def slice_to_merge(
    snapshot: TableSnapshot, slice_: FileSlice, *, instant: str, schema: str, rules: MergeRules, memory_bytes: int
) -> SliceInput:
    """A slice without logs of rows, as a MERGE of the write of this instant reads it."""
    assert slice_.base_file is not None and not slice_.row_logs
    return SliceInput(
        partition_path=slice_.partition_path,
        file_id=slice_.file_id,
        base_file=slice_.base_file.path,
        log_files=(),
        base_path=snapshot.base_path,
        instant=instant,
        schema=schema,
        rules=rules,
        memory_bytes=memory_bytes,
        widens_nested_floats=snapshot.config.version.widens_floats_alike,
        key_fields=snapshot.config.made_key_fields,
    )


def _names_of(slice_: FileSlice | None) -> SliceNames:
    if slice_ is None:
        return SliceNames("", ())
    base_file = "" if slice_.base_file is None else slice_.base_file.name
    return SliceNames(base_file, tuple(log.name.text for log in slice_.log_files))


def _check_partitions(snapshot: TableSnapshot, paths: Collection[str]) -> None:
    """Raises `Refused` for partitions whose rows, or those of others, readers would miss.

    Args:
        paths: the partitions that are written, or whose rows are replaced.
    """
    for path in sorted(paths):
        for folder in snapshot.unlisted:
            # (A partition above the nearest one does not have it, but one that came between would.)
            has_it = path in paths_above(folder.path) and path.startswith(folder.partition_path)
            if has_it or path == folder.path or folder.path in paths_above(path):
                raise Refused(
                    f"Partition '{path}' is not written: the folder '{folder.path}' lies in partition "
                    f"'{folder.partition_path}' and holds {folder.holds}.",
                    why="It is no partition that the table's readers see, so what it holds is a copy, or rows that "
                    "no reader finds.",
                    remedy="If it is a copy, move it out of the table. If these are rows of yours, write them to "
                    "another partition and move the folder out then. Nothing was written.",
                )
    if not has_metadata_table(snapshot.config):
        _check_not_nested(snapshot, paths)


def _check_not_nested(snapshot: TableSnapshot, paths: Collection[str]) -> None:
    known = {*snapshot.partitions, *paths}
    for path in sorted(known):
        for above in paths_above(path):
            if above in known and (path not in snapshot.partitions or above not in snapshot.partitions):
                raise Refused(
                    f"Partition '{path}' would lie below partition '{above}'.",
                    why="The table has no metadata table, and without its list Hudi's readers look for no partition "
                    "below another one: they would not find the rows of the lower one.",
                    remedy="Give the table a metadata table by a Hudi writer, write other partition values, or make a "
                    "table that URL-encodes them. Nothing was written.",
                )


def _replaced(snapshot: TableSnapshot, workload: Workload, request: WriteRequest) -> dict[str, tuple[str, ...]]:
    match request.operation:
        case WriteOperation.INSERT_OVERWRITE:
            partitions = {partition_path for partition_path, _ in workload.rows}
        case WriteOperation.INSERT_OVERWRITE_TABLE:
            partitions = set(snapshot.partitions)
        case WriteOperation.DELETE_PARTITION:
            partitions = set(request.partitions)
            if unknown := sorted(partitions - set(snapshot.partitions)):
                raise UsageError(
                    f"The table has no partition {_names(unknown)}.",
                    why="Partitions are named as their folders are, with `field=` and with what is escaped.",
                    remedy="`lakeward inspect` lists the partitions. Nothing was written.",
                )
        case _:
            return {}
    found: dict[str, list[str]] = {partition_path: [] for partition_path in sorted(partitions)}
    for group in snapshot.file_groups:
        if group.partition_path in found:
            _check_clustering(snapshot, group)
            found[group.partition_path].append(group.file_id)
    for frozen in snapshot.frozen:
        if frozen.partition_path in found:
            raise _frozen(snapshot, frozen)
    return {partition_path: tuple(sorted(file_ids)) for partition_path, file_ids in found.items()}


@dataclass(frozen=True, slots=True)
class _Small:
    """A slice that takes new keys."""

    slice: FileSlice
    rows: int
    """So many of them."""


class _Placing:
    def __init__(
        self,
        snapshot: TableSnapshot,
        request: WriteRequest,
        instant: str,
        schema: str,
        row_bytes: int | None,
        new_uuid: Callable[[], str],
        memory_bytes: int,
        replaced: Mapping[str, Sequence[str]],
        into_logs: bool,
    ) -> None:
        self.targets: list[WriteTarget] = []
        self.places: dict[tuple[str, str | None], tuple[Share, ...]] = {}
        self._snapshot = snapshot
        self._request = request
        self._instant = instant
        self._schema = schema
        self._rules = merge_rules(snapshot)
        self._row_bytes = request.sizes.row if row_bytes is None else row_bytes
        # A file that grows too large all the same is followed by another one.
        self._rows_per_file = request.sizes.rows_per_file
        if row_bytes is not None:
            self._rows_per_file = max(request.sizes.max_file // row_bytes, 1)
        self._new_uuid = new_uuid
        self._memory_bytes = memory_bytes
        self._is_merge_on_read = snapshot.config.is_merge_on_read
        self._into_logs = into_logs
        self._groups: dict[str, dict[str, FileGroup]] = defaultdict(dict)
        self._frozen: dict[str, dict[str, FrozenGroup]] = defaultdict(dict)
        for group in snapshot.file_groups:
            if group.partition_path not in replaced:
                self._groups[group.partition_path][group.file_id] = group
        for frozen in snapshot.frozen:
            self._frozen[frozen.partition_path][frozen.file_id] = frozen
        if request.index is not IndexType.BUCKET:
            self._check_no_buckets()

    def place_in_buckets(self, partition_path: str, rows: Mapping[str | None, int]) -> None:
        owners = self._buckets(partition_path)
        for bucket, count in sorted(rows.items(), key=lambda item: item[0] or ""):
            assert bucket is not None, "every key has a bucket"
            assert self._request.buckets is not None and int(bucket) < self._request.buckets, "tagged with this number"
            group = owners.get(int(bucket))
            if isinstance(group, FrozenGroup):
                raise _frozen(self._snapshot, group)
            if group is not None:
                target = self._onto(group, counts_as_updates=True)
            elif self._request.operation is WriteOperation.DELETE:
                self.places[partition_path, bucket] = ()
                continue
            else:
                file_id = f"{bucket}{self._new_uuid()[BUCKET_DIGITS:]}-0"
                target = self._add(HandleKind.CREATE, partition_path, file_id, rows_expected=count)
            self.places[partition_path, bucket] = (Share(target, count),)

    def place_by_size(self, partition_path: str, rows: Mapping[str | None, int]) -> None:
        if self._request.operation.finds_keys and self._request.index.finds_keys_in_base_files:
            # Of its keys none is known.
            of_all = chain.from_iterable(each.values() for each in self._frozen.values())
            for frozen in of_all if self._request.index.is_global else self._frozen[partition_path].values():
                raise _frozen(self._snapshot, frozen)
        new = rows.get(None, 0)
        takes_new = self._request.operation is not WriteOperation.DELETE
        small = self._small_slices(partition_path, new) if new and takes_new else []
        taking = {each.slice.file_id for each in small}
        by_file_id: dict[str, int] = {}
        for file_id in sorted({*(at for at in rows if at is not None), *taking}):
            group = self._group(partition_path, file_id)
            by_file_id[file_id] = self._onto(group, takes_new_keys=file_id in taking)
        for at, count in rows.items():
            if at is not None:
                self.places[partition_path, at] = (Share(by_file_id[at], count),)
        if None not in rows:
            return
        shares = [Share(by_file_id[each.slice.file_id], each.rows) for each in small]
        if takes_new:
            shares += self._new_files(partition_path, new - sum(each.rows for each in small))
        self.places[partition_path, None] = tuple(shares)

    def expecting(self) -> tuple[WriteTarget, ...]:
        """The targets; new file groups know about how many rows they get."""
        rows = rows_of_targets(self.places)
        return tuple(
            replace(target, rows_expected=rows[target.index]) if target.kind is HandleKind.CREATE else target
            for target in self.targets
        )

    def _new_files(self, partition_path: str, rows: int) -> list[Share]:
        per_file = self._rows_per_file
        shares = []
        for number in range(ceil(rows / per_file)):
            of_file, file_id = min(per_file, rows - number * per_file), f"{self._new_uuid()}-0"
            target = self._add(HandleKind.CREATE, partition_path, file_id, rolls_over=True, rows_expected=of_file)
            shares.append(Share(target, of_file))
        return shares

    def _small_slices(self, partition_path: str, rows: int) -> list[_Small]:
        sizes = self._request.sizes
        if self._request.operation not in (WriteOperation.UPSERT, WriteOperation.INSERT):
            return []
        candidates: list[FileSlice] = []
        for file_id in self._groups[partition_path]:
            group_id = (partition_path, file_id)
            slice_ = self._groups[partition_path][file_id].latest_slice
            held = (self._snapshot.pending_clusterings, self._snapshot.pending_compactions)
            if slice_ is None or slice_.base_file is None or any(group_id in by for by in held):
                continue
            # Hudi takes a log of changes for a log here, on tables that are merged on read.
            if not self._into_logs and (slice_.log_files if self._is_merge_on_read else slice_.row_logs):
                continue
            if self._expected_bytes(slice_) < sizes.small_file:
                candidates.append(slice_)
        if self._is_merge_on_read:
            candidates.sort(key=lambda slice_: (self._expected_bytes(slice_), slice_.file_id))
            if not self._into_logs:
                candidates = candidates[: sizes.small_files_at_once]
        chosen = []
        for slice_ in candidates:
            fits = min((sizes.max_file - self._expected_bytes(slice_)) // self._row_bytes, rows)
            if fits > 0:
                chosen.append(_Small(slice_, fits))
                rows -= fits
        return chosen

    def _expected_bytes(self, slice_: FileSlice) -> int:
        """What the slice will take as one base file."""
        if not self._into_logs:
            return slice_.base_bytes
        logs = sum(log.size for log in slice_.row_logs)
        if not self._snapshot.config.version.has_native_logs:
            logs = int(logs * self._request.sizes.log_compression)
        return slice_.base_bytes + logs

    def _onto(self, group: FileGroup, *, takes_new_keys: bool = False, counts_as_updates: bool = False) -> int:
        """The target of rows that go into a group that is there."""
        _check_clustering(self._snapshot, group)
        slice_ = group.latest_slice
        if self._is_merge_on_read and (self._into_logs or not takes_new_keys):
            return self._add(
                HandleKind.APPEND,
                group.partition_path,
                group.file_id,
                prev_commit=NO_COMMIT if slice_ is None else slice_.base_instant,
                counts_as_updates=counts_as_updates,
                takes_new_keys=takes_new_keys,
                beneath=_names_of(slice_) if self._snapshot.config.cdc_enabled else None,
            )
        if slice_ is None or slice_.base_file is None or slice_.row_logs:
            raise Refused(
                f"File group {group.file_id} in partition '{group.partition_path}' is not written.",
                why="The table is copied on write, and the group's newest slice is no single base file.",
                remedy="Find out which writer left logs there. Nothing was written.",
                file_group=(group.partition_path, group.file_id),
            )
        input_ = slice_to_merge(
            self._snapshot,
            slice_,
            instant=self._instant,
            schema=self._schema,
            rules=self._rules,
            memory_bytes=self._memory_bytes,
        )
        return self._add(
            HandleKind.MERGE,
            group.partition_path,
            group.file_id,
            slice=input_,
            prev_commit=slice_.base_file.instant,
            keeps_duplicates=not (
                self._request.operation.finds_keys
                or self._request.index is IndexType.BUCKET
                or self._snapshot.config.is_lsm_tree
            ),
        )

    def _add(
        self,
        kind: HandleKind,
        partition_path: str,
        file_id: str,
        *,
        slice: SliceInput | None = None,
        prev_commit: str = NO_COMMIT,
        keeps_duplicates: bool = False,
        counts_as_updates: bool = False,
        takes_new_keys: bool = False,
        beneath: SliceNames | None = None,
        rolls_over: bool = False,
        rows_expected: int | None = None,
    ) -> int:
        index = len(self.targets)
        target = WriteTarget(index, kind, partition_path, file_id)
        self.targets.append(
            replace(
                target,
                slice=slice,
                prev_commit=prev_commit,
                keeps_duplicates=keeps_duplicates,
                counts_as_updates=counts_as_updates,
                takes_new_keys=takes_new_keys,
                beneath=beneath,
                rolls_over=rolls_over,
                rows_expected=rows_expected,
            )
        )
        return index

    def _group(self, partition_path: str, file_id: str) -> FileGroup:
        """The group of a key."""
        if (frozen := self._frozen[partition_path].get(file_id)) is not None:
            raise _frozen(self._snapshot, frozen)
        group = self._groups[partition_path].get(file_id)
        if group is None:
            raise Refused(
                f"File group {file_id} in partition '{partition_path}' is not there, and the index names it.",
                why="What the index says of some keys is not what the table holds.",
                remedy="`lakeward verify` compares them; let Hudi rebuild the index. Nothing was written.",
                file_group=(partition_path, file_id),
            )
        return group

    def _buckets(self, partition_path: str) -> dict[int, FileGroup | FrozenGroup]:
        """The one group of each bucket that has any."""
        buckets = self._request.buckets
        assert buckets is not None, "a write into buckets says how many there are"
        owners: dict[int, FileGroup | FrozenGroup] = {}
        groups: Iterable[FileGroup | FrozenGroup] = self._groups[partition_path].values()
        for group in chain(groups, self._frozen[partition_path].values()):
            number = bucket_of(group.file_id)
            if number is None or number >= buckets:
                raise Refused(
                    f"File group {group.file_id} in partition '{partition_path}' is that of no bucket of {buckets}.",
                    why="The table was written with another index, or with more buckets.",
                    remedy="Write with the index and the number of buckets of the table's other writers. "
                    "Nothing was written.",
                    file_group=(partition_path, group.file_id),
                )
            if number in owners:
                raise Refused(
                    f"Bucket {number} in partition '{partition_path}' has two file groups, {owners[number].file_id} "
                    f"and {group.file_id}.",
                    why="Hudi's bulk_insert leaves such, and then refuses the partition, too: a key may be in both.",
                    remedy="Read the partition, and write it with insert_overwrite. Nothing was written.",
                    file_group=(partition_path, group.file_id),
                )
            owners[number] = group
        return owners

    def _check_no_buckets(self) -> None:
        """Rows that use size would end the buckets of a table that has them."""
        numbers = [bucket_of(file_id) for groups in self._groups.values() for file_id in groups]
        known = [number for number in numbers if number is not None]
        if numbers and len(known) == len(numbers) and min(known) < _LIKELY_BUCKETS:
            first = next(file_id for groups in self._groups.values() for file_id in groups)
            raise Refused(
                f"The table's file groups are buckets, {first} for one, and the write's index is "
                f"{self._request.index}.",
                why="A file group that is no bucket would keep every writer with the bucket index from the table.",
                remedy="Write with the bucket index, and the number of buckets of the table's other writers. "
                "Nothing was written.",
            )


def _check_clustering(snapshot: TableSnapshot, group: FileGroup) -> None:
    group_id = (group.partition_path, group.file_id)
    if (instant := snapshot.pending_clusterings.get(group_id)) is not None:
        raise Refused(
            f"File group {group.file_id} in partition '{group.partition_path}' is not written.",
            why=f"Clustering {instant} is pending and will replace it without what is written now.",
            remedy="Write again when it is complete or rolled back. Nothing was written.",
            file_group=group_id,
        )


def _frozen(snapshot: TableSnapshot, group: FrozenGroup) -> Refused | TryLater:
    what = f"File group {group.file_id} in partition '{group.partition_path}' is not written"
    if (write := hiding_write(snapshot.timeline, group)) is not None:
        place = (group.partition_path, group.file_id)
        return hidden_for_now(what, write=write, why=group.why, group=place, left="Nothing was written.")
    return Refused(
        f"{what}.",
        why=f"It is frozen: {group.why}.",
        remedy="`lakeward inspect` says what is wrong with its files. Nothing was written.",
        file_group=(group.partition_path, group.file_id),
    )


def _names(partitions: Sequence[str]) -> str:
    more = f" and {len(partitions) - _NAMED} more" if len(partitions) > _NAMED else ""
    return ", ".join(f"'{each}'" for each in partitions[:_NAMED]) + more
