"""`make demo-cluster`: Hudi makes two hundred small files, Lakeward packs them into eight, Hudi reads the same rows.

What Hudi read before says what is right, not Lakeward. Everything happens in one folder under the system's temporary
folder, which is removed at the end (`--keep` leaves it).

Touches: a temporary folder; Spark, in this process for Hudi, in its own for `lakeward`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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
CITIES = ("berlin", "cairo", "dakar", "hanoi", "lima", "nairobi", "osaka", "quito")
FILES_EACH = 25
"""Small files of each city."""
SHAPE = TableShape(
    name="trips",
    key_fields="trip",
    partition_fields="city",
    hive_style=True,
    ordering_fields="updated",
    options={
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.metadata.enable": "true",
        "hoodie.bulkinsert.sort.mode": "NONE",
    },
)


def main() -> int:
    files = len(CITIES) * FILES_EACH
    introduction = (
        f"Hudi {HUDI_VERSION} writes {ROWS:,} rows into {files} small files, which takes it most of the time."
    )
    return demo_in_a_folder("make demo-cluster", __doc__, introduction, demo)


def demo(folder: Path, *, rows: int = ROWS, files_each: int = FILES_EACH) -> int:
    table = folder / "trips"
    headline("Spark starts, with Hudi's bundle")
    with output_into(folder / "hudi.log"):
        spark = start_spark(scratch=folder / "spark", at_full_speed=True)
    try:
        hudi = HudiTable(spark, table, SHAPE)
        made = spark.range(rows).selectExpr(
            "format_string('trip-%09d', id) AS trip",
            f"element_at(array({', '.join(map(repr, CITIES))}), cast(id % {len(CITIES)} AS int) + 1) AS city",
            "cast(0 AS long) AS updated",
            "id * 7919 % 9000 / 100.0 AS fare",
        )
        _, seconds = timed(lambda: hudi.write(made.repartition(files_each), "bulk_insert"))
        say(f"Hudi's bulk_insert took {seconds:.1f} s: {megabytes(hudi.data_files())}")
        before, files = seen(hudi)
        lakeward("cluster", str(table), "--dry-run")
        lakeward("cluster", str(table), "--writers", "stopped")
        headline(f"Hudi {HUDI_VERSION} reads it again")
        after, left = seen(hudi)
        say(f"{after[0]:,} rows from {left} files; before {before[0]:,} from {files}")
        return verdict(after == before and (files, left) == (len(CITIES) * files_each, len(CITIES)))
    finally:
        spark.stop()


def seen(hudi: HudiTable) -> tuple[tuple[Any, ...], int]:
    """How many rows Hudi's snapshot query gives, a digest of all of them with their commit times, and their files."""
    frame = hudi.frame()
    columns = "_hoodie_commit_time, _hoodie_commit_seqno, _hoodie_record_key, trip, city, updated, fare"
    (row,) = frame.selectExpr("count(*)", f"sum(cast(xxhash64({columns}) AS decimal(38)))").collect()
    return tuple(row), frame.select("_hoodie_file_name").distinct().count()


if __name__ == "__main__":
    sys.exit(main())
