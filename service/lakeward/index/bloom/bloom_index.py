"""The bloom index: the keys of the newest base file of each file group, of which range and filter say first which keys
they may have.

    range     the smallest and the greatest key, in the footer
    filter    in the footer: some keys that are not there pass
    exact     the keys themselves, of the row groups that may have those that are left

Answers are those of the simple index: a range or a filter that is not there, or is broken, leaves all keys possible.

Touches: base files: the footer of each, and of some the column of record keys.
Keeps:   what it finds of a file's keys is what the simple index finds.
See:     docs/decisions/0071-the-bloom-index.md
Source:  HoodieBloomIndex, HoodieGlobalBloomIndex (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.parquet.base_file import open_base_file
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.row_groups import row_groups
from lakeward.index.base_files import KEY_COLUMN, BaseFiles, KeyFile
from lakeward.index.bloom.file_keys import FileKeys
from lakeward.index.location import RECORD_KEY
from lakeward.storage.storage import Storage, join
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class BloomIndex:
    bases: BaseFiles
    is_global: bool = False

    can_index_log_files = False

    @classmethod
    def of(cls, snapshot: TableSnapshot, *, is_global: bool = False) -> BloomIndex:
        return cls(BaseFiles.of(snapshot), is_global)

    def parts(self, partitions: Collection[str] | None) -> Sequence[KeyFile]:
        """One base file each. Raises `Refused` where keys may be in logs alone."""
        return self.bases.within(partitions)

    def look_up(self, storage: Storage, part: KeyFile, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """The keys that the base file has of these, each once."""
        with storage.open_input(join(self.bases.base_path, part.path)) as source:
            wanted = None if keys is None else _Wanted(keys)
            choose = None if wanted is None else wanted.choose
            found = []
            for batch in open_base_file(source, KEY_COLUMN, name=part.path, choose=choose):
                column = batch.column(0)
                found.append(column if wanted is None else column.filter(pc.is_in(column, wanted.keys)))
        there = pc.unique(pa.chunked_array(found, pa.string()))
        if len(there):
            yield part.locations(there)


class _Wanted:
    """Keys that are looked for in one file; fewer, once its footer was read."""

    def __init__(self, keys: pa.Array) -> None:
        self.keys = keys

    def choose(self, file: ParquetBatches) -> Sequence[int]:
        """The row groups that may have any of the keys."""
        self.keys = FileKeys.of_footer(file.metadata.metadata or {}).possible(self.keys)
        return _groups_with(file, self.keys) if len(self.keys) else []


def _groups_with(file: ParquetBatches, keys: pa.Array) -> Sequence[int]:
    """The numbers of the row groups whose statistics do not rule all of the keys out."""
    ordered = keys.cast(pa.binary()).sort()
    chosen = []
    for group in row_groups(file, KEY_COLUMN):
        if RECORD_KEY not in group.ranges:
            chosen.append(group.number)  # nothing is known of it
        elif (found := group.ranges[RECORD_KEY]) is not None:
            low, high = (pa.scalar(str(bound).encode(), pa.binary()) for bound in (found.low, found.high))
            before = pc.search_sorted(ordered, low, side="left").as_py()
            if before < pc.search_sorted(ordered, high, side="right").as_py():
                chosen.append(group.number)
    return chosen
