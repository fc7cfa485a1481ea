"""`make demo`: Hudi writes a table, Lakeward compacts it, both compact copies, Hudi reads the results and compares.

Both engines are timed warm: each has compacted another copy just before, Hudi in its running Spark, Lakeward in a
process that stays (`deploy/demo/warm.py`). A compaction is plan, merge and commit; the merge alone is timed by the
times of files, the same of both: from the plan's start on the timeline to the last new base file.

Everything happens in one folder under the system's temporary folder, which is removed at the end (`--keep` leaves it).
Where the Hudi bundle cannot be fetched, a small table that Hudi wrote, shipped with the tests, takes the place of the
big one; then Lakeward's result is compared with what Hudi answered when the table was made.

Touches: a temporary folder; Spark, in this process for Hudi, in its own for `lakeward`.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from deploy.demo.output import console, headline, lakeward, megabytes, output_into, say, timed, verdict
from deploy.demo.warm import WarmLakeward
from tests.golden_tables import GOLDEN, copy_golden
from tests.hudi.spark import HUDI_VERSION, HudiMissing, start_spark
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100_000
UPSERTS = 2


@dataclass(slots=True)
class Spent:
    """What Lakeward's own steps took, all of them together."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Compacted:
    seconds: float
    """Plan, merge and commit."""
    merge_seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the table where it is, to inspect")
    parser.add_argument("--figures", type=Path, help="write what it took to this file, as JSON")
    arguments = parser.parse_args()
    say(
        f"Hudi {HUDI_VERSION} writes a table of {ROWS:,} rows, upserts and deletes, and Lakeward compacts it. "
        "Then both compact copies of it. Hudi reads the results, and all rows are compared. This takes about a minute."
    )
    folder = Path(tempfile.mkdtemp(prefix="lakeward-"))
    try:
        try:
            headline("Spark starts, with Hudi's bundle, which is fetched the first time")
            with output_into(folder / "hudi.log"):
                spark, start_seconds = timed(lambda: start_spark(scratch=folder / "spark", at_full_speed=True))
        except HudiMissing:
            return demo_with_shipped_table(folder)
        try:
            return demo_with_real_hudi(spark, folder, arguments.figures, start_seconds=start_seconds)
        finally:
            spark.stop()
    finally:
        if arguments.keep:
            console.print(f"The table is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def demo_with_real_hudi(spark: SparkSession, folder: Path, figures: Path | None, *, start_seconds: float) -> int:
    table = write_table(spark, folder / "trips")
    other, by_hudi, by_lakeward = (table.copy_to(folder / name) for name in ("other", "by-hudi", "by-lakeward"))
    another = table.copy_to(folder / "another")
    table.digest()  # the first query of a JVM pays for loading Hudi; it is not what we want to show
    before, before_seconds = timed(table.digest)
    files_before = table.data_files()

    spent = Spent()
    add_lakeward(spent, "explain", str(table.path))
    command_seconds = add_lakeward(spent, "compact", str(table.path), "--type", "full", "--writers", "stopped")

    headline("Both compact copies of the table as it was")
    say("First one each that does not count, so that both are warm.")
    cpu, warm = cpu_of_children(), WarmLakeward(folder / "lakeward.log")
    try:
        warm.begin(another.path)
        with output_into(folder / "compaction.log"):
            other.compact()
        spent.seconds += warm.ended()
        say("Now Hudi, then Lakeward.")
        with output_into(folder / "compaction.log"):
            instant, hudi_seconds = timed(by_hudi.compact)
        hudi = Compacted(hudi_seconds, merge_seconds(by_hudi.path, instant))
        warm.begin(by_lakeward.path)
        our_seconds = warm.ended()
    finally:
        warm.leave()
    spent.seconds += our_seconds
    spent.cpu_seconds += cpu_of_children() - cpu
    lakeward_took = Compacted(our_seconds, merge_seconds(by_lakeward.path, by_lakeward.compactions()[-1]))

    headline("What a query opens, and what the compactions took")
    read_of_hudi, hudi_read_seconds = timed(by_hudi.digest)
    after, read_seconds = timed(table.digest)
    files_of_hudi, our_files = (newest_base_files(each.data_files()) for each in (by_hudi, table))
    answer = Table(box=None, pad_edge=False)
    for column in ("", "before", "by Hudi", "by Lakeward"):
        answer.add_column(column, justify="left" if not column else "right")
    answer.add_row("files", str(len(files_before)), str(len(files_of_hudi)), str(len(our_files)))
    answer.add_row("bytes", megabytes(files_before), megabytes(files_of_hudi), megabytes(our_files))
    answer.add_row("full read by Hudi", *seconds(before_seconds, hudi_read_seconds, read_seconds))
    answer.add_row("rows", *(f"{rows:,}" for rows, _ in (before, read_of_hudi, after)))
    answer.add_row("digest of all rows", *(f"{digest & 0xFFFFFFFF:08x}" for _, digest in (before, read_of_hudi, after)))
    answer.add_row("compaction, engine warm", "", *seconds(hudi.seconds, lakeward_took.seconds))
    answer.add_row("  of it the merge alone", "", *seconds(hudi.merge_seconds, lakeward_took.merge_seconds))
    console.print(answer)
    say(
        "\nA compaction is plan, merge and commit, here of equal copies, by engines that had just compacted another: "
        "Hudi in its running Spark, Lakeward in a process that stays, as its daemon does. The merge alone ends with "
        f"the last new base file. `lakeward compact` above, from a cold start, took {command_seconds:.1f} s from "
        f"beginning to end; Spark took {start_seconds:.1f} s to start."
    )
    say(
        "\nHudi compresses with gzip and Lakeward with zstd, each by default. The old files stay until a cleaner takes "
        f"them. Lakeward's own steps took {spent.seconds:.1f} s in all."
    )
    if figures is not None:
        write_figures(figures, spent, hudi=hudi, lakeward=lakeward_took, command_seconds=command_seconds)
    return verdict(before == after == read_of_hudi)


def add_lakeward(spent: Spent, *words: str) -> float:
    """Run the command, in sight. Returns its seconds."""
    cpu = cpu_of_children()
    _, wall_seconds = timed(lambda: lakeward(*words))
    spent.seconds += wall_seconds
    spent.cpu_seconds += cpu_of_children() - cpu
    return wall_seconds


def cpu_of_children() -> float:
    """CPU seconds of the child processes that have ended; Spark's is none of them, since it runs on."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def merge_seconds(table: Path, instant: str) -> float:
    """From the plan's start on the timeline to the last new base file, by the times of the files."""
    begun = (table / ".hoodie" / "timeline" / f"{instant}.compaction.inflight").stat().st_mtime
    return max(file.stat().st_mtime for file in table.rglob(f"*_{instant}.parquet")) - begun


def seconds(*figures: float) -> tuple[str, ...]:
    return tuple(f"{figure:.1f} s" for figure in figures)


def write_figures(file: Path, spent: Spent, *, hudi: Compacted, lakeward: Compacted, command_seconds: float) -> None:
    engines = {"hudi": asdict(hudi), "lakeward": asdict(lakeward)}
    file.write_text(json.dumps({**engines, "command_seconds": command_seconds, "lakeward_steps": asdict(spent)}))


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
    headline(f"Hudi {HUDI_VERSION} writes a merge-on-read table, then updates and deletes")
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
