"""`make demo`: real Hudi writes a table, Lakeward compacts it, and Hudi reads the result back and compares.

Everything happens in one folder under the system's temporary folder, which is removed at the end (`--keep` leaves it).
Where the Hudi bundle cannot be fetched, a small table that Hudi wrote, shipped with the tests, takes the place of the
big one; then Lakeward's result is compared with what Hudi answered when the table was made.

Touches: a temporary folder; Spark, in this process for Hudi, in its own for `lakeward`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.table import Table

from tests.golden_tables import GOLDEN, copy_golden
from tests.hudi.spark import HUDI_VERSION, HudiMissing, start_spark
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 300_000

console = Console(highlight=False)
T = TypeVar("T")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the table where it is, to inspect")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lakeward-demo-"))
    try:
        try:
            with output_into(folder / "hudi.log"):
                spark = start_spark(scratch=folder / "spark", at_full_speed=True)
        except HudiMissing:
            return demo_with_shipped_table(folder)
        try:
            return demo_with_real_hudi(spark, folder)
        finally:
            spark.stop()
    finally:
        if arguments.keep:
            console.print(f"The table is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def demo_with_real_hudi(spark: SparkSession, folder: Path) -> int:
    headline(f"Hudi {HUDI_VERSION} writes a merge-on-read table: {ROWS:,} rows, then skewed updates and deletes")
    table = write_table(spark, folder / "trips")
    table.digest()  # the first query of a JVM pays for loading Hudi; it is not what we want to show
    before, seconds_before = timed(table.digest)
    files_before = table.data_files()

    lakeward("inspect", str(table.path))
    _, seconds = timed(lambda: lakeward("compact", str(table.path), "--type", "full", "--writers", "stopped"))

    headline("Hudi reads the result back")
    after, seconds_after = timed(table.digest)
    files_after = newest_base_files(table.data_files())
    answer = Table(box=None, pad_edge=False)
    for column in ("", "before", "after"):
        answer.add_column(column, justify="left" if not column else "right")
    answer.add_row("rows", f"{before[0]:,}", f"{after[0]:,}")
    answer.add_row("digest of all rows", f"{before[1] & 0xFFFFFFFF:08x}", f"{after[1] & 0xFFFFFFFF:08x}")
    answer.add_row("files that a query opens", str(len(files_before)), str(len(files_after)))
    answer.add_row("their bytes", megabytes(files_before), megabytes(files_after))
    answer.add_row("full read by Hudi", f"{seconds_before:.1f} s", f"{seconds_after:.1f} s")
    console.print(answer)
    console.print(
        f"Lakeward took {seconds:.1f} s, starting Spark included. The old files stay until Hudi's cleaner goes by."
    )
    return verdict(before == after)


def write_table(spark: SparkSession, path: Path) -> HudiTable:
    table = HudiTable(
        spark,
        path,
        TableShape(
            name="trips",
            key_fields="trip",
            partition_fields="city",
            hive_style=True,
            ordering_fields="updated",
            # One base file a city, as a table of this size should have.
            options={"hoodie.insert.shuffle.parallelism": "3", "hoodie.metadata.enable": "true"},
        ),
    )
    cities = "element_at(array('berlin', 'nairobi', 'lima'), CAST(1 + id % 3 AS INT)) AS city"
    columns = "concat('trip-', lpad(id, 9, '0')) AS trip, concat('rider ', id % 7919) AS rider"
    columns += ", id * 7919 % 9000 / 100.0 AS fare"
    rows = f"SELECT {columns}, 'requested' AS state, 0L AS updated, {cities} FROM range({ROWS})"
    table.write(spark.sql(rows), "insert")
    for n in range(1, 6):
        # Most changes hit the newest trips, as they do in life.
        changed = f"SELECT CAST({ROWS - 1} * (1 - pow(rand({n}), 4)) AS BIGINT) AS id FROM range({ROWS // 15})"
        rows = f"SELECT DISTINCT {columns}, 'step {n}' AS state, {n}L AS updated, {cities} FROM ({changed})"
        table.write(spark.sql(rows), "upsert")
    gone = f"SELECT {columns}, '' AS state, 9L AS updated, {cities} FROM range({ROWS - 9000}, {ROWS}, 3)"
    table.write(spark.sql(gone), "delete")
    return table


def newest_base_files(files: dict[str, int]) -> dict[str, int]:
    """The base file with the newest instant of each file group: all that is read where there are no logs."""
    newest: dict[str, str] = {}
    for name in sorted((name for name in files if name.endswith(".parquet")), key=lambda name: name.rsplit("_", 1)[1]):
        newest[name.rsplit("_", 2)[0]] = name
    return {name: files[name] for name in newest.values()}


def demo_with_shipped_table(folder: Path) -> int:
    headline(
        f"Hudi {HUDI_VERSION} cannot be fetched here: a small table that Hudi wrote, shipped with the tests, stands in"
    )
    table = copy_golden("v9", folder / "table", pending=True)
    lakeward("inspect", str(table))
    lakeward("compact", str(table), "--type", "full", "--writers", "stopped")

    headline("The rows of the new base files, beside what Hudi answered when the table was made")
    import pyarrow.parquet as pq

    expected = sorted((row["id"], row["name"]) for row in json.loads((GOLDEN / "v9" / "expected.json").read_text()))
    files = newest_base_files({str(file): file.stat().st_size for file in table.rglob("*.parquet")})
    found = sorted((row["id"], row["name"]) for file in files for row in pq.read_table(file).to_pylist())
    for key, name in found:
        console.print(f"  {key}  {name}")
    return verdict(found == expected)


def lakeward(*arguments: str) -> None:
    headline("$ lakeward " + " ".join(arguments))
    # A process of its own, as on a machine where Hudi's jars are not: none of them is on its class path.
    subprocess.run([sys.executable, "-m", "lakeward.cli.main", *arguments], check=True)


@contextlib.contextmanager
def output_into(file: Path) -> Iterator[None]:
    """What processes started in here print goes to `file`: Hudi's JVM is chatty all its life."""
    sys.stdout.flush()
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    with file.open("wb") as log:
        for stream in kept:
            os.dup2(log.fileno(), stream)
    try:
        yield
    finally:
        for stream, original in kept.items():
            os.dup2(original, stream)
            os.close(original)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


def megabytes(files: dict[str, int]) -> str:
    return f"{sum(files.values()) / 1e6:.1f} MB"


def headline(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]", soft_wrap=True)


def verdict(same: bool) -> int:
    if same:
        console.print("[green]The same rows.[/green]")
        return 0
    console.print("[red]The rows differ. This is a bug; please keep the table and report it.[/red]")
    return 1


if __name__ == "__main__":
    sys.exit(main())
