"""Object stores between us and Hudi: the lock's object is read by both, and so is a table that we compacted there. A
compaction dies while it publishes, a Hudi writer goes on with the table, and Lakeward returns; and Hudi reads a
metadata table that was compacted and cleaned there, goes on with it, and ends what died.

The bundle holds no client of an object store, so Hudi works on a copy on disk, which is then brought back. The copy of
a metadata table lies where the path of the URL says, for a plan to clean names its files by that path, without the
scheme.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.base.errors import Conflict
from lakeward.cli.main import run
from lakeward.format.file_name import HFILE
from lakeward.format.timeline.clean_metadata import read_clean_metadata
from lakeward.format.timeline.instant import State
from lakeward.protocol.lock.storage_lock import LockFile, StorageLockOptions, parse_lock_file
from lakeward.protocol.owner import Processes
from lakeward.services.metadata.run.removal import remove_metadata
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from tests.clocks import SkippingClock
from tests.faults import Fault, FaultKind, Killed
from tests.golden_tables import copy_golden, expected_rows
from tests.hudi.golden_metadata import OPTIONS
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.metadata_golden import DATA_TIMELINE, GOLDEN, METADATA_TIMELINE, timeline
from tests.object_lake import BASE, Lake, carry_out
from tests.object_tables import bring, bring_back, fetch
from tests.processes import ScriptedProcesses
from tests.runs import spread
from tests.services.metadata.run.compacting_metadata import compact_metadata
from tests.services.metadata.run.test_compaction import base_files, compactions, metadata_leftovers
from tests.services.metadata.run.test_metadata_clean import files, older_files
from tests.services.verification.metadata_lake import CLEAN, COMPACT, LOCK, Service, is_base_file, states_intent
from tests.services.verification.metadata_lake import Lake as MetadataLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

MODELS = "org.apache.hudi.client.transaction.lock.models"


@pytest.mark.services
@pytest.mark.usefixtures("short_waits")
def test_the_lock_is_read_by_both(spark: SparkSession) -> None:
    """Hudi's own class reads Lakeward's, with all that it does not know; we read what it writes."""
    jvm: Any = spark._jvm
    lock_file = getattr(jvm, f"{MODELS}.StorageLockFile")
    for expired in (True, False):
        own = LockFile(expired, 1795233779625, "0d3adf46-8bb1-4b0f-9a43-fb0b1c4d7a11", Processes().new_owner())
        hudis = lock_file.createFromStream(jvm.java.io.ByteArrayInputStream(own.to_json()), "etag")
        assert (hudis.isExpired(), hudis.getValidUntilMs(), hudis.getOwner()) == (
            own.expired,
            own.valid_until_ms,
            own.owner,
        )
        data = getattr(jvm, f"{MODELS}.StorageLockData")(expired, own.valid_until_ms, own.owner)
        written = bytes(lock_file.toByteArray(data))
        assert parse_lock_file(written, path="x") == LockFile(expired, own.valid_until_ms, own.owner)


@pytest.mark.services
@pytest.mark.usefixtures("short_waits")
@pytest.mark.turns
@pytest.mark.parametrize(
    ("golden", "kind"),
    [
        pytest.param("v9", "full", marks=pytest.mark.wide),
        pytest.param("v9", "log", marks=pytest.mark.wide),
        *(("v9_metadata", kind) for kind in spread(("full", "log"), least=1)),
    ],
)
def test_hudi_reads_what_was_compacted_in_s3(
    golden: str, kind: str, bucket: str, tmp_path: Path, spark: SparkSession
) -> None:
    """The command line compacts a table that Hudi wrote; one with a metadata table is listed by that."""
    store, base = ObjectStore(parse_object_url(bucket)), f"{bucket}/orders"
    bring(copy_golden(golden, tmp_path / "golden"), store, base)
    url = base.replace("s3://", "s3a://")
    assert run(["compact", url, "--type", kind, "--lock", "storage", "--engine", "local"]) == 0
    assert run(["compact", url, "--type", kind, "--lock", "storage", "--engine", "local", "--exit-code"]) == 3
    table = fetch(store, base, tmp_path / "fetched")
    options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    frame = spark.read.format("hudi").options(**options).load(str(table)).drop("_hoodie_file_name")
    rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["_hoodie_record_key"])
    assert rows == expected_rows(golden)
    greatest = max(row["ts"] for row in rows)  # found by the statistics that we wrote
    assert frame.filter(frame["ts"] == greatest).count() == sum(row["ts"] == greatest for row in rows)


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


@pytest.mark.crash
@pytest.mark.wide
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


@pytest.mark.crash
@pytest.mark.wide
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


LEAVES_METADATA = {"hoodie.metadata.compact.max.delta.commits": "100"}
COMPACTS_METADATA = {"hoodie.metadata.compact.max.delta.commits": "1"}
"""Before Hudi's next write."""


class MetadataStory:
    """A table that is in the store, but while Hudi works on it."""

    def __init__(self, folder: Path, spark: SparkSession, service: Service) -> None:
        self._spark, self._path = spark, folder / "table"
        self.lake = MetadataLake(folder, GOLDEN, service, base=f"s3://lake{self._path}")
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
    MetadataStory(tmp_path_factory.mktemp("warm"), spark, COMPACT).upsert("k1", "first", **LEAVES_METADATA)


@pytest.fixture(autouse=True)
def one_commit_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes our cleans retain one commit instead of twenty, which no golden table has."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)


@pytest.mark.crash
@pytest.mark.wide
@pytest.mark.parametrize("service", [COMPACT, CLEAN], ids=lambda service: service.name)
def test_hudi_reads_it_and_goes_on(service: Service, spark: SparkSession, tmp_path: Path) -> None:
    """An upsert finds its keys by the record index in our files; then Hudi compacts the metadata table itself."""
    story = MetadataStory(tmp_path, spark, service)
    assert story.run() is not None
    story.check()
    story.upsert("k1", "index", **LEAVES_METADATA, **{"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"})
    own = compactions(story.check().path)
    story.upsert("k2", "simple", **COMPACTS_METADATA)
    assert len(compactions(story.check().path)) == len(own) + 1


@pytest.mark.crash
@pytest.mark.wide
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
    story = MetadataStory(tmp_path, spark, COMPACT)
    processes = story.lake.died(at)
    instant = story.lake.instant()
    story.upsert("k1", "next")
    table = story.check()
    assert compactions(table.path)[-1] == instant
    assert base_files(table.path)  # one for each file group and instant
    compact_metadata(story.lake.base, story.lake.store(), processes, lock=LOCK)
    assert metadata_leftovers(story.check().path) == []


@pytest.mark.crash
@pytest.mark.wide
def test_we_finish_beside_what_was_committed_since(spark: SparkSession, tmp_path: Path) -> None:
    """The table was compacted, by us: what that wrote into the metadata table lies on top of the base files."""
    story = MetadataStory(tmp_path, spark, COMPACT)
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


@pytest.mark.crash
@pytest.mark.wide
def test_hudi_ends_a_clean_that_we_died_over(spark: SparkSession, tmp_path: Path) -> None:
    """Hudi finds the files by the paths that the plan names without a scheme."""
    story = MetadataStory(tmp_path, spark, CLEAN)
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
