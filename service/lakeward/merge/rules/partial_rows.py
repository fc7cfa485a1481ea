"""Rows that are filled from rows that they win over: partial updates, column by column.

A value that counts as none (`MergeRules.partial_updates`) is replaced by the one of the next row of the list that the
merge gives (`merge/rules/winner.fold_filled_groups`), until one is a value. What is inside of a value is not looked at.
Whether a row of a partial log block has a column the value does not say, since a null is one: so rows bring along, in
a column of their own, the number of their block's columns in `MergeRules.in_part`, or 0 where they have all columns.

Touches: nothing.
Keeps:   1. the results are those of `merge/rules/reference`;
         2. a value of which it is not known whether Hudi takes it for none is `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.merge.rules.merge_rules import MergeRules, PartialUpdates

Filler = tuple[pa.RecordBatch, npt.NDArray[np.int64]]
"""Rows, and the place of the row that each of them fills."""


_PART = pa.field("lakeward part", pa.int32())


def part_schema(schema: pa.Schema, rules: MergeRules) -> pa.Schema:
    """The schema of rows that bring along which columns they have, where some of the slice's have not all."""
    return pa.schema([*schema, _PART]) if rules.in_part else schema


def with_part(rows: pa.RecordBatch, number: int, rules: MergeRules) -> pa.RecordBatch:
    """The rows in the `part_schema`."""
    if not rules.in_part:
        return rows
    numbers = pa.array(np.full(rows.num_rows, number, dtype=np.int32))
    return pa.RecordBatch.from_arrays([*rows.columns, numbers], schema=part_schema(rows.schema, rules))


def fill_rows(rows: pa.RecordBatch, fillers: Iterable[Filler], rules: MergeRules) -> pa.RecordBatch:
    """The rows, filled by the fillers one after the other; no row is in a filler twice. They come out without what
    `with_part` gave them."""
    if rules.in_part:
        return _fill_parts(rows, fillers, rules)
    columns = list(rows.columns)
    for filler, targets in fillers:
        for number, (column, other) in enumerate(zip(columns, filler.columns, strict=True)):
            lacks = _is_none(column, rules, rows.schema.names[number])
            if lacks is None:
                continue
            chosen = np.flatnonzero(lacks[targets])
            if len(chosen):
                places = np.arange(len(column), dtype=np.int64)
                places[targets[chosen]] = len(column) + chosen
                columns[number] = pa.concat_arrays([column, other]).take(pa.array(places))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _fill_parts(rows: pa.RecordBatch, fillers: Iterable[Filler], rules: MergeRules) -> pa.RecordBatch:
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    del columns[_PART.name]
    # For each column that not all parts have: which parts lack it, and then which rows.
    lacking = {name: np.array([False, *(name not in part for part in rules.in_part)]) for name in columns}
    lacking = {name: parts for name, parts in lacking.items() if parts.any()}
    lacks = {name: parts[_part_of(rows)] for name, parts in lacking.items()}
    for filler, targets in fillers:
        part = _part_of(filler)
        for name, parts in lacking.items():
            chosen = np.flatnonzero(lacks[name][targets] & ~parts[part])
            if len(chosen):
                places = np.arange(rows.num_rows, dtype=np.int64)
                places[targets[chosen]] = rows.num_rows + chosen
                both = pa.concat_arrays([columns[name], filler.column(name)])
                columns[name] = both.take(pa.array(places))
                lacks[name][targets[chosen]] = False
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema.remove(len(columns)))


def _part_of(rows: pa.RecordBatch) -> npt.NDArray[np.int32]:
    numbers: npt.NDArray[np.int32] = rows.column(_PART.name).to_numpy()
    return numbers


def _is_none(values: pa.Array, rules: MergeRules, name: str) -> npt.NDArray[np.bool_] | None:
    """Which values count as none; None where no value does."""
    kind = values.type
    if rules.partial_updates is PartialUpdates.IGNORE_DEFAULTS:
        found = values.is_null() if values.null_count else None
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = pc.equal(values, rules.unavailable).fill_null(False)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        assert rules.unavailable is not None
        if pc.any(pc.equal(values, rules.unavailable.encode())).as_py():
            raise Unsupported(
                f"The column {name} holds bytes that say that a value is unavailable.",
                why="Whether Hudi takes them for that was not tried.",
                remedy="Compact this file group with Hudi itself.",
            )
        found = None
    else:
        found = None
    return None if found is None else np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
