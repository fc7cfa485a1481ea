"""Compaction of tables of version 10: FULL and LOG in one plan, LOG into a file of rows and one of deletes."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Unsupported, VerificationFailed
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec
from lakeward.format.metadata.key import column_stats_key
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import State
from lakeward.index.bloom.log_tails import may_be_in_logs, names_and_sizes, open_log_tail
from lakeward.index.index_type import IndexType
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import CompactedPlan, CompactionReport
from lakeward.services.indexing.run.tails import choose_tails
from lakeward.storage.local import LocalStorage
from lakeward.table.backlog import backlog_of
from lakeward.table.file_group import FileSlice, LogFile
from lakeward.table.listing_source import ListingSource
from lakeward.table.live_logs import live_logs
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.new_table import NewIndex, NewIndexes
from tests import native_log_judge
from tests.clocks import SkippingClock
from tests.crash.compacting import everything, instants, is_leftover
from tests.crash.metadata_compacting import check_agrees, snapshot_of
from tests.native_table import PARTITION, NativeTable, Record
from tests.our_reader import scan, slice_rows
from tests.processes import ScriptedProcesses
from tests.runs import runs
from tests.services.bench import NOTHING, Bench
from tests.services.clean.run.retiring import retire, rules
from tests.write.judged import judged_values
from tests.write.writing import new_table, write

SEED = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**31)))
CLOCK = SkippingClock()
"""One for all runs: what completed in the future of the next one is in no plan of that."""
LSM_TREE = {"hoodie__table__storage__layout": "LSM_TREE"}
FULL_GROUP, LOG_GROUP = "hot-0", "warm-0"
SETTINGS = {
    "planner.small_base_size": "1KiB",
    "planner.log_ratio": "1",
    "planner.large_log_ratio": "100",
    "hoodie.compaction.logfile.num.threshold": "2",
    "hoodie.compaction.logfile.size.threshold": "1",
}


def planner(kind: CompactionType = CompactionType.HYBRID, **settings: str) -> Planner:
    return planner_of(kind, GroupFilter(), SETTINGS | settings, sources_retire=True)


def two_groups(base: Path, *, by_event_time: bool = True, **more: str) -> NativeTable:
    """One whose base is small beside its logs, and one whose is large; each with rows and deletes in three writes."""
    table = NativeTable(base, by_event_time=by_event_time, **more)
    table.insert(FULL_GROUP, [Record(f"h{number}", 10, "a") for number in range(6)])
    chance = random.Random(0)
    table.insert(LOG_GROUP, [Record(f"w{number}", 10, chance.randbytes(40).hex()) for number in range(900)])
    for at in (1, 2, 3):
        table.write(
            {
                FULL_GROUP: [Record("h1", 10 + at, "b"), Record(f"h{1 + at}", 11, None)],
                LOG_GROUP: [Record("w1", 12 - at, "b"), Record(f"n{at}", at, "new"), Record(f"w{1 + at}", 11, None)],
            }
        )
    return table


def bench_of(table: NativeTable) -> Bench:
    bench = Bench(table.base)
    bench.clock = CLOCK
    return bench


def compact(table: NativeTable, planner: Planner) -> CompactionReport:
    report = bench_of(table).compactor(planner).compact()
    table.compacted(report)
    return report


def kinds_of(plan: CompactedPlan) -> dict[str, OperationKind]:
    return {operation.file_id: operation.kind for operation in plan.operations}


@pytest.mark.parametrize("by_event_time", [True, False], ids=["event time", "commit time"])
def test_full_and_log_in_one_plan(tmp_path: Path, by_event_time: bool) -> None:
    """The table's version has it so by itself: one commit with the base file, the log of rows and that of deletes, and
    a stat of each; nothing of Lakeward is left over, rows are what they were, and a second run has nothing to do."""
    table = two_groups(tmp_path / "table", by_event_time=by_event_time)
    table.check()

    (plan,) = compact(table, planner()).plans

    assert kinds_of(plan) == {FULL_GROUP: OperationKind.FULL, LOG_GROUP: OperationKind.LOG}
    table.check()
    file = table.timeline / f"{plan.instant}_{plan.completion_time}.commit"
    metadata = read_commit_metadata(file.read_bytes(), file=str(file), layout=2)
    assert metadata.operation_type == "COMPACT"
    stats = {stat.path: stat for stat in metadata.partition_to_write_stats[PARTITION]}
    new = {path for path in everything(table.base) if f"_{plan.instant}" in path and path.startswith(PARTITION)}
    assert set(stats) == new and len(new) == 3
    assert {path.partition(plan.instant)[2] for path in new} == {".parquet", "_1.log.parquet", "_1.deletes.parquet"}
    assert all(stat.file_size_in_bytes == (table.base / path).stat().st_size for path, stat in stats.items())
    assert [path for path in everything(table.base) if is_leftover(path)] == []
    result = next(each for each in plan.operations if each.kind is OperationKind.LOG)
    assert result.delete_log is not None
    assert plan.output_bytes == sum(stat.file_size_in_bytes or 0 for stat in stats.values())

    again = compact(table, planner())
    assert again.plans == ()
    assert {each.file_id: each.reason for each in again.outcome.decisions} == {
        FULL_GROUP: Reason.NO_LOGS,
        LOG_GROUP: Reason.BELOW_THRESHOLDS,
    }


def test_while_it_is_pending(tmp_path: Path) -> None:
    """FULL and LOG are in a map of pending work each, a write meanwhile loses nothing, and the next run carries it
    out."""
    table = two_groups(tmp_path / "table")
    bench = bench_of(table)
    run = bench.run

    def fail(spec: OperationSpec, attempt: int) -> OperationResult:
        raise VerificationFailed("No.", why="No.", remedy="No.")

    bench.run = fail  # type: ignore[assignment]
    with pytest.raises(VerificationFailed):
        bench.compactor(planner()).compact()
    snapshot = scan(table.base)
    ((instant, plan),) = snapshot.plans.items()
    assert (plan.version, {each.operation_type for each in plan.operations}) == (3, {"FULL", "LOG"})
    assert snapshot.pending_compactions == {(PARTITION, FULL_GROUP): instant}
    assert snapshot.pending_log_compactions == {(PARTITION, LOG_GROUP): instant}
    later = {FULL_GROUP: [Record("h1", 99, "later")], LOG_GROUP: [Record("w1", None, None)]}
    table.write(later)
    table.check()

    bench.run = run
    report = bench.compactor(NOTHING).compact()
    table.compacted(report)
    (done,) = report.plans
    assert (done.instant, done.recovered) == (instant, True)
    assert {each.file_id for each in done.operations} == {FULL_GROUP, LOG_GROUP}
    table.check()


def test_the_outputs_are_compacted_again(tmp_path: Path) -> None:
    """A LOG over both files of an earlier one and the writes since, and a FULL over all; nothing over the two alone."""
    table = two_groups(tmp_path / "table")
    log = planner(CompactionType.LOG)
    compact(table, log)
    report = compact(table, log)
    assert report.plans == () and {each.reason for each in report.outcome.decisions} == {Reason.ONE_LOG}
    table.write({LOG_GROUP: [Record("w1", 50, "again"), Record("w7", None, None)]})
    (plan,) = compact(table, log).plans
    assert (kinds_of(plan), plan.merged_log_files) == ({LOG_GROUP: OperationKind.LOG}, 4)
    table.check()
    assert {each.kind for each in compact(table, planner(CompactionType.FULL)).plans[0].operations} == {
        OperationKind.FULL
    }
    table.check()
    assert not scan(table.base).file_groups[1].slices[0].log_files


def test_a_split_plan_where_it_is_asked_for(tmp_path: Path) -> None:
    """A log compaction of its own, completed as a delta commit, with the same two files."""
    table = two_groups(tmp_path / "table")
    plans = compact(table, planner(**{"planner.publish": "split"})).plans
    (log,) = [plan for plan in plans if OperationKind.LOG in kinds_of(plan).values()]
    assert len(plans) == 2
    (done,) = [i for i in instants(table.base) if i.time == log.instant and i.state is State.COMPLETED]
    assert done.action == "deltacommit"
    assert len(list((table.base / PARTITION).glob(f"*_{log.instant}_1.*.parquet"))) == 2
    table.check()


def test_a_full_says_its_changes_in_a_native_log(tmp_path: Path) -> None:
    """What changed is in the file of changes that the base file's stat names, and there is no inline log. No LOG is
    planned beside it: readers of changes would fail at it."""
    more = {"hoodie__table__cdc__enabled": "true", "hoodie__table__cdc__supplemental__logging__mode": "OP_KEY_ONLY"}
    table = NativeTable(tmp_path / "table", by_event_time=True, **more)
    table.insert(FULL_GROUP, [Record(key, 10, "a") for key in "abc"])
    table.write(
        {FULL_GROUP: [Record("a", 11, "b"), Record("b", 11, None), Record("n", 1, "new"), Record("x", 1, None)]}
    )
    (plan,) = compact(table, planner()).plans
    table.check()
    (result,) = plan.operations
    assert result.kind is OperationKind.FULL and result.change_log is not None
    (path,) = (table.base / PARTITION).glob("*.cdc*")
    assert path.name == result.change_log.file_name == f"{FULL_GROUP}_0-1000-0_{plan.instant}_1.cdc.parquet"
    assert sorted((row["record_key"], row["op"]) for row in pq.read_table(path).to_pylist()) == [
        ("a", "u"),
        ("b", "d"),
        ("n", "i"),
    ]
    file = table.timeline / f"{plan.instant}_{plan.completion_time}.commit"
    metadata = read_commit_metadata(file.read_bytes(), file=str(file), layout=2)
    (stat,) = metadata.partition_to_write_stats[PARTITION]
    assert stat.cdc_stats == {f"{PARTITION}/{path.name}": path.stat().st_size}


def test_the_metadata_table_has_both_files(tmp_path: Path) -> None:
    """Each by its size, with statistics of each indexed column: those of deletes are empty ranges. What wrote the logs
    is our writer, and the record index still finds each key."""
    base = new_table(tmp_path / "table", version=10, indexes=NewIndexes(finds_keys=NewIndex.METADATA))
    index = {"index": IndexType.METADATA}
    keys = [f"k{number}" for number in range(8)]
    write(base, [(key, 1, "p", "a") for key in keys], clock=CLOCK, **index)
    for at in (2, 3):
        write(base, [(key, at, "p", "b") for key in keys[at : at + 3]], clock=CLOCK, **index)
        write(base, [(keys[at + 4], 9, "p", "gone")], "delete", clock=CLOCK, **index)
    before = judged_values(base)
    bench = Bench(base)
    bench.clock = CLOCK
    (plan,) = bench.compactor(planner(CompactionType.LOG)).compact().plans
    assert judged_values(base) == before
    check_agrees(base)
    snapshot = snapshot_of(base, ListingSource.STORAGE)
    metadata = load_metadata_table(bench.storage, str(base), snapshot.config, snapshot.timeline, clock=CLOCK)
    reader = MetadataReader(bench.storage, metadata)

    def range_of(kind: str) -> tuple[object, object, int | None]:
        (path,) = (base / "p").glob(f"*_{plan.instant}_1.{kind}.parquet")
        (found,) = reader.lookup("column_stats", [column_stats_key("ts", "p", path.name)]).values()
        assert isinstance(found, ColumnStatsRecord)
        return found.min_value, found.max_value, found.value_count

    assert (range_of("log"), range_of("deletes")) == ((2, 3, 4), (None, None, 0))
    write(base, [("k0", 20, "p", "again")], clock=CLOCK, **index)
    assert judged_values(base) == before | {"k0": "again"}


@pytest.mark.parametrize("by_event_time", [True, False], ids=["event time", "commit time"])
def test_a_log_compaction_of_anothers_is_finished_in_the_layout_lsm_tree(tmp_path: Path, by_event_time: bool) -> None:
    """Its outputs and sources together give the rows that there were, and so do the outputs alone. Where logs get tails
    the newest output has one, which covers the sources and the other output."""
    table = NativeTable(tmp_path / "table", by_event_time=by_event_time, **LSM_TREE)
    table.insert("g-0", [Record(f"w{number}", 10, "a") for number in range(5)])
    for at in (1, 2, 3):
        table.write({"g-0": [Record("w1", 12 - at, "b"), Record(f"n{at}", at, "new"), Record(f"w{1 + at}", 11, None)]})
    table.check()
    choose_tails(LocalStorage(), scan(table.base), are_written=True)
    instant = table.plan_log_compaction("g-0")
    (plan,) = compact(table, NOTHING).plans
    assert (plan.instant, plan.recovered, kinds_of(plan)) == (instant, True, {"g-0": OperationKind.LOG})
    table.check()
    (slice_,) = scan(table.base).latest_slices
    outputs = tuple(log for log in slice_.log_files if log.instant == instant)
    assert (len(outputs), len(slice_.log_files)) == (2, 8)
    newest, keys = outputs[-1], pa.array(["w1", "n1", "w4", *(f"none{number}" for number in range(20))])
    with (table.base / newest.path).open("rb") as file:
        opened = open_log_tail(file, newest.size, newest.file_name)
    assert opened is not None and {log.name for log in opened[0].covers} == {
        log.file_name for log in slice_.log_files if log is not newest
    }
    found = may_be_in_logs(
        LocalStorage(), str(table.base / PARTITION), names_and_sizes(slice_.log_files), slice_.base_instant, keys
    )
    assert found[:3].all() and found.sum() < 8
    check_alone(table, replace(slice_, log_files=outputs))


def check_alone(table: NativeTable, slice_: FileSlice) -> None:
    """The slice, without logs that an output stands for, has the rows of the table by our reader and the second one."""
    alone = slice_rows(table.base, scan(table.base), slice_)
    assert {row["id"]: (row["ts"], row["v"]) for row in alone} == table.rows
    assert slice_.base_file is not None
    base_rows = native_log_judge.rows((table.base / slice_.base_file.path).read_bytes())
    logs = {log.name.text: (table.base / log.path).read_bytes() for log in slice_.log_files}
    judged = native_log_judge.merged(base_rows, logs, ["ts"] if table.by_event_time else [], lsm=True)
    assert {key: (row["ts"], row["v"]) for key, row in judged.items()} == table.rows


@pytest.mark.slow
@pytest.mark.parametrize("by_event_time", [True, False], ids=["event time", "commit time"])
def test_a_run_of_the_newest_logs_stands_for_itself_in_the_layout_lsm_tree(tmp_path: Path, by_event_time: bool) -> None:
    """Keeps 3 of engine/task/log_operation: the run becomes one log, the logs ahead stay, and rows are the same with
    its sources, with some of them and without. Nothing in the output sends a reader to its sources. What comes later
    is merged with it, and FULL takes all."""
    table = NativeTable(tmp_path / "table", by_event_time=by_event_time, **LSM_TREE)
    table.insert("g-0", [Record(f"w{number}", 10, "a") for number in range(6)])
    table.write({"g-0": [Record("w0", None, None), Record("w1", 30, "ahead"), Record("w5", 99, "ahead")]})
    for at in range(4):
        table.write({"g-0": [Record("w1", 22 - at, f"b{at}"), Record(f"w{1 + at}", 11, None), Record("w0", 3, "c")]})
    table.check()
    instant = table.plan_run("g-0", 4)
    (plan,) = compact(table, NOTHING).plans
    assert (plan.instant, kinds_of(plan), plan.merged_log_files) == (instant, {"g-0": OperationKind.LOG}, 8)
    table.check()
    (slice_,) = scan(table.base).latest_slices
    for log in slice_.log_files:
        if log.instant == instant:
            said = native_log_judge.footer((table.base / log.path).read_bytes())
            assert "COMPACTED_BLOCK_TIMES" not in said
    logs = live_logs(slice_, scan(table.base).log_compactions[slice_.group_id])
    assert len(logs.live) == 4 and len(logs.superseded) == 8, "rows and deletes: of the first write, and of the output"
    assert [logs.place(log) for log in logs.live][2:] == [instant, instant]
    assert [log.instant for log in logs.live[:2]] == [slice_.log_files[0].instant] * 2
    backlog = backlog_of(scan(table.base))
    assert backlog.superseded_log_files == 8
    assert backlog.read_amplification == pytest.approx((slice_.base_bytes + slice_.log_bytes) / slice_.base_bytes)

    left = slice_.log_files
    for gone in chance_of(logs.superseded):
        left = tuple(log for log in left if log is not gone)
        check_alone(table, replace(slice_, log_files=left))
    table.write({"g-0": [Record("w1", 31, "later"), Record("w5", 100, None)]})
    assert table.plan_run("g-0", 2) and compact(table, NOTHING).plans[0].merged_log_files == 4
    table.check()
    report = compact(table, planner(CompactionType.FULL))
    table.compacted(report)
    assert kinds_of(report.plans[0]) == {"g-0": OperationKind.FULL}
    table.check()


@pytest.mark.slow
@pytest.mark.parametrize("layout", [LSM_TREE, {}], ids=["lsm_tree", "default"])
@pytest.mark.parametrize("by_event_time", [True, False], ids=["event time", "commit time"])
def test_full_and_log_are_one_plan(tmp_path: Path, by_event_time: bool, layout: dict[str, Any]) -> None:
    """RFC-103 draws it so: one instant, a group FULL and the other LOG, which takes the newest writes of those that it
    names. Another engine's FULL in its stead finds every log of the slice in the plan."""
    table = NativeTable(tmp_path / "table", by_event_time=by_event_time, **layout)
    chance = random.Random(0)
    table.insert(FULL_GROUP, [Record("h1", 10, "a")])
    table.insert(LOG_GROUP, [Record(f"w{number}", 10, chance.randbytes(60).hex()) for number in range(2000)])
    table.write({LOG_GROUP: [Record(f"big{number}", 5, chance.randbytes(60).hex()) for number in range(600)]})
    table.write({LOG_GROUP: [Record("w1", 40, "c")], FULL_GROUP: [Record("h1", 11, "b")]})
    table.write({LOG_GROUP: [Record("w1", 41, "d"), Record("w9", 41, None)], FULL_GROUP: [Record("h1", 12, "c")]})
    logs = next(each for each in scan(table.base).latest_slices if each.file_id == LOG_GROUP).log_files
    outcome = bench_of(table).compactor(planner()).preview().outcome
    operations = {each.file_id: each for each in outcome.operations}
    assert set(operations[LOG_GROUP].log_files) == {log.name.text for log in logs}
    run = operations[LOG_GROUP].run
    assert run is not None and set(run) == {log.name.text for log in logs[-3:]}
    (plan,) = compact(table, planner()).plans
    assert kinds_of(plan) == {FULL_GROUP: OperationKind.FULL, LOG_GROUP: OperationKind.LOG}
    table.check()
    assert compact(table, planner()).plans == ()
    assert kinds_of(compact(table, planner(CompactionType.FULL)).plans[0]) == {LOG_GROUP: OperationKind.FULL}
    table.check()


