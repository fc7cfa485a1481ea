"""Rows of an older schema in the table's schema: columns match by name, and values are promoted where types differ.

Rows that were written before a field was added have in it what Hudi's own compaction gives them, which is not what one
would think (docs/decisions/0049-what-a-column-holds-before-it-was-added.md has what each of Hudi's readers does):

    rows of                      a field that may be null               one that may not
    Avro log blocks              its default, which mostly is null      its default; without one they are refused
    Parquet files and blocks     null, whatever its default             zero

Zero is false, 0, or the first moment of 1970. Text, bytes, decimals, structs, lists and maps have none, and Hudi makes
no value of the default of a struct or decimal: its readers and compaction fail there, and so such rows are refused.

Touches: nothing.
Keeps:   1. no value changes except by a promotion that is listed here; what is not listed is refused;
         2. a field that may not be null is never null for want of being in the file.
"""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.format.avro.schema import DEFAULT_KEY, NESTED_FLOATS_KEY, REQUIRED_KEY

# Older days are of another calendar to some writers, and before years of more digits Java writes a sign.
_FIRST_DAY = datetime.date(1582, 10, 15).toordinal() - datetime.date(1970, 1, 1).toordinal()
_LAST_DAY = datetime.date.max.toordinal() - datetime.date(1970, 1, 1).toordinal()


def project(
    batch: pa.RecordBatch,
    target: pa.Schema,
    *,
    where: str = "the rows",
    naive_is_utc: bool = False,
    from_avro: bool = False,
    is_partial: bool = False,
) -> pa.RecordBatch:
    """The columns of `target`, by name: missing ones filled in, others dropped, values promoted where types differ.

    Args:
        naive_is_utc: for files with INT96 timestamps, which are instants without saying so.
        from_avro: the rows were Avro records, where defaults count.
        is_partial: what the rows do not have another row has: null stands for it, whatever the schema says.
    """
    promotion = _Promotion(where, naive_is_utc, from_avro)
    columns = []
    for column in target:
        index = batch.schema.get_field_index(column.name)
        promotion.widens_nested_floats = from_avro or NESTED_FLOATS_KEY not in (column.metadata or {})
        if index < 0 and is_partial:
            columns.append(pa.nulls(batch.num_rows, column.type))
        elif index < 0:
            columns.append(promotion.missing(column, batch.num_rows, column.name))
        else:
            columns.append(promotion.array(batch.column(index), column.type, column.name))
    return pa.RecordBatch.from_arrays(columns, schema=target)


