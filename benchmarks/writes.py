"""Writes into buckets beside Hudi's own, of the same rows: rows a second, CPU and peak memory, cold and warm.

    bulk_insert   ROWS rows into a new table
    upsert        a quarter as many, half of them known and half new, onto a copy of the table that Hudi wrote

Each engine runs in a process of its own, with a Spark of two cores and the same memory, which carries the operation out
on one copy of the table and then on another: the first is cold, the second warm. The rows that each table holds in the
end are compared by Hudi.

    python -m benchmarks.writes [--rows N] [--buckets N] [--no-verify]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import machine, measure, write_report
from lakeward.base.clock import SystemClock
from lakeward.format.avro.schema_text import schema_text
from lakeward.protocol.table_birth import create_table
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewTable

ENGINES = ("lakeward", "hudi")
PARTITIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.writes", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--no-verify", action="store_true", help="Lakeward does not read its files back")
    arguments = parser.parse_args()
    before = machine()
    figures: dict[str, Any] = {"rows": arguments.rows, "buckets": arguments.buckets, "verify": not arguments.no_verify}
    with tempfile.TemporaryDirectory(prefix="lakeward-writes-") as name:
        folder = Path(name)
        rows, changes = folder / "rows.parquet", folder / "changes.parquet"
        changed = arguments.rows // 4
        pq.write_table(made(0, arguments.rows, 1), rows, row_group_size=250_000)
        pq.write_table(made(arguments.rows - changed // 2, changed, 2), changes, row_group_size=100_000)
        for engine in ENGINES:
            tables = [folder / f"{engine}-{run}" for run in ("cold", "warm")]
            for table in tables:
                if engine == "lakeward":
                    new_table(table)
            figures[f"bulk_insert {engine}"] = run(engine, "bulk_insert", rows, tables, arguments)
        (base,) = [folder / "hudi-cold"]
        digests = {}
        for engine in ENGINES:
            tables = [folder / f"{engine}-upsert-{run}" for run in ("cold", "warm")]
            for table in tables:
                shutil.copytree(base, table, copy_function=shutil.copy2)
            figures[f"upsert {engine}"] = run(engine, "upsert", changes, tables, arguments)
            digests[engine] = [str(table) for table in tables]
        command = [sys.executable, "-m", "benchmarks.write_process", "digest"]
        _, printed = measure([*command, *(table for tables in digests.values() for table in tables)])
        found = {tuple(each) for each in json.loads(printed.splitlines()[-1])}
        figures["equal rows"] = len(found) == 1
    write_report("writes", before, figures)


def made(first: int, rows: int, ordering: int) -> pa.Table:
    """Rows of ten columns with the keys of these numbers, in an order of chance."""
    chance = np.random.default_rng(first + ordering)
    numbers = chance.permutation(np.arange(first, first + rows))
    return pa.table(
        {
            "id": pa.array([f"trip-{number:012}" for number in numbers]),
            "part": pa.array(np.char.add("p", (numbers % PARTITIONS).astype("U1"))),
            "ts": pa.array(np.full(rows, ordering, dtype=np.int64)),
            "rider": pa.array(np.char.add("rider ", (numbers * 7919 % 100_003).astype("U6"))),
            "state": pa.array(np.array(["requested", "riding", "done"])[numbers % 3]),
            "distance": pa.array(chance.random(rows)),
            "fare": pa.array(chance.random(rows) * 100),
            "tip": pa.array(chance.random(rows)),
            "begun": pa.array(chance.integers(0, 2**40, rows)),
            "ended": pa.array(chance.integers(0, 2**40, rows)),
        }
    )


def new_table(path: Path) -> None:
    schema = made(0, 1, 1).schema
    create_table(
        LocalStorage(),
        str(path),
        NewTable(
            name="trips",
            schema=schema_text(schema, "trips"),
            record_key_fields=("id",),
            partition_fields=("part",),
            ordering_fields=("ts",),
        ),
        clock=SystemClock(),
    )


def run(engine: str, operation: str, rows: Path, tables: list[Path], arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.write_process", engine, operation, str(arguments.buckets)]
    command += ["no-verify" if arguments.no_verify else "verify", str(rows), *(str(table) for table in tables)]
    cost, printed = measure(command)
    cold, warm = json.loads(printed.splitlines()[-1])
    number = pq.read_metadata(rows).num_rows
    found = {"cold_seconds": cold, "warm_seconds": warm, "rows_a_second_warm": int(number / warm), **asdict(cost)}
    print(f"{operation} by {engine}: {cold:.1f} s cold, {warm:.1f} s warm", file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