def test_where_a_delete_always_wins_full_comes_in_the_layout_lsm_tree(tmp_path: Path) -> None:
    """The planner learns it, asks for no LOG there again, and its logs are still merged with the base in time."""
    table = NativeTable(tmp_path / "table", by_event_time=True, **LSM_TREE)
    chance = random.Random(0)
    table.insert("g-0", [Record(f"w{number}", 10, chance.randbytes(40).hex()) for number in range(900)])
    for at in range(8):
        table.write({"g-0": [Record("w1", None, None) if at == 3 else Record("w2", at, f"{at}")]})
    report = compact(table, planner())
    (decision,) = report.outcome.decisions
    assert (report.plans, decision.reason, decision.instead_of) == ((), Reason.LOG_NOT_ALLOWED, Choice.LOG)
    assert report.without_log == {(PARTITION, "g-0")}
    table.write({"g-0": [Record("w2", 20, "ninth")]})
    (plan,) = compact(table, planner()).plans
    assert kinds_of(plan) == {"g-0": OperationKind.FULL}
    table.check()


def test_a_run_ends_at_the_newest_log_in_the_layout_lsm_tree(tmp_path: Path) -> None:
    """Keeps 1 of services/compaction/run/targets: a write that completed behind the run, and before the plan, would
    lose to its output. One that began after the plan does not."""
    table = NativeTable(tmp_path / "table", by_event_time=False, **LSM_TREE)
    table.insert("g-0", [Record("a", 1, "base")])
    for at in range(3):
        table.write({"g-0": [Record("a", 1, f"{at}")]})
    begun = table.begin({"g-0": [Record("a", 1, "behind")]})
    table.plan_run("g-0", 2)
    table.complete(begun)
    (plan,) = compact(table, NOTHING).plans
    assert "would lose to its output" in plan.dropped[0].why
    table.check()
    table.plan_run("g-0", 2)
    table.write({"g-0": [Record("a", 1, "after")]})
    assert compact(table, NOTHING).plans[0].dropped == ()
    table.check()


