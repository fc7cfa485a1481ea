"""What the path of a partition says of the columns that it is made of.

    city=lima/2026-01-31   ->   city: lima .. lima,  day: 2026-01-31 .. 2026-01-31

A query of Hudi passes over the partitions whose paths contradict it, whatever the rows say; so does a scan.

Touches: nothing.
Keeps:   nothing is said of a column whose text in the path may be another than its value: of times in a format of their
         own, dates in three folders, key generators that are not known, types other than text and whole numbers, a path
         with another number of parts, or one that is not in the style that the table says.
Source:  KeyGenUtils.getPartitionPath, PartitionPathEncodeUtils (Hudi 1.2.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from lakeward.format.parquet.row_groups import ValueRange
from lakeward.read.query.filter import Node, Operator, Ranges, ValueComparison, conjuncts
from lakeward.table.new_keys import DEFAULT_PARTITION, KeyGeneratorKind, generator_of
from lakeward.table.table_config import TableConfig

_OF_VALUES: Final = (KeyGeneratorKind.SIMPLE, KeyGeneratorKind.COMPLEX)
"""Generators whose paths are made of the columns' values as they are."""


def partition_ranges(config: TableConfig, schema: pa.Schema, partition_path: str) -> Ranges:
    """The range of each column of which the path says something; it is one value."""
    fields = config.partition_fields
    if generator_of(config) not in _OF_VALUES or config.has_slashes_in_dates:
        return {}
    parts = [partition_path] if len(fields) == 1 else partition_path.split("/")
    if len(parts) != len(fields):
        return {}
    found: dict[str, ValueRange | None] = {}
    for field, part in zip(fields, parts, strict=True):
        if config.hive_style is not part.startswith(f"{field}="):
            continue
        text = part.removeprefix(f"{field}=")
        if config.url_encode:
            text = unquote(text)
        if text == DEFAULT_PARTITION or field not in schema.names:
            continue
        kind = schema.field(field).type
        if pa.types.is_string(kind):
            found[field] = ValueRange(text, text)
        elif pa.types.is_integer(kind) and text.removeprefix("-").isdecimal() and str(int(text)) == text:
            found[field] = ValueRange(int(text), int(text))
    return found


def absent_values(
    config: TableConfig, schema: pa.Schema, where: Node, paths: Iterable[str]
) -> Iterator[tuple[str, str, list[str]]]:
    """The values that a filter demands of partition columns and that no path says: column, value, and those that paths
    say."""
    ranges = [partition_ranges(config, schema, path) for path in paths]
    for each in conjuncts(where):
        if isinstance(each, ValueComparison) and each.operator is Operator.EQUAL and len(each.column.path) == 1:
            (name,) = each.column.path
            values = {str(found.low) for said in ranges if (found := said.get(name)) is not None}
            if values and (value := str(each.value.as_py())) not in values:
                yield name, value, sorted(values)
