"""The record index that Hudi keeps in the metadata table: where each key lives, in all of the table.

An entry leads nowhere where its file group is not there: a commit that was rolled back leaves such. Then no row of the
table has the key. A group that was replaced is another matter: its rows went on in others, so the entry should have
changed, and a write by it is refused (`write/placement`).

Touches: the metadata table's record index, whose files are searched for the keys alone.
Source:  SparkMetadataTableGlobalRecordLevelIndex, HoodieIndexUtils (Hudi 1.2)
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused
from lakeward.format.metadata.key import file_group_indexes
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.format.metadata.record import MetadataRecord, RecordIndexRecord
from lakeward.format.timeline.instant import format_instant_time
from lakeward.index.index import PartEffort
from lakeward.index.index_type import IndexType
from lakeward.index.location import LOCATIONS
from lakeward.index.out_of_use import check_in_use
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.index_definitions import load_index_definitions
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import MetadataTable, load_metadata_table
from lakeward.table.snapshot import TableSnapshot

_KEYS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class MetadataRecordIndex:
    table: MetadataTable
    groups: frozenset[GroupId]
    """File groups that are there, or were replaced."""
    zone: datetime.tzinfo | None = None
    """The timeline's: without it the instants of entries cannot be known."""

    is_global = True
    can_index_log_files = True

    @classmethod
    def of(cls, storage: Storage, snapshot: TableSnapshot, *, clock: Clock) -> MetadataRecordIndex:
        """The table is one that `check_record_index` passed."""
        table = load_metadata_table(
            storage, snapshot.base_path, snapshot.config, snapshot.timeline, clock=clock, partitions=[RECORD_INDEX]
        )
        return cls(table, snapshot.live_groups | snapshot.replaced.keys(), snapshot.zone.zone)

    @property
    def count(self) -> int:
        """The file groups that the index's keys are spread over."""
        return len(self.table.slices[RECORD_INDEX])

    def parts(self, partitions: Collection[str] | None) -> Sequence[int]:
        """One file group of the index each."""
        return range(self.count)

    def parts_of(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        """The part that each key is in."""
        return file_group_indexes(keys.to_pylist(), self.count)

    def effort(self, part: int) -> PartEffort:
        slice_ = self.table.slices[RECORD_INDEX][part]
        return PartEffort(len(slice_.files), slice_.bytes)

    def look_up(self, storage: Storage, part: int, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """The places of those keys that are in the part, or of all that it has."""
        reader = MetadataReader(storage, self.table)
        if keys is None:
            records = iter(reader.scan(RECORD_INDEX, group=part))
            while some := list(islice(records, _KEYS_AT_ONCE)):
                yield from self._locations(some)
            return
        wanted = keys.filter(pa.array(self.parts_of(keys) == part)).to_pylist()
        for start in range(0, len(wanted), _KEYS_AT_ONCE):
            yield from self._locations(reader.lookup(RECORD_INDEX, wanted[start : start + _KEYS_AT_ONCE]).items())

    def _locations(self, records: Iterable[tuple[str, MetadataRecord]]) -> Iterator[pa.RecordBatch]:
        there = [
            (key, record.partition or "", record.file_id, self._instant(record))
            for key, record in records
            if isinstance(record, RecordIndexRecord) and (record.partition or "", record.file_id) in self.groups
        ]
        if there:
            columns = [pa.array(each, pa.string()) for each in zip(*there, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=LOCATIONS)

    def _instant(self, record: RecordIndexRecord) -> str | None:
        if self.zone is None or record.instant_millis is None:
            return None
        return format_instant_time(record.instant_millis, self.zone)


def check_record_index(storage: Storage, snapshot: TableSnapshot) -> None:
    """Raises `Refused` for a table without the index, with one of its own for each partition, or with one that was
    found to be wrong."""
    check_has_record_index(storage, snapshot)
    check_in_use(storage, snapshot.base_path, IndexType.METADATA)


def check_has_record_index(storage: Storage, snapshot: TableSnapshot) -> None:
    """Raises `Refused` for a table without the index, or with one of its own for each partition."""
    config = snapshot.config
    if RECORD_INDEX not in config.built_metadata_partitions:
        raise Refused(
            "The table has no record index.",
            why="`hoodie.table.metadata.partitions` in its properties does not name it.",
            remedy="Write with the index of the table's other writers, or let Hudi build the record index first.",
        )
    if load_index_definitions(storage, snapshot.base_path, config).is_partitioned_record_index:
        raise Refused(
            "The table has a record index for each of its partitions, which this release does not write by.",
            why="There a key may live in several partitions at once.",
            remedy="Write with the simple index, or with Hudi.",
        )
