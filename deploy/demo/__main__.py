"""`make demo`: Hudi writes a table and compacts a copy, Lakeward compacts the table, Hudi reads both and compares.

What it does and how long that takes is said before anything is started, and each step when it begins. Everything
happens in one folder under the system's temporary folder, which is removed at the end (`--keep` leaves it).
Where the Hudi bundle cannot be fetched, a small table that Hudi wrote, shipped with the tests, takes the place of the
big one; then Lakeward's result is compared with what Hudi answered when the table was made.

Touches: a temporary folder; Spark, in this process for Hudi, in its own for `lakeward`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from deploy.demo.telling import console, headline, lakeward, megabytes, output_into, say, timed, verdict
from tests.golden_tables import GOLDEN, copy_golden
from tests.hudi.spark import HUDI_VERSION, HudiMissing, start_spark
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100_000
UPSERTS = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the table where it is, to inspect")
    arguments = parser.parse_args()
    say(
        f"This takes about a minute, once Hudi's bundle was fetched. Hudi {HUDI_VERSION} writes a table of {ROWS:,} "
        "rows, upserts and deletes."
    )
    say("It compacts a copy, Lakeward the table itself. Hudi reads both back, and all rows are compared.")
    folder = Path(tempfile.mkdtemp(prefix="lakeward-demo-"))
    try:
        try:
            headline("Spark starts, with Hudi's bundle")
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
    table = write_table(spark, folder / "trips")
    copy = table.copy_to(folder / "copy")
    say("Hudi reads the table as it is")
    table.digest()  # the first query of a JVM pays for loading Hudi; it is not what we want to show
    before, before_seconds = timed(table.digest)
    files_before = table.data_files()

    headline("Hudi compacts a copy")
    with output_into(folder / "compaction.log"):
        _, hudi_seconds = timed(copy.compact)
    lakeward("explain", str(table.path))
    compact = ("compact", str(table.path), "--type", "full", "--writers", "stopped")
    _, our_seconds = timed(lambda: lakeward(*compact))

    headline("What a query opens, before and after")
    by_hudi, hudi_read_seconds = timed(copy.digest)
    after, read_seconds = timed(table.digest)
    of_hudi, ours = (newest_base_files(each.data_files()) for each in (copy, table))
    answer = Table(box=None, pad_edge=False)
    for column in ("", "before", "by Hudi", "by Lakeward"):
        answer.add_column(column, justify="left" if not column else "right")
    answer.add_row("files", str(len(files_before)), str(len(of_hudi)), str(len(ours)))
    answer.add_row("bytes", megabytes(files_before), megabytes(of_hudi), megabytes(ours))
    answer.add_row("full read by Hudi", *(f"{s:.1f} s" for s in (before_seconds, hudi_read_seconds, read_seconds)))
    answer.add_row("rows", *(f"{rows:,}" for rows, _ in (before, by_hudi, after)))
    answer.add_row("digest of all rows", *(f"{digest & 0xFFFFFFFF:08x}" for _, digest in (before, by_hudi, after)))
    answer.add_row("the compaction took", "", f"{hudi_seconds:.1f} s", f"{our_seconds:.1f} s")
    console.print(answer)
    say("Hudi's ran in a Spark that was running; Lakeward's is a process from its start to its end.")
    say("Lakeward compresses with zstd unless --codec says otherwise. The old files stay until Hudi's cleaner goes by.")
    return verdict(before == after == by_hudi)


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
    headline(f"Hudi {HUDI_VERSION} writes a merge-on-read table, then skewed updates and deletes")
    table.write(spark.sql(rows), "insert")
    say_files(table, "inserted")
    for n in range(1, UPSERTS + 1):
        # Most changes hit the newest trips, as they do in life.
        changed = f"SELECT CAST({ROWS - 1} * (1 - pow(rand({n}), 4)) AS BIGINT) AS id FROM range({ROWS // 15})"
        rows = f"SELECT DISTINCT {columns}, 'step {n}' AS state, {n}L AS updated, {cities} FROM ({changed})"
        table.write(spark.sql(rows), "upsert")
        say_files(table, f"upsert {n} of {UPSERTS}")
    gone = f"SELECT {columns}, '' AS state, 9L AS updated, {cities} FROM range({ROWS - 9000}, {ROWS}, 3)"
    table.write(spark.sql(gone), "delete")
    say_files(table, "deleted some")
    return table


def say_files(table: HudiTable, what: str) -> None:
    files = table.data_files()
    say(f"{what}: {len(files)} files, {megabytes(files)}")


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


if __name__ == "__main__":
    sys.exit(main())
