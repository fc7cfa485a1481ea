"""Which keys the record index learns of by a write, and where they are now.

    what targets say             each key that arrived in a file group with its place, each that is gone
    file groups that go whole    the keys of their rows, as a query finds them; they are gone unless they were written

Updates in place are not in it, nor keys of rows that a log deleted before: Hudi names those once more, without effect.

What a write brings to the metadata table beside its files: keys that came and went, file groups that it replaced.

    the record index     a record for each key that arrived in a file group, a deletion of each key that is gone
    secondary indexes    the same of pairs of a value and a key (`secondary_pairs.py`)
    partition_stats      what is known of partitions that were deleted goes
    index definitions    columns that the table has from this write on are indexed from it on

A service has none of it: it moves no key and brings no column.

Touches: storage, reading the files of targets and of replaced file groups; temporary files (`key_sorter.py`).
Keeps:   1. every key of a replaced file group is gone or has another place;
         2. memory is bounded by one run of keys and what merging one slice takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, Conflict
from lakeward.protocol.metadata.key_sorter import GONE, KeySorter
from lakeward.read.newest_slice import newest_slice, table_reading
from lakeward.read.slice_keys import slice_keys
from lakeward.storage.storage import Storage, is_of_storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """What one target of the write did to keys (`write/target.TargetResult.key_changes`)."""

    partition_path: str
    path: str
    """The Arrow IPC file, in the attempt's folder, with `key` (text), `file_id` (text; null: the key is gone)."""


@dataclass(frozen=True, slots=True)
class WriteChanges:
    schema: str
    """Avro JSON without meta columns: the table's from this write on."""
    keys: tuple[ChangedKeys, ...] = ()
    """Updates in place are not in them. A key that is gone in one file group and arrived in another one stays,
    in the new one."""
    replaced: tuple[GroupId, ...] = ()
    """The file groups that go as a whole, those of deleted partitions too."""
    deleted_partitions: tuple[str, ...] = ()
    """The paths that delete_partition took."""


@dataclass(slots=True)
class CollectedKeys:
    """What was added to a sorter."""

    sorter: KeySorter
    places: list[GroupId] = field(default_factory=list)
    """Partition path and file id, by the number of the place."""
    numbers: dict[GroupId, int] = field(default_factory=dict)

    def add_of_target(self, storage: Storage, changed: ChangedKeys) -> None:
        """Raises `BrokenFile`, `NotFound` and `SpillFailed`."""
        for keys, file_ids in read_changed_keys(storage, changed):
            self.sorter.add(keys, self._places_of(file_ids, changed.partition_path))

    def add_gone(self, keys: pa.StringArray) -> None:
        self.sorter.add(keys, np.full(len(keys), GONE, dtype=np.int32))

    def _places_of(self, file_ids: pa.Array, partition_path: str) -> npt.NDArray[np.int32]:
        encoded = file_ids.dictionary_encode()
        known = np.array([self._number((partition_path, each)) for each in encoded.dictionary.to_pylist()], np.int32)
        indices = pc.fill_null(encoded.indices, -1).to_numpy()
        found: npt.NDArray[np.int32] = np.append(known, np.int32(GONE))[indices]
        return found

    def _number(self, place: GroupId) -> int:
        if place not in self.numbers:
            self.numbers[place] = len(self.places)
            self.places.append(place)
        return self.numbers[place]


def collect_key_changes(
    storage: Storage, snapshot: TableSnapshot, write: WriteChanges, sorter: KeySorter
) -> CollectedKeys:
    """All that the write does to keys; the caller ends the sorter. Raises `Conflict` where a group that is to be
    replaced is not in the snapshot."""
    changes = CollectedKeys(sorter)
    for changed in write.keys:
        changes.add_of_target(storage, changed)
    replaced = replaced_slices(snapshot, write.replaced)
    reading = table_reading(snapshot, merges=any(slice_.row_logs for slice_ in replaced))
    for slice_ in replaced:
        for keys in slice_keys(storage, reading, slice_):
            changes.add_gone(keys)
    return changes


def replaced_slices(snapshot: TableSnapshot, replaced: Iterable[GroupId]) -> list[FileSlice]:
    """What a query reads of the file groups."""
    groups = {(group.partition_path, group.file_id): group for group in snapshot.file_groups}
    found = []
    for group_id in replaced:
        slice_ = newest_slice(groups[group_id].slices) if group_id in groups else None
        if slice_ is None:
            raise Conflict(
                f"The file group {group_id[1]} in the partition {group_id[0]!r} cannot be replaced.",
                why="It is not there any more, or its file slices cannot be told apart.",
                remedy="Run the command again; nothing was published.",
                file_group=group_id,
            )
        found.append(slice_)
    return found


def read_changed_keys(storage: Storage, changed: ChangedKeys) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Keys, and the file group that each is in now, null where it is gone; batch by batch. Raises `BrokenFile` and
    `NotFound`."""
    try:
        with storage.open_input(changed.path) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield batch.column("key").cast(pa.string()), batch.column("file_id").cast(pa.string())
    except (pa.ArrowException, OSError, KeyError) as error:
        if is_of_storage(error):
            raise
        raise BrokenFile(
            f"The changed keys in {changed.path} cannot be read.",
            why=f"{error}.",
            remedy="Run the command again; nothing was published.",
        ) from error
