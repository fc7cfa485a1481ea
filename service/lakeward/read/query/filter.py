"""A filter on rows: comparisons of columns with values, joined by and, or; true, false or unknown of each row.

    fare > 10 and (city in ('lima', 'rome') or city is null)

As in SQL a comparison with null is unknown, and a row is chosen where the whole is true. `not` is none of the nodes: it
is worked into them (not a < b: a >= b), which is the same in three values. Text is compared by its bytes; of floating
point numbers NaN equals itself and is greater than all others, as in Spark.

Touches: nothing.
Keeps:   1. a node may hold where it does for any value within the ranges that are known;
         2. the rows that are chosen are those that Spark chooses by the same words;
         3. a node must hold only where it does for each value within them, and no value is null.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from typing import Any as Anything
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.parquet.row_groups import Value, ValueRange, stored_values

Ranges = Mapping[str, ValueRange | None]
"""The range of each column of which something is known; None where it holds nulls alone."""


class Operator(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="

    @property
    def negated(self) -> Operator:
        return _NEGATED[self]

    @property
    def turned(self) -> Operator:
        """The operator with its sides exchanged: a < b is b > a."""
        return _TURNED.get(self, self)


_NEGATED = {
    Operator.EQUAL: Operator.NOT_EQUAL,
    Operator.NOT_EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER_OR_EQUAL,
    Operator.LESS_OR_EQUAL: Operator.GREATER,
    Operator.GREATER: Operator.LESS_OR_EQUAL,
    Operator.GREATER_OR_EQUAL: Operator.LESS,
}
_TURNED = {
    Operator.LESS: Operator.GREATER,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
_FUNCTIONS = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_OR_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_OR_EQUAL: pc.greater_equal,
}


class Node(Protocol):
    """A part of a filter, or the whole."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns at the top of the schema that it looks at."""

    def truth(self, batch: pa.RecordBatch) -> pa.Array:
        """True, false or null for each row."""

    def may_hold(self, ranges: Ranges) -> bool:
        """False where no row whose values lie within these ranges is chosen."""

    def must_hold(self, ranges: Ranges, without_nulls: Collection[str]) -> bool:
        """True where each row is chosen whose values lie within these ranges.

        Args:
            without_nulls: columns that are null in none of the rows.
        """


@dataclass(frozen=True, slots=True)
class FilterColumn:
    """A column of the table, or a field inside of structs."""

    path: tuple[str, ...]

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(self.path[0])
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        for name in self.path[1:]:
            values = pc.struct_field(values, name)
        return values


@dataclass(frozen=True, slots=True)
class _OfColumn:
    """What a node about one column follows from: its range, where that is known."""

    column: FilterColumn

    @property
    def columns(self) -> tuple[str, ...]:
        return self.column.path[:1]

    def may_hold(self, ranges: Ranges) -> bool:
        name, *inner = self.column.path
        if inner or name not in ranges:
            return True
        found = ranges[name]
        return self._may_hold_of_null() if found is None else self._may_hold_within(found)

    def must_hold(self, ranges: Ranges, without_nulls: Collection[str]) -> bool:
        name, *inner = self.column.path
        found = None if inner or name not in without_nulls else ranges.get(name)
        return found is not None and self._must_hold_within(found)

    def _may_hold_of_null(self) -> bool:
        return False

    def _may_hold_within(self, found: ValueRange) -> bool:
        return True

    def _must_hold_within(self, found: ValueRange) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class ValueComparison(_OfColumn):
    operator: Operator
    value: pa.Scalar
    """A value that is not null, of a type that compares with the column's."""

    def truth(self, batch: pa.RecordBatch) -> pa.Array:
        values = self.column.values(batch)
        truth = _FUNCTIONS[self.operator](values, self.value)
        if self.operator in (Operator.GREATER, Operator.GREATER_OR_EQUAL) and pa.types.is_floating(values.type):
            truth = pc.or_kleene(truth, pc.is_nan(values))
        return truth

    def _may_hold_within(self, found: ValueRange) -> bool:
        value = _stored_value(self.value)
        if not _are_ordered(value, found):
            return True
        match self.operator:
            case Operator.EQUAL:
                return bool(found.low <= value <= found.high)
            case Operator.NOT_EQUAL:
                return not found.low == value == found.high
            case Operator.LESS:
                return bool(found.low < value)
            case Operator.LESS_OR_EQUAL:
                return bool(found.low <= value)
            case Operator.GREATER:
                return bool(found.high > value)
            case Operator.GREATER_OR_EQUAL:
                return bool(found.high >= value)

    def _must_hold_within(self, found: ValueRange) -> bool:
        return not replace(self, operator=self.operator.negated)._may_hold_within(found)


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """Two columns of one row."""

    left: FilterColumn
    operator: Operator
    right: FilterColumn

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.left.path[0], self.right.path[0])))

    def truth(self, batch: pa.RecordBatch) -> pa.Array:
        left, right = self.left.values(batch), self.right.values(batch)
        truth = _FUNCTIONS[self.operator](left, right)
        if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
            nans = [_is_nan(left), _is_nan(right)]
            of_nan = _FUNCTIONS[self.operator](*(nan.cast(pa.int8()) for nan in nans))
            truth = pc.if_else(pc.or_(*nans), of_nan, truth)
        return truth

    def may_hold(self, ranges: Ranges) -> bool:
        return True

    def must_hold(self, ranges: Ranges, without_nulls: Collection[str]) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Membership(_OfColumn):
    values: pa.Array
    """Values without null, of the column's type, or one that compares with it."""
    is_negated: bool = False

    def truth(self, batch: pa.RecordBatch) -> pa.Array:
        values = self.column.values(batch)
        among = self.values
        if among.type != values.type:
            values = values.cast(among.type)
        truth = pc.is_in(values, value_set=among)
        if self.is_negated:
            truth = pc.invert(truth)
        return pc.if_else(pc.is_valid(values), truth, pa.scalar(None, pa.bool_()))

    def _may_hold_within(self, found: ValueRange) -> bool:
        values = stored_values(self.values)
        if values is None or not _are_ordered("" if pa.types.is_string(values.type) else 0, found):
            return self.is_negated or len(self.values) > 0
        within = pc.and_(pc.greater_equal(values, found.low), pc.less_equal(values, found.high))
        is_any = bool(pc.any(within, min_count=0).as_py())
        return not (found.low == found.high and is_any) if self.is_negated else is_any

    def _must_hold_within(self, found: ValueRange) -> bool:
        return not replace(self, is_negated=not self.is_negated)._may_hold_within(found)


