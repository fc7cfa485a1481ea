"""Records beyond the memory budget: sorted by their keys, in a file that has no name.

A stream of Arrow batches. Beside the table's columns, which are null for a delete but for its key,
it holds the kind of each record and, where records are ordered by a column, its ordering value.

Touches: one temporary file for each run, outside of the table; as soon as it is written it has no name, so it is gone
         with the process, however that ends.
Keeps:   1. records come back as they went in, in the order of their keys, and equal keys in the order they came in;
         2. no batch that comes back is larger than was asked for, unless one record is.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.merge.rows.spill_file import SPILL_PREFIX, spilling
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.runs.sorted_run import Places, RunBatch, part_of

_KIND = "lakeward kind"
_ORDERING = "lakeward ordering"


def record_schema(rows: pa.Schema, ordering: pa.DataType | None) -> pa.Schema:
    """The columns of records whose rows have the schema `rows`; `ordering` is None where no column orders them."""
    fields = [*rows, pa.field(_KIND, pa.int8())]
    return pa.schema([*fields, pa.field(_ORDERING, ordering)] if ordering is not None else fields)


def data_records(
    batch: pa.RecordBatch, kinds: npt.NDArray[np.int8], ordering: pa.Array | None, schema: pa.Schema
) -> pa.RecordBatch:
    """Rows as records of the `record_schema`."""
    return _records(batch.columns, kinds, ordering, schema)


def delete_records(
    keys: pa.Array, kinds: npt.NDArray[np.int8], ordering: pa.Array | None, schema: pa.Schema
) -> pa.RecordBatch:
    """Deletes as records of the `record_schema`."""
    columns = [
        keys if field.name == RECORD_KEY_FIELD else pa.nulls(len(keys), field.type)
        for field in schema
        if field.name not in (_KIND, _ORDERING)
    ]
    return _records(columns, kinds, ordering, schema)


def _records(
    columns: list[pa.Array], kinds: npt.NDArray[np.int8], ordering: pa.Array | None, schema: pa.Schema
) -> pa.RecordBatch:
    columns = [*columns, pa.array(kinds)]
    if _ORDERING in schema.names:
        kind = schema.field(_ORDERING).type
        columns.append(pa.nulls(len(kinds), kind) if ordering is None else ordering.cast(kind))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class _SpilledBatch:
    """Records as they are in the file; a row has the first `row_columns` of their columns."""

    batch: pa.RecordBatch
    row_columns: int

    @property
    def keys(self) -> pa.Array:
        return self.batch.column(RECORD_KEY_FIELD)

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        kinds: npt.NDArray[np.int8] = self.batch.column(_KIND).to_numpy()
        return kinds

    @property
    def nbytes(self) -> int:
        return int(self.batch.nbytes)

    @property
    def whole(self) -> pa.RecordBatch:
        return self.batch.select(self.batch.schema.names[: self.row_columns])

    def rows(self, places: Places) -> tuple[pa.RecordBatch, Places]:
        return part_of(self.whole, places)

    def ordering(self, places: Places | None) -> pa.Array | None:
        if _ORDERING not in self.batch.schema.names:
            return None
        values = self.batch.column(_ORDERING)
        return values if places is None else values.take(pa.array(places))


class RunWriter:
    """Writes a run, batch by batch, which must fit memory. Finish it, or close it."""

    def __init__(self, schema: pa.Schema, *, name: str, is_base: bool, folder: str | None) -> None:
        """
        Args:
            schema: the `record_schema` of what is written.
            folder: for the file; None is the system's folder for temporary files.

        Raises `SpillFailed`, as all of this.
        """
        self._name = name
        self._is_base = is_base
        self._folder = folder
        with self._spilling():
            handle, path = tempfile.mkstemp(".arrow", SPILL_PREFIX, folder)
            try:
                os.close(handle)
                self._sink = pa.OSFile(path, "wb")
                self._file = pa.OSFile(path, "rb")
            finally:
                os.unlink(path)
            # A stream may change the dictionaries of a column from batch to batch, a file of Arrow's may not.
            self._writer = pa.ipc.new_stream(self._sink, schema)

    def write(self, records: pa.RecordBatch) -> None:
        """The next records in the order of their keys."""
        with self._spilling():
            self._writer.write_batch(records)

    def finish(self) -> SpilledRun:
        with self._spilling():
            self._writer.close()
            self._sink.close()
        return SpilledRun(self._file, name=self._name, is_base=self._is_base)

    def close(self) -> None:
        """Give up what was written."""
        self._sink.close()
        self._file.close()

    def _spilling(self) -> AbstractContextManager[None]:
        return spilling(f"rows of {self._name}", self._folder)


class SpilledRun:
    """A run in a file, to be read any number of times, one after the other; close it afterwards."""

    def __init__(self, file: pa.NativeFile, *, name: str, is_base: bool) -> None:
        """
        Args:
            file: as `RunWriter` wrote it.
        """
        self._file = file
        self.name = name
        self.is_base = is_base
        self.repeats_keys = True

    @staticmethod
    def of(
        records: Iterable[pa.RecordBatch], schema: pa.Schema, *, name: str, is_base: bool, folder: str | None
    ) -> SpilledRun:
        """A run of these, sorted by their keys. Raises `SpillFailed`."""
        writer = RunWriter(schema, name=name, is_base=is_base, folder=folder)
        try:
            for batch in records:
                writer.write(batch)
            return writer.finish()
        except BaseException:
            writer.close()
            raise

    def batches(self) -> Iterator[RunBatch]:
        for batch in self._read():
            yield _SpilledBatch(batch, batch.schema.get_field_index(_KIND))

    def whole_batches(self) -> Iterator[RunBatch]:
        """The batches, whose rows have all columns of the records."""
        for batch in self._read():
            yield _SpilledBatch(batch, batch.num_columns)

    def _read(self) -> Iterator[pa.RecordBatch]:
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class RawRun:
    """A spilled run whose rows are the records as they are in the file, to be merged with others into one file."""

    run: SpilledRun
    is_base: bool = False
    repeats_keys: bool = True

    @property
    def name(self) -> str:
        return self.run.name

    def batches(self) -> Iterator[RunBatch]:
        return self.run.whole_batches()
