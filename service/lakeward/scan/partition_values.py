"""What the path of a partition says of the columns that it is made of.

    city=lima/2026-01-31   ->   city: lima .. lima,  day: 2026-01-31 .. 2026-01-31

A query of Hudi passes over the partitions whose paths contradict it, whatever the rows say; so does a scan.

Touches: nothing.
Keeps:   nothing is said of a column whose text in the path may be another than its value: of times in a format of their
         own, dates in three folders, types other than text and whole numbers, and a path with another number of parts.
Source:  KeyGenUtils.getPartitionPath, PartitionPathEncodeUtils (Hudi 1.2.0)
"""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa

from lakeward.format.parquet.row_groups import ValueRange
from lakeward.read.query.filter import Ranges
from lakeward.table.table_config import SLASHES_IN_DATES, TableConfig

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The text of null, and of the empty text."""


def partition_ranges(config: TableConfig, schema: pa.Schema, partition_path: str) -> Ranges:
    """The range of each column of which the path says something; it is one value."""
    fields = config.partition_fields
    generator = (config.key_generator or "").upper()
    if not fields or "TIMESTAMP" in generator or "CUSTOM" in generator or config.is_true(SLASHES_IN_DATES):
        return {}
    parts = [partition_path] if len(fields) == 1 else partition_path.split("/")
    if len(parts) != len(fields):
        return {}
    found: dict[str, ValueRange | None] = {}
    for field, part in zip(fields, parts, strict=True):
        text = part.removeprefix(f"{field}=") if config.hive_style else part
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
