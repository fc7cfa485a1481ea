"""Small file groups of a copy-on-write table clustered, by Lakeward and by Hudi's clustering on Spark, by equal plans.

    pack      groups of 12 small files or so become one each
    ordered   the same, of a table whose files are in the order of their keys, and do not overlap
    sort      all of them become files of 120 MiB, sorted by the column `city`
    hybrid    the same for Lakeward alone, each file in the order of its keys

Hudi makes the tables: FILES files of ROWS rows. Each run begins with a copy of one, at one core and at two. Lakeward
runs as a command of its own, whose cost is that of all its processes; Hudi's cost is that of scheduling and clustering
on a session that is warm. Rows, with their meta columns, must be those of before. Then it is counted how many files a
filter on a city reads by the ranges of footers, on average over the cities, and how many may have a key. The floor is
copying the files, read from the page cache, one at a time.

    python -m benchmarks.clustering [--files N] [--rows N] [--groups N] [--cores N,N] [--only KIND,KIND]
                                    [--sides lakeward,hudi] [--tables FOLDER]

Keys are looked up in an open process, by the filters of files. GROUPS file groups, as sizes alone, are planned. The
tables stay in FOLDER for other runs, or are those of a run before.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakeward as lakeward_api
from benchmarks.measure import machine, measure, write_report
from lakeward.base.clock import SystemClock
from lakeward.merge.digest import Digest
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import plan_packing
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from tests.hudi.client import hudi_client
from tests.hudi.spark import start_spark
from tests.hudi.table import HudiTable, TableShape
from tests.synthetic_table import file_group, minute, snapshot_of

MIB = 1024 * 1024
CITIES = 2_000
SMALL = 12
"""The table on which Hudi warms up has so many files."""
LOOKED_UP, ROWS_OF_A_KEY = 5, 997
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
UNSORTED = {"hoodie.bulkinsert.sort.mode": "NONE", "hoodie.metadata.enable": ""}
"""Tables have Hudi's own defaults but for the order of rows, their metadata table among them."""


@dataclass(frozen=True, slots=True)
class Run:
    table: str
    hudi_keys: Mapping[str, str]
    """Empty where Hudi has no such clustering."""
    others: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        return [*(f"--hudi-conf={key}={value}" for key, value in self.hudi_keys.items()), *self.others]


RUNS = {
    "pack": Run("made", PLANS["pack"]),
    "ordered": Run("ordered", PLANS["pack"]),
    "sort": Run("made", PLANS["sort"]),
    "hybrid": Run("made", {}, ("--by", "city", "--mode", "hybrid", "--target-size", "120MiB")),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clustering", description=__doc__)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--only", default=",".join(RUNS))
    parser.add_argument("--sides", default="lakeward,hudi")
    parser.add_argument("--tables", type=Path)
    arguments = parser.parse_args()
    before = machine()
    figures: dict[str, Any] = {name: str(value) for name, value in vars(arguments).items()}
    figures["load_before"] = os.getloadavg()
    figures["planning"] = planning(arguments.groups)
    with tempfile.TemporaryDirectory(prefix="clustering-", dir=os.environ.get("TMPDIR")) as name:
        runs = {what: RUNS[what] for what in arguments.only.split(",")}
        folder = arguments.tables or Path(name)
        tables = {table: folder / table for table in ["small", *sorted({run.table for run in runs.values()})]}
        if missing := [table for table, path in tables.items() if not path.exists()]:
            make(folder, missing, arguments.files, arguments.rows)
        rows = {table: digest_of_made(path) for table, path in tables.items()}
        for table, path in tables.items():
            figures[f"{table} before"] = layout(path) | copied(path, Path(name)) | looked_up(path)
        for cores in map(int, arguments.cores.split(",")):
            with on_cores(cores):
                for what, run in runs.items() if "lakeward" in arguments.sides else ():
                    copy = Path(shutil.copytree(tables[run.table], Path(name, f"lakeward-{what}")))
                    cost = lakeward(copy, run.options)
                    report(figures, f"lakeward {what}, {cores} cores", cost, copy, rows[run.table])
                if "hudi" in arguments.sides:
                    by_hudi(figures, tables, Path(name), rows, runs, cores)
    figures["load_after"] = os.getloadavg()
    write_report("clustering", before, figures)


def report(figures: dict[str, Any], what: str, cost: dict[str, Any], table: Path, rows: tuple[int, str]) -> None:
    """Keep what a run took and what it left, and delete the table."""
    figures[what] = cost | layout(table) | looked_up(table) | {"equal": digest(table) == rows}
    print(f"{what}: {figures[what]}", file=sys.stderr)
    shutil.rmtree(table)


