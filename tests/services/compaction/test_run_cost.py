"""The figures of a compaction's card, from its report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.engine.task.operation_spec import DeleteLog, OperationKind, OperationResult
from lakeward.protocol.job_report import JobCost, ReadLoad
from lakeward.protocol.progress import Engine
from lakeward.protocol.transition import ServiceAction
from lakeward.read.slice_input import MergeCounts
from lakeward.services.compaction.plan.cost import full_cost, log_cost
from lakeward.services.compaction.plan.decision import Choice, Decision, PlanOutcome, Reason
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.pay_back import read_seconds
from lakeward.services.compaction.plan.price import Price
from lakeward.services.compaction.plan.read_rates import ReadRates, parse_rates
from lakeward.services.compaction.run.compactor import CompactedPlan, CompactionReport
from lakeward.services.compaction.run.targets import Target
from lakeward.services.compaction.run_cost import ROW_GROUP_BYTES, cost_of
from lakeward.table.file_group import FileSlice
from tests.synthetic_table import file_group, minute

MIB = 1024 * 1024
COUNTS = MergeCounts(*(0,) * 11)
BASE = 64 * MIB
LOGS = [(minute(at), at * MIB) for at in (2, 3, 5, 7)]
BY_COST = HybridOptions(reads=ReadRates(parse_rates("200/day")))


def slice_of(file_id: str) -> FileSlice:
    return file_group("p", file_id, base=(minute(1), BASE), logs=LOGS).slices[0]


def target(kind: OperationKind, file_id: str, *, superseded: int = 0, taken: int = 4) -> Target:
    """The first logs were merged before; of the others so many, the newest, are taken."""
    found = slice_of(file_id)
    live = found.log_files[superseded:]
    logs = found.log_files if kind is OperationKind.FULL else live[-taken:]
    return Target(kind, found, logs, frozenset(log.name.text for log in live), {})


def result(of: Target, size: int, cpu: float | None = 2.0) -> OperationResult:
    done = OperationResult(
        *(0, *of.group_id, "f", size), counts=COUNTS, digest="", input_bytes=of.input_bytes, seconds=3.0
    )
    return replace(done, kind=of.kind, cpu_seconds=cpu)


def plan(
    *done: tuple[Target, OperationResult], engine: Engine = Engine.LOCAL, recovered: bool = False
) -> CompactedPlan:
    targets, results = [each for each, _ in done], [each for _, each in done]
    return CompactedPlan(
        *(minute(20), ServiceAction.COMPACTION, minute(21), recovered, tuple(results), ()),
        *(0, 0, 0, 9.0),
        engine=engine,
        targets=tuple(targets),
    )


def cost(*plans: CompactedPlan, options: HybridOptions = BY_COST, said: bool = True) -> JobCost:
    reads = {"reads_per_day": 200.0}
    decisions = [Decision("p", name, Choice.FULL, Reason.PAYS_BACK, reads if said else {}) for name in "ab"]
    found = cost_of(CompactionReport(plans, PlanOutcome(tuple(decisions), ())), options)
    assert found is not None
    return found


def test_a_full_leaves_one_base_file() -> None:
    """Keeps 1 of services/compaction/run_cost: predicted is what the planner says of the same sizes, read what it says
    of the same logs: superseded ones are opened, live ones merged."""
    full = target(OperationKind.FULL, "a", superseded=1)
    found = cost(plan((full, result(full, 70 * MIB))))
    assert found.before == ReadLoad(5, BASE + 17 * MIB, 4, 15 * MIB, read_seconds(15 * MIB, 4), BASE + 17 * MIB)
    assert found.after == ReadLoad(1, 70 * MIB, point_bytes=70 * MIB)
    assert found.predicted_seconds == full_cost(base_bytes=BASE, log_bytes=15 * MIB, logs=3).core_seconds
    assert found.saved_seconds_a_day == pytest.approx(200 * read_seconds(15 * MIB, 4))
    assert (found.task_seconds, found.cpu_seconds, found.reasons) == (3.0, 2.0, {"pays-back": 1})
    assert found.written == {minute(20): 1} and found.price == 1.0
    dear = cost(plan((full, result(full, 70 * MIB))), options=replace(BY_COST, price=Price(2.5)))
    assert (dear.predicted_seconds, dear.price) == (2.5 * found.predicted_seconds, 2.5)
    assert found.rewritten == {minute(at): 1 for at in (1, 3, 5, 7)}


@pytest.mark.parametrize("retire", [True, False])
def test_a_log_leaves_what_it_did_not_take_and_its_sources_until_they_go(retire: bool) -> None:
    log = target(OperationKind.LOG, "a", taken=3)
    found = cost(plan((log, result(log, 9 * MIB))), options=replace(BY_COST, sources_retire=retire))
    gone, gone_bytes = (3, 15 * MIB) if retire else (0, 0)
    assert found.before == ReadLoad(5, BASE + 17 * MIB, 4, 17 * MIB, read_seconds(17 * MIB, 4), BASE + 17 * MIB)
    merged, opened, size = (2 + 9) * MIB, 5 - gone, BASE + 26 * MIB - gone_bytes
    assert found.after == ReadLoad(6 - gone, size, opened, merged, read_seconds(merged, opened), size)
    assert found.predicted_seconds == log_cost(run_bytes=15 * MIB, logs=3).core_seconds
    assert found.rewritten == {minute(at): 1 for at in (3, 5, 7)}
    native = replace(result(log, 8 * MIB), delete_log=DeleteLog("d", MIB))
    assert cost(plan((log, native))).after.files == found.after.files + 1 + gone


@pytest.mark.parametrize("kind", [OperationKind.FULL, OperationKind.LOG])
def test_a_query_of_one_key_reads_one_row_group(kind: OperationKind) -> None:
    """Keeps 3 of services/compaction/run_cost: of the base file one row group at most, and all logs as a full query."""
    large = file_group("p", "a", base=(minute(1), 10 * ROW_GROUP_BYTES), logs=LOGS).slices[0]
    done = Target(kind, large, large.log_files, frozenset(log.name.text for log in large.log_files), {})
    found = cost(plan((done, result(done, 11 * ROW_GROUP_BYTES if kind is OperationKind.FULL else 9 * MIB))))
    assert found.before.point_bytes == ROW_GROUP_BYTES + 17 * MIB
    left = {OperationKind.FULL: 0, OperationKind.LOG: 9 * MIB + (0 if BY_COST.sources_retire else 17 * MIB)}
    assert found.after.point_bytes == ROW_GROUP_BYTES + left[kind]


def test_a_log_that_helps_no_reader_saves_nothing() -> None:
    """Two logs that do not overlap, whose sources stay, are three to open: no other operation pays for that."""
    log = target(OperationKind.LOG, "a", superseded=2, taken=2)
    assert cost(plan((log, result(log, 12 * MIB)))).saved_seconds_a_day == 0


def test_cpu_seconds_are_known_where_each_task_had_a_process() -> None:
    """Keeps 2 of services/compaction/run_cost: not in this process, whose other threads they would be of, too, nor
    where one task did not measure them."""
    a, b = (target(OperationKind.FULL, name) for name in "ab")
    both = (a, result(a, MIB)), (b, result(b, MIB, cpu=5.0))
    assert cost(plan(*both, engine=Engine.SPARK)).cpu_seconds == 7.0
    assert cost(plan(*both, engine=Engine.IN_PROCESS)).cpu_seconds is None
    assert cost(plan(both[0], (b, result(b, MIB, cpu=None)))).cpu_seconds is None
    assert cost(plan(*both)).task_seconds == 6.0


def test_what_a_pending_plan_was_made_for_is_not_known() -> None:
    """Its groups are decided about again when it is done, which says how often they are read; the reads of a table of
    which nothing is said are one a day."""
    a, b = (target(OperationKind.FULL, name) for name in "ab")
    plans = plan((a, result(a, MIB)), recovered=True), plan((b, result(b, MIB)))
    found = cost(*plans, options=HybridOptions(), said=False)
    assert found.reasons == {"recovered": 1, "pays-back": 1}
    assert found.saved_seconds_a_day == pytest.approx(2 * read_seconds(17 * MIB, 4))
    assert cost(*plans).saved_seconds_a_day == pytest.approx(400 * read_seconds(17 * MIB, 4))


def test_a_job_that_merged_nothing_has_no_cost() -> None:
    ended = CompactedPlan(minute(20), ServiceAction.LOG_COMPACTION, None, True, (), (), 0, 0, 0, 9.0)
    assert cost_of(CompactionReport((ended,), PlanOutcome((), ())), BY_COST) is None
