"""Entries by the keys of rows, for the record index and secondary ones: those of a snapshot, and changes since.

    read          the keys of the newest slice of each file group, by tasks, a checkpoint each; those that are there
                  are not read again, so that of a later snapshot only the file groups that changed are read
    write_base    checkpoints, merged by keys -> spread over file groups by their hash -> a base file each
    write_changes of each file group that has another checkpoint by now: keys that it has now came, keys that it has no
                  more are gone, unless another one has them

A key has one place in these indexes, so a table that has a key in two file groups is refused by that key.

The number of file groups is Hudi's: as many as twice the keys fill at 48 bytes an entry and 1 GiB a file group, at
least 10 and at most 10,000. It stays as it is for ever.

Touches: the table, reading; the folder of checkpoints; the files of `group_files`; temporary files.
Keeps:   1. what base files and logs say together is where each key is as of the last snapshot that was read;
         2. a key that is in two file groups is refused by name;
         3. memory is bounded by a run of keys, a frame of each checkpoint that is merged at once, and the frames of a
            file group that another frame of it overlaps.
Source:  HoodieTableMetadataUtil.estimateFileGroupCount (Hudi 1.2), which secondary indexes use, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Refused
from lakeward.base.named_key import named_key
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.index_definitions import IndexDefinition
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.format.metadata.record import MetadataRecord
from lakeward.index.build_state import BuildState
from lakeward.index.key_checkpoints import KeyCheckpoint, read_keys
from lakeward.index.location import differs
from lakeward.protocol.metadata.key_sorter import GONE, KeySorter
from lakeward.services.indexing.run.build_work import BuildWork, build_state, make_missing, remove_checkpoints
from lakeward.services.indexing.run.merged_keys import placed_keys
from lakeward.services.together.metadata_index.group_files import GroupFiles
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.new_metadata_table import FILE_GROUPS
from lakeward.table.snapshot import TableSnapshot

_ENTRIES_A_GROUP: Final = 1024**3 // 48
_GROWTH: Final = 2
_GROUPS_MAX: Final = 10_000


def file_groups_for(keys: int) -> int:
    """The number of file groups that Hudi gives a record index over so many keys, by its defaults."""
    return min(max(_GROWTH * keys // _ENTRIES_A_GROUP, FILE_GROUPS[RECORD_INDEX]), _GROUPS_MAX)


class KeyEntries(ABC):
    partition: str

    def __init__(
        self, storage: Storage, work: BuildWork, *, hashed: Callable[[str], str] = str, noun: str = "key"
    ) -> None:
        """
        Args:
            hashed: the part of a key that says in which file group it is.
            noun: what errors call a key.
        """
        self._storage = storage
        self._work = work
        self._hashed = hashed
        self._noun = noun
        self._zone: tzinfo = UTC
        self._now: BuildState | None = None
        """The checkpoints of the last snapshot."""
        self._base: BuildState | None = None
        """The checkpoints of the snapshot that base files are of."""

    @abstractmethod
    def definition(self, snapshot: TableSnapshot) -> IndexDefinition | None:
        """The definition that the table is to have of the index."""

    @abstractmethod
    def record_of(self, group: GroupId, base_instant: str, zone: tzinfo) -> MetadataRecord:
        """What the index has of each key in a file group.

        Args:
            base_instant: that of the newest slice.
            zone: of the table's instants.
        """

    @abstractmethod
    def check(self, snapshot: TableSnapshot) -> None:
        """Raises `Refused` where the table cannot have the index."""

    def state(self, snapshot: TableSnapshot) -> BuildState:
        """Raises `Refused` and `Unsupported` for a table whose keys cannot be known."""
        return build_state(self._storage, snapshot, self._work.folder)

    def bytes_missing(self, snapshot: TableSnapshot) -> int:
        return self.state(snapshot).bytes_missing

    def read(self, snapshot: TableSnapshot) -> None:
        """Raises what tasks raise; `NotFound` where files went meanwhile."""
        self.check(snapshot)
        self._zone = snapshot.zone.zone or UTC
        self._now = make_missing(self._storage, snapshot, self.state(snapshot), self._work)

    def write_base(self, files: GroupFiles) -> None:
        """Raises `Refused`, `NotFound` for a checkpoint that is broken, and `SpillFailed`."""
        assert self._now is not None, "it is read first"
        made = self._now.of_groups
        self._base, groups = self._now, [group for group, _ in made]
        files.groups = file_groups_for(sum(checkpoint.rows for _, checkpoint in made))
        records = self._records(self._now, groups, files.schema_json)
        with KeySorter(files.groups, hashed=self._hashed) as sorter:
            keys = placed_keys(self._storage, self._work.folder, [checkpoint for _, checkpoint in made])
            for batch in self._checked(keys, groups):
                sorter.add(batch.column(0), batch.column(1).to_numpy())
            for group in sorter.groups():
                # Runs are of keys that came sorted, so each goes on where the one before it ends.
                entries = chain.from_iterable(sorter.written(group))
                files.write_base(
                    group,
                    ((key.encode(), records[place]) for key, place in entries),
                    keys_expected=sorter.count_written(group),
                )
                self._work.guard()

    def write_changes(self, files: GroupFiles) -> None:
        """Raises as `write_base`."""
        assert self._base is not None and self._now is not None, "base files come first"
        before, after = dict(self._base.of_groups), dict(self._now.of_groups)
        changed = [group for group in sorted(before.keys() | after.keys()) if before.get(group) != after.get(group)]
        there = [group for group in changed if group in after]
        places, records = (
            {group: place for place, group in enumerate(there)},
            self._records(self._now, there, files.schema_json),
        )
        with KeySorter(files.groups, hashed=self._hashed) as sorter:
            for group in changed:
                old, new = before.get(group), after.get(group)
                for keys in minus(self._keys(new), self._keys(old)):
                    sorter.add(keys, np.full(len(keys), places[group], np.int32))
                for keys in minus(self._keys(old), self._keys(new)):
                    sorter.add(keys, np.full(len(keys), GONE, np.int32))
            for number in sorter.groups():
                with files.open_log(number) as log:
                    for run in sorter.written(number):
                        log.add_entries((key, records[place]) for key, place in run)
                    for keys in sorter.gone(number):
                        log.add_deletes(keys)

    def forget(self) -> None:
        """The checkpoints go: the index is there."""
        remove_checkpoints(self._storage, self._work.folder)

    def _records(self, state: BuildState, groups: Sequence[GroupId], schema_json: str) -> list[bytes]:
        encode = metadata_codec(schema_json).encode
        bases = {slice_.group_id: slice_.base_instant for slice_ in state.slices.values()}
        return [encode(self.record_of(group, bases[group], self._zone)) for group in groups]

    def _keys(self, checkpoint: KeyCheckpoint | None) -> Iterator[pa.StringArray]:
        return iter(()) if checkpoint is None else read_keys(self._storage, self._work.folder, checkpoint)

    def _checked(self, batches: Iterable[pa.RecordBatch], groups: Sequence[GroupId]) -> Iterator[pa.RecordBatch]:
        """The batches, in which no key comes twice. Raises `Refused`.

        Args:
            batches: all rows of a key are in one of them.
        """
        for batch in batches:
            keys, places = batch.columns
            again = np.flatnonzero(~differs(keys))
            if len(again):
                at = int(again[0])
                raise self._doubled(keys[at].as_py(), groups[places[at - 1].as_py()], groups[places[at].as_py()])
            yield batch

    def _doubled(self, key: str, one: GroupId, other: GroupId) -> Refused:
        return Refused(
            f"The {self._noun} {named_key(key)} is in two file groups.",
            why=f"One is {one[1]} in partition {one[0]!r}, the other {other[1]} in {other[0]!r}; this index has one "
            "place for a key, and Hudi's writers would not find the other row any more.",
            remedy="Where keys are unique in a partition only, the table cannot have a global record index; else "
            "delete one of the two rows.",
        )


def minus(keys: Iterator[pa.StringArray], others: Iterator[pa.StringArray]) -> Iterator[pa.StringArray]:
    """The keys that the others have not; both ascend by their bytes, in frames."""
    held: list[tuple[bytes, pa.StringArray]] = []
    reached: bytes | None = None
    is_more = True
    for frame in keys:
        if len(frame) == 0:
            continue
        first, last = frame[0].as_py().encode(), frame[-1].as_py().encode()
        held = [each for each in held if each[0] >= first]
        while is_more and (reached is None or reached < last):
            other = next(others, None)
            is_more = other is not None
            if other is not None and len(other):
                reached = other[-1].as_py().encode()
                if reached >= first:
                    held.append((reached, other))
        left = frame
        if held:
            left = frame.filter(pc.invert(pc.is_in(frame, value_set=pa.concat_arrays([each for _, each in held]))))
        if len(left):
            yield left
