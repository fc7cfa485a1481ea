"""A hybrid plan of ours (`planner.publish=hybrid`) on a table with every partition of the metadata table.

One table for each merge mode, told to a model as well: Hudi wrote it and we log-compacted it twice, then planned FULL
and LOG in one plan, and Hudi committed another write after the plan. Each test has copies of this moment. The `twin` is
one whose plan was unscheduled, so the same table without it.
"""

from __future__ import annotations

import itertools
import json
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.plan.compaction_type import CompactionType
from lakeward.plan.planner import planner_of
from lakeward.plan.selection import GroupFilter
from tests.crash.compacting import compact as compact_in_process
from tests.crash.other_process import age
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.metadata_table import INDEXES, WITHOUT_METADATA
from tests.hudi.model import Row, TableModel
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION
from tests.hudi.table import HudiTable, Rows
from tests.interop.lakeward_cli import compact as compact_full
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_compaction import assert_verified
from tests.interop.test_hybrid_compaction import COMMIT, EVENT, leave_pending, shape
from tests.metadata_golden import set_property
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SETTINGS = {
    "planner.publish": "hybrid",
    "planner.small_base_size": "1KiB",
    "planner.log_ratio": "0.02",
    "hoodie.compaction.logfile.num.threshold": "2",
    "hoodie.compaction.logfile.size.threshold": "1",
}
"""What makes a few rows do."""
OPTIONS = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]

