"""What reading a table costs: Lakeward, Hudi on Spark, and hudi-rs, on one table merged on read, the same rows.

    python -m benchmarks.read_table [--rows N] [--logs N] [--log-rows N] [--runs N] [--sides SIDE ...]

A table of 15 columns in one bucket: rows of a bulk insert, then upserts, each a log on the same base file. Each side
reads it in a process of its own, `cold` with what a process loads when it first reads, and `warm`, the cheapest of four
further times. Hudi's queries are `warm` the second time in their JVM; so are those of `lakeward.spark.read` on the same
session, whose CPU is that of its Python workers, too. The base file alone, as it was before the upserts, is read by
DuckDB, too. All sides say how many rows there are and the sum of a column that the logs changed, and must agree.

Goals: all columns at most a quarter of the CPU of Hudi's warm query; three columns at most 40 % of all, both warm; a
peak of 512 MiB; hudi-rs not faster.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import machine, measure, write_report
from lakeward.format.avro.schema_text import schema_text
from lakeward.write import write
from tests.write.writing import new_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        *((f"n{number}", pa.int64()) for number in range(4)),
        *((f"f{number}", pa.float64()) for number in range(4)),
        *((f"t{number}", pa.string()) for number in range(5)),
    ]
)
FEW = ["id", "ts", "n0"]
SIDES = ("lakeward", "lakeward few", "hudi-rs", "hudi")
BASE = ("lakeward", "lakeward few", "duckdb", "duckdb few")


def rows(first: int, last: int, step: int, ts: int) -> pa.RecordBatch:
    """Rows by their numbers, which are their values."""
    numbers = np.arange(first, last, step)
    texts = pc.binary_join_element_wise("value-", pa.array(numbers % 100_000).cast(pa.string()), "")
    columns = {
        "id": pc.binary_join_element_wise("key-", pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 10, "0"), ""),
        "ts": pa.array(np.full(len(numbers), ts)),
        **{f"n{n}": pa.array(numbers * (n + 1) + ts) for n in range(4)},
        **{f"f{n}": pa.array(numbers / (n + 3.0)) for n in range(4)},
        **{f"t{n}": texts for n in range(5)},
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in COLUMNS.names], schema=COLUMNS)


def make(folder: Path, base_rows: int, logs: int, log_rows: int) -> Path:
    table = new_table(folder / "table", schema=schema_text(COLUMNS, "t"), partition_fields=(), has_metadata_table=False)
    given: dict[str, Any] = {"buckets": 1, "writers_stopped": True, "verify": False, "memory_bytes": 8 << 30}
    write(pa.Table.from_batches([rows(0, base_rows, 1, 1)]), str(table), operation="bulk_insert", **given)
    shutil.copytree(table, folder / "base")
    for log in range(logs):
        updates = rows(log, base_rows, max(base_rows // log_rows, 1), 2 + log)
        write(pa.Table.from_batches([updates]), str(table), operation="upsert", **given)
    return table


def by_lakeward(table: str, columns: list[str] | None) -> tuple[int, int]:
    import lakeward

    count = total = 0
    for batch in lakeward.Table(table).scan(columns=columns):
        count += batch.num_rows
        total += pc.sum(batch.column("n0")).as_py() or 0
    return count, total


def by_hudi_rs(table: str, columns: list[str] | None) -> tuple[int, int]:
    from hudi import HudiTableBuilder

    batches = HudiTableBuilder.from_base_uri(table).build().read()
    return sum(each.num_rows for each in batches), sum(pc.sum(pa.array(each.column("n0"))).as_py() for each in batches)


def by_duckdb(table: str, columns: list[str] | None) -> tuple[int, int]:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    names = ", ".join(columns or COLUMNS.names)
    reader = connection.sql(f"select {names} from read_parquet('{table}/*.parquet')").fetch_record_batch(65_536)
    count = total = 0
    for batch in reader:
        count += batch.num_rows
        total += pc.sum(batch.column("n0")).as_py() or 0
    return count, total


def by_hudi(table: str) -> dict[str, Any]:
    """Queries of one task each: all columns into nothing, cold and warm, and three; the rows that they had. Behind them
    the same by `lakeward.spark.read` on the same session."""
    from pyspark.sql import functions as f

    import lakeward
    from tests.hudi.spark import start_spark

    with tempfile.TemporaryDirectory(prefix="read-table-") as scratch:
        spark = start_spark(scratch=Path(scratch), memory="4g", at_full_speed=True)
        frame = spark.read.format("hudi").load(table)

        def queries(everything: DataFrame, few: DataFrame) -> dict[str, Any]:
            def run(frame: DataFrame) -> dict[str, float]:
                return spark_cpu(lambda: frame.write.format("noop").mode("overwrite").save())

            found: dict[str, Any] = {"cold": run(everything), "warm": run(everything), "few": run(few)}
            count, total = everything.agg(f.count("id"), f.sum("n0")).collect()[0]
            return {**found, "rows": count, "total": total}

        found = queries(frame, frame.select(*FEW))
        opened = lakeward.Table(table)
        read = lakeward.spark.read(spark, opened, meta_columns=True)
        found["lakeward.spark"] = queries(read, lakeward.spark.read(spark, opened, columns=FEW))
        spark.stop()
    return found


def spark_cpu(work: Callable[[], None]) -> dict[str, float]:
    """What a piece of work took of the JVM that is a child of this process, and of the Python workers below it."""
    java = next(each for each in psutil.Process().children(recursive=True) if each.name() == "java")

    def spent() -> float:
        times = [each.cpu_times() for each in (java, *java.children(recursive=True))]
        return float(sum(each.user + each.system + each.children_user + each.children_system for each in times))

    begin, before = time.perf_counter(), spent()
    work()
    return {"wall_seconds": round(time.perf_counter() - begin, 2), "cpu_seconds": round(spent() - before, 2)}


def run_side(side: str, table: str) -> dict[str, Any]:
    if side == "hudi":
        return by_hudi(table)
    name, _, few = side.partition(" ")
    read = {"lakeward": by_lakeward, "hudi-rs": by_hudi_rs, "duckdb": by_duckdb}[name]
    found: dict[str, Any] = {}
    costs = []
    for _ in range(5):
        begin, before = time.perf_counter(), time.process_time()
        found["rows"], found["total"] = read(table, FEW if few else None)
        cpu = round(time.process_time() - before, 2)
        costs.append({"wall_seconds": round(time.perf_counter() - begin, 2), "cpu_seconds": cpu})
    found["cold"], *warm = costs
    return found | {"warm": min(warm, key=lambda cost: cost["cpu_seconds"])}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.read_table")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--log-rows", type=int, default=30_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--side", nargs=2, metavar=("SIDE", "TABLE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        print(json.dumps(run_side(*given.side)))
        return
    before = machine()
    with tempfile.TemporaryDirectory(prefix="read-table-") as folder:
        table = make(Path(folder), given.rows, given.logs, given.log_rows)
        found: dict[str, list[dict[str, Any]]] = {}
        for _ in range(given.runs):
            for side, of in (
                *((side, table) for side in given.sides),
                *((side, table.with_name("base")) for side in BASE),
            ):
                cost, printed = measure([sys.executable, "-m", "benchmarks.read_table", "--side", side, str(of)])
                name = side if of == table else f"{side}, base file"
                answer = json.loads(printed.splitlines()[-1])
                if (on_spark := answer.pop("lakeward.spark", None)) is not None:
                    found.setdefault("lakeward.spark", []).append(on_spark)
                found.setdefault(name, []).append({**answer, "process": asdict(cost)})
                print(name, found[name][-1], flush=True)
        answers = [
            {
                (run["rows"], run["total"])
                for name, runs in found.items()
                if name.endswith("base file") is only_base
                for run in runs
            }
            for only_base in (False, True)
        ]
        size = sum(path.stat().st_size for path in table.rglob("*") if path.is_file())
    table_of = {name: value for name, value in vars(given).items() if name != "side"} | {"bytes": size}
    write_report("read-table", before, {"table": table_of, "sides": found})
    assert all(len(each) == 1 for each in answers), f"the sides do not agree: {answers}"


if __name__ == "__main__":
    main()
