"""Rows of an older schema in the table's schema: columns go by name, and values are promoted where types differ.

Touches: nothing.
Keeps:   no value changes except by a promotion that is listed here; what is not listed is refused.
"""

from __future__ import annotations

import pyarrow as pa

from lakeward.errors import Unsupported


def project(
    batch: pa.RecordBatch, target: pa.Schema, *, where: str = "the rows", naive_is_utc: bool = False
) -> pa.RecordBatch:
    """The columns of `target`, by name: missing ones null, others dropped, values promoted where types differ.

    `naive_is_utc` is for files with INT96 timestamps, which are instants without saying so.
    """
    promotion = _Promotion(where, naive_is_utc)
    columns = []
    for column in target:
        index = batch.schema.get_field_index(column.name)
        if index < 0:
            columns.append(pa.nulls(batch.num_rows, column.type))
        else:
            columns.append(promotion.array(batch.column(index), column.type, column.name))
    return pa.RecordBatch.from_arrays(columns, schema=target)


class _Promotion:
    """Brings arrays to their target types, children included; `where` and the path are for errors."""

    def __init__(self, where: str, naive_is_utc: bool) -> None:
        self._where = where
        self._naive_is_utc = naive_is_utc

    def array(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        source = array.type
        if source == target:
            return array
        if pa.types.is_dictionary(source):
            return self.array(array.dictionary_decode(), target, path)
        if pa.types.is_struct(target) and pa.types.is_struct(source):
            return self._struct(array, target, path)
        if pa.types.is_list(target) and pa.types.is_list(source):
            # The element goes by place, not by name: it is `element` in 3-level lists and `array` in 2-level ones.
            return _with_children(array, target, [self.array(array.values, target.value_type, f"{path}.element")])
        if pa.types.is_map(target) and pa.types.is_map(source):
            keys = self.array(array.keys, target.key_type, f"{path}.key")
            items = self.array(array.items, target.item_type, f"{path}.value")
            entries = pa.StructArray.from_arrays(
                [keys, items], fields=[pa.field("key", target.key_type, nullable=False), target.item_field]
            )
            return _with_children(array, target, [entries])
        try:
            promoted = self._leaf(array, source, target)
        except pa.ArrowException as lossy:
            raise self._refused(source, target, path, f"a value does not fit: {lossy}") from None
        if promoted is None:
            raise self._refused(source, target, path, "this change of type is not supported")
        return promoted

    def _struct(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        children = []
        for child in target:
            index = array.type.get_field_index(child.name)
            if index < 0:
                children.append(pa.nulls(len(array), child.type))
            else:
                children.append(self.array(array.field(index), child.type, f"{path}.{child.name}"))
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)

    def _leaf(self, array: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array | None:
        """The values as Hudi would rewrite them, or None when no test has proven that Arrow does the same."""
        types = pa.types
        if types.is_signed_integer(source):
            # Spark's row writer annotates byte and short; in Avro both are int.
            if types.is_signed_integer(target) and target.bit_width >= source.bit_width:
                return array.cast(target)
            if types.is_floating(target):
                return array.cast(target, safe=False)  # to the nearest, as Java's conversion does
            if types.is_string(target) or types.is_decimal(target):
                return array.cast(target)
            return None
        if types.is_float32(source) and types.is_float64(target):
            # Through the shortest decimal text: 1.1f becomes 1.1, not 1.10000002384185791015625.
            return array.cast(pa.string()).cast(target)
        if types.is_binary(source) and types.is_string(target):
            return array.cast(target)
        if types.is_string(source) and types.is_binary(target):
            return array.cast(target)
        if types.is_decimal(source) and types.is_decimal(target) and target.scale >= source.scale:
            return array.cast(target)
        if not (types.is_timestamp(source) and types.is_timestamp(target)):
            return None
        if (source.tz is None) == (target.tz is None) or (source.tz is None and self._naive_is_utc):
            return array.cast(target)
        return None

    def _refused(self, source: pa.DataType, target: pa.DataType, path: str, why: str) -> Unsupported:
        return Unsupported(
            f"The column {path} of {self._where} cannot be read as {target}.",
            why=f"It was written as {source}, and {why}.",
            remedy="Compact this table with Hudi itself.",
        )


def _with_children(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """The same lists or maps over other children: validity and offsets are shared, not copied."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        target, len(array), [validity, offsets], array.null_count, offset=array.offset, children=children
    )
