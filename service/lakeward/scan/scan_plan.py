"""What a query reads of a table: which file slices, and why it passes over the others.

    snapshot, query -> partitions --by their paths--> file groups -> the newest slice of each -> rows to read

Touches: nothing.
Keeps:   1. a slice is left out only where no row of it is chosen;
         2. a table, or a file group, whose rows are not certain is refused by name, never read in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import pyarrow as pa

from lakeward.base.did_you_mean import did_you_mean, nearest
from lakeward.base.errors import Refused, UsageError
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema import table_schema
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.protocol.refusals.eligibility import Refusal, TableService, find_refusals
from lakeward.read.newest_slice import TableReading, newest_slice, table_reading
from lakeward.read.query.filter import Node, conjuncts
from lakeward.read.query.predicate import Predicate, keys_among, written_by
from lakeward.read.query.slice_query import SliceQuery
from lakeward.scan.partition_values import partition_ranges
from lakeward.scan.query_keys import KeyPlaces
from lakeward.table.file_group import FileGroup, FileSlice, FrozenGroup
from lakeward.table.partition import folder_names
from lakeward.table.snapshot import TableSnapshot


class QueryKind(StrEnum):
    SNAPSHOT = "snapshot"
    """The newest rows: base files and logs, merged."""
    READ_OPTIMIZED = "read-optimized"
    """The rows of base files alone, as of their last compaction."""


@dataclass(frozen=True, slots=True)
class WindowCommits:
    """The commits of an incremental read."""

    requested: frozenset[str]
    """When they were requested."""
    end: str | None
    """From where to go on: the completion time of the last one; where there is none the beginning of the window, None
    for `earliest`."""


@dataclass(frozen=True, slots=True)
class TableQuery:
    """All rows of a table, if nothing else is said."""

    columns: tuple[str, ...] | None = None
    """Columns in the order in which they come out; None for all, in the table's order."""
    where: Node | None = None
    kind: QueryKind = QueryKind.SNAPSHOT
    has_meta_columns: bool = False
    """Hudi's own five columns come out, too, where `columns` does not say."""
    limit: int | None = None
    keys: tuple[str, ...] | None = None
    """Rows with these record keys alone, as `_hoodie_record_key` has them."""
    commits: WindowCommits | None = None
    """Rows that one of these commits wrote last, alone. The snapshot is of their files (`scan/commit_window`)."""


@dataclass(frozen=True, slots=True)
class ScanPlan:
    schema: pa.Schema
    """The columns that come out."""
    reading: TableReading
    slice_query: SliceQuery
    slices: tuple[FileSlice, ...]
    """File slices to read, by partition and file group."""
    partitions: int
    partitions_passed: int
    """Partitions whose paths contradict the filter."""
    groups_passed: int
    """File groups in them."""
    groups_by_statistics: int = 0
    """File groups in the others whose column statistics contradict it."""
    groups_without_keys: int = 0
    """File groups in the other partitions that by an index have none of the keys."""
    key_notes: tuple[str, ...] = ()
    """What each index answered, or why it was not asked."""
    damaged: tuple[FrozenGroup, ...] = field(default=())
    """File groups that cannot be read, in partitions that are."""

    @property
    def shared(self) -> ScanPlan:
        """What reading one of the slices needs of the plan, however many there are. Travels to executors."""
        return replace(self, slices=(), damaged=())


def known_schema(snapshot: TableSnapshot) -> pa.Schema:
    """The columns of the table, meta columns first. Raises `Refused`."""
    _refuse(snapshot, find_refusals(snapshot, TableService.READING), merges=False)
    return _schema_of(snapshot)


def _schema_of(snapshot: TableSnapshot) -> pa.Schema:
    known = snapshot.schema or snapshot.config.create_schema
    if known is None:
        raise Refused(
            f"{snapshot.base_path} has no columns yet.",
            why="Nothing was written into it, and it was made without a schema.",
            remedy="Read it when its first write has completed.",
        )
    return table_schema(known)


def _refuse(snapshot: TableSnapshot, found: Sequence[Refusal], *, merges: bool) -> None:
    """Raises `Refused` with every reason why the rows are not certain.

    Args:
        merges: logs are read.
    """
    refusals = [refusal for refusal in found if merges or not refusal.is_of_merging]
    if refusals:
        raise Refused(
            f"{snapshot.base_path} cannot be read: {', '.join(refusal.id for refusal in refusals)}.",
            why=" ".join(f"{refusal.subject}: {refusal.why}" for refusal in refusals),
            remedy=" ".join(
                dict.fromkeys(each.remedy if each.is_fault else "Read it with a release of Hudi." for each in refusals)
            ),
        )


