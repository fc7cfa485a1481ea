"""What the merge wants to know of log records before it compares them: keys, deletes by a column, ordering of deletes.

Touches: nothing.
Keeps:   1. a record without a key is `BrokenFile`, for it could be merged with nothing;
         2. a column that deletes, or an ordering value, of a type that Hudi would compare otherwise is `Unsupported`;
         3. so is a data record with the table's own mark of deletion: Hudi's writers write a delete for it, and
            Hudi 1.2.0 takes one in a data block for a row like others (decision 0042).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.merge.rules.merge_rules import (
    DELETING_OPERATIONS,
    IS_DELETED_FIELD,
    OPERATION_FIELD,
    OPERATIONS,
    RECORD_KEY_FIELD,
    MergeRules,
)
from lakeward.merge.rules.ordering_codes import join_fields
from lakeward.merge.rules.ordering_type import ordering_wrappers


def record_keys(batch: pa.RecordBatch, *, source: str) -> pa.Array:
    """The record keys of a batch. Raises `BrokenFile` where one is missing."""
    keys = batch.column(RECORD_KEY_FIELD)
    if keys.null_count:
        raise keyless(source)
    return keys


def find_deleted(batch: pa.RecordBatch, rules: MergeRules) -> npt.NDArray[np.bool_]:
    """Which data records a column declares deleted."""
    deleted = np.zeros(batch.num_rows, dtype=np.bool_)
    position = batch.schema.get_field_index(IS_DELETED_FIELD)
    if position >= 0:
        flags = batch.column(position)
        if not pa.types.is_boolean(flags.type):
            raise Unsupported(
                f"The column {IS_DELETED_FIELD} has the type {flags.type}.",
                why="Only a boolean is understood as a mark of deletion.",
                remedy="Compact this table with Hudi itself.",
            )
        deleted |= flags.fill_null(False).to_numpy(zero_copy_only=False)
    position = batch.schema.get_field_index(OPERATION_FIELD)
    if position >= 0:
        deleted |= _deletes(batch.column(position))
    if rules.delete_field is not None and rules.delete_marker is not None:
        position = batch.schema.get_field_index(rules.delete_field)
        if position >= 0:
            _check_unmarked(batch.column(position), rules.delete_field, rules.delete_marker)
    return deleted


def _deletes(operations: pa.Array) -> npt.NDArray[np.bool_]:
    known = pa.array([*OPERATIONS, None], pa.string())
    others = operations.filter(pc.invert(pc.is_in(operations, value_set=known)))
    if len(others):
        raise Unsupported(
            f"A log record has the operation {others[0].as_py()!r} in {OPERATION_FIELD}.",
            why=f"Known are {', '.join(OPERATIONS)}; Hudi fails on others.",
            remedy="Find out which writer put it there.",
        )
    found = pc.is_in(operations, value_set=pa.array(DELETING_OPERATIONS, pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _check_unmarked(values: pa.Array, name: str, marker: str) -> None:
    kind = values.type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise Unsupported(
            f"The delete field {name} has the type {kind}.",
            why="Its values have no text of their own that could be compared with the delete marker.",
            remedy="Compact this table with Hudi itself.",
        )
    if pc.any(pc.equal(values.cast(pa.string()), marker)).as_py():
        raise Unsupported(
            f"A log record that is no delete has {marker!r} in {name}, the table's mark of deletion.",
            why="Hudi's writers write a delete for such a row; Hudi 1.2.0's readers return the row where one did not.",
            remedy="Delete its key with a Hudi writer, and compact this file group with Hudi itself.",
        )


def delete_ordering(
    ordering: pa.Array | None, kind: pa.DataType | None, *, wrappers: Sequence[str], rows: int, source: str
) -> pa.Array | None:
    """The ordering values of a delete block as values of the `ordering_type`; None where all are the default.

    `wrappers` has the class of the values of each ordering field.
    """
    if kind is None or ordering is None or ordering.null_count == rows:
        return None
    assert len(ordering) == rows
    fields = list(kind) if pa.types.is_struct(kind) else []
    if len(wrappers) != max(1, len(fields)):
        raise _foreign_ordering(source, f"it holds values of {len(wrappers)} fields where there are {len(fields) or 1}")
    if not fields:
        return _as_column(ordering, kind, wrappers[0], source)
    columns = [
        _as_column(column, field.type, wrapper, source)
        for column, field, wrapper in zip(ordering.flatten(), fields, wrappers, strict=True)
    ]
    return join_fields(columns, [field.name for field in fields], mask=ordering.is_null())


def _as_column(ordering: pa.Array, kind: pa.DataType, wrapper: str, source: str) -> pa.Array:
    expected = ordering_wrappers(kind)
    assert expected is not None
    if wrapper not in expected:
        raise _foreign_ordering(source, f"it holds {wrapper} where the column is {kind}")
    try:
        if pa.types.is_timestamp(kind) and pa.types.is_integer(ordering.type):
            ordering = ordering.cast(pa.timestamp("us", kind.tz))
        return ordering.cast(kind)
    except pa.ArrowInvalid as error:
        raise _foreign_ordering(source, str(error)) from error


def keyless(source: str) -> BrokenFile:
    return BrokenFile(
        f"A record of {source} has no record key.",
        why="Without one it cannot be merged.",
        remedy="Compact this table with Hudi itself.",
    )


def _foreign_ordering(source: str, why: str) -> Unsupported:
    return Unsupported(
        f"The ordering values of {source} are not values of the ordering column.",
        why=f"{why[:1].upper()}{why[1:]}.",
        remedy="Compact this table with Hudi itself.",
    )
