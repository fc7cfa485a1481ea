"""The simple index: the keys of the newest base file of each file group, in the partitions that rows come for, or where
it is global in all of them.

Touches: base files, of which the column of record keys is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.paths import join
from lakeward.index.base_files import BaseFiles, KeyFile
from lakeward.read.slice_keys import base_keys
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class SimpleIndex:
    bases: BaseFiles
    is_global: bool = False

    can_index_log_files = False

    @classmethod
    def of(cls, snapshot: TableSnapshot, *, is_global: bool = False) -> SimpleIndex:
        return cls(BaseFiles.of(snapshot), is_global)

    def parts(self, partitions: Collection[str] | None) -> Sequence[KeyFile]:
        """One base file each. Raises `Refused` where keys may be in logs alone."""
        return self.bases.within(partitions)

    def look_up(self, storage: Storage, part: KeyFile, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """The keys of a base file, each once."""
        read = base_keys(storage, join(self.bases.base_path, part.path), name=part.path)
        found = pc.unique(pa.chunked_array(read, pa.string()))
        if keys is not None:
            found = found.filter(pc.is_in(found, keys))
        if len(found):
            yield part.locations(found)
