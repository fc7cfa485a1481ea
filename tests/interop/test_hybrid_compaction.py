"""FULL, LOG and nothing on one real table, in both forms of plan; Hudi reads, writes, log-compacts and compacts on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.spark import SparkDispatcher
from tests.hudi.client import carry_out_log_compaction, schedule_log_compaction
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHARES_TABLE = pytest.mark.turns(75, together="hybrid compaction")
"""What takes long is to make the table of four file groups."""

EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"

# Hudi's bloom filters make even the smallest base file some 430 KiB large, so the thresholds of tables of forty rows:
SETTINGS = (
    "planner.small_base_size=1KiB",
    "planner.log_ratio=0.02",
    "hoodie.compaction.logfile.num.threshold=2",
    "hoodie.compaction.logfile.size.threshold=1",
)
HUDI_LOG_COMPACTS = {
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.log.compaction.enable": "true",
}


def rows(spark: SparkSession, part: str, numbers: range, ts: int, value: str, width: int = 1) -> DataFrame:
    wide = f"repeat('{value}', {width})"
    return spark.sql(
        f"SELECT concat('{part}', id) AS id, '{part}' AS part, {ts}L AS ts, concat({wide}, id) AS v "
        f"FROM range({numbers.start}, {numbers.stop})"
    )


def shape(mode: str) -> TableShape:
    by_event = mode == "EVENT_TIME_ORDERING"
    return TableShape(partition_fields="part", merge_mode=mode, ordering_fields="ts" if by_event else "")


TableOf = Callable[[str], HudiTable]


@pytest.fixture
def table_of(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> TableOf:
    """A copy of the table of four groups that is ordered in this mode, which Hudi writes once for all tests."""

    def copy(mode: str) -> HudiTable:
        folder = made_once(tmp_path_factory, f"four-{mode}", lambda folder: write_four(spark, folder / "table", mode))
        return HudiTable(spark, folder / "table", shape(mode)).copy_to(tmp_path / "table")

    return copy


def write_four(spark: SparkSession, path: Path, mode: str) -> None:
    """One group a partition: `hot` with large logs, `warm` and `late` with several small ones, `cold` with one."""
    table = HudiTable(spark, path, shape(mode))
    base = rows(spark, "hot", range(40), 10, "a")
    for part in ("warm", "late", "cold"):
        base = base.union(rows(spark, part, range(40), 10, "a"))
    table.write(base, "insert")
    table.write(
        rows(spark, "hot", range(40), 11, "b", 400)
        .union(rows(spark, "warm", range(5), 11, "b"))
        .union(rows(spark, "late", range(5), 12, "b")),
        "upsert",
    )
    table.write(
        rows(spark, "hot", range(5, 30), 12, "c", 400)
        .union(rows(spark, "warm", range(3, 8), 12, "c"))
        .union(rows(spark, "late", range(3, 8), 9, "c")),  # late rows lose by event time
        "upsert",
    )
    table.write(rows(spark, "warm", range(7, 9), 13, "x").union(rows(spark, "late", range(2), 13, "x")), "delete")
    table.write(rows(spark, "cold", range(3), 14, "d").union(rows(spark, "late", range(1), 5, "d")), "upsert")


def setting_words() -> list[str]:
    return [word for setting in SETTINGS for word in ("--set", setting)]


def compact(table: HudiTable, *options: str) -> list[dict[str, object]]:
    exit_code, printed = lakeward("compact", str(table.path), "--writers", "stopped", *setting_words(), *options)
    assert exit_code == 0, printed
    return printed["compactions"]  # type: ignore[no-any-return]


def compact_fully(table: HudiTable) -> list[dict[str, object]]:
    """Also what has fewer logs than a LOG needs: a threshold that is set binds FULL, too."""
    return compact(table, "--type", "full", "--set", "hoodie.compaction.logfile.num.threshold=0")


def choices(table: HudiTable, *options: str) -> dict[str, str]:
    exit_code, printed = lakeward("plan", str(table.path), *setting_words(), *options)
    assert exit_code == 0, printed
    return {decision["partition"]: decision["choice"] for decision in printed["decisions"]}


def values(table: HudiTable) -> dict[str, str]:
    found = [json.loads(row) for row in table.snapshot(with_meta=False)]
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


@SHARES_TABLE
@pytest.mark.parametrize(
    ("form", "mode"),
    [
        ("split", EVENT),
        pytest.param("hybrid", COMMIT, marks=pytest.mark.wide),
        pytest.param("split", COMMIT, marks=pytest.mark.wide),
        pytest.param("hybrid", EVENT, marks=pytest.mark.wide),
    ],
)
def test_full_log_and_nothing_in_one_go(
    spark: SparkSession, tmp_path: Path, table_of: TableOf, form: str, mode: str
) -> None:
    """Each group gets what its sizes say; every query answers as before; a second table lives on with Hudi alone."""
    table = table_of(mode)
    before, before_by_hudi_rs = table.snapshot(), table.read_by_hudi_rs()
    history = {requested: table.as_of(requested) for requested, _ in table.completed_instants()}
    twin = table.copy_to(tmp_path / "twin")
    publish = ("--set", f"planner.publish={form}")
    assert choices(table, *publish) == {"hot": "FULL", "warm": "LOG", "late": "LOG", "cold": "NONE"}

    done = compact(table, *publish)

    actions = ["compaction"] if form == "hybrid" else ["logcompaction", "compaction"]
    assert [each["action"] for each in done] == actions
    assert table.snapshot() == before
    assert table.read_by_hudi_rs() == before_by_hudi_rs
    assert {requested: table.as_of(requested) for requested in history} == history
    assert not table.pending_instants()

    for each in (table, twin):
        each.write(rows(spark, "warm", range(10), 15, "e").union(rows(spark, "late", range(30, 45), 15, "e")), "upsert")
        each.write(rows(spark, "late", range(31, 33), 16, "x"), "delete")
    assert values(table) == values(twin)
    compact(table, *publish)
    assert values(table) == values(twin)
    for each in (table, twin):
        # Hudi counts delta commits since the last `commit`, and a hybrid plan is completed as one.
        each.write(rows(spark, "hot", range(2), 17, "z"), "upsert")
        each.compact()
    assert values(table) == values(twin)
    assert table.read_optimized(with_meta=False) == twin.read_optimized(with_meta=False)


@SHARES_TABLE
@pytest.mark.parametrize("mode", [EVENT, pytest.param(COMMIT, marks=pytest.mark.wide)])
def test_log_log_full(spark: SparkSession, tmp_path: Path, table_of: TableOf, mode: str) -> None:
    """A LOG, a LOG over its output and newer logs, and a FULL over all leave the rows of a table that was never
    serviced."""
    table = table_of(mode)
    twin = table.copy_to(tmp_path / "twin")
    (first,) = compact(table, "--type", "log")
    for each in (table, twin):
        each.write(rows(spark, "warm", range(2, 12), 13, "f").union(rows(spark, "late", range(4), 11, "f")), "upsert")
    assert values(table) == values(twin)
    (second,) = compact(table, "--type", "log")
    assert (first["action"], second["action"]) == ("logcompaction", "logcompaction")
    assert values(table) == values(twin)
    compact_fully(table)
    assert values(table) == values(twin)
    assert table.read_optimized() == table.snapshot()


@SHARES_TABLE
@pytest.mark.parametrize("mode", [EVENT, pytest.param(COMMIT, marks=pytest.mark.wide)])
def test_incremental_queries_of_the_past_do_not_see_a_log(
    spark: SparkSession, tmp_path: Path, table_of: TableOf, mode: str
) -> None:
    """From each commit before it to the next, and over all of them, the same rows come as before, and as in a twin that
    Hudi log-compacted."""
    table = table_of(mode)
    twin = table.copy_to(tmp_path / "twin")
    ends = [completed for _, completed in table.completed_instants()]
    windows = [*itertools.pairwise(ends), (ends[0], ends[-1])]
    before = {window: table.incremental(*window) for window in windows}
    assert len({rows_ for rows_ in before.values() if rows_}) > 3, "windows that differ"

    compact(table, "--type", "log")
    carry_out_log_compaction(spark, twin, schedule_log_compaction(spark, twin))

    assert {window: table.incremental(*window) for window in windows} == before
    assert {window: twin.incremental(*window) for window in windows} == before
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)


@SHARES_TABLE
def test_hudi_log_compacts_after_us_and_we_after_it(spark: SparkSession, tmp_path: Path, table_of: TableOf) -> None:
    """Outputs of either are sources of the other."""
    table = table_of(EVENT)
    twin = table.copy_to(tmp_path / "twin")
    compact(table, "--type", "log")
    for number, value in enumerate("ghi", start=20):
        for each, options in ((table, HUDI_LOG_COMPACTS), (twin, {})):
            each.write(rows(spark, "warm", range(6), number, value), "upsert", **options)
    by_hudi = list((table.path / ".hoodie/timeline").glob("*.logcompaction.requested"))
    assert len(by_hudi) >= 2, "Hudi log-compacted too"
    assert values(table) == values(twin)
    for each in (table, twin):
        each.write(rows(spark, "warm", range(4, 9), 30, "k"), "upsert")
    compact(table, "--type", "log")
    assert values(table) == values(twin)
    compact_fully(table)
    assert values(table) == values(twin)


@SHARES_TABLE
@pytest.mark.parametrize("first", ["own", "hudi"])
def test_hudi_plans_a_full_over_our_pending_log(table_of: TableOf, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either may finish first: the rows are right, and what was overtaken is dropped with its reason."""
    table = table_of(EVENT)
    before = table.snapshot()
    leave_pending(monkeypatch, lambda: lakeward("compact", str(table.path), "--writers", "stopped", "--type", "log"))
    (pending,) = table.pending_instants()
    instant = table.schedule_compaction()
    assert table.snapshot() == before

    if first == "hudi":
        table.compact_pending(instant)
    done = compact_fully(table)

    own = next(each for each in done if each["instant"] == pending)
    assert own["action"] == "logcompaction"
    assert own["dropped"], own
    assert table.snapshot() == table.read_optimized() == before
    assert not table.pending_instants()


