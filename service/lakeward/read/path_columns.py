"""Columns of a partition that are not in the files: every row has the value that the partition's path says.

    city=lima/2026-01-31   ->   city: lima,  day: 2026-01-31

Files of such tables (`hoodie.datasource.write.drop.partition.columns`) lack the columns, logs may have them; a query of
Hudi takes them from the path for all rows.

Touches: nothing.
Keeps:   a path of which it is not certain what Hudi reads is refused, and so is a column of another type than text,
         whole numbers and days.
Source:  HoodieSparkUtils.parsePartitionColumnValues, ExternalCatalogUtils.unescapePathName (Hudi 1.2.0, Spark 3.5)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.table.new_keys import DEFAULT_PARTITION
from lakeward.table.table_config import TableConfig

_ESCAPED = re.compile("%([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class PathColumns:
    """Travels to executors."""

    fields: tuple[str, ...]

    def values(self, schema: pa.Schema, partition_path: str) -> Mapping[str, pa.Scalar]:
        """Raises `Unsupported`.

        Args:
            schema: the table's columns.
        """
        parts = partition_path.split("/")
        if len(parts) != len(self.fields):
            raise _uncertain(partition_path, f"It has {len(parts)} parts, and the table {len(self.fields)} columns.")
        return {
            field: _value(schema.field(field).type, _text(field, part, partition_path), partition_path)
            for field, part in zip(self.fields, parts, strict=True)
        }


def path_columns(config: TableConfig) -> PathColumns | None:
    """None where files have all columns."""
    return PathColumns(config.partition_fields) if config.drops_partition_columns else None


def _text(field: str, part: str, partition_path: str) -> str:
    named = part.startswith(f"{field}=")
    if not named and "=" in part:
        raise _uncertain(partition_path, f"{part!r} may be the value of {field}, or name another column.")
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), part.removeprefix(f"{field}="))


def _value(kind: pa.DataType, text: str, partition_path: str) -> pa.Scalar:
    if text == DEFAULT_PARTITION:
        return pa.scalar(None, kind)
    try:
        if pa.types.is_string(kind):
            return pa.scalar(text, kind)
        if pa.types.is_integer(kind):
            return pa.scalar(int(text), kind)
        if pa.types.is_date32(kind):
            return pa.scalar(date.fromisoformat(text), kind)
    except (ValueError, OverflowError, pa.ArrowInvalid) as error:
        raise _uncertain(partition_path, f"{text!r} is no value of type {kind}.") from error
    raise _uncertain(partition_path, f"The text {text!r} may stand for several values of type {kind}.")


def _uncertain(partition_path: str, why: str) -> Unsupported:
    return Unsupported(
        f"What the rows of partition {partition_path!r} have in the columns of the partition is not certain.",
        why=f"They are not in the files. {why}",
        remedy="Read it with a release of Hudi.",
    )
