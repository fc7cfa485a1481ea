"""Released Hudi and every service take turns on a table of which nothing says the time zone of its writers.

Its writers run in one zone, drawn by table; the times of the timeline's files are gone, and so is the head of the
properties that names a zone. So each service mints the greatest time + 1 ms. Before each, Hudi compacts its metadata
table: that is newer than all of the table's own instants."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.base.clock import SystemClock
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_compaction import assert_verified
from tests.interop.test_file_system_view import hudis, own
from tests.metadata_golden import DATA_TIMELINE, METADATA_TIMELINE
from tests.services.test_unknown_zone import times

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


def compact_metadata(spark: SparkSession, table: HudiTable) -> None:
    """Hudi compacts the metadata table, by the clock of its writers."""
    hudi: Any = spark._jvm.org.apache.hudi  # type: ignore[union-attr]
    builder = hudi.config.HoodieWriteConfig.newBuilder().withPath(str(table.path))
    options = table.shape.write_options() | {"hoodie.metadata.compact.max.delta.commits": "1"}
    context = hudi.client.common.HoodieSparkEngineContext(spark._jsc)
    writer = hudi.metadata.SparkHoodieBackedTableMetadataWriter.create(
        context.getStorageConf(), builder.withProps(options).build(), context
    )
    writer.performTableServices(hudi.common.util.Option.empty(), True)
    writer.close()


ZONES = [f"GMT{hours:+03}:00" for hours in range(-11, 15)]


@pytest.mark.wide
@pytest.mark.parametrize("zone", [None, "GMT-11:00", "GMT+05:45", "GMT+14:00"])
def test_services_and_hudi_take_turns(spark: SparkSession, tmp_path: Path, zone: str | None) -> None:
    """Hudi reads what its writers wrote: by listing and by the metadata table, incrementally and as of before; also
    once much of it was cleaned and archived. A compaction of Hudi's in between goes on from Lakeward's."""
    drawn = zone or random.Random(SEED).choice(ZONES)
    print(f"LAKEWARD_SEED={SEED}", drawn)
    with writers_in(spark, drawn):
        table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part", options=METADATA_ON))

        def write(ts: int) -> None:
            key = "concat('k', id) AS id, concat('p', id % 2) AS part"
            rows = f"SELECT {key}, {ts}L AS ts, 'v{ts}' AS v FROM range({ts}, 8)"
            table.write(spark.sql(rows), "upsert")
            forget_times(table)

        def serve(*command: str, mints: bool = True, hudi_compacts: bool = True) -> None:
            if hudi_compacts:
                compact_metadata(spark, table)
                newest = max(times(table.path, METADATA_TIMELINE))
                assert newest > max(times(table.path, DATA_TIMELINE)), "it is newer than the table's own instants"
                forget_times(table)
            before = times(table.path, DATA_TIMELINE, METADATA_TIMELINE)
            split = 2 if command[0] in ("metadata", "savepoint") else 1
            exit_code, printed = lakeward(*command[:split], str(table.path), *command[split:], *STOPPED)
            assert exit_code == 0, (command, printed)
            new = times(table.path, DATA_TIMELINE, METADATA_TIMELINE) - before
            assert bool(new) == mints and (not new or min(new) > max(before)), (command, new, before)
            forget_times(table)

        def check_rows(newest: int) -> None:
            for listing in ("true", "false"):
                frame = table.frame(**{"hoodie.metadata.enable": listing})
                found = sorted((row["id"], row["v"]) for row in frame.select("id", "v").collect())
                assert found == [(f"k{number}", f"v{min(number, newest)}") for number in range(8)], listing

        def check_slices() -> None:
            snapshot = take_snapshot(LocalStorage(), str(table.path), clock=SystemClock())
            assert own(snapshot) == hudis(spark, table.path, snapshot.uncommitted_files)

        write(0)
        write(1)
        serve("compact", "--type", "full", "--engine", "spark")
        for _ in range(3):
            write(2)
        serve("compact", "--type", "log", "--engine", "spark")
        newest = table.completed_instants()[-1]
        write(3)
        check_rows(3)
        changed = table.incremental(newest[1], table.completed_instants()[-1][1])
        assert len(changed) == 5, "the rows of the last write, and no other"
        of_then = table.as_of(newest[0])
        serve("compact", "--type", "full", "--engine", "spark")
        assert table.as_of(newest[0]) == of_then
        write(4)
        last = max((table.path / DATA_TIMELINE).glob("*_*.deltacommit"), key=lambda path: path.name)
        last.unlink()
        for beat in (table.path / ".hoodie/.heartbeat").glob("*"):
            beat.unlink()
        serve("rollback", hudi_compacts=False)
        check_rows(3)
        write(4)
        serve("savepoint", "create")
        table.compact()
        forget_times(table)
        serve("clean", "--policy", "commits", "--retain", "1", "--reader-window", "0")
        serve("metadata", "compact", hudi_compacts=False)
        write(5)
        serve("archive", "--keep-min", "2", "--keep-max", "3", "--commits-retained", "1", mints=False)
        serve("compact", "--type", "full", "--engine", "spark")
        check_rows(5)
        check_slices()
        assert_verified(table)
        kept = table.completed_instants()[-1][0]
        write(6)
        serve("restore", "--to", kept)
        check_rows(5)
        write(6)
        check_rows(6)
        check_slices()
        assert_verified(table)
