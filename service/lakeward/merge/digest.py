"""A digest of rows that does not depend on their order or on how they were cut into batches.

Each row is hashed to two 64-bit lanes over all of its columns (`rows/row_hash`); the lanes of all rows are summed,
wrapping. A row can be hashed where it is read and bring its lanes along as two more columns: then the digest of the
rows that come out of a merge is that of rows that were read, and what mixed up their columns on the way is found out.

Two streams with equal sums hold the same rows, but for accidents of one in 2**128 or so. It guards against faults, not
adversaries.

Touches: nothing.
Keeps:   1. equal rows have equal digests, in whatever order and batches they come;
         2. rows that were hashed where they were read have the digest of those rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import U64_IN, kernel, types
from lakeward.merge.rows.byte_hash import avalanche
from lakeward.merge.rows.row_hash import RowHashes, Words
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD


@kernel(types.uint64(U64_IN))
def _sum(rows: Words) -> np.uint64:
    total = np.uint64(0)
    for i in range(len(rows)):
        total += avalanche(rows[i])
    return total


_HASHES = (pa.field("lakeward hash one", pa.uint64()), pa.field("lakeward hash two", pa.uint64()))
_HASH_NAMES = [field.name for field in _HASHES]
_FILE_NAME = frozenset((FILE_NAME_FIELD,))


def hashed_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of rows that bring their hashes along."""
    return pa.schema([*schema, *_HASHES])


def with_hashes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their hashes, over every column but the file's name, in the `hashed_schema`."""
    hashes = _hashes(batch)
    first, second = pa.array(hashes.first), pa.array(hashes.second)
    return pa.RecordBatch.from_arrays([*batch.columns, first, second], schema=hashed_schema(batch.schema))


def hash_again(batch: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows, if they bring hashes along with new ones at these places, where values have changed."""
    if _HASH_NAMES[0] not in batch.schema.names:
        return batch
    chosen = np.unique(places)
    changed = with_hashes(batch.take(pa.array(chosen)).drop_columns(_HASH_NAMES))
    columns = list(batch.columns)
    for name in _HASH_NAMES:
        hashes = batch.column(name).to_numpy(zero_copy_only=False).copy()
        hashes[chosen] = changed.column(name).to_numpy(zero_copy_only=False)
        columns[batch.schema.get_field_index(name)] = pa.array(hashes)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


class Digest:
    """The digest of all rows of all batches given to `update`, over every column but `without`."""

    def __init__(self, *, without: Collection[str] = _FILE_NAME) -> None:
        self._without = frozenset(without)
        self._first = 0
        self._second = 0
        self.rows = 0

    def take_hashes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add rows by the hashes that they brought along; the rows without these."""
        first, second = (batch.column(name).to_numpy(zero_copy_only=False) for name in _HASH_NAMES)
        self._add(RowHashes(first, second))
        self.rows += batch.num_rows
        return batch.drop_columns(_HASH_NAMES)

    def update(self, batch: pa.RecordBatch) -> None:
        self._add(_hashes(batch, without=self._without))
        self.rows += batch.num_rows

    @property
    def hexdigest(self) -> str:
        return f"{self._first:016x}{self._second:016x}"

    def _add(self, rows: RowHashes) -> None:
        with np.errstate(over="ignore"):  # unsigned arithmetic wraps by intent; only uncompiled kernels warn
            self._first = (self._first + int(_sum(rows.first))) % 2**64
            self._second = (self._second + int(_sum(rows.second))) % 2**64


def sum_of_digests(hexdigests: Iterable[str]) -> str:
    """The digest of the rows of all of them."""
    first, second = 0, 0
    for each in hexdigests:
        first, second = (first + int(each[:16], 16)) % 2**64, (second + int(each[16:], 16)) % 2**64
    return f"{first:016x}{second:016x}"


def _hashes(batch: pa.RecordBatch, *, without: Collection[str] = _FILE_NAME) -> RowHashes:
    chosen = [array for name, array in zip(batch.schema.names, batch.columns, strict=True) if name not in without]
    return RowHashes.of(batch.num_rows, chosen)
