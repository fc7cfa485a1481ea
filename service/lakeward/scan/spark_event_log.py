"""What queries of Spark read of Hudi tables, by the event logs that Spark writes (`spark.eventLog.enabled`).

    lines of one application --> ApplicationStart: who, and with what
                             --> SQLExecutionStart: the plan --> its scans: table, filters on partitions

    Scan …   Location: HoodieFileIndex(1 paths)[/data/orders]
             PartitionFilters: [isnotnull(day#88), (day#88 = 2026-11-01)]

A log says which partitions a query asked for, not which it found. A condition that is not understood counts as one
that fits all of them, so that a read of too many is counted rather than of too few. Scans by
`HoodieIncrementalFileIndex` are left out: what they read is what was written last, wherever merges put it.

Touches: nothing.
Keeps:   1. a scan counts once, however often Spark changes its plan while it runs;
         2. a filter never fits fewer partitions than the query read.
Source:  real logs of Spark 3.5.9 with Hudi 1.2.0 (`tests/interop/test_spark_event_log.py`)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any as Anything

import pyarrow as pa

from lakeward.read.query.filter import All, Any, FilterColumn, Node, Operator, Ranges, ValueComparison
from lakeward.scan.partition_values import partition_ranges
from lakeward.table.table_config import TableConfig

_APPLICATION = b'"SparkListenerApplicationStart"'
_EXECUTION = b'SparkListenerSQLExecutionStart"'
_LOCATION = re.compile(r"HoodieFileIndex\(\d+ paths\)\[(?P<path>[^,\]]+)")
_COMPARISON = re.compile(r"\((?P<column>\w+)#\d+L? (?P<operator>=|<|<=|>|>=) (?P<value>[^()]*)\)")
_AMONG = re.compile(r"(?P<column>\w+)#\d+L? IN \((?P<values>[^()]*)\)")


@dataclass(frozen=True, slots=True)
class SparkRead:
    """A scan of a table by a query that began."""

    location: str
    """The table as Spark names it: a path, or a URL."""
    partition_filters: str
    """Its conditions on partition columns, as Spark prints them."""
    requester: str
    """The user of the application."""
    application: str
    """Its name."""
    at: float


def reads_of(lines: Iterable[bytes]) -> Iterator[SparkRead]:
    """The reads of one application's log, in the order of their begin. Raises `ValueError` where a line is no JSON."""
    requester = application = ""
    for line in lines:
        # Most lines are about tasks, and some take megabytes.
        if _EXECUTION in line:
            event = json.loads(line)
            for location, filters in _scans(event["sparkPlanInfo"]):
                yield SparkRead(location, filters, requester, application, event["time"] / 1000)
        elif _APPLICATION in line:
            event = json.loads(line)
            requester, application = event["User"], event["App Name"]


def _scans(plan: Anything) -> Iterator[tuple[str, str]]:
    metadata = plan.get("metadata") or {}
    if (found := _LOCATION.match(metadata.get("Location", ""))) is not None:
        yield found["path"], metadata.get("PartitionFilters", "[]")
    for child in plan.get("children", ()):
        yield from _scans(child)


def asked_partitions(
    text: str, paths: Iterable[str], *, config: TableConfig, schema: pa.Schema
) -> tuple[str, ...] | None:
    """The paths that a query asked for, and perhaps more; None for a query of all of them.

    Args:
        text: conditions as Spark prints them: `[isnotnull(day#88), (day#88 = 2026-11-01)]`.
        paths: all partitions of the table.
        schema: its columns.
    """
    where = _filter_of(text, schema)
    if where is None:
        return None
    known = {path: partition_ranges(config, schema, path) for path in paths}
    return tuple(path for path, ranges in known.items() if _is_unclear(ranges) or where.may_hold(ranges))


def _is_unclear(ranges: Ranges) -> bool:
    """Whether a value of the path would look like several in a list, which Spark prints without quotes."""
    return any(found is not None and "," in str(found.low) for found in ranges.values())


def _filter_of(text: str, schema: pa.Schema) -> Node | None:
    found: list[Node] = []
    for part in _parts(text):
        if (comparison := _COMPARISON.fullmatch(part)) is not None:
            values = _values(schema, comparison["column"], (comparison["value"],))
            found += [_compare(comparison["column"], Operator(comparison["operator"]), value) for value in values]
        elif (among := _AMONG.fullmatch(part)) is not None:
            values = _values(schema, among["column"], among["values"].split(","))
            if values:
                found.append(Any(tuple(_compare(among["column"], Operator.EQUAL, value) for value in values)))
    return All(tuple(found)) if found else None


def _parts(text: str) -> Iterator[str]:
    """The conditions that all hold, at the commas outside of brackets."""
    depth, part = 0, ""
    for character in text.removeprefix("[").removesuffix("]"):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += character
    yield part.strip()


def _values(schema: pa.Schema, column: str, texts: Sequence[str]) -> list[pa.Scalar]:
    """The values of texts; empty where one of them is none of that column's, or might be another."""
    if column not in schema.names:
        return []
    kind = schema.field(column).type
    if pa.types.is_string(kind):
        return [pa.scalar(text) for text in texts]
    if pa.types.is_integer(kind) and all(re.fullmatch(r"-?\d{1,18}", text) for text in texts):
        return [pa.scalar(int(text)) for text in texts]
    return []


def _compare(column: str, operator: Operator, value: pa.Scalar) -> Node:
    return ValueComparison(FilterColumn((column,)), operator, value)
