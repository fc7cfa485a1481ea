"""The simple index: the keys of the newest base file of each file group, in the partitions that rows come for, or where
it is global in all of them.

What logs hold is left unread, as in Hudi: writers with this index put a new key into base files alone, and a key that a
log deleted is written onto its group again. A group of logs alone therefore has another index, and is refused.

Touches: base files, of which the column of record keys is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.errors import Refused
from lakeward.format.parquet.base_file import open_base_file
from lakeward.index.location import LOCATIONS, RECORD_KEY
from lakeward.storage.storage import Storage, join
from lakeward.table.snapshot import TableSnapshot

_KEYS = pa.schema([pa.field(RECORD_KEY, pa.string())])


@dataclass(frozen=True, slots=True)
class KeyFile:
    partition_path: str
    file_id: str
    path: str
    """Relative to the base path."""
    instant: str


@dataclass(frozen=True, slots=True)
class SimpleIndex:
    base_path: str
    files: Mapping[str, Sequence[KeyFile]]
    """The newest base file of each group, by partition path."""
    groups_of_logs: Mapping[str, str]
    """A file group without any base file, by partition path."""

    is_global: bool = False

    can_index_log_files = False

    @classmethod
    def of(cls, snapshot: TableSnapshot, *, is_global: bool = False) -> SimpleIndex:
        files: dict[str, list[KeyFile]] = {}
        groups_of_logs = {}
        for group in snapshot.file_groups:
            base = group.read_slices[-1].base_file
            if base is None:
                groups_of_logs[group.partition_path] = group.file_id
            else:
                files.setdefault(group.partition_path, []).append(
                    KeyFile(group.partition_path, group.file_id, base.path, base.instant)
                )
        return cls(snapshot.base_path, files, groups_of_logs, is_global)

    def parts(self, partitions: Collection[str] | None) -> Sequence[KeyFile]:
        """One base file each. Raises `Refused` where keys may be in logs alone."""
        wanted = sorted(self.files.keys() | self.groups_of_logs if partitions is None else partitions)
        for partition_path in wanted:
            if (file_id := self.groups_of_logs.get(partition_path)) is not None:
                raise Refused(
                    f"File group {file_id} in partition '{partition_path}' has no base file, whose keys could be read.",
                    why="A writer with another index put new keys into a log, where the simple index finds none.",
                    remedy="Write with the index of the table's other writers, or compact the table first. "
                    "Nothing was written.",
                    file_group=(partition_path, file_id),
                )
        return [file for partition_path in wanted for file in self.files.get(partition_path, ())]

    def look_up(self, storage: Storage, part: KeyFile, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """The keys of a base file, each once."""
        with storage.open_input(join(self.base_path, part.path)) as source:
            batches = open_base_file(source, _KEYS, name=part.path)
            columns = [batch.column(0) for batch in batches]
        found = pc.unique(pa.chunked_array(columns, pa.string()))
        if keys is not None:
            found = found.filter(pc.is_in(found, keys))
        if len(found):
            where = (part.partition_path, part.file_id, part.instant)
            yield pa.RecordBatch.from_arrays(
                [found, *(pa.repeat(each, len(found)) for each in where)], schema=LOCATIONS
            )
