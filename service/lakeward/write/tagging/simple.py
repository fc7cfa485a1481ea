"""Tagging by the keys of base files: those of the newest one of each file group in the partitions that rows come for.

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
from lakeward.storage.storage import Storage, join
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.tagging.tagging import FOUND

_KEYS = pa.schema([pa.field(RECORD_KEY, pa.string())])


@dataclass(frozen=True, slots=True)
class KeyFile:
    partition_path: str
    file_id: str
    path: str
    """Relative to the base path."""


@dataclass(frozen=True, slots=True)
class SimpleTagging:
    base_path: str
    files: Mapping[str, Sequence[KeyFile]]
    """The newest base file of each group, by partition path."""
    groups_of_logs: Mapping[str, str]
    """A file group without any base file, by partition path."""

    is_global = False
    folded_by = None

    @classmethod
    def of(cls, snapshot: TableSnapshot) -> SimpleTagging:
        files: dict[str, list[KeyFile]] = {}
        groups_of_logs = {}
        for group in snapshot.file_groups:
            base = group.read_slices[-1].base_file
            if base is None:
                groups_of_logs[group.partition_path] = group.file_id
            else:
                files.setdefault(group.partition_path, []).append(
                    KeyFile(group.partition_path, group.file_id, base.path)
                )
        return cls(snapshot.base_path, files, groups_of_logs)

    def parts(self, partitions: Collection[str]) -> Sequence[KeyFile]:
        """One base file each. Raises `Refused` where keys may be in logs alone."""
        for partition_path in sorted(partitions):
            if (file_id := self.groups_of_logs.get(partition_path)) is not None:
                raise Refused(
                    f"File group {file_id} in partition '{partition_path}' has no base file, whose keys could be read.",
                    why="A writer with another index put new keys into a log, where the simple index finds none.",
                    remedy="Write with the index of the table's other writers, or compact the table first. "
                    "Nothing was written.",
                    file_group=(partition_path, file_id),
                )
        return [file for partition_path in sorted(partitions) for file in self.files.get(partition_path, ())]

    def look_up(self, storage: Storage, part: KeyFile, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """The keys of a base file, each once."""
        with storage.open_input(join(self.base_path, part.path)) as source:
            batches = open_base_file(source, _KEYS, name=part.path)
            columns = [batch.column(0) for batch in batches]
        found = pc.unique(pa.chunked_array(columns, pa.string()))
        if keys is not None:
            found = found.filter(pc.is_in(found, keys))
        if len(found):
            places = [pa.repeat(part.partition_path, len(found)), pa.repeat(part.file_id, len(found))]
            yield pa.RecordBatch.from_arrays([found, *places], schema=FOUND)
