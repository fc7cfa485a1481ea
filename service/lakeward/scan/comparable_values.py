"""Columns as they are compared by value: equal values have equal bytes.

    NaN, of whatever bits      one NaN: it equals itself
    -0.0                       0.0
    a map                      its entries by their keys; Hudi keeps no order of them

Touches: nothing.
Keeps:   1. values that are equal have equal bytes, nested ones too, and others have not.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def comparable(array: pa.Array) -> pa.Array:
    """The values, of the same type."""
    kind = array.type
    if pa.types.is_floating(kind):
        # Adding zero makes 0.0 of -0.0, and leaves all other values as they are.
        plain = pc.add(array, pa.scalar(0, kind))
        return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), kind), plain)
    if pa.types.is_struct(kind):
        fields = [comparable(array.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=_nulls(array))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return type(array).from_arrays(_offsets(array), comparable(array.flatten()), type=kind, mask=_nulls(array))
    if pa.types.is_map(kind):
        return _with_sorted_entries(array)
    return array


def _with_sorted_entries(array: pa.MapArray) -> pa.Array:
    entry = pa.struct([pa.field("key", array.type.key_type, False), pa.field("value", array.type.item_type)])
    lists = array.cast(pa.list_(entry))
    offsets, entries = _offsets(lists), lists.flatten()
    keys, items = entries.field(0), comparable(entries.field(1))
    parents = np.repeat(np.arange(len(array)), np.diff(offsets.to_numpy()))
    order = pc.sort_indices(pa.table({"parent": parents, "key": keys}), [("parent", "ascending"), ("key", "ascending")])
    return pa.MapArray.from_arrays(offsets, keys.take(order), items.take(order), type=array.type, mask=_nulls(array))


def _offsets(lists: pa.Array) -> pa.Array:
    """Offsets into the flattened elements; a null has none."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    kind = pa.int64() if pa.types.is_large_list(lists.type) else pa.int32()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), kind)


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def plain_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values as one array without a dictionary."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
