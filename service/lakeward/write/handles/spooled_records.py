"""Rows and deletes of a target that wait to be merged: a merge that began by the order of a base file, and found it
wrong, reads them once more, and what they came from can be read but once.

Touches: temporary files outside of the table, where more waits than a little; they have no name, so they are gone with
         the process, however that ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from lakeward.merge.rows.spill_file import SPILL_PREFIX, spilling
from lakeward.merge.rules.tombstones import Tombstones

_WHAT = "rows of a write"
_KEY, _ORDERING = "key", "ordering"


class SpooledRecords:
    """Add, `finish`, and then ask for the `parts`, any number of times; `close` it afterwards."""

    def __init__(self, schema: pa.Schema, ordering_type: pa.DataType | None, *, memory_bytes: int) -> None:
        """
        Args:
            schema: of the rows.
            ordering_type: of the values that deletes have; None: they have none.
            memory_bytes: so much waits in memory, of rows and of deletes each.
        """
        fields = [pa.field(_KEY, pa.string()), pa.field(_ORDERING, ordering_type or pa.null())]
        self._rows = _Spool(schema, memory_bytes)
        self._deletes = _Spool(pa.schema(fields), memory_bytes)

    def add_rows(self, rows: pa.RecordBatch) -> None:
        self._rows.add(rows)

    def add_deletes(self, deletes: Tombstones) -> None:
        values = deletes.ordering
        if values is None:
            values = pa.nulls(len(deletes.keys), self._deletes.schema.field(_ORDERING).type)
        self._deletes.add(pa.RecordBatch.from_arrays([deletes.keys, values], schema=self._deletes.schema))

    def finish(self) -> None:
        """No more will come."""
        self._rows.finish()
        self._deletes.finish()

    def parts(self) -> Iterator[pa.RecordBatch | Tombstones]:
        """The rows, then the deletes."""
        yield from self._rows.batches()
        for batch in self._deletes.batches():
            has_values = not pa.types.is_null(self._deletes.schema.field(_ORDERING).type)
            yield Tombstones(batch.column(_KEY), batch.column(_ORDERING) if has_values else None)

    def close(self) -> None:
        self._rows.close()
        self._deletes.close()


class _Spool:
    def __init__(self, schema: pa.Schema, memory_bytes: int) -> None:
        self.schema = schema
        with spilling(_WHAT, None):
            self._file: IO[bytes] = tempfile.SpooledTemporaryFile(memory_bytes, prefix=SPILL_PREFIX)  # noqa: SIM115 - closed by `close`
            self._writer = pa.ipc.new_stream(self._file, schema)

    def add(self, batch: pa.RecordBatch) -> None:
        with spilling(_WHAT, None):
            self._writer.write_batch(batch)

    def finish(self) -> None:
        with spilling(_WHAT, None):
            self._writer.close()
            self._file.flush()

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)

    def close(self) -> None:
        self._file.close()
