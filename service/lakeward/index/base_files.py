"""The newest base file of each file group, which is where indexes of base files look for keys.

What logs hold is left unread, as in Hudi: writers with such an index put a new key into base files alone, and a key
that a log deleted is written onto its group again. A group of logs alone therefore has another index, and is refused.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from lakeward.base.errors import Refused
from lakeward.index.location import LOCATIONS
from lakeward.table.file_group import BaseFile
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class KeyFile:
    partition_path: str
    file_id: str
    path: str
    """Relative to the base path."""
    size: int
    instant: str

    @classmethod
    def of(cls, base: BaseFile) -> Self:
        return cls(base.partition_path, base.file_id, base.path, base.size, base.instant)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def locations(self, keys: pa.Array) -> pa.RecordBatch:
        """These keys, each of which is in the file."""
        where = (self.partition_path, self.file_id, self.instant)
        return pa.RecordBatch.from_arrays([keys, *(pa.repeat(each, len(keys)) for each in where)], schema=LOCATIONS)


@dataclass(frozen=True, slots=True)
class BaseFiles:
    base_path: str
    files: Mapping[str, Sequence[KeyFile]]
    """The newest base file of each group, by partition path."""
    groups_of_logs: Mapping[str, str]
    """A file group without any base file, by partition path."""

    @classmethod
    def of(cls, snapshot: TableSnapshot) -> Self:
        """Raises `Refused` for a table whose rows do not carry their keys."""
        if not snapshot.config.populate_meta_fields:
            raise Refused(
                "The base files of the table have no record keys that could be looked up.",
                why="hoodie.populate.meta.fields is false: keys are made of each row.",
                remedy="Use an index of Lakeward's own: `lakeward index build TABLE --type record`.",
            )
        files: dict[str, list[KeyFile]] = {}
        groups_of_logs = {}
        for group in snapshot.file_groups:
            base = group.read_slices[-1].base_file
            if base is None:
                groups_of_logs[group.partition_path] = group.file_id
            else:
                files.setdefault(group.partition_path, []).append(KeyFile.of(base))
        return cls(snapshot.base_path, files, groups_of_logs)

    def within(self, partitions: Collection[str] | None) -> Sequence[KeyFile]:
        """The files of these partitions; None: of all. Raises `Refused` where keys may be in logs alone."""
        wanted = sorted(self.files.keys() | self.groups_of_logs if partitions is None else partitions)
        for partition_path in wanted:
            if (file_id := self.groups_of_logs.get(partition_path)) is not None:
                raise Refused(
                    f"File group {file_id} in partition '{partition_path}' has no base file, whose keys could be read.",
                    why="A writer with another index put new keys into a log, where an index of base files finds none.",
                    remedy="Write with the index of the table's other writers, or compact the table first. "
                    "Nothing was written.",
                    file_group=(partition_path, file_id),
                )
        return [file for partition_path in wanted for file in self.files.get(partition_path, ())]
