"""An index that is a table of locations: what a test wants it to say, right or wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.index.location import LOCATIONS, RECORD_KEY
from lakeward.storage.storage import Storage


@dataclass(frozen=True)
class TableIndex:
    locations: pa.Table
    is_global: bool = True
    can_index_log_files: bool = True

    @classmethod
    def of(cls, placed: pa.Table) -> TableIndex:
        """The index that says just this."""
        return cls(placed.append_column(LOCATIONS.field(3), pa.nulls(placed.num_rows, pa.string())))

    def parts(self, partitions: Collection[str] | None) -> Sequence[int]:
        return [0]

    def look_up(self, storage: Storage, part: int, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        found = self.locations
        if keys is not None:
            found = found.filter(pc.is_in(found.column(RECORD_KEY), keys))
        yield from found.to_batches(max_chunksize=1000)
