"""Rows of the input as keyed rows: brought into the form of the table, with their keys and their place in the input.

Touches: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import UsageError
from lakeward.format.avro.schema import block_schema
from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD
from lakeward.write.input.input_schema import conform
from lakeward.write.keyed_rows import keyed_schema
from lakeward.write.keys.key_generator import KeyGenerator


@dataclass(frozen=True, slots=True)
class Keying:
    """Travels to tasks."""

    keys: KeyGenerator
    schema: str
    """Avro JSON of the rows that are written."""
    carries_columns: bool
    """False for a delete, which uses keys alone."""
    ordering_fields: tuple[str, ...] = ()
    """Fields in which a row must have a value, unless it deletes."""

    @property
    def columns(self) -> pa.Schema:
        """The columns that go with the keys."""
        return block_schema(self.schema, where="the table") if self.carries_columns else pa.schema([])

    def keyed(self, batch: pa.RecordBatch, *, rows_before: int, order: int) -> pa.RecordBatch:
        """The rows in `keyed_schema(columns)`.

        Raises `UsageError` for rows that have no key, or null where that may not be, and `Unsupported` for types.

        Args:
            rows_before: rows that came before these, for errors.
            order: of the first row; see `keyed_rows.ORDER`.
        """
        schema = self.schema if self.carries_columns else _part(self.schema, self.keys.columns & {*batch.schema.names})
        rows = conform(batch, schema, rows_before=rows_before)
        keys, partitions = self.keys.keys(_beside(rows, batch, self.keys.columns), rows_before=rows_before)
        if self.carries_columns:
            _check_ordering(rows, self.ordering_fields, rows_before)
        columns = rows.columns if self.carries_columns else []
        orders = pa.array(np.arange(order, order + batch.num_rows, dtype=np.int64))
        return pa.RecordBatch.from_arrays([keys, partitions, *columns, orders], schema=keyed_schema(self.columns))


def _check_ordering(rows: pa.RecordBatch, fields: tuple[str, ...], rows_before: int) -> None:
    for field in fields:
        is_missing = rows.column(field).is_null()
        if IS_DELETED_FIELD in rows.schema.names:
            is_missing = pc.and_not(is_missing, pc.fill_null(rows.column(IS_DELETED_FIELD), False))
        if pc.any(is_missing).as_py():
            row = rows_before + pc.index(is_missing, pa.scalar(True)).as_py() + 1
            raise UsageError(
                f"Row {row} has no value in {field}, by which the table orders rows of a key.",
                why="Hudi's queries fail where it meets a row of its key that has one: the two cannot be compared.",
                remedy="Fill the value in, or leave the row out.",
            )


def _part(schema: str, names: Container[str]) -> str:
    record = json.loads(schema)
    record["fields"] = [field for field in record["fields"] if field["name"] in names]
    return json.dumps(record)


def _beside(rows: pa.RecordBatch, batch: pa.RecordBatch, names: frozenset[str]) -> pa.RecordBatch:
    """The rows, and those columns of the input that keys are made of and the table does not keep."""
    for name in sorted(names & {*batch.schema.names} - {*rows.schema.names}):
        rows = rows.append_column(name, batch.column(name))
    return rows
