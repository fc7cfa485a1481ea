"""The planner's rules are cases in `hybrid_compaction.cases`; here they are run, and what text cannot say is tested."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.timeline.compaction_plan import (
    METRICS,
    CompactionPlan,
    read_compaction_plan,
    write_compaction_plan,
)
from lakeward.services.compaction.plan.decision import HYBRID_STRATEGY, LOG_STRATEGY, Choice, Form, PlanOutcome, Reason
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.planner import HybridCompactionPlanGenerator
from tests.golden_tables import copy_golden
from tests.our_reader import scan
from tests.services.compaction.plan.planner_cases import PENDING_MAPS, Case, format_outcome, read_cases, read_table
from tests.synthetic_table import completed, file_group, minute, snapshot_of

CASES = Path(__file__).with_name("hybrid_compaction.cases")
MIB = 1024**2
GIB = 1024**3


@pytest.mark.parametrize("case", read_cases(CASES)[1], ids=lambda case: case.rule)
def test_case(case: Case) -> None:
    """Keeps 2 of services/compaction/plan/planner, Keeps 2 and 3 of services/compaction/plan/group_rules, and
    Keeps 2 of services/compaction/plan/log_runs: the rule that the case is named for."""
    table = read_table(case.table)
    assert format_outcome(table, table.plan()) == case.expected


@pytest.mark.slow
def test_cases_are_written_as_the_code_would_write_them() -> None:
    """The file of cases is exactly what LAKEWARD_REWRITE_CASES=1 makes of it, so a rewrite shows only what changed."""
    head, cases = read_cases(CASES)
    blocks = []
    for case in cases:
        table = read_table(case.table)
        blocks.append(f"== {case.rule}\n{case.table}\n----\n{format_outcome(table, table.plan())}\n")
    written = "\n".join([head.rstrip("\n") + "\n", *blocks])
    if "LAKEWARD_REWRITE_CASES" in os.environ:
        CASES.write_text(written)
    assert CASES.read_text() == written


def test_every_case_keeps_what_holds_for_every_plan() -> None:
    """Keeps 1 of services/compaction/plan/planner, Keeps 1 of services/compaction/plan/group_rules, and Keeps
    1 of services/compaction/plan/decision: one decision for each group, operations for exactly those that are not NONE
    and for none with pending work, no log twice, all metrics."""
    for case in read_cases(CASES)[1]:
        table = read_table(case.table)
        outcome = table.plan()
        groups = [(group.partition_path, group.file_id) for some in (table.groups, table.frozen) for group in some]
        assert sorted(groups) == sorted((d.partition_path, d.file_id) for d in outcome.decisions), case.rule
        chosen = {(d.partition_path, d.file_id): d.choice for d in outcome.decisions if d.choice is not Choice.NONE}
        operations = {(o.partition_path, o.file_id): o for o in outcome.operations}
        assert {group: o.operation_type for group, o in operations.items()} == chosen, case.rule
        for pending in PENDING_MAPS.values():
            assert operations.keys().isdisjoint(table.fields[pending]), case.rule
        for operation in outcome.operations:
            assert len(set(operation.log_files)) == len(operation.log_files)
            assert operation.metrics.keys() == set(METRICS)
            assert operation.operation_type != "LOG" or len(operation.log_files) >= 2


def test_every_reason_has_a_case() -> None:
    """A reason that no case shows is one whose sentence no reviewer has read."""
    shown = {
        line.split()[2] for case in read_cases(CASES)[1] for line in case.expected.splitlines() if ": " in line[:40]
    }
    assert {reason.value for reason in Reason} <= shown


def plans(outcome: PlanOutcome) -> list[bytes]:
    found: list[CompactionPlan | None] = [outcome.full_plan, outcome.log_plan, outcome.hybrid_plan]
    return [write_compaction_plan(plan) for plan in found if plan is not None]


def test_a_full_plan_lists_files_and_all_metrics() -> None:
    """Keeps 3 of services/compaction/plan/decision: names, not paths; Hudi fails on a plan without one of its five
    metrics."""
    mib = 1024**2
    groups = [file_group("a", "1-0", base=(minute(1), 3 * mib), logs=[(minute(2), mib), (minute(3), mib)])]
    options = HybridOptions(only=Choice.FULL)
    outcome = HybridCompactionPlanGenerator(options).generate(snapshot_of(groups, []), at=minute(60))
    assert outcome.full_plan is not None and outcome.form is Form.SPLIT
    (operation,) = outcome.full_plan.operations
    assert operation.base_file == f"1-0_0-0-0_{minute(1)}.parquet"
    assert operation.log_files == tuple(f".1-0_{minute(number)}.log.1_0-0-0" for number in (2, 3))
    assert operation.base_instant == minute(1)
    assert operation.metrics.keys() == set(METRICS)
    assert operation.metrics["TOTAL_IO_READ_MB"] == 5.0
    assert operation.metrics["TOTAL_LOG_FILES_SIZE"] == 2 * mib
    assert outcome.input_bytes == 5 * mib


def test_a_nameless_partition_is_left_out() -> None:
    """It has its line, but Hudi is not asked to come back to it: a frozen one is among the partitions left."""
    outcome = read_table("nameless \\xff/a t10\nfrozen b/a t10").plan()
    assert [(d.partition_path, d.reason) for d in outcome.decisions] == [
        ("\\xff", Reason.NAMELESS),
        ("b", Reason.FROZEN),
    ]
    assert outcome.partitions_left == ("b",)


def test_logs_of_pending_writes_are_not_planned(tmp_path: Path) -> None:
    """The golden table has one group with a base file and three logs, and a writer is about to add a fourth."""
    table = copy_golden("v9", tmp_path / "table")
    newest = max((table / "p").glob(".*.log.*"))
    (table / ".hoodie" / "timeline" / "20261121050000000.deltacommit.inflight").touch()
    (table / "p" / newest.name.replace(newest.name.split("_")[1][:17], "20261121050000000")).write_bytes(b"x")
    generator = HybridCompactionPlanGenerator(HybridOptions(only=Choice.FULL))
    outcome = generator.generate(scan(table), at="20261122000000000")
    assert [len(operation.log_files) for operation in outcome.operations] == [3]


def test_equal_tables_give_equal_plans() -> None:
    """Byte for byte, whatever order the groups were found in."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    shuffle = random.Random(seed)
    for case in read_cases(CASES)[1]:
        table = read_table(case.table)
        first = table.plan()
        again = table.plan(shuffle)
        assert first.decisions == again.decisions, case.rule
        assert plans(first) == plans(again), case.rule


