"""Conditions of tests: what they say in plain Python, and the filter that says the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeward.format.parquet.row_groups import Value
from lakeward.read.query.filter import All, FilterColumn, Membership, Node, Nullness, Operator, ValueComparison
from lakeward.read.query.predicate import Predicate


@dataclass(frozen=True, slots=True)
class Among:
    column: str
    values: frozenset[Value]

    @property
    def node(self) -> Node:
        values: Sequence[Value] = sorted(self.values)
        return Membership(FilterColumn((self.column,)), pa.array(values) if values else pa.array([], pa.string()))

    def holds(self, value: object) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True)
class Between:
    """The bounds belong to what is wanted; None is no bound."""

    column: str
    low: Value | None = None
    high: Value | None = None

    @property
    def node(self) -> Node:
        column = FilterColumn((self.column,))
        bounds = ((Operator.GREATER_OR_EQUAL, self.low), (Operator.LESS_OR_EQUAL, self.high))
        parts = [ValueComparison(column, operator, pa.scalar(end)) for operator, end in bounds if end is not None]
        return All((Nullness(column, is_negated=True), *parts))

    def holds(self, value: object) -> bool:
        if value is None:
            return False
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


def wanted(*conditions: Among | Between) -> Predicate:
    return Predicate(tuple(condition.node for condition in conditions))