@dataclass(frozen=True, slots=True)
class Likeness(_OfColumn):
    """Text like a pattern of SQL: % for any text, _ for one character, and \\ before one of them for itself."""

    pattern: str
    is_negated: bool = False

    def truth(self, batch: pa.RecordBatch) -> pa.Array:
        truth = pc.match_like(self.column.values(batch), self.pattern)
        return pc.invert(truth) if self.is_negated else truth

    def _may_hold_within(self, found: ValueRange) -> bool:
        prefix = re.split(r"[%_\\]", self.pattern, maxsplit=1)[0]
        if self.is_negated or not prefix or not isinstance(found.low, str) or not isinstance(found.high, str):
            return True
        return found.low[: len(prefix)] <= prefix <= found.high


@dataclass(frozen=True, slots=True)
class Nullness(_OfColumn):
    is_negated: bool = False

    def truth(self, batch: pa.RecordBatch) -> pa.Array:
        values = self.column.values(batch)
        return pc.is_valid(values) if self.is_negated else pc.is_null(values)

    def _may_hold_of_null(self) -> bool:
        return not self.is_negated

    def must_hold(self, ranges: Ranges, without_nulls: Collection[str]) -> bool:
        name, *inner = self.column.path
        if inner:
            return False
        return name in without_nulls if self.is_negated else name in ranges and ranges[name] is None


@dataclass(frozen=True, slots=True)
class Constant:
    """True, false, or None: unknown."""

    value: bool | None

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    def truth(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.repeat(pa.scalar(self.value, pa.bool_()), batch.num_rows)

    def may_hold(self, ranges: Ranges) -> bool:
        return self.value is True

    def must_hold(self, ranges: Ranges, without_nulls: Collection[str]) -> bool:
        return self.value is True


@dataclass(frozen=True, slots=True)
class _Joined:
    parts: tuple[Node, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for part in self.parts for column in part.columns))


class All(_Joined):
    __slots__ = ()

    def truth(self, batch: pa.RecordBatch) -> pa.Array:
        return reduce(pc.and_kleene, (part.truth(batch) for part in self.parts))

    def may_hold(self, ranges: Ranges) -> bool:
        return all(part.may_hold(ranges) for part in self.parts)

    def must_hold(self, ranges: Ranges, without_nulls: Collection[str]) -> bool:
        return all(part.must_hold(ranges, without_nulls) for part in self.parts)


class Any(_Joined):
    __slots__ = ()

    def truth(self, batch: pa.RecordBatch) -> pa.Array:
        return reduce(pc.or_kleene, (part.truth(batch) for part in self.parts))

    def may_hold(self, ranges: Ranges) -> bool:
        return any(part.may_hold(ranges) for part in self.parts)

    def must_hold(self, ranges: Ranges, without_nulls: Collection[str]) -> bool:
        return any(part.must_hold(ranges, without_nulls) for part in self.parts)


def conjuncts(node: Node) -> Iterator[Node]:
    """The parts of a filter that all must hold."""
    if isinstance(node, All):
        for part in node.parts:
            yield from conjuncts(part)
    else:
        yield node


def _is_nan(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        return pc.is_nan(values)
    return pc.if_else(pc.is_valid(values), pa.scalar(False), pa.scalar(None, pa.bool_()))


def _are_ordered(value: object, found: ValueRange) -> bool:
    """Text and numbers are never compared, nor a truth value with either: nothing follows from one for the other."""
    kinds: tuple[type[Value], ...] = (str, int)
    return any(type(value) is kind and isinstance(found.low, kind) and isinstance(found.high, kind) for kind in kinds)


def _stored_value(value: pa.Scalar) -> Anything:
    """The value as ranges have it; None for one of a type that has none."""
    values = stored_values(pa.array([value.as_py()], value.type))
    return None if values is None else values[0].as_py()
