"""Run in a process of its own, since a process has one Hudi: a table whose keys Hudi 1.0.2 keeps in HBase.

    python -m tests.hudi.hbase_tagged ZOOKEEPER HBASE_TABLE TABLE SCRATCH make|go-on

`make`: a table in HBase of three regions, and one of Hudi merged on read: inserts, updates, deletes, a write that was
never completed. `go-on`: updates and inserts. At the end the rows that Hudi reads are printed as JSON.

The bundle's own client names a codec that is relocated, which no server of HBase has; so `hbase-site.xml` takes the
codec away, and cells come in messages.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.hudi.hbase_hfiles import HBASE_VERSION, MISSING
from tests.hudi.spark import HudiMissing, start_spark

_HBASE = "org.apache.hudi.org.apache.hadoop.hbase"
_SITE = """<configuration>
<property><name>hbase.client.default.rpc.codec</name><value>${no.codec}</value></property>
<property><name>hbase.defaults.for.version.skip</name><value>true</value></property>
<property><name>hbase.client.retries.number</name><value>4</value></property>
</configuration>
"""


def main(zookeeper: str, hbase_table: str, table: str, scratch: str, what: str) -> None:
    site = Path(scratch, "site")
    site.mkdir(parents=True)
    (site / "hbase-site.xml").write_text(_SITE)
    try:
        spark = start_spark(scratch=Path(scratch), version=HBASE_VERSION, class_path=site)
    except HudiMissing as missing:
        print(missing, file=sys.stderr)
        sys.exit(MISSING)
    spark._jvm.System.setProperty("no.codec", "")  # type: ignore[union-attr]  # an empty value in the file is none
    host, port = zookeeper.split(":")
    options = {
        "hoodie.index.hbase.zkquorum": host,
        "hoodie.index.hbase.zkport": port,
        "hoodie.index.hbase.table": hbase_table,
    }
    if what == "make":
        create(spark, host, port, hbase_table)
        write(spark, table, options, 0, 1000, 1)
        write(spark, table, options, 900, 1500, 2)
        write(spark, table, options, 0, 100, 3, operation="delete")
    else:
        write(spark, table, options, 1400, 1600, 4)
    rows = spark.read.format("hudi").load(table).select("id", "ts", "part", "n").orderBy("id").collect()
    print(json.dumps([list(row) for row in rows]))
    spark.stop()


def create(spark: SparkSession, host: str, port: str, name: str) -> None:
    def java(path: str) -> Any:
        found: Any = spark._jvm
        for part in f"{_HBASE}.{path}".split("."):
            found = getattr(found, part)
        return found

    conf = java("HBaseConfiguration").create()
    conf.set("hbase.zookeeper.quorum", host)
    conf.set("hbase.zookeeper.property.clientPort", port)
    connection = java("client.ConnectionFactory").createConnection(conf)
    table = java("client.TableDescriptorBuilder").newBuilder(java("TableName").valueOf(name))
    table.setColumnFamily(java("client.ColumnFamilyDescriptorBuilder").of("_s"))
    connection.getAdmin().createTable(table.build(), bytearray(b"key-0000000500"), bytearray(b"key-0000001000"), 3)
    connection.close()


def write(
    spark: SparkSession, table: str, options: dict[str, str], first: int, end: int, ts: int, operation: str = "upsert"
) -> None:
    frame = spark.range(first, end, 1, 2).select(
        f.format_string("key-%010d", "id").alias("id"),
        f.lit(ts).cast("long").alias("ts"),
        (f.col("id") % 3).cast("string").alias("part"),
        f.col("id").alias("n"),
    )
    frame.write.format("hudi").options(
        **{
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.operation": operation,
            "hoodie.index.type": "HBASE",
            "hoodie.compact.inline": "false",
            "hoodie.upsert.shuffle.parallelism": "2",
            **options,
        }
    ).mode("append").save(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