@SHARES_TABLE
@pytest.mark.parametrize("first", ["log", "full"])
def test_our_full_beside_hudis_pending_log(spark: SparkSession, table_of: TableOf, first: str) -> None:
    """Its pending log compaction is finished by us before a FULL is planned; where Hudi finishes a FULL over it first,
    nothing of it can be carried out any more, and the plan, which is not Lakeward's, is left where it is."""
    table = table_of(EVENT)
    before = table.snapshot()
    pending = schedule_log_compaction(spark, table)
    assert choices(table, "--type", "full")["warm"] == "NONE"
    if first == "full":
        table.compact()
        assert table.snapshot() == before

    done = compact_fully(table)

    logs = next(each for each in done if each["instant"] == pending)
    assert (logs["completion_time"] is None) == (first == "full")
    assert table.snapshot() == before
    assert table.pending_instants() == ((pending,) if first == "full" else ())
    compact_fully(table)
    assert table.snapshot() == table.read_optimized() == before


@SHARES_TABLE
def test_hudis_pending_compaction_comes_first(table_of: TableOf) -> None:
    """Hudi's pending plan is finished by us before we plan a LOG; nothing is planned twice."""
    table = table_of(EVENT)
    before = table.snapshot()
    instant = table.schedule_compaction()
    assert set(choices(table).values()) == {"NONE"}
    done = compact(table)
    assert [each["instant"] for each in done] == [instant]
    assert table.snapshot() == table.read_optimized() == before


