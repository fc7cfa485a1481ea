"""Rows that are filled from rows that they win over: partial updates, column by column.

A value that counts as none (`MergeRules.partial_updates`) is replaced by the one of the next row of the list that the
merge gives (`merge/rules/winner.fold_filled_groups`), until one is a value. What is inside of a value is not looked at.

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

from lakeward.errors import Unsupported
from lakeward.merge.rules.merge_rules import MergeRules, PartialUpdates

Filler = tuple[pa.RecordBatch, npt.NDArray[np.int64]]
"""Rows, and the place of the row that each of them fills."""


def fill_rows(rows: pa.RecordBatch, fillers: Iterable[Filler], rules: MergeRules) -> pa.RecordBatch:
    """The rows, filled by the fillers one after the other; no row is in a filler twice."""
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