MERGED = {"hoodie.metadata.compact.max.delta.commits": "1"}
BY_RECORD_INDEX = {"hoodie.index.type": "RECORD_INDEX", **MERGED}
BY_BLOOMS = {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true", **MERGED}
"""How writers find their keys; before they do, they compact the metadata table, with what is in it from us."""

PLANNER = planner_of(CompactionType.HYBRID, GroupFilter(), SETTINGS)
NOTHING_MORE = ("--set", "planner.group_trigger.delta_commits=100")
WITH_METADATA = {"hoodie.metadata.enable": "true"}
CDC = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER"}


def some(part: str, numbers: range, ts: int, value: str) -> list[Row]:
    width = 400 if part == "hot" else 1
    return [{"id": f"{part}{n}", "part": part, "ts": ts, "v": f"{value * width}{n}"} for n in numbers]


def select(rows: list[Row]) -> str:
    values = ", ".join(f"('{row['id']}', '{row['part']}', {row['ts']}L, '{row['v']}')" for row in rows)
    return f"SELECT * FROM VALUES {values} AS t(id, part, ts, v)"


@dataclass(slots=True)
class Told:
    """A table, and what it must hold."""

    spark: SparkSession
    table: HudiTable
    model: TableModel
    instant: str = ""
    """The plan's instant."""

    def upsert(self, *parts: list[Row], **options: str) -> None:
        rows = [row for part in parts for row in part]
        self.table.write(self.spark.sql(select(rows)), "upsert", **options)
        self.model.upsert(rows, new_keys_go_to_logs=False)

    def delete(self, *parts: list[Row], **options: str) -> None:
        """No key comes back after it: Hudi's record index forgets such keys."""
        rows = [row for part in parts for row in part]
        self.table.write(self.spark.sql(select(rows)), "delete", **options)
        self.model.delete(rows)

    def copy_to(self, folder: Path) -> Told:
        return replace(self, table=self.table.copy_to(folder), model=deepcopy(self.model))

    def expected(self) -> dict[str, str]:
        return {row["id"]: row["v"] for row in self.model.rows()}

    def check(self) -> None:
        """Hudi sees what the model has: by the metadata table, without it, and where its statistics leave files out;
        and what the metadata table says is true."""
        expected = self.expected()
        assert values_of(self.table.snapshot(with_meta=False, **WITH_METADATA)) == expected
        assert values_of(self.table.snapshot(with_meta=False, **WITHOUT_METADATA)) == expected
        skipping = self.table.frame(**WITH_METADATA, **{"hoodie.enable.data.skipping": "true"})
        found = {row["id"] for row in skipping.where("ts >= 14").select("id").collect()}
        assert found == {row["id"] for row in self.model.rows() if row["ts"] >= 14}
        assert_verified(self.table)

    def go_on(self) -> None:
        """Hudi finds keys of every group by each index, and compacts."""
        self.upsert(
            *(some("warm", range(4, 12), 20, "l"), some("late", range(5, 9), 3, "l"), some("hot", range(6), 20, "l")),
            some("cold", range(38, 42), 20, "new"),
            **BY_RECORD_INDEX,
        )
        self.delete(some("warm", range(11, 13), 21, ""), some("late", range(38, 40), 21, ""), **BY_BLOOMS)
        self.check()
        self.table.compact()
        self.check()
        assert self.table.read_optimized(with_meta=False) == self.table.snapshot(with_meta=False)


def values_of(rows: Rows) -> dict[str, str]:
    found = [json.loads(row) for row in rows]
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


def compact(table: HudiTable, *options: str) -> list[dict[str, Any]]:
    stated = ("--writers", "stopped", "--no-metadata-services")
    exit_code, printed = lakeward("compact", str(table.path), *stated, *OPTIONS, *options)
    assert exit_code == 0, printed
    return printed["compactions"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=[COMMIT, pytest.param(EVENT, marks=pytest.mark.wide)])
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Told:
    """`hot` has large logs, `warm` and `late` small ones, in `late` there are such that come too late by event time,
    `cold` has one; no group but `cold` is without an output of a log compaction."""
    table = HudiTable(spark, tmp_path_factory.mktemp("kept") / "table", replace(shape(request.param), options=INDEXES))
    told = Told(spark, table, TableModel(("part", "id"), "ts" if request.param == EVENT else None))
    told.upsert(*(some(part, range(40), 10, "a") for part in ("hot", "warm", "late", "cold")))
    told.upsert(some("hot", range(40), 11, "b"), some("warm", range(5), 11, "b"), some("late", range(5), 12, "b"))
    told.upsert(
        some("hot", range(5, 30), 12, "c"), some("warm", range(3, 8), 12, "c"), some("late", range(3, 8), 9, "c")
    )
    log_compact(table)
    told.delete(some("warm", range(7, 9), 13, ""), some("late", range(2), 13, ""), some("hot", range(30, 32), 13, ""))
    log_compact(table)
    told.upsert(
        *(some("hot", range(9), 14, "d"), some("warm", range(9, 11), 14, "d"), some("late", range(3, 6), 5, "d")),
        some("cold", range(3), 14, "d"),
    )

    exit_code, printed = lakeward("plan", str(table.path), *OPTIONS)
    chosen = {each["partition"]: each["choice"] for each in printed["decisions"]}
    assert (exit_code, chosen) == (0, {"hot": "FULL", "warm": "LOG", "late": "LOG", "cold": "NONE"})
    with pytest.MonkeyPatch.context() as patch:
        leave_pending(patch, lambda: lakeward("compact", str(table.path), "--writers", "stopped", *OPTIONS))
    (told.instant,) = table.pending_instants()
    told.upsert(
        *(some("hot", range(3), 15, "w"), some("warm", range(2, 5), 15, "w"), some("late", range(2, 12), 11, "w")),
        some("cold", range(2), 15, "w"),
    )
    return told


def log_compact(table: HudiTable) -> None:
    (done,) = compact(table, "--type", "log", "--set", "planner.publish=split")
    assert (done["action"], len(done["operations"])) == ("logcompaction", 3)


@pytest.fixture
def planned(kept: Told, tmp_path: Path) -> Told:
    return kept.copy_to(tmp_path / "table")


@pytest.fixture
def twin(kept: Told, tmp_path: Path) -> Told:
    """The same table without the plan, which was unscheduled."""
    twin = kept.copy_to(tmp_path / "twin")
    exit_code, printed = lakeward("unschedule", str(twin.table.path), kept.instant, "--writers", "stopped")
    assert exit_code == 0, printed
    assert not twin.table.pending_instants()
    return twin


def carry_out(planned: Told) -> None:
    """What was pending, and nothing else."""
    (done,) = compact(planned.table, *NOTHING_MORE)
    assert (done["instant"], done["action"], done["dropped"]) == (planned.instant, "compaction", [])
    kinds = {each["partition_path"]: each["kind"] for each in done["operations"]}
    assert kinds == {"hot": "FULL", "warm": "LOG", "late": "LOG"}


def test_hudi_carries_it_out(planned: Told, twin: Told) -> None:
    """Hudi reads a table with the plan as one without. To it every operation is FULL: it leaves no log behind."""
    assert planned.table.snapshot() == twin.table.snapshot()

    planned.table.compact_pending(planned.instant)

    assert not planned.table.pending_instants()
    assert planned.table.snapshot() == twin.table.snapshot()
    planned.check()


def test_we_carry_it_out(planned: Told, twin: Told) -> None:
    """What a writer committed after the plan stays. After LOG, LOG, hybrid come another hybrid plan, whose LOG opens
    the output of the one before and the log after it, and a FULL by us; or a FULL by Hudi."""
    carry_out(planned)

    assert planned.table.snapshot() == twin.table.snapshot()
    assert planned.table.read_by_hudi_rs() == twin.table.read_by_hudi_rs()
    planned.check()
    fulls = planned.copy_to(planned.table.path.with_name("full"))
    (again,) = compact(fulls.table)
    assert {each["partition_path"]: each["counts"]["log_files"] for each in again["operations"]}["warm"] == 2
    assert fulls.table.snapshot() == twin.table.snapshot()
    compact_full(fulls.table)
    fulls.check()
    assert fulls.table.read_optimized() == fulls.table.snapshot() == twin.table.snapshot()
    planned.go_on()


@pytest.mark.wide
def test_history(planned: Told, twin: Told, tmp_path: Path) -> None:
    """Time travel and incremental queries between any two commits answer as if there were no plan. Those that end with
    it answer as where Hudi carried it out, but for rows that lost: by event time late ones may be gone from them."""
    hudis = planned.copy_to(tmp_path / "hudis")
    hudis.table.compact_pending(planned.instant)
    carry_out(planned)
    instants = twin.table.completed_instants()
    for requested, completed in instants:
        assert planned.table.as_of(requested) == twin.table.as_of(requested)
        for begin in ("000", *(each for _, each in instants if each < completed)):
            assert planned.table.incremental(begin, completed) == twin.table.incremental(begin, completed)
    rows_now = set(twin.table.snapshot())
    end, end_there = planned.table.completed_instants()[-1][1], hudis.table.completed_instants()[-1][1]
    for begin in ("000", *(each for _, each in instants)):
        ours, theirs = set(planned.table.incremental(begin, end)), set(hudis.table.incremental(begin, end_there))
        assert ours <= theirs
        assert not (theirs - ours) & rows_now


@pytest.mark.wide
def test_changes(planned: Told, twin: Told) -> None:
    """Change data capture that is switched on after a hybrid commit tells the same changes as in a table without one,
    also over the commit: Hudi takes what was there before each change from the slices. (We compact nothing while it is
    on, see docs/compatibility.md; and what was written before it was on, Hudi can tell in neither table.)"""
    carry_out(planned)
    since = twin.table.completed_instants()[-1][1]
    found = []
    for told in (planned, twin):
        for key, value in CDC.items():
            set_property(told.table.path, key, value)
        (told.table.path / ".hoodie/.hoodie.properties.crc").unlink()  # Hadoop's checksum of what was there
        told.table = told.table.reshaped(options={**told.table.shape.options, **CDC})
        told.upsert(
            *(some(part, range(2, 6), 20, "p") for part in ("hot", "warm", "late")), some("late", range(8, 10), 2, "p")
        )
        told.delete(some("warm", range(5, 7), 20, ""), some("late", range(5, 7), 20, ""))
        ends = [since, *(completed for _, completed in told.table.completed_instants()[-2:])]
        found.append([changes(told.table, *window) for window in itertools.combinations(ends, 2)])
    assert found[0] == found[1]
    assert all(found[1])


def changes(table: HudiTable, begin: str, end: str) -> list[str]:
    frame = table.frame(
        **{
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            "hoodie.datasource.read.begin.instanttime": begin,
            "hoodie.datasource.read.end.instanttime": end,
        }
    )
    return sorted(
        json.dumps((row["op"], *(image and _value(image) for image in (row["before"], row["after"]))))
        for row in frame.select("op", "before", "after").collect()
    )


def _value(image: str) -> tuple[str, str, int]:
    row = json.loads(image)
    return row["id"], row["v"], row["ts"]


@pytest.mark.wide
def test_the_oldest_release_goes_on(planned: Told, tmp_path: Path) -> None:
    """Hudi 1.1.1 reads the pending plan, and carries it out; it reads what we made of it, upserts by the record index,
    and compacts."""
    its = planned.copy_to(tmp_path / "its")
    with OtherRelease(OLDEST_VERSION, tmp_path / "scratch") as oldest:
        seen, run = (oldest.table(told.table.path, told.table.shape) for told in (planned, its))

        def check() -> None:
            for options in (WITH_METADATA, WITHOUT_METADATA):
                assert values_of(seen.snapshot(**options)) == planned.expected()
            planned.check()

        check()
        carry_out(planned)
        check()
        assert seen.read_optimized(**WITH_METADATA) == planned.table.read_optimized(with_meta=False)
        written = [row for part in ("hot", "warm") for row in some(part, range(5), 20, "old")]
        written += some("late", range(38, 42), 20, "old")
        seen.write(select(written), "upsert", **BY_RECORD_INDEX)
        planned.model.upsert(written, new_keys_go_to_logs=False)
        check()
        seen.compaction("op => 'scheduleAndExecute'")
        check()

        run.compaction(f"op => 'run', timestamp => {its.instant}")
        assert not its.table.pending_instants()
        assert values_of(run.snapshot(**WITH_METADATA)) == its.expected()
    for told in (planned, its):
        told.check()
        told.go_on()


STEPS = {
    "files": lambda call: call.startswith("move") and "/metadata/files/" in call,
    "metadata-commit": lambda call: call.startswith("link"),
}


@pytest.mark.wide
@pytest.mark.parametrize("last", ["files", "metadata-commit"])
def test_hudi_takes_over(planned: Told, tmp_path: Path, last: str) -> None:
    """We died with our files in their places, or with the metadata table's commit made as well: Hudi rolls that back
    and carries the plan out anew."""
    clean = FaultyStorage()
    compact_in_process(planned.copy_to(tmp_path / "clean").table.path, clean, ScriptedProcesses(), PLANNER)
    last_call = next(n for n, call in enumerate(clean.calls) if STEPS[last](call))
    with pytest.raises(Killed):
        compact_in_process(
            planned.table.path, FaultyStorage(Fault(FaultKind.KILL, last_call)), ScriptedProcesses(), PLANNER
        )
    (planned.table.path / ".hoodie/lock").unlink()
    age(planned.table.path, ".hoodie/.heartbeat/*", seconds=600)
    planned.check()

    planned.table.compact_pending(planned.instant)

    assert not planned.table.pending_instants()
    left = [name for name in planned.table.data_files() if f"_{planned.instant}." in name]
    assert sorted(name.partition("/")[0] for name in left) == ["hot", "late", "warm"], left
    assert all(name.endswith(".parquet") for name in left), left
    planned.check()
    planned.go_on()


@pytest.mark.wide
def test_hudi_rolls_it_back(spark: SparkSession, twin: Told) -> None:
    """Completed, and rolled back by Hudi: the base file goes, our logs stay, and nothing reads them any more."""
    before = twin.table.snapshot()
    (done,) = compact(twin.table)
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    for key, value in twin.table.shape.write_options().items():
        options.put(key, value)
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]})
    client = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(
        spark._jsc, schema, str(twin.table.path), twin.table.shape.name, options
    )
    assert client.rollback(done["instant"])
    client.close()

    outputs = {each["partition_path"]: each["file_name"] for each in done["operations"]}
    assert not (twin.table.path / "hot" / outputs.pop("hot")).exists()
    assert all((twin.table.path / part / name).exists() for part, name in outputs.items())
    assert twin.table.snapshot() == before
    twin.check()
    twin.go_on()
