"""Commit metadata as Arrow columns, for commits that name thousands of files.

A commit of 10,000 files has 300,000 values, of which a reader of the timeline wants a fifteenth: the kernels of log
blocks take the record apart in a tenth of the time of `format/avro/record`, and no value becomes an object that is not
asked for. A process that reads no such commit does without Arrow and Numba, so this module is imported where one is.

Touches: nothing.
Keeps:   1. the values are those of `format/avro/container.read_record`; None for what only that can read, or has words
            for: a file that is broken, a schema with types that Arrow has not;
         2. a record takes no more memory than the container allows it.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.container import open_container
from lakeward.format.avro.decoder import decode_unframed
from lakeward.format.avro.program import TooLarge, compile_schema
from lakeward.format.avro.schema import parse_schema


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """The fields of one commit, each in one row."""

    batch: pa.RecordBatch

    def values_beside(self, name: str) -> dict[str, Any]:
        """All fields but this one, as plain values."""
        return {each: _plain(self.batch.column(each)) for each in self.batch.schema.names if each != name}

    def keys(self, name: str) -> list[str]:
        """The keys of a map; none where the field is no map."""
        found = self.batch.column(name) if name in self.batch.schema.names else None
        return found.keys.to_pylist() if found is not None and pa.types.is_map(found.type) else []

    def texts(self, name: str, field: str) -> list[str] | None:
        """The distinct texts, but the empty one, of a field of the records in a map of lists; None where it has other
        types than these."""
        found = self.batch.column(name) if name in self.batch.schema.names else None
        types = pa.types
        if found is None or not types.is_map(found.type) or not types.is_list(found.type.item_type):
            return None
        records = found.items.values
        if not types.is_struct(records.type) or records.type.get_field_index(field) < 0:
            return None
        return [text for text in pc.unique(records.field(field)).to_pylist() if text]

    def written_files(
        self, name: str, partitions: Collection[str] | None
    ) -> Iterator[tuple[str, Iterable[tuple[str | None, int | None]]]] | None:
        """The partitions in the field of the write stats, with path and size of each file; None where it has other
        types than these.

        Args:
            partitions: those that matter; None for all.
        """
        if name not in self.batch.schema.names:
            return None
        stats = self.batch.column(name)
        types, kind = pa.types, stats.type
        if not (types.is_map(kind) and types.is_list(kind.item_type) and types.is_struct(kind.item_type.value_type)):
            return None
        lists = stats.items
        files = lists.values
        if any(files.type.get_field_index(field) < 0 for field in ("path", "fileSizeInBytes")):
            return None
        # The fields of a struct that is null are null, as it is decoded.
        paths, sizes = files.field("path"), files.field("fileSizeInBytes")
        if not (types.is_string(paths.type) and types.is_int64(sizes.type)):
            return None
        ends = lists.offsets.to_pylist()
        return (
            (partition, zip(paths[first:end].to_pylist(), sizes[first:end].to_pylist(), strict=True))
            for partition, first, end in zip(stats.keys.to_pylist(), ends, ends[1:], strict=False)
            if partitions is None or partition in partitions
        )


def read_commit_columns(data: bytes) -> CommitColumns | None:
    """None where `read_record` has to be asked."""
    try:
        schema, record, memory_max = open_container(data)
        program = compile_schema(parse_schema(schema.decode(), where="the commit"))
        bytes_of_record = np.frombuffer(record, dtype=np.uint8)
        found = decode_unframed(program, bytes_of_record, records_max=1, heap_bytes_max=memory_max)
        if found.batch.num_rows != 1 or found.bytes_used != len(record):
            return None
        found.batch.validate(full=True)  # text may be none
    except (ValueError, IndexError, zlib.error, BrokenFile, Unsupported, TooLarge):
        return None
    return CommitColumns(found.batch)


def _plain(column: pa.Array) -> Any:
    """The value of a field; a map comes out of Arrow as pairs."""
    (value,) = column.to_pylist()
    return dict(value) if isinstance(value, list) else value
