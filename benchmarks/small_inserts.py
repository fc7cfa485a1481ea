"""A day of small inserts into a merge-on-read table: new keys into logs, or into base files, beside Hudi's own writers.

    into logs      Lakeward by Hudi's record index, with `lakeward index inserts --into-logs`
    base files     the same without
    hudi simple    Hudi with its default index, on Spark
    hudi buckets   Hudi with four buckets a partition

Each table has ROWS rows first. Then come COMMITS batches, each of BATCH new keys and a tenth as many updates, so that
file groups have logs, as in a table that is written to all day. Nothing is compacted meanwhile: what a query meets is
what compaction has to bring down. Hudi reads each table in the end, and all must hold the same rows.

    python -m benchmarks.small_inserts [--commits N] [--batch N] [--rows N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import machine, write_report
from benchmarks.writes import made
from lakeward.base.clock import SystemClock
from lakeward.format.avro.schema_text import schema_text
from lakeward.protocol.table_birth import create_table
from lakeward.services.indexing.run.insert_choice import let_into_logs
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import MERGE_ON_READ, NewIndex, NewIndexes, NewTable
from lakeward.table.snapshot import take_snapshot
from lakeward.write import write
from tests.hudi.spark import start_spark
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Write = Callable[[Path], None]

TABLES = ("into logs", "base files", "hudi simple", "hudi buckets")
BUCKETS = 4
UPDATED = 10
"""A batch has one update for so many new keys."""
WARM = 3
"""Commits of each table that are not counted among the latencies."""
READS = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_inserts", description=__doc__)
    parser.add_argument("--commits", type=int, default=1_440)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    before = machine()
    figures: dict[str, Any] = dict(vars(arguments))
    digests = set()
    with tempfile.TemporaryDirectory(prefix="small-inserts-") as name:
        folder = Path(name)
        batches = [folder / f"batch-{number}.parquet" for number in range(arguments.commits + 1)]
        for number, path in enumerate(batches):
            pq.write_table(batch(number, arguments.rows, arguments.batch), path)
        spark = start_spark(scratch=folder, memory="3g", at_full_speed=True)
        try:
            for kind in TABLES:
                table = HudiTable(spark, folder / kind.replace(" ", "-"), shape(kind))
                figures[kind] = day(spark, kind, table, batches)
                digests.add(table.digest(spark.read.format("hudi").load(str(table.path)).select("id", "ts", "part")))
                print(f"{kind}: {json.dumps(figures[kind])}", file=sys.stderr)
        finally:
            spark.stop()
    figures["equal rows"] = len(digests) == 1
    write_report("small-inserts", before, figures)


def batch(number: int, rows: int, size: int) -> pa.Table:
    """The rows of the table where it begins; after that new keys, and some that are there."""
    if number == 0:
        return made(0, rows, 1)
    first = rows + (number - 1) * size
    new = made(first, size, number + 1)
    chance = np.random.default_rng(number)
    known = np.unique(chance.integers(0, first, max(size // UPDATED, 1)))
    return pa.concat_tables([new, *(made(int(key), 1, number + 1) for key in known)])


def shape(kind: str) -> TableShape:
    """The table for Hudi, with its own limit of small files."""
    options = {"hoodie.metadata.enable": "true", "hoodie.parquet.small.file.limit": ""}
    index = "BUCKET" if kind == "hudi buckets" else "SIMPLE"
    return TableShape(name="trips", partition_fields="part", index=index, buckets=BUCKETS, options=options)


def day(spark: SparkSession, kind: str, table: HudiTable, batches: list[Path]) -> dict[str, Any]:
    write_batch = hudis(spark, table) if kind.startswith("hudi") else own(table.path, into_logs=kind == "into logs")
    seconds = []
    for path in batches:
        began = time.perf_counter()
        write_batch(path)
        seconds.append(time.perf_counter() - began)
    counted = sorted(seconds[1 + WARM :])
    reads = []
    for _ in range(READS):
        began = time.perf_counter()
        rows = spark.read.format("hudi").load(str(table.path)).selectExpr("count(id)", "sum(fare)").collect()[0][0]
        reads.append(time.perf_counter() - began)
    snapshot = take_snapshot(LocalStorage(), str(table.path), timezone="UTC", clock=SystemClock())
    slices = snapshot.latest_slices
    written = [path for path in table.path.glob("p*/*") if path.suffix == ".parquet" or ".log." in path.name]
    return {
        "rows": rows,
        "commit_seconds_median": round(statistics.median(counted), 3),
        "commit_seconds_p95": round(counted[int(len(counted) * 0.95)], 3),
        "file_groups": len(slices),
        "files_written": len(written),
        "bytes_written": sum(path.stat().st_size for path in written),
        "files_a_query_opens": sum(len(slice_.files) for slice_ in slices),
        "logs_a_query_opens": sum(len(slice_.row_logs) for slice_ in slices),
        "bytes_a_query_opens": sum(slice_.bytes for slice_ in slices),
        "most_logs_in_a_slice": max(len(slice_.row_logs) for slice_ in slices),
        "read_seconds": round(min(reads), 3),
    }


def own(path: Path, *, into_logs: bool) -> Write:
    """Lakeward's writer, of rows that this process sorts, as it sorts small inputs."""
    storage, clock, schema = LocalStorage(), SystemClock(), made(0, 1, 1).schema
    table = NewTable(
        name="trips",
        schema=schema_text(schema, "trips"),
        record_key_fields=("id",),
        partition_fields=("part",),
        ordering_fields=("ts",),
        table_type=MERGE_ON_READ,
        indexes=NewIndexes(finds_keys=NewIndex.METADATA),
    )
    create_table(storage, str(path), table, clock=clock)
    if into_logs:
        let_into_logs(storage, take_snapshot(storage, str(path), timezone="UTC", clock=clock))

    def write_batch(rows: Path) -> None:
        write(pq.read_table(rows), str(path), writers_stopped=True)

    return write_batch


def hudis(spark: SparkSession, table: HudiTable) -> Write:
    def write_batch(rows: Path) -> None:
        table.write(spark.read.parquet(str(rows)), "upsert")

    return write_batch


if __name__ == "__main__":
    main()
