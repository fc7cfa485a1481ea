"""What the words of a filter mean: `city = 'lima' and fare > 10`, for the columns of one table.

    text --SQL parser--> expression --names and types of the schema--> filter (`read/query/filter`)

The words are those of SQL: = != <> < <= > >=, in, between, like, is null, is true, and, or, not, brackets. A name
with a dot is a field inside of a struct; one with other characters is written in back quotes. A value has the type of
the column that it is compared with: dates and times are quoted (`day >= '2026-01-31'`), and a time without an offset is
in UTC where the column is.

Touches: nothing.
Keeps:   1. what is not understood is an error that points at its place, never a filter that lets more or fewer rows
            through;
         2. a value that a column's type cannot have is an error, but a fraction beside whole numbers, where it says how
            they compare.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any as Anything

import pyarrow as pa
import sqlglot
from sqlglot import expressions as sql
from sqlglot.errors import ParseError, TokenError

from lakeward.base.did_you_mean import did_you_mean, nearest
from lakeward.base.errors import UsageError
from lakeward.base.place_in_text import pointed_at
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.read.query.filter import (
    All,
    Any,
    ColumnComparison,
    Constant,
    FilterColumn,
    Likeness,
    Membership,
    Node,
    Nullness,
    Operator,
    ValueComparison,
)

_OPERATORS = {
    sql.EQ: Operator.EQUAL,
    sql.NEQ: Operator.NOT_EQUAL,
    sql.LT: Operator.LESS,
    sql.LTE: Operator.LESS_OR_EQUAL,
    sql.GT: Operator.GREATER,
    sql.GTE: Operator.GREATER_OR_EQUAL,
}
_BINARY = ("this", "expression")
_PARTS: dict[type[Anything], tuple[str, ...]] = {
    sql.Paren: ("this",),
    sql.Not: ("this",),
    sql.Neg: ("this",),
    **dict.fromkeys((sql.And, sql.Or, sql.Is, sql.Dot, *_OPERATORS), _BINARY),
    sql.Between: ("this", "low", "high"),
    sql.In: ("this", "expressions"),
    sql.Like: (*_BINARY, "negate"),
    sql.Boolean: ("this",),
    sql.Null: (),
    sql.Column: ("this", "table", "db", "catalog"),
    sql.Identifier: ("this", "quoted"),
    sql.Literal: ("this", "is_string"),
    sql.Cast: ("this", "to"),
    sql.DataType: ("this",),
}
"""The parts of each expression that is understood."""
_WORDS = "A filter has comparisons (= != < <= > >=), in, between, like, is null, and, or, not."
_INSTEAD = {"&&": "and", "||": "or", "~": "like"}
"""Words of other languages, and those of filters."""


def filter_of(text: str, schema: pa.Schema) -> Node:
    """The filter of a text. Raises `UsageError`."""
    try:
        parsed = sqlglot.parse(text, dialect="spark")
    except (ParseError, TokenError) as error:
        raise _syntax_error(text, error) from error
    if len(parsed) != 1 or parsed[0] is None:
        raise UsageError("The filter is empty." if not any(parsed) else "The filter has several statements.")
    reader = _Reader(text, schema)
    reader.check(parsed[0])
    return reader.truth(parsed[0], is_negated=False)


def _syntax_error(text: str, error: ParseError | TokenError) -> UsageError:
    described = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    line, column, token = described.get("line"), described.get("col"), described.get("highlight") or ""
    if line is None or column is None:
        if (quote := _open_quote(text)) is None:
            return UsageError(f"The filter cannot be read: {text}", why=str(error).splitlines()[0], remedy=_WORDS)
        what = f"The filter cannot be read: the quote {text[quote]} is not closed."
        return UsageError(what, why=pointed_at(text, quote), remedy=_WORDS)
    end = sum(len(each) for each in text.splitlines(keepends=True)[: line - 1]) + column
    if not text[end:].strip() and not described.get("description", "").startswith("Invalid expression"):
        return UsageError(
            "The filter cannot be read: something is missing at its end.", why=pointed_at(text, end), remedy=_WORDS
        )
    instead = _INSTEAD.get(token)
    return UsageError(
        f"The filter cannot be read at {token}.",
        why=pointed_at(text, end - len(token), end),
        remedy=_WORDS if instead is None else f"Write {instead} instead of {token}.",
    )


def _open_quote(text: str) -> int | None:
    """The place of a quote that the text does not close."""
    opened: int | None = None
    for place, character in enumerate(text):
        if opened is None and character in "'\"`":
            opened = place
        elif opened is not None and character == text[opened] and text[place - 1] != "\\":
            opened = None
    return opened


class _Reader:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema

    def truth(self, expression: Anything, *, is_negated: bool) -> Node:
        match expression:
            case sql.Paren():
                return self.truth(expression.this, is_negated=is_negated)
            case sql.Not():
                return self.truth(expression.this, is_negated=not is_negated)
            case sql.And() | sql.Or():
                parts = (
                    self.truth(expression.this, is_negated=is_negated),
                    self.truth(expression.expression, is_negated=is_negated),
                )
                return All(parts) if isinstance(expression, sql.And) is not is_negated else Any(parts)
            case sql.EQ() | sql.NEQ() | sql.LT() | sql.LTE() | sql.GT() | sql.GTE():
                operator = _OPERATORS[type(expression)]
                return self._comparison(expression, operator.negated if is_negated else operator)
            case sql.Between():
                return self._between(expression, is_negated=is_negated)
            case sql.In():
                return self._membership(expression, is_negated=is_negated)
            case sql.Like():
                return self._likeness(expression, is_negated=is_negated)
            case sql.Is():
                return self._is(expression, is_negated=is_negated)
            case sql.Boolean():
                return Constant(bool(expression.this) is not is_negated)
            case sql.Null():
                return Constant(None)
            case sql.Column() | sql.Dot():
                column, kind = self._column(expression)
                if not pa.types.is_boolean(kind):
                    raise self._error(expression, f"{_name(column)} is of type {kind}, and no truth value")
                return ValueComparison(column, Operator.EQUAL, pa.scalar(not is_negated))
        raise self._error(expression, "this is not understood")

    def check(self, expression: Anything) -> None:
        """No part of an expression is passed over: the parser may know words that we do not."""
        for each in expression.walk():
            known = next((parts for kind, parts in _PARTS.items() if type(each) is kind), None)
            if known is None or any(value for name, value in each.args.items() if name not in known):
                raise self._error(each, "this is not understood")

    def _comparison(self, expression: Anything, operator: Operator) -> Node:
        left, right = _bare(expression.this), _bare(expression.expression)
        if _is_column(left) and _is_column(right):
            return self._between_columns(expression, left, operator, right)
        if not _is_column(left):
            left, right, operator = right, left, operator.turned
        if not _is_column(left):
            raise self._error(expression, "neither side names a column")
        column, kind = self._column(left)
        if isinstance(right, sql.Null):
            return Constant(None)
        return self._compared(column, operator, self._value(right, column, kind), kind)

    def _between_columns(self, expression: Anything, left: Anything, operator: Operator, right: Anything) -> Node:
        (one, kind), (other, other_kind) = self._column(left), self._column(right)
        numbers = all(pa.types.is_integer(each) or pa.types.is_floating(each) for each in (kind, other_kind))
        if kind != other_kind and not numbers:
            raise self._error(expression, f"{_name(one)} is of type {kind} and {_name(other)} of {other_kind}")
        return ColumnComparison(one, operator, other)

    def _compared(self, column: FilterColumn, operator: Operator, value: Anything, kind: pa.DataType) -> Node:
        """The comparison, where the value may be one between two whole numbers, or beyond all of the type."""
        if pa.types.is_integer(kind):
            assert isinstance(value, Decimal)
            below = value.to_integral_value(ROUND_FLOOR)
            low, high = _bounds(kind)
            if below == value and low <= value <= high:
                return ValueComparison(column, operator, pa.scalar(int(value), kind))
            if operator in (Operator.EQUAL, Operator.NOT_EQUAL) or not low <= below < high:
                is_true = {
                    Operator.EQUAL: False,
                    Operator.NOT_EQUAL: True,
                    Operator.LESS: value > 0,
                    Operator.LESS_OR_EQUAL: value > 0,
                    Operator.GREATER: value < 0,
                    Operator.GREATER_OR_EQUAL: value < 0,
                }[operator]
                # Of null it is unknown.
                return Nullness(column, is_negated=True) if is_true else Constant(False)
            is_below = operator in (Operator.LESS, Operator.LESS_OR_EQUAL)
            side = Operator.LESS_OR_EQUAL if is_below else Operator.GREATER
            return ValueComparison(column, side, pa.scalar(int(below), kind))
        return ValueComparison(column, operator, _scalar(value, kind))

    def _between(self, expression: Anything, *, is_negated: bool) -> Node:
        column, kind = self._column(expression.this)
        ends = [_bare(expression.args[end]) for end in ("low", "high")]
        operators = [Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL]
        parts = tuple(
            Constant(None)
            if isinstance(end, sql.Null)
            else self._compared(
                column, operator.negated if is_negated else operator, self._value(end, column, kind), kind
            )
            for end, operator in zip(ends, operators, strict=True)
        )
        return Any(parts) if is_negated else All(parts)

    def _membership(self, expression: Anything, *, is_negated: bool) -> Node:
        if not expression.expressions:
            raise self._error(expression, "a list of values in brackets is expected")
        column, kind = self._column(expression.this)
        values = [_bare(each) for each in expression.expressions]
        given = [self._value(each, column, kind) for each in values if not isinstance(each, sql.Null)]
        if pa.types.is_integer(kind):
            low, high = _bounds(kind)
            given = [int(each) for each in given if each == int(each) and low <= each <= high]
        scalars = [_scalar(each, kind) for each in given]
        if pa.types.is_floating(kind):  # compared by value: 0.0 is -0.0
            operator = Operator.NOT_EQUAL if is_negated else Operator.EQUAL
            parts = tuple(ValueComparison(column, operator, scalar) for scalar in scalars)
            return _with_null(All(parts) if is_negated else Any(parts), values, is_negated=is_negated)
        common = max((scalar.type for scalar in scalars), key=_width, default=kind)
        among = pa.array([scalar.as_py() for scalar in scalars], common)
        return _with_null(Membership(column, among, is_negated=is_negated), values, is_negated=is_negated)

    def _likeness(self, expression: Anything, *, is_negated: bool) -> Node:
        is_negated = bool(expression.args.get("negate")) is not is_negated
        column, kind = self._column(expression.this)
        pattern = _bare(expression.expression)
        if not pa.types.is_string(kind) or not _is_text(pattern):
            raise self._error(expression, f"like compares text, and {_name(column)} is of type {kind}")
        return Likeness(column, pattern.this, is_negated=is_negated)

    def _is(self, expression: Anything, *, is_negated: bool) -> Node:
        what = expression.expression
        if isinstance(what, sql.Not):
            what, is_negated = what.this, not is_negated
        if isinstance(what, sql.Null):
            column, _ = self._column(expression.this)
            return Nullness(column, is_negated=is_negated)
        if isinstance(what, sql.Boolean):
            column, kind = self._column(expression.this)
            if pa.types.is_boolean(kind):
                equal = ValueComparison(column, Operator.EQUAL, pa.scalar(bool(what.this) is not is_negated))
                return Any((equal, Nullness(column))) if is_negated else equal
        raise self._error(expression, "is goes with null, and with true and false of a column of truth values")

    def _column(self, expression: Anything) -> tuple[FilterColumn, pa.DataType]:
        expression = _bare(expression)
        if not _is_column(expression):
            raise self._error(expression, "the name of a column is expected")
        names = [part.name for part in expression.parts]
        kind: Anything = None
        known: list[str] = self._schema.names
        for place, name in enumerate(names):
            if name not in known:
                below = f" in {'.'.join(names[:place])}" if place else ""
                own = [each for each in known if each not in META_COLUMNS]
                raise UsageError(
                    f"The filter names {name!r}, and there is no such column{below}.",
                    why=self._place(expression.parts[place]),
                    remedy=did_you_mean(name, known) or f"{nearest(name, own)} Text is quoted: '{name}'.",
                )
            kind = self._schema.field(name).type if place == 0 else kind.field(name).type
            known = [kind.field(i).name for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
        return FilterColumn(tuple(names)), kind

    def _value(self, expression: Anything, column: FilterColumn, kind: pa.DataType) -> Anything:
        """A Python value that compares with values of this type."""
        reader = next((reader for is_of, reader in _READERS if is_of(kind)), None)
        if reader is None:
            raise self._error(expression, f"{_name(column)} is of type {kind}, which is compared with no value")
        expression = _bare(expression)
        sign = 1
        if isinstance(expression, sql.Neg):
            sign, expression = -1, _bare(expression.this)
        if isinstance(expression, sql.Cast) and _is_text(expression.this):  # date '2026-01-31'
            expression = expression.this
        if not isinstance(expression, sql.Literal | sql.Boolean):
            raise self._error(expression, "a value is expected")
        try:
            value = reader(expression)
        except (ValueError, InvalidOperation) as error:
            raise self._error(expression, f"{_name(column)} is of type {kind}, and this is no such value") from error
        if sign < 0:
            if not isinstance(value, Decimal):
                raise self._error(expression, f"{_name(column)} is of type {kind}, and this is no such value")
            value = -value
        return value

    def _error(self, expression: Anything, why: str) -> UsageError:
        return UsageError(f"The filter cannot be used: {why}.", why=self._place(expression), remedy=_WORDS)

    def _place(self, expression: Anything) -> str:
        places = [each.meta for each in expression.walk() if "start" in each.meta]
        if not places:
            return f"  {self._text}"
        return pointed_at(self._text, min(each["start"] for each in places), max(each["end"] for each in places) + 1)


def _with_null(node: Node, values: list[Anything], *, is_negated: bool) -> Node:
    """The membership, where null is in the list: a value that is not among the others may be that one."""
    if not any(isinstance(each, sql.Null) for each in values):
        return node
    return All((node, Constant(None))) if is_negated else Any((node, Constant(None)))


def _bare(expression: Anything) -> Anything:
    while isinstance(expression, sql.Paren):
        expression = expression.this
    return expression


def _is_column(expression: Anything) -> bool:
    return isinstance(expression, sql.Column | sql.Dot) and all(isinstance(p, sql.Identifier) for p in expression.parts)


def _is_text(expression: Anything) -> bool:
    return isinstance(expression, sql.Literal) and bool(expression.is_string)


def _name(column: FilterColumn) -> str:
    return ".".join(column.path)


def _text(literal: Anything) -> str:
    if not _is_text(literal):
        raise ValueError("a text is quoted")
    return str(literal.this)


def _number(literal: Anything) -> Decimal:
    if isinstance(literal, sql.Boolean) or literal.is_string:
        raise ValueError("a number is not quoted")
    return Decimal(literal.this)


def _boolean(literal: Anything) -> bool:
    if not isinstance(literal, sql.Boolean):
        raise ValueError("true or false")
    return bool(literal.this)


def _date(literal: Anything) -> date:
    return date.fromisoformat(_text(literal))


def _time(literal: Anything) -> datetime:
    return datetime.fromisoformat(_text(literal))


def _bytes(literal: Anything) -> bytes:
    return base64.b64decode(_text(literal), validate=True)


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Anything], Anything]], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_boolean, _boolean),
    (lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind), _number),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _time),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind), _bytes),
)


def _scalar(value: Anything, kind: pa.DataType) -> pa.Scalar:
    """A scalar that compares with values of this type, exactly."""
    if pa.types.is_floating(kind):
        return pa.scalar(float(value), pa.float64())
    if pa.types.is_decimal(kind):
        return pa.scalar(value, _decimal_type(value, kind))
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        elif value.tzinfo is not None:
            raise UsageError(f"The filter compares {value.isoformat()} with local times, which have no offset.")
        return pa.scalar(value, pa.timestamp("us", kind.tz))  # which a column of milliseconds compares with, too
    return pa.scalar(value, kind)


def _decimal_type(value: Decimal, kind: pa.DataType) -> pa.DataType:
    """The table's type, or one with the digits behind the point that the value needs."""
    exponent = value.as_tuple().exponent
    scale = max(kind.scale, -exponent if isinstance(exponent, int) else 0)
    digits = max(kind.precision - kind.scale, value.adjusted() + 1, 1) + scale
    return kind if scale == kind.scale and digits <= kind.precision else pa.decimal256(max(digits, 1), scale)


def _width(kind: pa.DataType) -> int:
    return int(kind.precision) if pa.types.is_decimal(kind) else 0


def _bounds(kind: pa.DataType) -> tuple[int, int]:
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
