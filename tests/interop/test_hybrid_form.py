"""A hybrid plan of Lakeward on a table with every partition of the metadata table (`hybrid_table.py`): Hudi and we
carry it out, and Hudi, its oldest release of version 9 among them, goes on with what we made, and says the same of the
past by time travel, incremental queries and change data capture. Hudi rolls the plan back: with our process dead on the
way, or completed.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.compacting import compact as compact_in_process
from tests.crash.other_process import age
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.client import carry_out_log_compaction, roll_back, schedule_log_compaction
from tests.hudi.metadata_table import WITHOUT_METADATA
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION
from tests.hudi.table import HudiTable
from tests.interop.hybrid_table import (
    BY_RECORD_INDEX,
    NOTHING_MORE,
    PLANNER,
    WITH_METADATA,
    Reported,
    carry_out,
    compact,
    select,
    some,
    values_of,
)
from tests.interop.lakeward_cli import compact as compact_full
from tests.metadata_golden import set_property
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.turns
def test_hudi_carries_it_out(planned: Reported, twin: Reported) -> None:
    """Hudi reads a table with the plan as one without. To it every operation is FULL: it leaves no log behind."""
    assert planned.table.snapshot() == twin.table.snapshot()

    planned.table.compact_pending(planned.instant)

    assert not planned.table.pending_instants()
    assert planned.table.snapshot() == twin.table.snapshot()
    planned.check()


@pytest.mark.turns(31)
def test_we_carry_it_out(planned: Reported, twin: Reported) -> None:
    """What a writer committed after the plan stays, whose LOG takes outputs of earlier ones. One small log behind a
    larger output waits for others; a FULL by us takes all, or a FULL by Hudi."""
    carry_out(planned)

    assert planned.table.snapshot() == twin.table.snapshot()
    assert planned.table.read_by_hudi_rs() == twin.table.read_by_hudi_rs()
    planned.check()
    fulls = planned.copy_to(planned.table.path.with_name("full"))
    assert compact(fulls.table) == []
    compact_full(fulls.table)
    fulls.check()
    assert fulls.table.read_optimized() == fulls.table.snapshot() == twin.table.snapshot()
    planned.go_on()


@pytest.mark.wide
def test_the_oldest_release_goes_on(planned: Reported, tmp_path: Path) -> None:
    """Hudi 1.1.1 reads the pending plan, and carries it out; it reads what we made of it, upserts by the record index,
    and compacts."""
    its = planned.copy_to(tmp_path / "its")
    with OtherRelease(OLDEST_VERSION, tmp_path / "scratch") as oldest:
        seen, run = (oldest.table(shown.table.path, shown.table.shape) for shown in (planned, its))

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
    for shown in (planned, its):
        shown.check()
        shown.go_on()


INCREMENTAL = {"hoodie.datasource.query.type": "incremental"}
BEGIN, END = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
COMMIT_TIME = "_hoodie_commit_time"
CDC = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER"}


@pytest.mark.wide
def test_history(planned: Reported, twin: Reported, tmp_path: Path) -> None:
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
        own, of_hudi = set(planned.table.incremental(begin, end)), set(hudis.table.incremental(begin, end_there))
        assert own <= of_hudi
        assert not (of_hudi - own) & rows_now


@pytest.mark.wide
def test_changes(planned: Reported, twin: Reported) -> None:
    """Change data capture that is switched on after a hybrid commit gives the same changes as in a table without one,
    also over the commit: Hudi takes what was there before each change from the slices. (We compact nothing while it is
    on, see docs/reference/compatibility.md; and what was written before it was on, Hudi can give in neither table.)"""
    carry_out(planned)
    since = twin.table.completed_instants()[-1][1]
    found = []
    for shown in (planned, twin):
        for key, value in CDC.items():
            set_property(shown.table.path, key, value)
        (shown.table.path / ".hoodie/.hoodie.properties.crc").unlink()  # Hadoop's checksum of what was there
        shown.table = shown.table.reshaped(options={**shown.table.shape.options, **CDC})
        shown.upsert(
            *(some(part, range(2, 6), 20, "p") for part in ("hot", "warm", "late")), some("late", range(8, 10), 2, "p")
        )
        shown.delete(some("warm", range(5, 7), 20, ""), some("late", range(5, 7), 20, ""))
        ends = [since, *(completed for _, completed in shown.table.completed_instants()[-2:])]
        found.append([changes(shown.table, *window) for window in itertools.combinations(ends, 2)])
    assert found[0] == found[1]
    assert all(found[1])


def changes(table: HudiTable, begin: str, end: str) -> list[str]:
    frame = table.frame(
        **{
            **INCREMENTAL,
            "hoodie.datasource.query.incremental.format": "cdc",
            BEGIN: begin,
            END: end,
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
def test_windows_that_end_with_a_log(spark: SparkSession, twin: Reported, tmp_path: Path) -> None:
    """An incremental query that ends with a LOG misses late rows by event time, in either form and where Hudi
    log-compacted, also those of a write between plan and commit: Hudi merges what is in the blocks of the window's
    instants, and drops rows of other commits afterwards. Hudi's own LOG makes all its rows new ones, so that it shows
    the winners again; Lakeward's leaves them their commits. Asked to leave compactions out, the query misses nothing in
    the hybrid form."""
    without, hudis, hybrid, split = (twin.copy_to(tmp_path / name) for name in ("none", "hudi", "hybrid", "split"))
    hudis.instant = schedule_log_compaction(spark, hudis.table)
    hybrid.leave_planned("--type", "log", "--set", "planner.publish=hybrid")
    split.leave_planned("--type", "log", "--set", "planner.publish=split")
    for shown in (without, hudis, hybrid, split):
        shown.upsert(*(some(part, range(2, 10), 8, "z") for part in ("warm", "late")), some("hot", range(2), 30, "z"))
        shown.delete(some("late", range(20, 22), 30, ""), some("warm", range(20, 22), 30, ""))
    carry_out_log_compaction(spark, hudis.table, hudis.instant)
    for shown, action in ((hybrid, "compaction"), (split, "logcompaction")):
        (done,) = compact(shown.table, *NOTHING_MORE)
        assert (done["instant"], done["action"], done["dropped"]) == (shown.instant, action, [])

    own = windows_to_the_end(hybrid.table)

    assert windows_to_the_end(split.table) == own
    all_rows = windows_to_the_end(without.table)
    assert windows_to_the_end(hybrid.table, **{"hoodie.datasource.read.incr.skip_compact": "true"})[:-1] == all_rows
    of_hudi, now = windows_to_the_end(hudis.table), hybrid.expected()
    made_new = {row["id"] for row in map(json.loads, hudis.table.snapshot()) if row[COMMIT_TIME] == hudis.instant}
    missed = set()
    for of_none, of_lakeward, of_hudi_rows in zip(all_rows, own[:-1], of_hudi[:-1], strict=True):
        assert of_lakeward.items() <= of_none.items()
        lost = of_none.items() - of_lakeward.items()
        assert not lost & now.items()
        assert not lost & of_hudi_rows.items()
        again = of_hudi_rows.items() - of_lakeward.items()
        assert again <= now.items()
        assert dict(again).keys() <= made_new
        missed |= lost
    assert made_new
    assert own[-1] == {}
    assert bool(missed) == bool(twin.model.ordering_columns)


def windows_to_the_end(table: HudiTable, **options: str) -> list[dict[str, str]]:
    """What incremental queries answer that begin after nothing, after the first commit, after the second ..."""
    completed = [each for _, each in table.completed_instants()]
    windows = ({**INCREMENTAL, BEGIN: begin, END: completed[-1], **options} for begin in ("000", *completed[:-1]))
    return [values_of(table.snapshot(with_meta=False, **window)) for window in windows]


STEPS = {
    "files": lambda call: call.startswith("move") and "/metadata/files/" in call,
    "metadata-commit": lambda call: call.startswith("link"),
}


@pytest.mark.wide
@pytest.mark.parametrize("last", ["files", "metadata-commit"])
def test_hudi_takes_over(planned: Reported, tmp_path: Path, last: str) -> None:
    """We died with our files in their places, or with the metadata table's commit made as well: Hudi rolls that back
    and carries the plan out again."""
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
def test_hudi_rolls_it_back(spark: SparkSession, twin: Reported) -> None:
    """Completed, and rolled back by Hudi: the base file goes, our logs stay, and nothing reads them any more."""
    before = twin.table.snapshot()
    (done,) = compact(twin.table)

    roll_back(spark, twin.table, done["instant"])

    outputs = {each["partition_path"]: each["file_name"] for each in done["operations"]}
    assert not (twin.table.path / "hot" / outputs.pop("hot")).exists()
    assert all((twin.table.path / part / name).exists() for part, name in outputs.items())
    assert twin.table.snapshot() == before
    twin.check()
    twin.go_on()
