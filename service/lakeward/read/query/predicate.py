"""Which rows are wanted, by their values: conditions (`read/query/filter`) that all must hold.

A condition that is unknown of a row does not hold for it, as in a query. One on the record key holds for all versions
of a record or for none; one on another column may hold for one version and not for the next.
`read/query/row_group_choice.py` has what follows from that.

Touches: nothing.
Keeps:   1. a row group is passed over only where no value within its range could be wanted;
         2. all its rows are taken for wanted only where each value within its range is, and none is null.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.parquet.batches import WantedKeys
from lakeward.format.parquet.row_groups import RowGroup
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.read.query.filter import FilterColumn, Membership, Node


@dataclass(frozen=True, slots=True)
class Predicate:
    """All conditions hold; without one every row is wanted."""

    conditions: tuple[Node, ...] = ()

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

    @property
    def wanted_keys(self) -> WantedKeys | None:
        """Which record keys the conditions on them choose; None where there is none."""
        on_keys = self.on_keys
        if not on_keys.conditions:
            return None
        return lambda keys: on_keys.mask(pa.RecordBatch.from_arrays([keys], [RECORD_KEY_FIELD]))

    def mask(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which rows of a batch are wanted; None where no condition says anything. The batch has the columns."""
        truths = [condition.truth(batch).fill_null(False) for condition in self.conditions]
        return reduce(pc.and_, truths) if truths else None

    def chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are wanted."""
        mask = self.mask(batch)
        return batch if mask is None else batch.filter(mask)

    def may_hold_in(self, group: RowGroup) -> bool:
        """False where the ranges of a row group say that none of its rows is wanted."""
        return all(condition.may_hold(group.ranges) for condition in self.conditions)

    def must_hold_in(self, group: RowGroup) -> bool:
        """True where they say that all of its rows are wanted."""
        return all(condition.must_hold(group.ranges, group.without_nulls) for condition in self.conditions)


def keys_among(keys: frozenset[str]) -> Predicate:
    """The records with these keys."""
    return Predicate((Membership(FilterColumn((RECORD_KEY_FIELD,)), pa.array(sorted(keys), pa.string())),))


def written_by(commits: frozenset[str]) -> Predicate:
    """The records that one of these commits wrote last."""
    return Predicate((Membership(FilterColumn(("_hoodie_commit_time",)), pa.array(sorted(commits), pa.string())),))
