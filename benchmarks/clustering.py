"""Small file groups of a copy-on-write table clustered, by Lakeward and by Hudi's clustering on Spark, by equal plans.

    pack      groups of 12 small files or so become one each
    sort      all of them become files of 120 MiB, sorted by the column `city`
    hybrid    the same for Lakeward alone, each file in the order of its keys

FILES commits make FILES files of ROWS rows. Each run begins with a copy of that table. Lakeward runs as a command of
its own, whose cost is that of all its processes; Hudi's cost is that of scheduling and clustering on a session that is
warm. Rows, with their meta columns, must be those of before. Then it is counted how many files a filter on a city reads
by the ranges of footers, on average over the cities, and how many may have a key.

    python -m benchmarks.clustering [--files N] [--rows N] [--groups N] [--without-hudi]

GROUPS file groups, as sizes alone, are planned.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import machine, measure, write_report
from lakeward.base.clock import SystemClock
from lakeward.format.avro.schema_text import schema_text
from lakeward.merge.digest import Digest
from lakeward.protocol.table_birth import create_table
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import plan_packing
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE, NewIndexes, NewTable
from lakeward.table.snapshot import take_snapshot
from lakeward.write import write
from lakeward.write.request import FileSizes
from tests.hudi.client import hudi_client
from tests.hudi.spark import start_spark
from tests.hudi.table import HudiTable, TableShape
from tests.synthetic_table import file_group, minute, snapshot_of

MIB = 1024 * 1024
CITIES = 2_000
AS_COPY_ON_WRITE = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
PLAN = "hoodie.clustering.plan.strategy."
TARGET = 120 * MIB
PLANS = {
    "pack": {f"{PLAN}max.bytes.per.group": str(TARGET), f"{PLAN}target.file.max.bytes": str(1024 * MIB)},
    "sort": {
        f"{PLAN}max.bytes.per.group": str(4096 * MIB),
        f"{PLAN}target.file.max.bytes": str(TARGET),
        f"{PLAN}sort.columns": "city",
    },
}
"""The keys of Hudi, by which both plan."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clustering", description=__doc__)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--without-hudi", action="store_true")
    arguments = parser.parse_args()
    before = machine()
    figures: dict[str, Any] = dict(vars(arguments)) | {"load_before": os.getloadavg()}
    figures["planning"] = planning(arguments.groups)
    with tempfile.TemporaryDirectory(prefix="clustering-", dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        table = made(folder / "made", arguments.files, arguments.rows)
        rows = digest(table)
        figures["before"] = layout(table) | {"rows": arguments.files * arguments.rows}
        keys = {what: [f"--hudi-conf={key}={value}" for key, value in keys.items()] for what, keys in PLANS.items()}
        runs = {**keys, "hybrid": ["--by", "city", "--mode", "hybrid", "--target-size", "120MiB"]}
        for what, options in runs.items():
            copy = Path(shutil.copytree(table, folder / what))
            figures[f"lakeward {what}"] = lakeward(copy, options) | layout(copy) | {"equal": digest(copy) == rows}
            shutil.rmtree(copy)
        if not arguments.without_hudi:
            figures |= by_hudi(table, folder, rows)
    figures["load_after"] = os.getloadavg()
    write_report("clustering", before, figures)


def made(path: Path, files: int, rows: int) -> Path:
    """Keys are random, as are all other values."""
    schema = batch(0, 1).schema
    table = NewTable(
        name="t",
        schema=schema_text(schema, "t"),
        record_key_fields=("id",),
        partition_fields=(),
        ordering_fields=("ts",),
        table_type=COPY_ON_WRITE,
        indexes=NewIndexes(),
    )
    create_table(LocalStorage(), str(path), table, clock=SystemClock())
    for number in range(files):
        began, sizes = time.perf_counter(), FileSizes(small_file=0)
        write(batch(number, rows), str(path), operation="insert", writers_stopped=True, sizes=sizes, verify=False)
        print(f"file {number}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
    return path


def batch(number: int, rows: int) -> pa.Table:
    chance = np.random.default_rng(number)
    columns: dict[str, Any] = {
        "id": pa.array([f"{key:016x}-{number}" for key in chance.integers(0, 2**63, rows).tolist()]),
        "ts": pa.array(np.full(rows, number, dtype=np.int64)),
        "city": pa.array(np.char.add("city ", chance.integers(0, CITIES, rows).astype("U6"))),
    }
    columns |= {f"amount{column}": pa.array(chance.random(rows)) for column in range(6)}
    columns |= {f"count{column}": pa.array(chance.integers(0, 2**20, rows)) for column in range(4)}
    return pa.table(columns)


def newest_files(table: Path) -> list[Path]:
    snapshot = take_snapshot(LocalStorage(), str(table), timezone="UTC", clock=SystemClock())
    return [table / slice_.base_file.path for slice_ in snapshot.latest_slices if slice_.base_file is not None]


def digest(table: Path) -> tuple[int, str]:
    """Over all columns but the file's name."""
    found = Digest()
    for path in newest_files(table):
        for rows in pq.ParquetFile(path).iter_batches(65_536):
            found.update(rows)
    return found.rows, found.hexdigest


def layout(table: Path) -> dict[str, Any]:
    """How many files there are, and what two kinds of query read of them."""
    ranges = {
        name: [column_range(path, name) for path in newest_files(table)] for name in ("city", "_hoodie_record_key")
    }
    cities = [f"city {number}" for number in range(0, CITIES, 20)]
    keys = [f"{key:016x}" for key in np.random.default_rng(0).integers(0, 2**63, 100).tolist()]
    return {
        "files": len(ranges["city"]),
        "files_of_a_city": files_read(ranges["city"], cities),
        "files_of_a_key_by_range": files_read(ranges["_hoodie_record_key"], keys),
    }


def column_range(path: Path, name: str) -> tuple[str, str]:
    footer = pq.read_metadata(path)
    column = footer.schema.to_arrow_schema().names.index(name)
    groups = [footer.row_group(number).column(column).statistics for number in range(footer.num_row_groups)]
    return min(each.min for each in groups), max(each.max for each in groups)


def files_read(ranges: Sequence[tuple[str, str]], values: Sequence[str]) -> float:
    """On average."""
    return float(np.mean([sum(least <= value <= largest for least, largest in ranges) for value in values]))


def lakeward(table: Path, options: Sequence[str]) -> dict[str, Any]:
    command = [
        str(Path(sys.executable).with_name("lakeward")),
        "cluster",
        str(table),
        *options,
        "--writers",
        "stopped",
        "--json",
    ]
    cost, printed = measure([*command, "--engine", "local", "--min-groups", "2"])
    report = json.loads(printed)
    return {
        "wall_seconds": round(cost.wall_seconds, 1),
        "cpu_seconds": round(cost.cpu_seconds, 1),
        "peak_mib_of_all_processes": cost.peak_rss_bytes // MIB,
        "input_groups": report["input_groups"],
        "output_groups": report["output_groups"],
        "bytes": report["input_bytes"],
    }


def by_hudi(table: Path, folder: Path, rows: tuple[int, str]) -> dict[str, Any]:
    spark = start_spark(scratch=folder, memory="3g", at_full_speed=True)
    figures: dict[str, Any] = {}
    try:
        for what, keys in {"warming": PLANS["pack"], **PLANS}.items():
            copy = Path(shutil.copytree(table, folder / f"hudi-{what}"))
            hudi = HudiTable(spark, copy, TableShape(name="t", options=AS_COPY_ON_WRITE))
            spark.read.format("hudi").load(str(copy)).count()
            began, process = time.perf_counter(), cpu_of_java()
            with hudi_client(spark, hudi, **keys) as client:
                instant = client.scheduleClustering(spark._jvm.org.apache.hudi.common.util.Option.empty()).get()  # type: ignore[union-attr]
                client.cluster(instant, True)
            figures[f"hudi {what}"] = {
                "wall_seconds": round(time.perf_counter() - began, 1),
                "cpu_seconds": round(cpu_of_java() - process, 1),
                **layout(copy),
                "equal": digest(copy) == rows,
            }
            print(f"hudi {what}: {figures[f'hudi {what}']}", file=sys.stderr)
            shutil.rmtree(copy)
    finally:
        spark.stop()
    return figures


def cpu_of_java() -> float:
    import psutil

    children = psutil.Process().children(recursive=True)
    return float(sum(sum(child.cpu_times()[:2]) for child in children))


def planning(groups: int) -> dict[str, Any]:
    """File groups of 10 MiB and of full size in partitions of a thousand."""
    sizes = (10 * MIB, TARGET)
    found = snapshot_of(
        [
            file_group(
                f"p{number // 1000:04}", f"{number:08x}-f-0", base=(minute(number % 500), sizes[number % 2]), logs=()
            )
            for number in range(groups)
        ],
        (),
    )
    began = time.perf_counter()
    plan = plan_packing(found, PackOptions())
    return {"seconds": round(time.perf_counter() - began, 2), "packed": plan.input_groups, "new": plan.outputs}


if __name__ == "__main__":
    main()
