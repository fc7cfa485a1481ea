"""What commits did that an index does not have yet, laid over what it says: so a lookup is of the table as it is.

    the commits put the key somewhere    there, unless one of them took it from there afterwards
    they took it from a file group       nowhere, if the index says that it is there; what the index says otherwise
    they read a file group again          what the index says of it does not count: all of its keys were read
    they say nothing                     what the index says

A location whose file group is not live is none, whatever says it.

A writer puts its own commit into the index, which then has it and may lack commits that completed before:

    t10 Hudi puts k into A; t20 a write of Lakeward, which saw that, deletes k, and the index has that; the commit of
    t10 is not indexed. Laid over the index it alone would say that k is in A.

So what the index has of commits that completed after the first one that it lacks is read once more, in its order.

Touches: storage, reading: what those commits wrote, up to a bound.
Keeps:   a lookup is right as of the snapshot, or it is refused.
Memory:  `OVERLAY_BYTES_MAX`, and as much while it is folded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import NotFound, Refused, TryLater
from lakeward.base.quantities import format_size
from lakeward.format.timeline.instant import is_before
from lakeward.index.counted_commits import counted_commits
from lakeward.index.index import FollowingIndex, HashedIndex, Index, Indexed, PartEffort
from lakeward.index.key_changes.group_changes import CommitChanges, TableFiles, choose_changes
from lakeward.index.key_changes.key_reader import KeyReader
from lakeward.index.key_changes.marked_keys import CHANGES, IS_THERE
from lakeward.index.key_changes.table_commits import CommitsBehind, commits_behind, known_undone
from lakeward.index.location import (
    BETWEEN,
    FILE_ID,
    LOCATIONS,
    PARTITION_PATH,
    RECORD_KEY,
    differs,
    group_names,
    location_names,
)
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

OVERLAY_BYTES_MAX = 256 * 1024 * 1024
"""What commits may have written that are looked into at each lookup."""

_ORDER = "order"


@dataclass(frozen=True, slots=True)
class FoldedCommit:
    """One commit on its way into an overlay."""

    instant: str
    changes: Iterable[pa.RecordBatch]
    """In `CHANGES`."""
    read_again: frozenset[GroupId] = frozenset()
    """File groups all of whose keys are among the changes."""


@dataclass(frozen=True)
class Overlay:
    """Picklable."""

    is_global: bool
    places: pa.Table
    """In `LOCATIONS`: keys of which the index is not asked; without a file group they are gone."""
    gone: pa.Table
    """In `LOCATIONS`: what the index may say and is no more."""
    read_again: frozenset[GroupId] = frozenset()
    live: frozenset[GroupId] = field(default_factory=frozenset)
    """The file groups that there are."""

    def over(self, found: pa.RecordBatch) -> pa.RecordBatch:
        """What is left of what the index says."""
        mask = pc.is_in(group_names(found.column(PARTITION_PATH), found.column(FILE_ID)), self._groups)
        mask = pc.and_not(mask, pc.is_in(self._scopes(found), self._known))
        return found.filter(pc.and_not(mask, pc.is_in(location_names(found), self._gone)))

    def own(self, keys: pa.Array | None, partitions: Collection[str] | None) -> pa.Table:
        """The places of these keys by the commits; None: of all."""
        there = self._there
        if keys is not None:
            there = there.filter(pc.is_in(there.column(RECORD_KEY), keys.cast(pa.string())))
        if partitions is not None and not self.is_global:
            there = there.filter(pc.is_in(there.column(PARTITION_PATH), pa.array(sorted(partitions), pa.string())))
        return there

    @cached_property
    def _there(self) -> pa.Table:
        names = group_names(self.places.column(PARTITION_PATH), self.places.column(FILE_ID))
        return self.places.filter(pc.fill_null(pc.is_in(names, _names(self.live)), False))

    @cached_property
    def _groups(self) -> pa.Array:
        """The names of the file groups that the index may say something of."""
        return _names(self.live - self.read_again)

    @cached_property
    def _known(self) -> pa.Array:
        return _whole(self._scopes(self.places))

    @cached_property
    def _gone(self) -> pa.Array:
        return _whole(location_names(self.gone))

    def _scopes(self, of: pa.RecordBatch | pa.Table) -> pa.Array:
        keys = of.column(RECORD_KEY)
        return keys if self.is_global else pc.binary_join_element_wise(keys, of.column(PARTITION_PATH), BETWEEN)


def fold(commits: Iterable[FoldedCommit], *, is_global: bool, live: Iterable[GroupId], bytes_max: int) -> Overlay:
    """The commits, in order of completion, as one overlay. Raises `Refused` where they take more than `bytes_max`."""
    parts: list[pa.Table] = []
    instants: list[str] = []
    read_again: dict[GroupId, int] = {}
    size = 0
    for order, commit in enumerate(commits):
        instants.append(commit.instant)
        read_again.update(dict.fromkeys(commit.read_again, order))
        for batch in commit.changes:
            size += batch.nbytes
            if size > bytes_max:
                raise _too_large("what they did to keys takes more than", bytes_max)
            orders = pa.array(np.full(batch.num_rows, order, np.int64))
            parts.append(pa.Table.from_batches([batch]).append_column(_ORDER, orders))
    schema = CHANGES.append(pa.field(_ORDER, pa.int64()))
    scope = [RECORD_KEY] if is_global else [RECORD_KEY, PARTITION_PATH]
    rows = pa.concat_tables(parts) if parts else schema.empty_table()
    rows = rows.sort_by([(name, "ascending") for name in (*scope, _ORDER)]).combine_chunks()
    places, gone = _folded(rows, scope, instants, read_again)
    return Overlay(is_global, places, gone, frozenset(read_again), frozenset(live))


def _folded(
    rows: pa.Table, scope: Sequence[str], instants: Sequence[str], read_again: Mapping[GroupId, int]
) -> tuple[pa.Table, pa.Table]:
    """The last place of each key that the commits moved, and what is gone of others."""
    if rows.num_rows == 0:
        return LOCATIONS.empty_table(), LOCATIONS.empty_table()
    begins = np.flatnonzero(np.logical_or.reduce([differs(rows.column(name)) for name in scope]))
    lengths = np.diff(np.append(begins, rows.num_rows))
    is_there = rows.column(IS_THERE).to_numpy(zero_copy_only=False)
    names = group_names(rows.column(PARTITION_PATH), rows.column(FILE_ID)).combine_chunks().dictionary_encode()
    groups = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    last = np.maximum.reduceat(np.where(is_there, np.arange(rows.num_rows), -1), begins)
    is_placed = np.repeat(last >= 0, lengths)
    at = np.repeat(np.maximum(last, 0), lengths)
    left = is_placed & ~is_there & (np.arange(rows.num_rows) > at) & (groups == groups[at])
    has_left = np.logical_or.reduceat(left, begins)[last >= 0]
    placed = rows.take(pa.array(last[last >= 0]))
    read_at = np.array([read_again.get(_group(name), -1) for name in names.dictionary.to_pylist()])
    has_left |= read_at[groups[last[last >= 0]]] > placed.column(_ORDER).to_numpy()
    file_ids = pc.if_else(pa.array(has_left), None, placed.column(FILE_ID))
    places = _locations(placed, file_ids, pa.array([instants[order] for order in placed.column(_ORDER).to_pylist()]))
    gone = rows.filter(pa.array(~is_placed))
    return places, _locations(gone, gone.column(FILE_ID), pa.nulls(gone.num_rows, pa.string()))


def _locations(rows: pa.Table, file_ids: Any, instants: pa.Array) -> pa.Table:
    columns = [rows.column(RECORD_KEY), rows.column(PARTITION_PATH), file_ids, instants.cast(pa.string())]
    return pa.Table.from_arrays(columns, schema=LOCATIONS)


def _group(name: str) -> GroupId:
    partition_path, _, file_id = name.rpartition(BETWEEN)
    return partition_path, file_id


def _names(groups: Collection[GroupId]) -> pa.Array:
    return pa.array([BETWEEN.join(group) for group in sorted(groups)], pa.string())


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


_OWN = "what the index does not have"


@dataclass(frozen=True, slots=True)
class Overlaid:
    """An index with an overlay; a part more than the index has."""

    index: Index
    overlay: Overlay

    @property
    def is_global(self) -> bool:
        return self.index.is_global

    @property
    def can_index_log_files(self) -> bool:
        return self.index.can_index_log_files

    def parts(self, partitions: Collection[str] | None) -> Sequence[Any]:
        """The index has its parts, and the commits one."""
        own = (_OWN, None if partitions is None else frozenset(partitions))
        return [*((None, part) for part in self.index.parts(partitions)), own]

    def look_up(
        self, storage: Storage, part: tuple[str | None, Any], keys: pa.Array | None
    ) -> Iterator[pa.RecordBatch]:
        kind, of = part
        if kind == _OWN:
            yield from self.overlay.own(keys, of).to_batches()
            return
        yield from map(self.overlay.over, self.index.look_up(storage, of, keys))


@dataclass(frozen=True, slots=True)
class _HashedPart:
    """A part of the index, of which these partitions alone are asked for."""

    number: int
    part: Any
    partitions: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class OverlaidHashed:
    """The same of an index of which one part has a key; the commits' keys are in their parts."""

    index: HashedIndex
    overlay: Overlay

    @property
    def is_global(self) -> bool:
        return self.index.is_global

    @property
    def can_index_log_files(self) -> bool:
        return self.index.can_index_log_files

    @property
    def count(self) -> int:
        """The index has so many parts."""
        return self.index.count

    def parts_of(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        """The part that each key is in."""
        return self.index.parts_of(keys)

    def parts(self, partitions: Collection[str] | None) -> Sequence[Any]:
        """The index's own, by their numbers."""
        parts = self.index.parts(partitions)
        if partitions is None:
            return parts
        assert len(parts) == self.count, "a key is in one of them, whatever its partition"
        return [_HashedPart(number, part, frozenset(partitions)) for number, part in enumerate(parts)]

    def effort(self, part: int | _HashedPart) -> PartEffort:
        """The files of the index's part; what the commits say is in memory."""
        return self.index.effort(part.part if isinstance(part, _HashedPart) else part)

    def look_up(self, storage: Storage, part: int | _HashedPart, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        asked = part if isinstance(part, _HashedPart) else _HashedPart(part, part, None)
        own = self.overlay.own(keys, asked.partitions).combine_chunks()
        if own.num_rows:
            here = self.index.parts_of(_whole(own.column(RECORD_KEY))) == asked.number
            yield from own.filter(pa.array(here)).to_batches()
        yield from map(self.overlay.over, self.index.look_up(storage, asked.part, keys))


def overlaid(index: Index, overlay: Overlay) -> Index:
    """The index with the overlay. Picklable where the index is."""
    return OverlaidHashed(index, overlay) if isinstance(index, HashedIndex) else Overlaid(index, overlay)


def current_index(
    storage: Storage, snapshot: TableSnapshot, index: FollowingIndex, *, bytes_max: int = OVERLAY_BYTES_MAX
) -> Index:
    """The index as of the snapshot, whatever it has not taken in yet.

    Raises `Refused` where that is more than `bytes_max`, `TryLater` where a clean was faster, and what else says that
    it cannot be known.
    """
    try:
        return overlaid(index, _overlay(storage, snapshot, index, bytes_max))
    except NotFound as gone:
        raise TryLater(
            "Key locations are unknown: files of the table were deleted while they were read.",
            why=str(gone),
            remedy="Run the command again.",
        ) from gone


def _overlay(storage: Storage, snapshot: TableSnapshot, index: FollowingIndex, bytes_max: int) -> Overlay:
    indexed, table = index.indexed(), TableFiles.of(snapshot)
    chosen = _chosen_commits(storage, snapshot, indexed, table, bytes_max)
    reader = KeyReader(storage, snapshot)
    commits = (
        FoldedCommit(each.commit.instant, reader.changes(each, is_global=index.is_global), each.read_again)
        for each in chosen
    )
    return fold(commits, is_global=index.is_global, live=table.live, bytes_max=bytes_max)


def _chosen_commits(
    storage: Storage, snapshot: TableSnapshot, indexed: Indexed, table: TableFiles, bytes_max: int
) -> list[CommitChanges]:
    behind = commits_behind(storage, snapshot, indexed)
    _check_bound(behind, bytes_max)
    chosen = choose_changes(behind.commits, table, known_undone(behind.commits, indexed))
    first = next((each.commit.completed for each in chosen if each.changes), None)
    if later := _indexed_since(storage, snapshot, indexed, first):
        behind = commits_behind(storage, snapshot, replace(indexed, instants=indexed.instants - later))
        _check_bound(behind, bytes_max)
        chosen = choose_changes(behind.commits, table, known_undone(behind.commits, indexed))
    return chosen


def _indexed_since(storage: Storage, snapshot: TableSnapshot, indexed: Indexed, first: str | None) -> frozenset[str]:
    """The commits that the index has and that completed after this time."""
    if first is None or not indexed.instants:
        return frozenset()
    times = counted_commits(storage, snapshot.base_path, snapshot.config, snapshot.timeline, indexed.instants)
    return frozenset(instant for instant, completed in times.items() if is_before(first, completed))


def _check_bound(behind: CommitsBehind, bytes_max: int) -> None:
    if behind.count > len(behind.commits):
        raise _too_large(f"there are {behind.count}, and their files may have more than", bytes_max)
    size = sum(commit.bytes for commit in behind.commits)
    if size > bytes_max:
        raise _too_large(f"they wrote {format_size(size)}, which is more than", bytes_max)


def _too_large(what: str, bytes_max: int) -> Refused:
    return Refused(
        "The index does not say where keys are.",
        why=f"Of the commits that it does not have yet {what} the {format_size(bytes_max)} that a lookup looks into.",
        remedy="Bring the index up to date: `lakeward index update`.",
    )