def refuse_merging(snapshot: TableSnapshot) -> None:
    """Raises `Refused` where it is not certain how logs are merged."""
    _refuse(snapshot, find_refusals(snapshot, TableService.READING), merges=True)


def plan_scan(snapshot: TableSnapshot, query: TableQuery, places: KeyPlaces | None = None) -> ScanPlan:
    """Raises `Refused` for a table whose rows are not certain, and `UsageError` for a column that is not there.

    Args:
        places: what is known of where the rows' keys are; None where nothing is.
    """
    refusals = find_refusals(snapshot, TableService.READING)
    _refuse(snapshot, refusals, merges=False)
    schema = _schema_of(snapshot)
    chosen = _chosen_schema(schema, query)
    by_partition: dict[str, tuple[list[FileGroup], list[FrozenGroup]]] = {}
    for group in snapshot.file_groups:
        by_partition.setdefault(group.partition_path, ([], []))[0].append(group)
    for frozen in snapshot.frozen:
        by_partition.setdefault(frozen.partition_path, ([], []))[1].append(frozen)
    slices: list[FileSlice] = []
    damaged: list[FrozenGroup] = []
    partitions_passed = groups_passed = groups_without_keys = 0
    chosen_groups = None if places is None else places.groups
    for partition in sorted(by_partition, key=folder_names):
        groups, frozen_groups = by_partition[partition]
        ranges = partition_ranges(snapshot.config, schema, partition)
        if query.where is not None and not query.where.may_hold(ranges):
            partitions_passed += 1
            groups_passed += len(groups) + len(frozen_groups)
            continue
        if chosen_groups is not None:
            all_groups = len(groups) + len(frozen_groups)
            groups = [each for each in groups if (partition, each.file_id) in chosen_groups]
            frozen_groups = [each for each in frozen_groups if (partition, each.file_id) in chosen_groups]
            groups_without_keys += all_groups - len(groups) - len(frozen_groups)
        found = (_slice_of(group, query.kind) for group in sorted(groups, key=lambda group: group.file_id))
        slices += [each for each in found if each is not None]
        damaged += frozen_groups
    merges = any(slice_.log_files for slice_ in slices)
    if merges:
        _refuse(snapshot, refusals, merges=True)
    predicate = Predicate() if query.where is None else Predicate(tuple(conjuncts(query.where)))
    wanted = frozenset(chosen.names)
    keys = query.keys
    if keys is not None:
        wanted |= {RECORD_KEY_FIELD}  # which says of which keys there was a row
    elif places is not None and snapshot.config.populate_meta_fields:
        keys = places.keys  # conditions on keys leave more unread than those on values
    if keys is not None:
        predicate = Predicate((*keys_among(frozenset(keys)).conditions, *predicate.conditions))
    reading = table_reading(snapshot, merges=merges, whole_slices=query.commits is None)
    if query.commits is not None:
        predicate = Predicate((*written_by(query.commits.requested).conditions, *predicate.conditions))
        if reading.committed is not None:  # logs of version 6 have blocks of other commits, too
            reading = replace(
                reading, committed=replace(reading.committed, completed=query.commits.requested, start=None)
            )
    return ScanPlan(
        schema=chosen,
        reading=reading,
        slice_query=SliceQuery(wanted, predicate),
        slices=tuple(slices),
        partitions=len(by_partition),
        partitions_passed=partitions_passed,
        groups_passed=groups_passed,
        groups_without_keys=groups_without_keys,
        key_notes=() if places is None else places.notes,
        damaged=tuple(damaged),
    )


def _chosen_schema(schema: pa.Schema, query: TableQuery) -> pa.Schema:
    if query.columns is None:
        left_out = () if query.has_meta_columns else META_COLUMNS
        return pa.schema([column for column in schema if column.name not in left_out])
    check_columns(schema, query.columns)
    repeated = next((name for name in query.columns if query.columns.count(name) > 1), None)
    if repeated is not None:
        raise UsageError(f"The column {repeated!r} is named twice.", remedy="Name each column once.")
    return pa.schema([schema.field(name) for name in query.columns])


def check_columns(schema: pa.Schema, names: Iterable[str]) -> None:
    """Raises `UsageError` for the first of these that is no column of the table."""
    for name in names:
        if name not in schema.names:
            raise UsageError(
                f"The table has no column {name!r}.",
                remedy=did_you_mean(name, schema.names)
                or nearest(name, [each for each in schema.names if each not in META_COLUMNS]),
            )


def _slice_of(group: FileGroup, kind: QueryKind) -> FileSlice | None:
    if kind is QueryKind.SNAPSHOT:
        found = newest_slice(group.slices)
        return None if found is None or found.is_empty else found
    with_base: Sequence[FileSlice] = [slice_ for slice_ in group.slices if slice_.base_file is not None]
    return replace(with_base[0], log_files=()) if with_base else None
