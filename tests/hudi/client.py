"""Hudi's write client in the session's JVM, for what has no SQL procedure: log compactions and rollbacks.

Touches: one table folder, through Spark's JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.hudi.table import HudiTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANY_SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]})
"""The one that matters is the table's own, which Hudi looks up."""


@contextmanager
def hudi_client(spark: SparkSession, table: HudiTable, **changed: str) -> Iterator[Any]:
    """A client with the write options of the table's shape, some of them changed."""
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    for key, value in (table.shape.write_options() | changed).items():
        options.put(key, value)
    create = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient
    client = create(spark._jsc, ANY_SCHEMA, str(table.path), table.shape.name, options)
    try:
        yield client
    finally:
        client.close()


def schedule_log_compaction(spark: SparkSession, table: HudiTable, *, blocks: int = 2) -> str:
    """Hudi plans a log compaction of the slices that have so many blocks. Returns its instant."""
    with hudi_client(spark, table, **{"hoodie.log.compaction.blocks.threshold": str(blocks)}) as client:
        instant = client.scheduleLogCompaction(spark._jvm.org.apache.hudi.common.util.Option.empty())  # type: ignore[union-attr]
        return str(instant.get())


def carry_out_log_compaction(spark: SparkSession, table: HudiTable, instant: str) -> None:
    with hudi_client(spark, table) as client:
        client.logCompact(instant, True)


def roll_back(spark: SparkSession, table: HudiTable, instant: str) -> None:
    with hudi_client(spark, table) as client:
        assert client.rollback(instant)
