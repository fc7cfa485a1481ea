"""`make bench-compaction`: a FULL compaction by Lakeward against Hudi's own, of copies of one table, in one run.

The table: 2 M base rows and 20 logs of 30 k rows, 15 columns, two bucketed file groups, event-time ordering; every log
updates rows all over the base. Each side is a process of its own, Spark included, on as many cores as there are, and
writes zstd. Lakeward runs on Spark with its checks on (the default) and off, in processes of this machine, and on one
core. In the end Hudi reads every copy, and all rows must be equal to those read before.

Touches: a temporary folder (some GB); writes `benchmarks/results/compaction-<time>.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Cost, machine, measure
from tests.hudi.spark import HUDI_VERSION, start_spark
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULTS = Path(__file__).with_name("results")
CODEC = "zstd"

Compact = Callable[[str], tuple[Cost, float]]
"""Compacts the table at a path; returns what it cost, and the seconds of the compaction alone."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-compaction", description=__doc__)
    parser.add_argument("--base-rows", type=int, default=2_000_000)
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--log-rows", type=int, default=30_000)
    parser.add_argument("--without-hudi", action="store_true", help="leave the side of Hudi out")
    arguments = parser.parse_args()
    sides = {name: side for name, side in SIDES.items() if side is not by_hudi or not arguments.without_hudi}
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
        result = run(Path(folder), arguments.base_rows, arguments.logs, arguments.log_rows, sides)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"compaction-{result['time'].replace(':', '')}.json"
    file.write_text(json.dumps(result, indent=2) + "\n")
    say(result)
    print(f"Written to {file}", file=sys.stderr)
    return 0


def run(folder: Path, base_rows: int, logs: int, log_rows: int, compacting: Mapping[str, Compact]) -> dict[str, Any]:
    spark = start_spark(scratch=folder / "spark", memory="6g", at_full_speed=True)
    table = write_table(spark, folder / "table", base_rows, logs, log_rows)
    expected = table.digest()
    input_bytes = sum(table.data_files().values())
    spark.stop()  # nothing but the side that is measured runs while it is measured

    about_machine = machine()
    sides = {}
    for name, compact in compacting.items():
        copy = folder / name.replace(" ", "-")
        shutil.copytree(table.path, copy, copy_function=shutil.copy2)
        print(f"{name} ...", file=sys.stderr)
        cost, seconds = compact(str(copy))
        sides[name] = asdict(cost) | {"compaction_seconds": seconds, "output_bytes": output_bytes(copy, table.path)}

    spark = start_spark(scratch=folder / "spark", memory="6g", at_full_speed=True)
    for name in compacting:
        found = HudiTable(spark, folder / name.replace(" ", "-"), table.shape).digest()
        assert found == expected, f"{name}: Hudi reads other rows than before"
    spark.stop()
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": about_machine,
        "workload": {
            "base_rows": base_rows,
            "logs": logs,
            "rows_per_log": log_rows,
            "columns": 15,
            "file_groups": 2,
            "input_bytes": input_bytes,
            "output_codec": CODEC,
            "rows_out": expected[0],
        },
        "hudi": HUDI_VERSION,
        "sides": sides,
    }


def write_table(spark: SparkSession, path: Path, base_rows: int, logs: int, log_rows: int) -> HudiTable:
    shape = TableShape(name="bench", index="BUCKET", buckets=2, options={"hoodie.parquet.compression.codec": CODEC})
    table = HudiTable(spark, path, shape)
    columns = """
        concat('user-', lpad(id, 10, '0')) AS id, {ts}L AS ts, CAST(id % 100000 AS INT) AS account,
        id * 31 AS big, rand({seed}) AS ratio, CAST(rand({seed}) * 1000 AS FLOAT) AS score,
        id % 3 = 0 AS active, CAST(id % 1000 AS DECIMAL(12, 2)) AS amount,
        date_add(DATE'2020-01-01', CAST(id % 1500 AS INT)) AS day,
        timestamp_micros(1600000000000000 + id * 1000003) AS seen, concat('city ', id % 500) AS city,
        sha1(CAST(id + {seed} AS STRING)) AS fingerprint, concat('note ', id % 77, ' of version ', {ts}) AS note,
        element_at(array('new', 'open', 'closed'), CAST(1 + id % 3 AS INT)) AS state, uuid() AS trace
    """
    base = f"SELECT {columns.format(ts=0, seed=0)} FROM range(0, {base_rows}, 1, 2)"
    # Written once and read back, so that a task that runs twice cannot write other random values.
    table.write(spark.sql(base).cache(), "bulk_insert", **{"hoodie.bulkinsert.shuffle.parallelism": "2"})
    for n in range(1, logs + 1):
        step = max(1, base_rows // log_rows)
        rows = f"SELECT {columns.format(ts=n, seed=n)} FROM range({n % step}, {base_rows}, {step}) LIMIT {log_rows}"
        table.write(spark.sql(rows).cache(), "upsert")
    spark.catalog.clearCache()
    return table


def by_hudi(table: str) -> tuple[Cost, float]:
    cost, printed = measure([sys.executable, "-m", "benchmarks.hudi_compaction", table])
    return cost, float(printed.strip().splitlines()[-1])


def by_lakeward(*options: str, before: Sequence[str] = ()) -> Compact:
    def compact(table: str) -> tuple[Cost, float]:
        command = [*before, sys.executable, "-m", "lakeward.cli.main", "compact", table, "--type", "full"]
        cost, printed = measure([*command, "--writers", "stopped", "--codec", CODEC, "--json", *options])
        return cost, sum(plan["seconds"] for plan in json.loads(printed)["compactions"])

    return compact


SIDES = {
    f"hudi {HUDI_VERSION}": by_hudi,
    "lakeward on Spark": by_lakeward("--engine", "spark"),
    "lakeward on Spark unchecked": by_lakeward("--engine", "spark", "--no-verify"),
    "lakeward local": by_lakeward("--engine", "local"),
    "lakeward on one core": by_lakeward("--engine", "local", before=("taskset", "-c", "0")),
}


def output_bytes(copy: Path, original: Path) -> int:
    before = {file.relative_to(original) for file in original.rglob("*.parquet")}
    return sum(file.stat().st_size for file in copy.rglob("*.parquet") if file.relative_to(copy) not in before)


def say(result: dict[str, Any]) -> None:
    print(f"{'':28} {'process':>9} {'compaction':>11} {'CPU':>8} {'peak RSS':>10} {'output':>9}")
    for name, side in result["sides"].items():
        print(
            f"{name:28} {side['wall_seconds']:7.1f} s {side['compaction_seconds']:9.1f} s {side['cpu_seconds']:6.1f} s"
            f" {side['peak_rss_bytes'] / 1e6:7.0f} MB {side['output_bytes'] / 1e6:6.0f} MB"
        )


if __name__ == "__main__":
    sys.exit(main())
