"""Deletes of a write as records of a log: keys, and the ordering values by which they win or lose.

    operation `delete`       no value: the delete wins over whatever is there
    by a column of the row   the row's own value where the table goes by event time, else none

Touches: nothing.
"""

from __future__ import annotations

import pyarrow as pa

from lakeward.errors import Unsupported
from lakeward.merge.rules.ordering import ordering_values
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.request import WriteOperation
from lakeward.write.target import WriteContext

_BY_KEY = ", or delete the key with the operation delete"


def tombstones_of(gone: pa.RecordBatch, context: WriteContext, ordering_type: pa.DataType | None) -> Tombstones:
    """The deletes of a batch in `keyed_schema`. Raises `Unsupported` where several fields order the table and a delete
    has no value in one of them, which Hudi 1.2.0 writes and cannot read."""
    keys = gone.column(RECORD_KEY)
    if ordering_type is None or context.operation is WriteOperation.DELETE:
        return Tombstones(keys, None)
    fields = context.rules.ordering_fields
    ordering = ordering_values(gone, fields)
    if ordering is not None and pa.types.is_struct(ordering.type):
        for name, values in zip(fields, ordering.flatten(), strict=True):
            if values.null_count:
                key = keys.filter(values.is_null())[0].as_py()
                raise Unsupported(
                    f"The delete of the key {key!r} has no value in {name}.",
                    why="Where several fields order a table a log cannot hold such a delete.",
                    remedy=f"Give it a value in {name}{'' if context.has_native_logs else _BY_KEY}.",
                )
    return Tombstones(keys, ordering)