class _Promotion:
    """Brings arrays to their target types, children included; `where` and the path are for errors."""

    def __init__(self, where: str, naive_is_utc: bool, from_avro: bool) -> None:
        self._where = where
        self._naive_is_utc = naive_is_utc
        self._from_avro = from_avro
        self._depth = 0
        """How many lists and maps the arrays lie in."""
        self.widens_nested_floats = True

    def array(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        source = array.type
        if source == target:
            return array
        if pa.types.is_dictionary(source):
            return self.array(array.dictionary_decode(), target, path)
        if pa.types.is_dictionary(target):
            return self.array(array, target.value_type, path).dictionary_encode()
        if pa.types.is_struct(target) and pa.types.is_struct(source):
            return self._struct(array, target, path)
        if pa.types.is_list(target) and pa.types.is_list(source):
            # The element is matched by place, not by name: it is `element` in 3-level lists and `array` in 2-level
            # ones.
            return _with_children(array, target, [self._inside(array.values, target.value_type, f"{path}.element")])
        if pa.types.is_map(target) and pa.types.is_map(source):
            keys = self._inside(array.keys, target.key_type, f"{path}.key")
            items = self._inside(array.items, target.item_type, f"{path}.value")
            entries = pa.StructArray.from_arrays(
                [keys, items], fields=[pa.field("key", target.key_type, nullable=False), target.item_field]
            )
            return _with_children(array, target, [entries])
        try:
            promoted = self._leaf(array, source, target)
        except pa.ArrowException as lossy:
            raise self._refused(path, source=source, target=target, why=f"a value does not fit: {lossy}") from None
        if promoted is None:
            raise self._refused(path, source=source, target=target, why="this change of type is not supported")
        return promoted

    def _struct(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        children = []
        for child in target:
            index = array.type.get_field_index(child.name)
            if index < 0:
                children.append(self.missing(child, len(array), f"{path}.{child.name}"))
            else:
                children.append(self.array(array.field(index), child.type, f"{path}.{child.name}"))
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)

    def _inside(self, children: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        """Children of a list or map."""
        self._depth += 1
        found = self.array(children, target, path)
        self._depth -= 1
        return found

    def missing(self, column: pa.Field, rows: int, path: str) -> pa.Array:
        """The values of a field that the rows were written without."""
        if pa.types.is_dictionary(column.type):
            return self.missing(column.with_type(column.type.value_type), rows, path).dictionary_encode()
        metadata = column.metadata or {}
        default = metadata.get(DEFAULT_KEY) if self._from_avro else None
        if rows == 0 or (default is None and REQUIRED_KEY not in metadata):
            return pa.nulls(rows, column.type)
        if default is not None:
            value = _default(json.loads(default), column.type)
        else:
            value = None if self._from_avro else _zero(column.type)
        if value is None:
            raise Unsupported(
                f"The column {path} is not in {self._where}, and there is nothing to put in its place.",
                why=f"It was added as {column.type} that may not be null, or with a default that Hudi cannot read: "
                "its own queries and compaction fail there, too.",
                remedy="Let a writer make the column nullable, with null as its default.",
            )
        return pa.repeat(value, rows)

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
            if self._depth and not self.widens_nested_floats:
                return None
            return _by_digits(array)
        if types.is_binary(source) and types.is_string(target):
            return array.cast(target)
        if types.is_fixed_size_binary(source) and types.is_binary(target):
            return array.cast(target)
        if types.is_date32(source) and types.is_string(target):
            days = pc.min_max(array.cast(pa.int32()))
            if days["min"].is_valid and not (days["min"].as_py() >= _FIRST_DAY and days["max"].as_py() <= _LAST_DAY):
                raise pa.ArrowInvalid("a day lies before 1582-10-15 or after 9999-12-31")
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

    def _refused(self, path: str, *, source: pa.DataType, target: pa.DataType, why: str) -> Unsupported:
        return Unsupported(
            f"The column {path} of {self._where} cannot be read as {target}.",
            why=f"It was written as {source}, and {why}.",
            remedy="Compact this table with Hudi itself.",
        )


def _by_digits(floats: pa.Array) -> pa.Array:
    """Floats as doubles of the same digits: 1.1f becomes 1.1, not 1.10000002384185791015625.

    Hudi takes the digits that Java writes. From Java 19 on these are the fewest that mean the float, as here;
    before, Java writes 3.3554448E7 where 3.355445E7 would do. Where the two differ readers of one table see different
    doubles, and so there is no right one: ArrowInvalid. (Java before 19: FloatingDecimal, held against Java 17.)
    """
    doubles = floats.cast(pa.string()).cast(pa.float64())
    values = np.abs(floats.drop_null().to_numpy(zero_copy_only=False))
    exponents, fractions = values.view(np.uint32) >> 23, values.view(np.uint32) & 0x7FFFFF
    is_sure = (exponents > 0) & (fractions != 0) & (values < 2.0**25)
    is_sure |= (values == 0) | ((values >= 2.0**-26) & (values < 2.0**25)) | (values >= np.finfo(np.float32).max)
    is_sure |= np.isnan(values)
    for_large = np.flatnonzero(~is_sure & (values >= 2.0**25) & (values < 2.0**62))
    if len(for_large):
        # All digits of the whole number, but for those that the bits of a float do not reach, by the power of two.
        digits = np.floor((exponents[for_large].astype(np.int64) - 152) * np.log10(2)).astype(np.int64).clip(0)
        steps = 10**digits
        whole = (values[for_large].astype(np.int64) + steps // 2) // steps * steps
        is_sure[for_large] = whole == np.abs(doubles.drop_null().to_numpy(zero_copy_only=False))[for_large]
    if not is_sure.all():
        value = values[np.argmin(is_sure)]
        raise pa.ArrowInvalid(f"releases of Java write the float {value} with different digits, which Hudi uses")
    return doubles


def _zero(target: pa.DataType) -> pa.Scalar | None:
    """What Spark finds in a row where a value is missing that it takes to be there; None where it fails."""
    if pa.types.is_boolean(target):
        return pa.scalar(False)
    if pa.types.is_floating(target):
        return pa.scalar(0.0, target)
    return _whole_number(0, target)


def _default(default: object, target: pa.DataType) -> pa.Scalar | None:
    """A default out of the schema's JSON as a value; None where Hudi makes no value of it, or it is none."""
    types = pa.types
    match default:
        case bool():
            return pa.scalar(default) if types.is_boolean(target) else None
        case int() | float() if types.is_floating(target):
            return pa.scalar(float(default), target)
        case int():
            return _whole_number(default, target)
        case str() if types.is_binary(target):
            return pa.scalar(default.encode("latin-1"))  # as Avro writes bytes into JSON
        case str() if types.is_string(target):
            return pa.scalar(default)
        case list() if types.is_list(target):
            elements = [_default(each, target.value_type) for each in default]
            return pa.scalar(_plain(elements), target) if None not in elements else None
        case dict() if types.is_map(target):
            values = [_default(each, target.item_type) for each in default.values()]
            entries = list(zip(default, _plain(values), strict=True))
            return pa.scalar(entries, target) if None not in values else None
    return None


def _plain(values: list[pa.Scalar | None]) -> list[object]:
    return [None if value is None else value.as_py() for value in values]


def _whole_number(value: int, target: pa.DataType) -> pa.Scalar | None:
    """A number as Avro has it, of this type: an integer, a day, or a moment in the type's own unit."""
    types = pa.types
    if types.is_signed_integer(target):
        return pa.scalar(value, target)
    if types.is_date32(target) or types.is_timestamp(target):
        return pa.scalar(value, pa.int32() if types.is_date32(target) else pa.int64()).cast(target)
    return None


def _with_children(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """The same lists or maps over other children: validity and offsets are shared, not copied."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        target, len(array), [validity, offsets], array.null_count, offset=array.offset, children=children
    )