@SHARES_TABLE
def test_the_oldest_release_reads_and_writes_what_we_made(tmp_path: Path, table_of: TableOf) -> None:
    """Hudi 1.1.1 sees the rows that 1.2.0 sees, with a LOG output and a new base file among them, and upserts."""
    table = table_of(EVENT)
    compact(table)
    snapshot, read_optimized = table.snapshot(with_meta=False), table.read_optimized(with_meta=False)
    warm = "SELECT concat('warm', id) AS id, 'warm' AS part, 99L AS ts, 'old' AS v FROM range(3)"

    with OtherRelease(OLDEST_VERSION, tmp_path / "scratch") as oldest:
        seen = oldest.table(table.path, TableShape(partition_fields="part"))
        assert seen.snapshot() == snapshot
        assert seen.read_optimized() == read_optimized
        seen.write(warm, "upsert")
        assert seen.snapshot() == table.snapshot(with_meta=False)
    assert {values(table)[f"warm{number}"] for number in range(3)} == {"old"}


def leave_pending(monkeypatch: pytest.MonkeyPatch, run: Callable[[], tuple[int, object]]) -> None:
    """Run a compaction whose work fails, so that its plan stays on the timeline."""

    def fail(dispatcher: object, *arguments: object, **options: object) -> object:
        if str(options["description"]).startswith("version"):
            return []
        raise OSError("stopped by the test")

    with monkeypatch.context() as patch:
        for dispatcher in (InProcessDispatcher, SparkDispatcher):
            patch.setattr(dispatcher, "run", fail)
        exit_code, _ = run()
    assert exit_code == 1


@SHARES_TABLE
@pytest.mark.parametrize("mode", [EVENT, pytest.param(COMMIT, marks=pytest.mark.wide)])
def test_a_log_behind_an_earlier_output(spark: SparkSession, table_of: TableOf, mode: str) -> None:
    """A LOG that leaves the output of the one before where it is: every query answers as before, also once more rows
    came, and a FULL by Hudi over all of it gives the same."""
    table = table_of(mode)
    only_logs = ("--partition", "warm", "--set", "planner.log_ratio=100", "--set", "planner.large_log_ratio=100")
    table.write(rows(spark, "warm", range(20), 14, "w", 900), "upsert")
    assert [each["action"] for each in compact(table, *only_logs)] == ["logcompaction"]
    for ts, numbers in ((15, range(4)), (13, range(2, 6)), (16, range(3, 5))):  # the second loses by event time
        table.write(rows(spark, "warm", numbers, ts, f"n{ts}"), "upsert")
    exit_code, printed = lakeward("plan", str(table.path), *setting_words(), *only_logs)
    (decision,) = [each for each in printed["decisions"] if each["partition"] == "warm"]
    assert (exit_code, decision["choice"]) == (0, "LOG")
    assert (decision["numbers"]["ahead_log_files"], decision["numbers"]["run_logs"]) == (1, 3)
    before, before_by_hudi_rs = table.snapshot(), table.read_by_hudi_rs()
    history = {requested: table.as_of(requested) for requested, _ in table.completed_instants()}

    assert [each["action"] for each in compact(table, *only_logs)] == ["logcompaction"]

    assert table.snapshot() == before
    assert table.read_by_hudi_rs() == before_by_hudi_rs
    assert {requested: table.as_of(requested) for requested in history} == history
    table.write(rows(spark, "warm", range(5), 17, "z"), "upsert")
    after = table.snapshot(with_meta=False)
    assert {row_id: value for row_id, value in values(table).items() if row_id == "warm3"} == {"warm3": "z3"}
    table.compact()
    assert table.snapshot(with_meta=False) == after