def chance_of(logs: Sequence[LogFile]) -> list[LogFile]:
    """The logs in an order of chance, of which a failure says the seed."""
    print(f"LAKEWARD_SEED={SEED}")
    return random.Random(SEED).sample(logs, len(logs))


def test_no_log_compaction_is_begun_in_the_layout_lsm_tree_where_a_delete_always_wins(tmp_path: Path) -> None:
    """The base is 10, the logs are a delete and put 5: in the order of the files that is put 5, and behind the base
    alone put 5 would lose. Keeps 1 of read/logs/log_deletes."""
    table = NativeTable(tmp_path / "table", by_event_time=True, **LSM_TREE)
    table.insert("g-0", [Record("a", 10, "base")])
    table.write({"g-0": [Record("a", None, None)]})
    table.write({"g-0": [Record("a", 5, "later")]})
    table.check()
    instant = table.plan_log_compaction("g-0")
    with pytest.raises(Unsupported, match="layout lsm_tree"):
        compact(table, planner())
    table.check()
    assert bench_of(table).compactor(NOTHING).unschedule(instant, foreign=True)
    assert {each.kind for each in compact(table, planner(CompactionType.FULL)).plans[0].operations} == {
        OperationKind.FULL
    }
    table.check()


def test_no_log_compaction_is_begun_of_logs_from_before_the_layout_lsm_tree(tmp_path: Path) -> None:
    """Readers fold such logs first, and the output would be ranked behind the base row."""
    table = NativeTable(tmp_path / "table", by_event_time=False, **LSM_TREE, lakeward__lsm_tree__since="2" + "9" * 16)
    table.insert("g-0", [Record("a", 10, "base")])
    table.write({"g-0": [Record("a", 11, "one")]})
    table.write({"g-0": [Record("a", 12, "two")]})
    table.plan_log_compaction("g-0")
    with pytest.raises(Unsupported, match="layout lsm_tree") as caught:
        compact(table, NOTHING)
    assert "is from before the table got the layout lsm_tree" in caught.value.why