def mixed() -> PlanOutcome:
    groups = [
        file_group("p", "full-0", base=(minute(1), 1000), logs=[(minute(2), 10)]),
        file_group("p", "log-0", base=(minute(1), GIB), logs=[(minute(n), 100_000) for n in range(2, 9)]),
    ]
    return HybridCompactionPlanGenerator().generate(snapshot_of(groups, []), at=minute(60))


def test_the_split_form_is_two_plans_that_hudi_knows() -> None:
    """Keeps 2 of services/compaction/plan/decision: version 2 and no types; the LOG plan carries Hudi's own marks of
    log compaction."""
    outcome = mixed()
    assert outcome.form is Form.SPLIT
    full, log = outcome.full_plan, outcome.log_plan
    assert full is not None and log is not None
    assert [operation.file_id for operation in full.operations] == ["full-0"]
    assert [operation.file_id for operation in log.operations] == ["log-0"]
    assert {operation.operation_type for operation in (*full.operations, *log.operations)} == {None}
    assert (full.version, full.strategy, full.preserve_metadata) == (2, None, False)
    assert (log.version, log.strategy, log.preserve_metadata) == (2, LOG_STRATEGY, True)
    for plan in (full, log):
        assert read_compaction_plan(write_compaction_plan(plan), file="plan") == plan


def test_the_hybrid_form_is_one_plan_with_types() -> None:
    """It has version 3, is marked by its strategy, and has the type of every operation."""
    plan = mixed().hybrid_plan
    assert plan is not None
    assert (plan.version, plan.strategy) == (3, HYBRID_STRATEGY)
    assert {operation.file_id: operation.operation_type for operation in plan.operations} == {
        "full-0": "FULL",
        "log-0": "LOG",
    }
    assert read_compaction_plan(write_compaction_plan(plan), file="plan") == plan


def test_nothing_to_do_is_no_plan() -> None:
    """An empty plan would be an instant for nothing."""
    outcome = HybridCompactionPlanGenerator().generate(snapshot_of([], []), at=minute(60))
    assert (outcome.full_plan, outcome.log_plan, outcome.hybrid_plan) == (None, None, None)


def test_a_plan_for_a_real_table(tmp_path: Path) -> None:
    """The golden table has one tiny group with a base file and three logs; taken for large, it gets a LOG."""
    snapshot = scan(copy_golden("v9", tmp_path / "table"))
    (small,) = HybridCompactionPlanGenerator().generate(snapshot, at="20261122000000000").decisions
    assert (small.choice, small.reason) == (Choice.FULL, Reason.SMALL_BASE)
    options = HybridOptions(small_base_size=1, log_ratio=100, log_num_threshold=3, log_size_threshold=1)
    outcome = HybridCompactionPlanGenerator(options).generate(snapshot, at="20261122000000000")
    assert [(o.operation_type, len(o.log_files)) for o in outcome.operations] == [("LOG", 3)]


def test_an_unknown_zone_does_not_keep_a_plan_from_being_shown() -> None:
    """Ages are differences; only a service that writes must know the zone."""
    groups = [file_group("p", "a", base=(minute(1), 1000), logs=[(minute(2), 10)])]
    snapshot = snapshot_of(groups, [])
    unknown = replace(snapshot, zone=replace(snapshot.zone, zone=None))
    generate = HybridCompactionPlanGenerator().generate
    assert generate(unknown, at=minute(60)) == generate(snapshot, at=minute(60))


def test_a_write_that_completed_too_late_holds_a_log_back_where_a_reader_may_rank_it_first() -> None:
    """Its log is in no plan of that instant; by commit time on version 10 it counts as pending, for the output may come
    out behind it. On version 9 the logs before it are merged."""
    logs = [(minute(number), 1_000_000) for number in range(20, 27)]
    group = file_group("p", "g", base=(minute(1), 10**9), logs=logs)
    instants = [each for time, _ in logs[:-1] for each in completed(time, "deltacommit")]
    instants += completed(minute(26), "deltacommit", minute(50))
    options = HybridOptions(form=Form.SPLIT)

    def decided(version: str) -> tuple[Choice, Reason, str | None]:
        properties = {"hoodie.table.version": version, "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
        snapshot = snapshot_of([group], instants, properties=properties)
        (decision,) = HybridCompactionPlanGenerator(options).generate(snapshot, at=minute(40)).decisions
        return decision.choice, decision.reason, decision.instant

    assert decided("10") == (Choice.NONE, Reason.PENDING_WRITE, minute(26))
    assert decided("9") == (Choice.LOG, Reason.MANY_SMALL_LOGS, None)
