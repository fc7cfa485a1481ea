"""Record keys of tables whose rows carry none (`hoodie.populate.meta.fields=false`), made of the table's key fields.

    one field         its value as text
    several fields    first:value,second:value, with __null__ for a null and __empty__ for an empty text

Files have the column of the key all the same, and it holds null, or an empty text where Spark's row writer wrote it. So
rows get their keys where they are read, are merged by them as others are, and are written without them.

Touches: nothing.
Keeps:   1. a key is the one that Hudi's readers make of the row, and its writers put into delete blocks;
         2. a row of which Hudi makes no key, since its fields hold nothing, has none here.
Source:  Hudi 1.2.0, KeyGenerator.constructRecordKey and RecordContext.virtualKeyExtractor; tables of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD

_NULL = "__null__"
_EMPTY = "__empty__"


def check_keys_can_be_made(blocks: Iterable[LogBlock], key_fields: Sequence[str]) -> None:
    """Raise `Unsupported` for blocks of rows without keys in which the key fields may not be what they were."""
    for block in blocks:
        if key_fields and block.type is BlockType.HFILE_DATA:
            raise Unsupported(
                f"{block.where} is an HFile block of a table whose rows carry no keys.",
                why="Whether it has its rows' key fields whole was not tried.",
                remedy="Write logs with hoodie.logfile.data.block.format=avro, and the rows of these logs again.",
            )


def with_made_keys(batch: pa.RecordBatch, key_fields: Sequence[str]) -> pa.RecordBatch:
    """The rows with the keys that their `key_fields`, text or whole numbers, make; as they are where there are none."""
    return _with_keys(batch, made_keys(batch, key_fields)) if key_fields else batch


def without_made_keys(batch: pa.RecordBatch, key_fields: Sequence[str]) -> pa.RecordBatch:
    """The rows as they are written: without the keys that `with_made_keys` gave them."""
    return _with_keys(batch, pa.nulls(batch.num_rows, pa.string())) if key_fields else batch


def made_keys(batch: pa.RecordBatch, key_fields: Sequence[str]) -> pa.Array:
    """The keys, null where the fields hold nothing."""
    values = [batch.column(name).cast(pa.string()) for name in key_fields]
    if len(values) == 1:
        return pc.if_else(pc.equal(values[0], ""), None, values[0])
    parts, holds_something = [], pa.array([False] * batch.num_rows)
    for name, value in zip(key_fields, values, strict=True):
        filled = value.fill_null(_NULL)
        parts.append(pc.binary_join_element_wise(name, pc.if_else(pc.equal(filled, ""), _EMPTY, filled), ":"))
        holds_something = pc.or_(holds_something, pc.not_equal(value, "").fill_null(False))
    return pc.if_else(holds_something, pc.binary_join_element_wise(*parts, ","), None)


def _with_keys(batch: pa.RecordBatch, keys: pa.Array) -> pa.RecordBatch:
    columns = list(batch.columns)
    columns[batch.schema.get_field_index(RECORD_KEY_FIELD)] = keys
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
