"""Deletes of a write as records of a log: keys, and the ordering values by which they win or lose.

    operation `delete`         no value: the delete wins over whatever is there
    the key leaves the group   no value: the row that it leaves for has won already
    by a column of the row     the row's own value where the table uses event time, else none

Touches: nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.base.named_key import named_key
from lakeward.merge.rules.ordering_codes import join_fields, ordering_values
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.write.handles.incoming_rows import leaving
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.request import WriteOperation
from lakeward.write.target import WriteContext

_BY_KEY = ", or delete the key with the operation delete"


def tombstones_of(gone: pa.RecordBatch, context: WriteContext, ordering_type: pa.DataType | None) -> Tombstones:
    """The deletes of a batch in `handled_schema`. Raises `Unsupported` where several fields order the table, and a
    delete has no value in one of them, which Hudi 1.2.0 writes and cannot read; and for a key that leaves where such a
    delete goes into a native log, in which Hudi reads 0 for a value that is not there."""
    keys = gone.column(RECORD_KEY)
    if ordering_type is None or context.operation is WriteOperation.DELETE:
        return Tombstones(keys, None)
    fields = context.rules.ordering_fields
    ordering = ordering_values(gone, fields)
    if ordering is None or not pa.types.is_struct(ordering.type):
        return Tombstones(keys, ordering)
    leaves = pa.array(leaving(gone))
    if context.has_native_logs and pc.any(leaves).as_py():
        raise Unsupported(
            f"The key {named_key(keys.filter(leaves)[0].as_py())} cannot leave its partition.",
            why="Several fields order the table, and Hudi reads a delete without values in a native log as one that "
            "has 0 in each.",
            remedy="Write with --no-update-partition-path: then rows stay in the partition that has their key.",
        )
    for name, values in zip(fields, ordering.flatten(), strict=True):
        missing = pc.and_not(values.is_null(), leaves)
        if pc.any(missing).as_py():
            key = keys.filter(missing)[0].as_py()
            raise Unsupported(
                f"The delete of the key {named_key(key)} has no value in {name}.",
                why="Where several fields order a table a log cannot hold such a delete.",
                remedy=f"Give it a value in {name}{'' if context.has_native_logs else _BY_KEY}.",
            )
    return Tombstones(keys, join_fields([gone.column(name) for name in fields], fields, mask=leaves))
