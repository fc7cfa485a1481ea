"""A compaction in an object store dies while it publishes, a Hudi writer goes on with the table, and Lakeward returns.

The bundle holds no client of an object store, so Hudi works on a copy on disk, which is then brought back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.errors import Conflict
from lakeward.format.timeline.instant import State
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.services.metadata.run.removal import remove_metadata
from tests.clocks import SkippingClock
from tests.faults import Fault, FaultKind, Killed
from tests.golden_tables import expected_rows
from tests.hudi.golden_metadata import OPTIONS
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.metadata_golden import DATA_TIMELINE, GOLDEN, METADATA_TIMELINE, timeline
from tests.object_lake import BASE, Lake, carry_out
from tests.object_tables import bring_back
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.crash, pytest.mark.wide]

SHAPE = TableShape(name="golden", partition_fields="part", options=OPTIONS)


class Story:
    """A table that is in the store, but while Hudi works on it."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.lake = Lake(folder, GOLDEN)
        self.processes = ScriptedProcesses()
        self._folder, self._spark = folder, spark

    def die(self, at: Callable[[str], bool]) -> str:
        """A compaction is killed right after the first write that is `at`. Returns its instant."""
        clean = self.lake.copy().store()
        carry_out(clean, ScriptedProcesses())
        number = next(number for number, write in enumerate(clean.writes) if at(write))
        with pytest.raises(Killed):
            carry_out(self.lake.store(Fault(FaultKind.KILL, number)), self.processes)
        self.processes.kill_all()
        (instant,) = {i.time for i in timeline(self.lake.fetched(), DATA_TIMELINE) if i.action == "compaction"}
        return instant

    def fetched(self) -> HudiTable:
        return HudiTable(self._spark, self.lake.fetched(), SHAPE)

    def upsert(self, key: str, value: str, **options: str) -> None:
        """Hudi upserts the key, with the metadata table on."""
        table = self.fetched()
        rows = f"SELECT '{key}' AS id, '{value}' AS name, 99L AS ts, 'p' AS part"
        table.write(self._spark.sql(rows), "upsert", **options)
        bring_back(table.path, self.lake.objects, BASE)

    def values(self) -> dict[str, str]:
        """Hudi's answer, which is the same with the metadata table and without."""
        table = self.fetched()
        found = [
            {row["id"]: row["name"] for row in table.frame(**{"hoodie.metadata.enable": on}).collect()}
            for on in ("true", "false")
        ]
        assert found[0] == found[1]
        exit_code, printed = lakeward("verify", str(table.path), "--all")
        assert exit_code == 0, printed
        return found[0]


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(
            lambda write: write.startswith("replace") and "/.heartbeat/" in write,
            id="intent-stated",
            marks=pytest.mark.wide,
        ),
        pytest.param(lambda write: "/metadata/column_stats/.col-stats-0001-0" in write, id="half-copied"),
    ],
)
def test_it_is_finished_beside_what_a_writer_committed_since(
    at: Callable[[str], bool], spark: SparkSession, tmp_path: Path
) -> None:
    """Hudi rolls back what is pending in its metadata table; afterwards all of it is there, and Hudi compacts it."""
    story = Story(tmp_path, spark)
    before = {row["id"]: row["name"] for row in expected_rows(GOLDEN)}
    instant = story.die(at)
    story.upsert("k1", "later", **{"hoodie.metadata.compact.max.delta.commits": "100"})
    carry_out(story.lake.store(), story.processes)

    table = story.lake.fetched()
    (metadata,) = [i for i in timeline(table, METADATA_TIMELINE) if i.time == instant and i.state is State.COMPLETED]
    (data,) = [i for i in timeline(table, DATA_TIMELINE) if i.time == instant and i.state is State.COMPLETED]
    assert str(metadata.completion_time) < str(data.completion_time)
    story.upsert("k2", "last", **{"hoodie.metadata.compact.max.delta.commits": "1"})
    assert story.values() == before | {"k1": "later", "k2": "last"}


def test_it_waits_where_hudi_compacted_the_metadata_table_since(spark: SparkSession, tmp_path: Path) -> None:
    """It waits until that is disabled; then Hudi builds it with the files of the compaction in it."""
    story = Story(tmp_path, spark)
    before = {row["id"]: row["name"] for row in expected_rows(GOLDEN)}
    instant = story.die(lambda write: write.startswith("replace") and "/.heartbeat/" in write)
    story.upsert("k1", "later", **{"hoodie.metadata.compact.max.delta.commits": "100"})
    story.upsert("k1", "later", **{"hoodie.metadata.compact.max.delta.commits": "1"})
    with pytest.raises(Conflict, match="does not fit the metadata table any more"):
        carry_out(story.lake.store(), story.processes)

    lock = StorageLockOptions(wait_seconds=0.0)
    remove_metadata(story.lake.store(), BASE, None, lock=lock, clock=SkippingClock(), processes=story.processes)
    carry_out(story.lake.store(), story.processes)
    completed = [i.time for i in timeline(story.lake.fetched(), DATA_TIMELINE) if i.state is State.COMPLETED]
    assert instant in completed
    story.upsert("k2", "last")
    assert story.values() == before | {"k1": "later", "k2": "last"}
    assert (story.lake.fetched() / METADATA_TIMELINE).is_dir()