@contextmanager
def on_cores(cores: int) -> Iterator[None]:
    """What is started meanwhile has so many cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def make(folder: Path, tables: Sequence[str], files: int, rows: int) -> None:
    """Keys are random, as are all other values. Hudi has written all files of a table in one commit."""
    folder.mkdir(exist_ok=True)
    spark = start_spark(scratch=folder, memory="3g", at_full_speed=True)
    try:
        for number in range(files):
            pq.write_table(batch(number, rows), folder / f"rows-{number:05}.parquet")
        # A task of Spark, and so a file, for each.
        spark.conf.set("spark.sql.files.openCostInBytes", str(1024 * MIB))
        paths = [str(path) for path in sorted(folder.glob("rows-*.parquet"))]
        frame = spark.read.parquet(*paths)
        for table in tables:
            rows_of = spark.read.parquet(*paths[:SMALL]) if table == "small" else frame
            if table == "ordered":
                rows_of = frame.repartitionByRange(files, "id").sortWithinPartitions("id")
            shape = TableShape(name="t", options=AS_COPY_ON_WRITE)
            HudiTable(spark, folder / table, shape).write(rows_of, "bulk_insert", **UNSORTED)
    finally:
        spark.stop()
        for path in folder.glob("rows-*.parquet"):
            path.unlink()


def looked_up(table: Path) -> dict[str, Any]:
    """What a key takes that is there: in the middle of some, and how many file groups are read for it."""
    keys = pq.ParquetFile(newest_files(table)[-1]).read_row_group(0, ["id"]).column("id").to_pylist()[::ROWS_OF_A_KEY]
    opened, seconds, groups = lakeward_api.Table(str(table)), [], []
    for key in keys[:LOOKED_UP]:
        began = time.process_time()
        scan = opened.scan(keys=[key])
        assert scan.to_arrow().column("id").to_pylist() == [key]
        seconds.append(time.process_time() - began)
        groups.append(len(scan.scan.plan.slices))
    return {
        "cpu_ms_of_a_key": round(1000 * float(np.median(seconds)), 1),
        "file_groups_of_a_key": float(np.mean(groups)),
    }


def copied(table: Path, folder: Path) -> dict[str, Any]:
    """What it takes to copy the files, once they have been read, as they are and each synced as Lakeward does."""
    paths = newest_files(table)
    found: dict[str, Any] = {"bytes": sum(path.stat().st_size for path in paths)}
    for how in ("copy", "synced_copy"):
        began, process = time.perf_counter(), time.process_time()
        for path in paths:
            with path.open("rb") as source, (folder / "copied").open("wb") as sink:
                shutil.copyfileobj(source, sink, MIB)
                if how == "synced_copy":
                    sink.flush()
                    os.fsync(sink.fileno())
        found[f"{how}_seconds"] = round(time.perf_counter() - began, 2)
        found[f"{how}_cpu_seconds"] = round(time.process_time() - process, 2)
    (folder / "copied").unlink()
    return found


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


def digest_of_made(table: Path) -> tuple[int, str]:
    """The same, which stays beside the table for other runs."""
    kept = table.with_suffix(".json")
    if not kept.exists():
        kept.write_text(json.dumps(digest(table)))
    rows, hexdigest = json.loads(kept.read_text())
    return rows, hexdigest


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
        "peak_mib_of_a_process": cost.peak_rss_of_one_bytes // MIB,
        "input_groups": report["input_groups"],
        "output_groups": report["output_groups"],
        "bytes": report["input_bytes"],
    }


def by_hudi(
    figures: dict[str, Any],
    tables: Mapping[str, Path],
    folder: Path,
    rows: Mapping[str, tuple[int, str]],
    runs: Mapping[str, Run],
    cores: int,
) -> None:
    spark = start_spark(scratch=folder, memory="3g", at_full_speed=True, cores=cores)
    try:
        by_keys = {what: run for what, run in runs.items() if run.hudi_keys}
        warming = replace(next(iter(by_keys.values())), table="small")
        for what, run in [("warming", warming), *by_keys.items()]:
            copy = Path(shutil.copytree(tables[run.table], folder / f"hudi-{what}"))
            hudi = HudiTable(spark, copy, TableShape(name="t", options=AS_COPY_ON_WRITE))
            spark.read.format("hudi").load(str(copy)).count()
            began, process = time.perf_counter(), cpu_of_java()
            with hudi_client(spark, hudi, **run.hudi_keys) as client:
                instant = client.scheduleClustering(spark._jvm.org.apache.hudi.common.util.Option.empty()).get()  # type: ignore[union-attr]
                client.cluster(instant, True)
            cost = {"wall_seconds": time.perf_counter() - began, "cpu_seconds": cpu_of_java() - process}
            cost = {name: round(seconds, 1) for name, seconds in cost.items()}
            report(figures, f"hudi {what}, {cores} cores", cost, copy, rows[run.table])
    finally:
        spark.stop()


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
    began, process = time.perf_counter(), time.process_time()
    plan = plan_packing(found, PackOptions())
    seconds = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - process}
    return {
        **{name: round(each, 2) for name, each in seconds.items()},
        "packed": plan.input_groups,
        "new": plan.outputs,
    }


if __name__ == "__main__":
    main()
