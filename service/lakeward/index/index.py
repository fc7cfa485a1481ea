"""The port of all indexes: keys in, locations out.

    Index          lookups. What there is to look into is cut into parts, one for a task; a key gets every location that
                   is found for it
    HashedIndex    an index of which one part has a key, shown by the key alone, and each part says how large it is
    NarrowingIndex an index that reads the files themselves, and can say which of them may have which keys
    FollowingIndex an index that says which commits of the table it has
    WritableIndex  an index that takes in one commit of the table after the other
    OwnIndex       an index of Lakeward that stays: built from a table, and kept small

An index of Lakeward is changed a commit of the table at a time, by its own writer; those that Hudi keeps are read here,
and written with the metadata table.

Touches: nothing; what is looked up where, the implementations say.
See:     docs/decisions/0078-one-port-for-all-indexes.md
Source:  HoodieIndex (Hudi 1.2); RFC-08
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.format.timeline.instant import comparable_time
from lakeward.index.location import LOCATIONS, locations_of
from lakeward.storage.storage import Storage
from lakeward.table.timeline.timeline import Timeline


class Index(Protocol):
    """Picklable, as its parts are: both travel to tasks."""

    @property
    def is_global(self) -> bool:
        """Whether a key is one in all of the table, and found whatever the partition that is asked for."""

    @property
    def can_index_log_files(self) -> bool:
        """Whether keys are found that are in logs alone. Writers that use an index without put new keys into base
        files."""

    def parts(self, partitions: Collection[str] | None) -> Sequence[Any]:
        """What there is to look into for keys of these partitions; None: of all. Raises `Refused`."""

    def look_up(self, storage: Storage, part: Any, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """What the part holds, in `LOCATIONS`, each location once.

        Args:
            keys: the keys that matter, of any partition, in no order; None: all, where the index can say all.
                More may come back.
        """


@dataclass(frozen=True, slots=True)
class PartEffort:
    """What a part is made of, which shows how much there is to look into."""

    files: int
    bytes: int


@runtime_checkable
class HashedIndex(Index, Protocol):
    @property
    def count(self) -> int:
        """The parts that keys are spread over; the parts are their numbers."""

    def parts_of(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        """The part that each key is in."""

    def effort(self, part: Any) -> PartEffort:
        """The files of the part; those of all parts are all files of the index."""


@runtime_checkable
class NarrowingIndex(Index, Protocol):
    def narrowed(self, storage: Storage, parts: Sequence[Any], keys: pa.Array) -> Iterator[tuple[Any, pa.Array]]:
        """The parts that may have some of these keys, each with those."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """Which commits of the table an index has whole."""

    through: str | None = None
    """A completion time: of what completed up to it the index needs nothing more."""
    instants: frozenset[str] = frozenset()
    """Commits that it has besides."""

    @classmethod
    def of(cls, settled: str | None, unsettled: Mapping[str, str | None]) -> Indexed:
        """
        Args:
            settled: the completion time up to which commits are settled.
            unsettled: the others that it has, with their completion times, where these were known.
        """
        times = [completed for completed in (settled, *unsettled.values()) if completed is not None]
        return cls(max(times, key=comparable_time, default=None), frozenset(unsettled))

    def has(self, instant: str, completed: str) -> bool:
        if self.through is not None and comparable_time(completed) <= comparable_time(self.through):
            return True
        return instant in self.instants


class FollowingIndex(Index, Protocol):
    """Its keys are those of the commits that it has."""

    def indexed(self) -> Indexed: ...


class WritableIndex(FollowingIndex, Protocol):
    """Changed by one process at a time: the table's lock, or the daemon's lease, is its caller's."""

    def update(self, instant: str, changes: Iterable[pa.RecordBatch], *, completed: str | None) -> None:
        """Take in what one commit did to the places of keys, whole or not at all. Idempotent.
        Lookups find it from then on, if it counts. While `changes` are read, the index is looked into.

        Args:
            instant: of a write, or of a rollback or a restore, of which an index of Lakeward takes in what it brought
            back.
            changes: in `LOCATIONS`, of which the instants are not read; a key may come in several batches, and
            where
                it is gone in one and located in another, it is located.
            completed: when the commit became visible; all that completed before is in, so that what is `Indexed` goes
                through it. None of a writer that has yet to complete it.
        """

    def rollback(self, instant: str) -> None:
        """Forget the commit: each key is where it was before. Nothing happens where the index has none of it."""


class OwnIndex(WritableIndex, Protocol):
    def build(self, instant: str, locations: Iterable[pa.RecordBatch], *, completed: str) -> None:
        """Take in all of the table as of a commit, whole or not at all. These locations count whatever happens to that
        commit: they are of those before it, too. Raises `Refused` where the index has a commit.

        Args:
            locations: in `LOCATIONS`, in no order.
            completed: when the commit became visible.
        """

    def tidy(self, timeline: Timeline, *, through: str) -> bool:
        """Forget commits that were rolled back, and settle those that left the active timeline; False where there was
        nothing to do.

        Args:
            timeline: of the snapshot that the index was opened as of; what began after it is left as it is.
            through: the index has every commit that completed up to then, so that none comes before a settled one.
        """


def record_locations(
    storage: Storage,
    index: Index,
    keys: pa.Array,
    partitions: Collection[str] | None = None,
    *,
    on_part: Callable[[int, int], None] = lambda done, of: None,
) -> pa.Table:
    """The locations of these keys, in `LOCATIONS`, in no order, looked up in this process.

    Args:
        partitions: where the keys are looked for, of an index that is not global; None: in all.
        on_part: called before each part that is looked into how many were, and how many parts there are.
    """
    parts = index.parts(partitions)
    asked = (
        index.narrowed(storage, parts, keys) if isinstance(index, NarrowingIndex) else ((part, keys) for part in parts)
    )
    batches: list[pa.RecordBatch] = []
    for done, (part, some) in enumerate(asked):
        on_part(done, len(parts))
        batches += index.look_up(storage, part, some)
    found = locations_of(batches)
    return found.join(pa.table([keys.unique()], [LOCATIONS.names[0]]), LOCATIONS.names[0], join_type="left semi")
