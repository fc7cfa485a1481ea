"""Which rows are wanted, by their values: conditions that all must hold.

A condition holds for values alone, never for null, as in a query. One on the record key holds for all versions of a
record or for none; one on another column may hold for one version and not for the next.
`read/query/row_group_choice.py` has what follows from that.

Touches: nothing.
Keeps:   a row group is passed over only where no value within its range could be wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.parquet.row_groups import RowGroup, Value, ValueRange
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD


@dataclass(frozen=True, slots=True)
class Among:
    """The value is one of these."""

    column: str
    values: frozenset[Value]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(self.column)
        return pc.is_in(values, value_set=pa.array(sorted(self.values), type=values.type))

    def may_hold_in(self, group: RowGroup) -> bool:
        if self.column not in group.ranges:
            return True
        found = group.ranges[self.column]
        return found is not None and any(_may_lie_within(value, found) for value in self.values)


@dataclass(frozen=True, slots=True)
class Between:
    """The value lies within these bounds, which belong to it; None is no bound."""

    column: str
    low: Value | None = None
    high: Value | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(self.column)
        mask = pc.is_valid(values)
        if self.low is not None:
            mask = pc.and_(mask, pc.greater_equal(values, pa.scalar(self.low, values.type)).fill_null(False))
        if self.high is not None:
            mask = pc.and_(mask, pc.less_equal(values, pa.scalar(self.high, values.type)).fill_null(False))
        return mask

    def may_hold_in(self, group: RowGroup) -> bool:
        if self.column not in group.ranges:
            return True
        found = group.ranges[self.column]
        if found is None:
            return False
        is_below = self.high is not None and _is_less(self.high, found.low)
        return not is_below and not (self.low is not None and _is_less(found.high, self.low))


class Condition(Protocol):
    """What must hold of a row."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns at the top of the schema that it looks at."""

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """True for each row of which it holds, else false."""

    def may_hold_in(self, group: RowGroup) -> bool:
        """False where it holds of no row of a row group with these ranges."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """All conditions hold; without one every row is wanted."""

    conditions: tuple[Condition, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for each in self.conditions for column in each.columns))

    @property
    def on_keys(self) -> Predicate:
        """The conditions that no other version of a record answers otherwise."""
        return Predicate(tuple(each for each in self.conditions if each.columns == (RECORD_KEY_FIELD,)))

    @property
    def on_values(self) -> Predicate:
        return Predicate(tuple(each for each in self.conditions if each.columns != (RECORD_KEY_FIELD,)))

    def mask(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which rows of a batch are wanted; None where no condition says anything. The batch has the columns."""
        masks = [condition.mask(batch) for condition in self.conditions]
        return reduce(pc.and_, masks) if masks else None

    def chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are wanted."""
        mask = self.mask(batch)
        return batch if mask is None else batch.filter(mask)

    def may_hold_in(self, group: RowGroup) -> bool:
        """False where the ranges of a row group say that none of its rows is wanted."""
        return all(condition.may_hold_in(group) for condition in self.conditions)


def keys_among(keys: frozenset[str]) -> Predicate:
    """The records with these keys."""
    return Predicate((Among(RECORD_KEY_FIELD, frozenset(keys)),))


def _may_lie_within(value: Value, found: ValueRange) -> bool:
    return not _is_less(value, found.low) and not _is_less(found.high, value)


def _is_less(one: Value, other: Value) -> bool:
    """Text and numbers are never compared: nothing follows from one for the other."""
    if isinstance(one, str) and isinstance(other, str):
        return one < other
    return isinstance(one, int) and isinstance(other, int) and one < other