@pytest.mark.parametrize("is_complete", [True, False], ids=["completed", "pending"])
def test_a_write_that_began_before_a_log_compaction_of_lsm_tree_drops_it(tmp_path: Path, is_complete: bool) -> None:
    """Readers there rank the output behind the write's delete, which always wins, also by event time."""
    table = NativeTable(tmp_path / "table", by_event_time=True, **LSM_TREE)
    table.insert("g-0", [Record("a", 10, "base"), Record("b", 10, "base")])
    table.write({"g-0": [Record("a", 20, "one")]})
    table.write({"g-0": [Record("a", 21, "two")]})
    begun = table.begin({"g-0": [Record("a", None, None)]})
    instant = table.plan_log_compaction("g-0")
    if is_complete:
        table.complete(begun)
    report = compact(table, NOTHING)
    (plan,) = report.plans
    assert plan.instant == instant and plan.completion_time is None
    assert "began before it" in plan.dropped[0].why
    if not is_complete:
        table.complete(begun)
    table.check()
    assert "a" not in table.rows


@pytest.mark.parametrize("by_event_time", [True, False], ids=["event time", "commit time"])
def test_a_pending_write_holds_a_log_back(tmp_path: Path, by_event_time: bool) -> None:
    """Any that may touch the group does so by commit time, since a reader may rank the output by its own instant; by
    event time one that is newer than every source does no harm."""
    table = two_groups(tmp_path / "table", by_event_time=by_event_time)
    begun = table.begin({LOG_GROUP: [Record("w1", 60, "late")]})
    report = compact(table, planner(CompactionType.LOG))
    of_group = next(each for each in report.outcome.decisions if each.file_id == LOG_GROUP)
    expected = (Choice.LOG, Reason.HAS_LOGS) if by_event_time else (Choice.NONE, Reason.PENDING_WRITE)
    assert (of_group.choice, of_group.reason) == expected
    table.complete(begun)
    table.check()
    compact(table, planner(CompactionType.LOG))
    table.check()


