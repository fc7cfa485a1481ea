"""The metadata table compacted and cleaned in an object store: Hudi reads it, goes on with it, and ends what died.

The bundle holds no client of an object store, so Hudi works on a copy on disk, which is then brought back. The copy
lies where the path of the URL says, for a plan to clean names its files by that path, without the scheme.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.file_name import HFILE
from lakeward.format.timeline.clean_metadata import read_clean_metadata
from tests.golden_tables import expected_rows
from tests.hudi.golden_metadata import OPTIONS
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.metadata_golden import GOLDEN, METADATA_TIMELINE
from tests.object_lake import carry_out
from tests.object_tables import bring_back, fetch
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import compact_metadata
from tests.services.metadata.run.test_compaction import base_files, compactions, metadata_leftovers
from tests.services.metadata.run.test_metadata_clean import files, older_files
from tests.services.verification.metadata_lake import CLEAN, COMPACT, LOCK, Lake, Service, is_base_file, states_intent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.crash, pytest.mark.wide]

SHAPE = TableShape(name="golden", partition_fields="part", options=OPTIONS)
LEAVES_METADATA = {"hoodie.metadata.compact.max.delta.commits": "100"}
COMPACTS_METADATA = {"hoodie.metadata.compact.max.delta.commits": "1"}
"""Before Hudi's next write."""


class Story:
    """A table that is in the store, but while Hudi works on it."""

    def __init__(self, folder: Path, spark: SparkSession, service: Service) -> None:
        self._spark, self._path = spark, folder / "table"
        self.lake = Lake(folder, GOLDEN, service, base=f"s3://lake{self._path}")
        self.expected = {row["id"]: row["name"] for row in expected_rows(GOLDEN)}

    def run(self, processes: ScriptedProcesses | None = None) -> object:
        return self.lake.run(processes=processes)

    def fetched(self) -> HudiTable:
        shutil.rmtree(self._path, ignore_errors=True)
        return HudiTable(self._spark, fetch(self.lake.store(), self.lake.base, self._path), SHAPE)

    def upsert(self, key: str, value: str, **options: str) -> None:
        """Hudi upserts the key, with the metadata table on."""
        table = self.fetched()
        rows = f"SELECT '{key}' AS id, '{value}' AS name, 99L AS ts, 'p' AS part"
        table.write(self._spark.sql(rows), "upsert", **options)
        bring_back(table.path, self.lake.objects, self.lake.base)
        self.expected[key] = value

    def check(self) -> HudiTable:
        """Hudi's answer is the same with the metadata table and without; so is what we find in it."""
        table = self.fetched()
        for on in ("true", "false"):
            rows = table.frame(**{"hoodie.metadata.enable": on}).collect()
            assert {row["id"]: row["name"] for row in rows} == self.expected
        exit_code, printed = lakeward("verify", str(table.path), "--all")
        assert exit_code == 0, printed
        return table


@pytest.fixture(scope="module", autouse=True)
def warm(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A JVM whose first work on any metadata table is to compact one fails later writes (docs/compatibility.md)."""
    Story(tmp_path_factory.mktemp("warm"), spark, COMPACT).upsert("k1", "first", **LEAVES_METADATA)


@pytest.fixture(autouse=True)
def one_commit_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes our cleans retain one commit instead of twenty, which no golden table has."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)


@pytest.mark.parametrize("service", [COMPACT, CLEAN], ids=lambda service: service.name)
def test_hudi_reads_it_and_goes_on(service: Service, spark: SparkSession, tmp_path: Path) -> None:
    """An upsert finds its keys by the record index in our files; then Hudi compacts the metadata table itself."""
    story = Story(tmp_path, spark, service)
    assert story.run() is not None
    story.check()
    story.upsert("k1", "index", **LEAVES_METADATA, **{"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"})
    own = compactions(story.check().path)
    story.upsert("k2", "simple", **COMPACTS_METADATA)
    assert len(compactions(story.check().path)) == len(own) + 1


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(lambda write: write.endswith("compaction.inflight"), id="begun"),
        pytest.param(states_intent, id="intent-stated"),
        pytest.param(is_base_file, id="copied-one"),
    ],
)
def test_hudi_carries_out_a_plan_that_we_died_over(
    at: Callable[[str], bool], spark: SparkSession, tmp_path: Path
) -> None:
    """Hudi's next writer rolls back what is there and does it again; we find it done, and clear the rest away."""
    story = Story(tmp_path, spark, COMPACT)
    processes = story.lake.died(at)
    instant = story.lake.instant()
    story.upsert("k1", "next")
    table = story.check()
    assert compactions(table.path)[-1] == instant
    assert base_files(table.path)  # one for each file group and instant
    compact_metadata(story.lake.base, story.lake.store(), processes, lock=LOCK)
    assert metadata_leftovers(story.check().path) == []


def test_we_finish_beside_what_was_committed_since(spark: SparkSession, tmp_path: Path) -> None:
    """The table was compacted, by us: what that wrote into the metadata table lies on top of the base files."""
    story = Story(tmp_path, spark, COMPACT)
    processes = story.lake.died(is_base_file)
    instant = story.lake.instant()
    assert carry_out(story.lake.store(), processes, base=story.lake.base).plans
    assert story.lake.instant() == instant
    story.check()
    assert story.run(processes) is not None
    table = story.check()
    assert compactions(table.path)[-2] == instant, "and what was committed since was compacted after it"
    assert metadata_leftovers(table.path) == []
    story.upsert("k2", "last", **COMPACTS_METADATA)
    story.check()


def test_hudi_ends_a_clean_that_we_died_over(spark: SparkSession, tmp_path: Path) -> None:
    """Hudi finds the files by the paths that the plan names without a scheme."""
    story = Story(tmp_path, spark, CLEAN)
    dead = files(story.lake.before) & older_files(story.lake.before)
    processes = story.lake.died(lambda write: write.startswith("delete") and f".{HFILE}" in write)
    instant = story.lake.instant()
    table = story.fetched()
    assert 0 < len(dead & files(table.path)) < len(dead)
    for number in range(4):  # it does not clean within three instants of a compaction
        story.upsert("k1", f"next {number}", **LEAVES_METADATA)
    table = story.check()
    assert not dead & files(table.path)
    (completed,) = (table.path / METADATA_TIMELINE).glob(f"{instant}_*.clean")
    ended = read_clean_metadata(completed.read_bytes(), file=completed.name)
    assert sum(len((*each.deleted, *each.failed)) for each in ended.partitions.values()) == len(dead)
    story.run(processes)
    story.check()
