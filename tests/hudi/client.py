"""Hudi's write client in the session's JVM, for what has no SQL procedure: log compactions, rollbacks, Avro records.

Touches: one table folder, through Spark's JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.hudi.table import HudiTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANY_SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]})
"""The one that matters is the table's own, which Hudi looks up."""


@contextmanager
def hudi_client(spark: SparkSession, table: HudiTable, schema: str = ANY_SCHEMA, **changed: str) -> Iterator[Any]:
    """A client with the write options of the table's shape, some of them changed."""
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    for key, value in (table.shape.write_options() | changed).items():
        options.put(key, value)
    create = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient
    client = create(spark._jsc, schema, str(table.path), table.shape.name, options)
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


def write_records(
    spark: SparkSession, table: HudiTable, schema: str, rows: Sequence[dict[str, Any]], operation: str, **changed: str
) -> None:
    """Rows as Avro records, which is how a streaming ingest writes: the commit has this very schema, with
    its defaults. Spark's writer makes one of its own.

    Args:
        rows: with the key in `id`, the partition path in `part` and the ordering value in `ts`; the kind of change in
            `operation`, which is no column: I, U, -U or D, and I where it is missing.
    """
    jvm: Any = spark._jvm
    hudi, model = jvm.org.apache.hudi, jvm.org.apache.hudi.common.model
    parsed = jvm.org.apache.avro.Schema.Parser().parse(schema)
    own = hudi.common.schema.HoodieSchema  # which 1.0 does not have
    reader, schema_of_reader = hudi.avro.MercifulJsonConverter(), own.parse(schema) if callable(own) else parsed
    records = jvm.java.util.ArrayList()
    for row in rows:
        columns = {name: value for name, value in row.items() if name != "operation"}
        record = reader.convert(json.dumps(columns), schema_of_reader)
        payload = model.DefaultHoodieRecordPayload(record, record.get("ts"))
        key = model.HoodieKey(row["id"], row["part"])
        operation_of = model.HoodieOperation.fromName(row.get("operation", "I"))
        ordered = (operation_of, record.get("ts"), False) if callable(own) else ()
        records.add(model.HoodieAvroRecord(key, payload, *ordered))
    with hudi_client(spark, table, schema, **changed) as client:
        instant = client.startCommit()
        written = getattr(client, operation)(spark._jsc.parallelize(records, 1), instant)  # type: ignore[attr-defined]
        assert client.commit(instant, written)
