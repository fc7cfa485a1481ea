"""The entries of a partition of the metadata table each of which is about one unit of the table, a file or a partition.

    base files    the records of all units, unit by unit -> a temporary file, their keys sorted -> file groups
    logs          the records of units that came since, or are otherwise by now; what older ones had and they have not

Touches: what a kind of entries reads; the files of `group_files`; temporary files.
Keeps:   1. each unit of the last snapshot that was read has its entries as of that, in base files or logs, and one that
            is gone has none;
         2. memory is bounded by the names of units, the records of one, a run of keys and what changed since.
"""

from __future__ import annotations

import heapq
import tempfile
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.index_definitions import IndexDefinition
from lakeward.format.metadata.key import file_group_indexes
from lakeward.format.metadata.record import MetadataRecord
from lakeward.merge.rows.spill_file import SPILL_PREFIX, spilling
from lakeward.protocol.metadata.key_sorter import KeySorter
from lakeward.services.together.metadata_index.group_files import GroupFiles
from lakeward.storage.storage import Storage
from lakeward.table.metadata.new_metadata_table import FILE_GROUPS
from lakeward.table.snapshot import TableSnapshot

Unit = TypeVar("Unit", bound=Hashable)
State = TypeVar("State")

_UNIT_BYTES: Final = 256 * 1024
_KEYS_AT_ONCE: Final = 8192


class UnitEntries(ABC, Generic[Unit, State]):
    partition: str

    def __init__(self, storage: Storage, *, guard: Callable[[], None], on_unit: Callable[[int, int], None]) -> None:
        """
        Args:
            guard: stops the work by raising an error of Lakeward.
            on_unit: takes how many units are read, and of how many.
        """
        self.storage = storage
        self._guard = guard
        self._on_unit = on_unit
        self._now: Mapping[Unit, State] = {}
        """The units of the last snapshot."""
        self._base: Mapping[Unit, State] | None = None
        """The units that the base files have."""
        self._came: dict[Unit, tuple[State, dict[str, MetadataRecord]]] = {}
        """Records of units that came since, or are otherwise."""

    @abstractmethod
    def definition(self, snapshot: TableSnapshot) -> IndexDefinition | None:
        """The definition that the table is to have of the index."""

    @abstractmethod
    def units(self, snapshot: TableSnapshot) -> Mapping[Unit, State]:
        """All units, each with what its records depend on. Raises `Refused`."""

    @abstractmethod
    def keys_of(self, unit: Unit) -> list[str]:
        """All keys that a unit may have records by."""

    @abstractmethod
    def records_of(self, unit: Unit, state: State) -> Iterator[tuple[str, MetadataRecord]]: ...

    def prepare(self, snapshot: TableSnapshot) -> None:
        """Know what records depend on beside their units. Raises `Refused`, and `Conflict` where that changed."""

    def bytes_of(self, state: State) -> int:
        """What counts as read for a unit."""
        return _UNIT_BYTES

    def bytes_missing(self, snapshot: TableSnapshot) -> int:
        units = self.units(snapshot)
        return sum(self.bytes_of(units[unit]) for unit in self._unread(units))

    def read(self, snapshot: TableSnapshot) -> None:
        self.prepare(snapshot)
        self._now = self.units(snapshot)
        if self._base is not None:
            for unit in self._unread(self._now):
                self._came[unit] = self._now[unit], dict(self.records_of(unit, self._now[unit]))

    def write_base(self, files: GroupFiles) -> None:
        """Raises `SpillFailed`."""
        self._base, files.groups = self._now, FILE_GROUPS[self.partition]
        encode = metadata_codec(files.schema_json).encode
        ends, keys = array("q", [0]), list[str]()
        with (
            spilling(f"records of {self.partition}", None),
            tempfile.TemporaryFile(prefix=SPILL_PREFIX) as spilled,
            KeySorter(files.groups) as sorter,
        ):

            def sort() -> None:
                places = np.arange(len(ends) - 1 - len(keys), len(ends) - 1, dtype=np.int32)
                sorter.add(pa.array(keys, pa.string()), places)
                keys.clear()

            def payload(place: int) -> bytes:
                spilled.seek(ends[place])
                return spilled.read(ends[place + 1] - ends[place])

            for done, (unit, state) in enumerate(self._base.items(), start=1):
                for key, record in self.records_of(unit, state):
                    ends.append(ends[-1] + spilled.write(encode(record)))
                    keys.append(key)
                if len(keys) >= _KEYS_AT_ONCE:
                    sort()
                self._on_unit(done, len(self._base))
                self._guard()
            sort()
            for group in sorter.groups():
                # Keys are in ASCII, so texts are in the order of their bytes.
                entries = heapq.merge(*sorter.written(group))
                files.write_base(
                    group,
                    ((key.encode(), payload(place)) for key, place in entries),
                    keys_expected=sorter.count_written(group),
                )

    def write_changes(self, files: GroupFiles) -> None:
        assert self._base is not None, "base files come first"
        encode = metadata_codec(files.schema_json).encode
        changed = [unit for unit, state in self._now.items() if self._base.get(unit) != state]
        records = {key: record for unit in changed for key, record in self._came[unit][1].items()}
        older = [unit for unit, state in self._base.items() if self._now.get(unit) != state]
        gone = [key for unit in older for key in self.keys_of(unit) if key not in records]
        by_group: dict[int, tuple[list[str], list[str]]] = {}
        for place, keys in enumerate((list(records), gone)):
            for key, group in zip(keys, file_group_indexes(keys, files.groups).tolist() if keys else (), strict=True):
                by_group.setdefault(group, ([], []))[place].append(key)
        for group, (written, deleted) in sorted(by_group.items()):
            with files.open_log(group) as log:
                if written:
                    log.add_entries((key, encode(records[key])) for key in sorted(written))
                if deleted:
                    log.add_deletes(pa.array(sorted(deleted), pa.string()))

    def forget(self) -> None:
        """Nothing is kept."""

    def _unread(self, units: Mapping[Unit, State]) -> list[Unit]:
        base = self._base or {}
        return [
            unit
            for unit, state in units.items()
            if base.get(unit) != state and (unit not in self._came or self._came[unit][0] != state)
        ]
