"""Hudi tables as a data source of Spark 4, to which it pushes filters.

    spark.dataSource.register(lakeward.spark.HudiSource)
    spark.read.format("lakeward").option("columns", "id,fare").load("s3://lake/orders").where("fare > 10")

Spark 4.3 pushes no columns to such a source, and from 4.1 on filters where `spark.sql.python.filterPushdown.enabled` is
on. Options are those of `lakeward.spark.read`, as text: columns, where, read_optimized, meta_columns, skip_damaged,
memory_bytes, timezone.

Touches: the table, reading only.
Keeps:   1. each filter that is pushed is asked of the rows by Spark, too;
         2. all tasks of a frame's plan read one moment of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (  # type: ignore[import-not-found]  # of PySpark 4
    DataSource,
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakeward.api.table import Rows, Table
from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import TryLater, UsageError
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.scan.slice_tasks import pack_tasks
from lakeward.spark.pushed_filters import filter_words
from lakeward.spark.row_types import column_types, spark_types
from lakeward.spark.slice_parts import slice_parts
from lakeward.spark.slice_work import SliceWork

_OPTIONS = ("path", "columns", "where", "read_optimized", "meta_columns", "skip_damaged", "memory_bytes", "timezone")
_CORES = 32
"""A source is not given the session, which knows how many there are."""


class HudiSource(DataSource):  # type: ignore[misc]  # of PySpark 4
    @classmethod
    def name(cls) -> str:
        return "lakeward"

    def schema(self) -> StructType:
        plan = _rows(self.options).scan.plan
        assert plan.reading.schema is not None, "a table without a schema is refused"
        return spark_types(plan.schema, column_types(plan.reading.schema))

    def reader(self, schema: StructType) -> HudiReader:
        return HudiReader(dict(self.options), schema)


class HudiReader(DataSourceReader):  # type: ignore[misc]  # of PySpark 4
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        words = filter_words(filters, _table(self._options).schema)
        if words is not None:
            given = self._options.get("where")
            self._options["where"] = words if given is None else f"({given}) and {words}"
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        scan = _rows(self._options).scan
        if scan.damage is not None and not scan.skips_damaged:
            raise scan.damage
        plan = scan.plan
        assert plan.reading.schema is not None, "a table without a schema is refused"
        if spark_types(plan.schema, column_types(plan.reading.schema)) != self._schema:
            raise TryLater(
                "The table's columns changed while Spark planned the query.",
                why="A writer changed them after the frame was made.",
                remedy="Load the table again.",
            )
        # Spark has pickled the reader before it asks for partitions, so that each has what they have in common.
        work = SliceWork(plan.shared, scan.memory_bytes)
        parts = slice_parts(scan.storage, plan)
        return [InputPartition((work, task)) for task in pack_tasks(parts, parallelism=_CORES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        work, parts = partition.value
        schema = to_arrow_schema(self._schema, timezone="UTC")  # type: ignore[call-arg]  # of PySpark 4
        for batch in work(parts):
            columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _table(options: dict[str, str]) -> Table:
    if "path" not in options:
        raise UsageError("No table is named.", remedy='Say `.load("/data/orders")`, or option("path", …).')
    return Table(options["path"], timezone=options.get("timezone"))


def _rows(options: dict[str, str]) -> Rows:
    for name in options:
        if name.lower() not in _OPTIONS:
            raise UsageError(
                f"The source has no option {name!r}.",
                remedy=did_you_mean(name, _OPTIONS) or f"Its options are {', '.join(_OPTIONS)}.",
            )
    columns = options.get("columns")
    return _table(options).scan(
        columns=None if columns is None else [each.strip() for each in columns.split(",")],
        where=options.get("where"),
        read_optimized=_is_on(options, "read_optimized"),
        meta_columns=_is_on(options, "meta_columns"),
        skip_damaged=_is_on(options, "skip_damaged"),
        memory_bytes=int(options.get("memory_bytes", MEMORY_BYTES)),
    )


def _is_on(options: dict[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise UsageError(f"The option {name} is {text!r}.", remedy="Say true or false.")
    return text == "true"
