"""`make demo-write`: Lakeward makes a table and writes to it; released Hudi reads it, writes to it, and reads it again.

A dict of rows says what is right at each moment, not Lakeward. Everything happens in one folder under the
system's temporary folder, which is removed at the end (`--keep` leaves it).

Touches: a temporary folder; Spark, in this process for Hudi, in its own for `lakeward`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deploy.demo.output import (
    demo_in_a_folder,
    headline,
    lakeward,
    megabytes,
    output_into,
    say,
    timed,
    verdict,
)
from tests.hudi.spark import HUDI_VERSION, start_spark
from tests.hudi.table import HudiTable, TableShape

ROWS = 200_000
CITIES = ("berlin", "lima", "nairobi")
BUCKETS = 4
COLUMNS = pa.schema(
    [
        ("trip", pa.string()),
        ("city", pa.string()),
        ("updated", pa.int64()),
        ("state", pa.string()),
        ("fare", pa.float64()),
    ]
)
SHAPE = TableShape(
    name="trips",
    key_fields="trip",
    partition_fields="city",
    hive_style=True,
    ordering_fields="updated",
    index="BUCKET",
    buckets=BUCKETS,
    options={"hoodie.metadata.enable": "true"},
)

Trips = dict[str, tuple[str, int, str, float]]
"""Maps a trip to its city, when it was updated, its state and its fare."""


def main() -> int:
    introduction = (
        f"Lakeward makes a table and writes {ROWS:,} rows, updates and deletes. This takes about a minute.\n"
        f"Hudi {HUDI_VERSION} reads it, writes to it with its defaults, and all rows are compared each time."
    )
    return demo_in_a_folder("make demo-write", __doc__, introduction, demo)


def demo(folder: Path) -> int:
    table, rows = str(folder / "trips"), folder / "rows.parquet"
    trips: Trips = {f"trip-{n:09}": (CITIES[n % 3], 0, "requested", n * 7919 % 9000 / 100) for n in range(ROWS)}
    put(rows, trips)
    lakeward(
        "table", "create", table, "--like", str(rows), "--record-key", "trip", "--partition", "city", "--ordering",
        "updated", "--hive-style", "--index", f"bucket:{BUCKETS}",
    )  # fmt: skip
    write = ("write", table, "--writers", "stopped")
    lakeward(*write, "--operation", "bulk_insert", "--input", str(rows))
    chance = random.Random(1)
    for step in (1, 2):
        changed = {
            trip: (trips[trip][0], step, f"step {step}", 1.5) for trip in chance.sample(sorted(trips), ROWS // 20)
        }
        trips |= changed
        put(rows, changed)
        lakeward(*write, "--input", str(rows))
    gone = chance.sample(sorted(trips), 3_000)
    lines = "\n".join(json.dumps({"trip": trip, "city": trips.pop(trip)[0]}) for trip in gone)
    lakeward(*write, "--operation", "delete", "--input", "-", standard_input=lines.encode())
    lakeward("compact", table, "--writers", "stopped", "--no-metadata-services")

    headline("Spark starts, with Hudi's bundle")
    with output_into(folder / "hudi.log"):
        spark = start_spark(scratch=folder / "spark", at_full_speed=True)
    try:
        hudi = HudiTable(spark, Path(table), SHAPE)
        headline(f"Hudi {HUDI_VERSION} reads it, by the metadata table")
        if verdict(agrees(hudi, trips)):
            return 1
        headline(f"Hudi {HUDI_VERSION} writes to it, and Lakeward once more")
        changed = {trip: (trips[trip][0], 3, "by Hudi", 2.5) for trip in chance.sample(sorted(trips), 1_000)}
        trips |= changed
        _, seconds = timed(lambda: hudi.write(spark.createDataFrame(list(flat(changed)), COLUMNS.names), "upsert"))
        say(f"Hudi's upsert of {len(changed):,} rows took {seconds:.1f} s")
        changed = {trip: (trips[trip][0], 4, "by Lakeward", 3.5) for trip in chance.sample(sorted(trips), 1_000)}
        trips |= changed
        put(rows, changed)
        lakeward(*write, "--input", str(rows))
        headline(f"Hudi {HUDI_VERSION} reads it again: {megabytes(hudi.data_files())}")
        return verdict(agrees(hudi, trips))
    finally:
        spark.stop()


def flat(trips: Trips) -> Iterable[tuple[str, str, int, str, float]]:
    return ((trip, *values) for trip, values in trips.items())


def put(path: Path, trips: Trips) -> None:
    pq.write_table(
        pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in flat(trips)], COLUMNS), path
    )


def agrees(hudi: HudiTable, trips: Trips) -> bool:
    """Whether Hudi's snapshot query returns these rows, each once."""
    found = hudi.frame().select(*COLUMNS.names).collect()
    say(f"{len(found):,} rows")
    return sorted(tuple(row) for row in found) == sorted(flat(trips))


if __name__ == "__main__":
    sys.exit(main())