def may_be_log_compacted(table: NativeTable) -> str | None:
    """A file group of which a LOG may be planned: with logs of two writes and, by event time, no delete that always
    wins."""
    busy = scan(table.base).pending_log_compactions
    for file_id, group in table.groups.items():
        wins = [each for _, records in group.logs for each in records if each.ts is None]
        if len(group.logs) > 1 and not (table.by_event_time and wins) and (PARTITION, file_id) not in busy:
            return file_id
    return None


def history(base: Path, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    by_event_time = chance.random() < 0.5
    table = NativeTable(base, by_event_time=by_event_time, **chance.choice([{}, LSM_TREE]))
    groups = [f"g{number}-0" for number in range(chance.randint(1, 3))]
    for group in groups:
        table.insert(group, [Record(f"{group} {key}", chance.randint(0, 999), "base") for key in range(6)])
    begun: list[object] = []
    times = iter(chance.sample(range(10**6), 10**4))

    def records() -> dict[str, list[Record]]:
        found = {}
        for group in chance.sample(groups, chance.randint(1, len(groups))):
            keys = chance.sample(range(10), chance.randint(1, 6))
            found[group] = [
                Record(f"{group} {key}", next(times), chance.choice([None, f"{next(times)}"])) for key in keys
            ]
            if chance.random() < 0.3:
                found[group].append(Record(f"{group} gone", None, None))
        return found

    kinds = [CompactionType.HYBRID, CompactionType.LOG, CompactionType.FULL]
    done = set()
    planned: set[str] = set()
    steps_of_all = ["write"] * 4 + ["begin", "complete", "compact", "compact"]
    for _ in range(steps):
        step = chance.choice([*steps_of_all, "plan", "clean"] if table.is_lsm_tree else steps_of_all)
        if step == "write":
            table.write(records())
        elif step == "begin":
            begun.append(table.begin(records()))
        elif step == "complete" and begun:
            table.complete(begun.pop(chance.randrange(len(begun))))  # type: ignore[arg-type]
        elif step == "plan" and (group := may_be_log_compacted(table)) is not None:
            planned.add(table.plan_log_compaction(group))
        elif step == "clean":
            retire(base, LocalStorage(), ScriptedProcesses(), rules(chance.randint(1, 3)), clock=CLOCK)
        elif step == "compact":
            form = {"planner.publish": chance.choice(["auto", "auto", "split"])}
            report = compact(table, planner(chance.choice(kinds), **form))
            done |= {operation.kind for plan in report.plans for operation in plan.operations}
            for instant in planned & scan(base).plans.keys():  # overtaken, and so left to the program that planned it
                bench_of(table).compactor(NOTHING).unschedule(instant, foreign=True)
            planned.clear()
        table.check()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(runs(2)))
def test_any_history(tmp_path: Path, number: int) -> None:
    """Writes, late ones too, FULL, LOG and both in one plan, in either form, and cleans that take away what was merged:
    our reader and the second one give the rows of a dict after each step."""
    print(f"LAKEWARD_SEED={SEED}")
    history(tmp_path / "table", SEED + number, steps=14)


@pytest.mark.wide
@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_any_longer_history(tmp_path: Path, number: int) -> None:
    """The same, for longer."""
    print(f"LAKEWARD_SEED={SEED}")
    history(tmp_path / "table", SEED + 1000 + number, steps=50)
