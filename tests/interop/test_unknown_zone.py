"""Released Hudi and every service take turns on a table of which nothing tells the time zone of its writers.

Its writers run in one zone, drawn by table; the times of the timeline's files are gone, and so is the head of the
properties that tells a zone. So each service mints the greatest time + 1 ms."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_compaction import assert_verified

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

SEED = int(os.environ.get("LAKEWARD_SEED", "37"))
STOPPED = ("--writers", "stopped")
METADATA_ON = {"hoodie.metadata.enable": "true", "hoodie.metadata.compact.max.delta.commits": "3"}


@contextmanager
def writers_in(spark: SparkSession, zone: str) -> Iterator[None]:
    """What this process's Java takes for local time. Hudi would wait for a zone behind to reach its last instant."""
    jvm = spark._jvm
    assert jvm is not None
    before = jvm.java.util.TimeZone.getDefault()

    def set_zone(to: object) -> None:
        jvm.java.util.TimeZone.setDefault(to)
        generator = jvm.java.lang.Class.forName("org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator")
        last = generator.getDeclaredField("LAST_INSTANT_TIME")
        last.setAccessible(True)
        last.get(None).set("0")

    set_zone(jvm.java.util.TimeZone.getTimeZone(zone))
    try:
        yield
    finally:
        set_zone(before)


def forget_times(table: HudiTable) -> None:
    """The table looks like a copy by a tool that gives every file one day; its properties have no head."""
    table.cut_head_of_properties()
    table.set_file_times(1e9)


ZONES = [f"GMT{hours:+03}:00" for hours in range(-11, 15)]


@pytest.mark.wide
@pytest.mark.parametrize("zone", [None, "GMT-11:00", "GMT+05:45", "GMT+14:00"])
def test_services_and_hudi_take_turns(spark: SparkSession, tmp_path: Path, zone: str | None) -> None:
    """Hudi reads what its writers wrote: by listing and by the metadata table, incrementally and as of before; also
    once much of it was cleaned and archived. A compaction of Hudi's in between goes on from ours."""
    drawn = zone or random.Random(SEED).choice(ZONES)
    print(f"LAKEWARD_SEED={SEED}", drawn)
    with writers_in(spark, drawn):
        table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part", options=METADATA_ON))

        def write(ts: int) -> None:
            key = "concat('k', id) AS id, concat('p', id % 2) AS part"
            rows = f"SELECT {key}, {ts}L AS ts, 'v{ts}' AS v FROM range({ts}, 8)"
            table.write(spark.sql(rows), "upsert")
            forget_times(table)

        def serve(*command: str) -> None:
            split = 2 if command[0] in ("metadata", "savepoint") else 1
            exit_code, printed = lakeward(*command[:split], str(table.path), *command[split:], *STOPPED)
            assert exit_code == 0, (command, printed)
            forget_times(table)

        def check_rows(newest: int) -> None:
            for listing in ("true", "false"):
                frame = table.frame(**{"hoodie.metadata.enable": listing})
                found = sorted((row["id"], row["v"]) for row in frame.select("id", "v").collect())
                assert found == [(f"k{number}", f"v{min(number, newest)}") for number in range(8)], listing

        write(0)
        write(1)
        serve("compact", "--type", "full", "--local-below", "0")
        write(2)
        serve("compact", "--type", "log", "--local-below", "0")
        newest = table.completed_instants()[-1]
        write(3)
        check_rows(3)
        changed = table.incremental(newest[1], table.completed_instants()[-1][1])
        assert len(changed) == 5, "the rows of the last write, and no other"
        of_then = table.as_of(newest[0])
        serve("compact", "--type", "full", "--local-below", "0")
        assert table.as_of(newest[0]) == of_then
        serve("metadata", "compact")
        serve("savepoint", "create")
        write(4)
        table.compact()
        forget_times(table)
        serve("clean", "--policy", "commits", "--retain", "1", "--reader-window", "0")
        serve("archive", "--keep-min", "2", "--keep-max", "3", "--commits-retained", "1")
        write(5)
        serve("compact", "--type", "full", "--local-below", "0")
        check_rows(5)
        assert_verified(table)
