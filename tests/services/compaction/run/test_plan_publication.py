"""What is planned, by whom, and on whose word."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Set
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.format.timeline.compaction_plan import read_compaction_plan
from lakeward.protocol.progress import Phase
from lakeward.services.compaction.plan.cost import log_cost
from lakeward.services.compaction.plan.decision import Choice, Decision, PlanOutcome, Reason, log_operation
from lakeward.services.compaction.run.plan_publication import LOOKS_MAX
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from tests.crash.compacting import check_finished, instants
from tests.golden_tables import copy_golden
from tests.our_reader import scan
from tests.services.bench import GROUP, Bench, Watcher, pending_states


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table"))


@pytest.mark.parametrize("reason", [Reason.PARKED, Reason.PAUSED])
def test_an_excluded_group_is_not_planned(bench: Bench, reason: Reason) -> None:
    """The decision says what was due, and why it is not done. Keeps 4 of services/compaction/run/compactor."""
    bench.excluded = {GROUP: reason}
    (decision,) = bench.compactor().compact().outcome.decisions
    assert (decision.choice, decision.reason, decision.instead_of) == (Choice.NONE, reason, Choice.FULL)
    assert pending_states(bench.base) == set()


def leave_the_oldest_out(
    snapshot: TableSnapshot,
    at: str,
    excluded: object,
    whole: Set[GroupId] = frozenset(),
    without_log: object = frozenset(),
) -> PlanOutcome:
    """A planner that has a LOG start behind the oldest log, unless it is asked not to."""
    (slice_,) = snapshot.latest_slices
    run = slice_.log_files[0 if slice_.group_id in whole else 1 :]
    cost = log_cost(run_bytes=1, logs=len(run))
    decision = Decision(*slice_.group_id, Choice.LOG, Reason.HAS_LOGS)
    return PlanOutcome((decision,), (log_operation(slice_, run, cost),))


def test_a_log_starts_at_the_oldest_where_deletes_ask_for_it(bench: Bench) -> None:
    """The newest log of the golden table has deletes without an ordering value, and it is ordered by event time: so the
    plan is made again with all logs. Keeps 2 of services/compaction/run/log_checks."""
    report = bench.compactor(leave_the_oldest_out).compact()  # type: ignore[arg-type]
    (plan,) = report.plans
    assert [len(operation.log_files) for operation in report.outcome.operations] == [3]
    assert plan.operations[0].counts.log_files == 3
    assert report.whole == {GROUP}


def test_a_plan_says_who_planned_it(bench: Bench) -> None:
    """What the caller adds stands beside our own word, which it cannot change. Keeps 2 of
    services/compaction/run/plan_publication."""
    bench.planned_by = {"planned_by_service": "night", "planned_by": "another service"}
    bench.compactor().compact()
    (name,) = [i.file_name for i in instants(bench.base) if i.file_name.endswith("compaction.requested")]
    plan = read_compaction_plan((bench.base / ".hoodie/timeline" / name).read_bytes(), file=name)
    assert plan.extra_metadata == {"planned_by_service": "night", "planned_by": "lakeward"}


BEFORE_THE_LOOK = (Phase.PLAN, 1)
UNDER_THE_LOCK = (Phase.LOCK_WAIT, 2)
"""The first time it is taken is for recovery."""


@pytest.mark.parametrize("moment", [BEFORE_THE_LOOK, UNDER_THE_LOCK])
def test_what_ends_since_the_choice_is_in_the_plan(bench: Bench, moment: tuple[Phase, int]) -> None:
    """A writer that ends between the choice and the plan has its rows in the plan, which names the table's files of
    then."""
    (slice_,) = [slice_ for slice_ in scan(bench.base).latest_slices if slice_.log_files]
    newest = max(bench.base.glob("p/.*.log.*"), key=lambda path: path.name)
    deltacommit = next(bench.base.glob(f".hoodie/timeline/{newest.name.split('_')[1].partition('.')[0]}_*.deltacommit"))
    content = deltacommit.read_bytes()
    deltacommit.unlink()
    assert [len(before.log_files) for before in scan(bench.base).latest_slices] == [len(slice_.log_files) - 1]
    bench.watcher = Meanwhile(*moment, lambda: deltacommit.write_bytes(content))
    (plan,) = bench.compactor().compact().plans
    assert plan.operations[0].counts.log_files == len(slice_.log_files)
    check_finished(bench.base)


@pytest.mark.parametrize("moment", [BEFORE_THE_LOOK, UNDER_THE_LOCK])
def test_a_table_that_is_refused_since_the_choice_gets_no_plan(bench: Bench, moment: tuple[Phase, int]) -> None:
    """Refusals are considered for the table as it is under the lock: a writer that upgraded it meanwhile is the last
    one to write to it. Keeps 1 of services/compaction/run/plan_publication."""
    properties = bench.base / ".hoodie/hoodie.properties"
    upgraded = properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=11")
    bench.watcher = Meanwhile(*moment, lambda: properties.write_text(upgraded))
    with pytest.raises(Refused):
        bench.compactor().compact()
    assert pending_states(bench.base) == set()


def test_no_scan_is_made_under_the_lock(bench: Bench) -> None:
    """Writers wait for two listings of timelines, not for a scan of the table. Keeps 4 of
    services/compaction/run/plan_publication."""
    assert bench.compactor().compact().plans
    end = bench.watcher.phases.index(Phase.SCHEDULE)
    assert bench.watcher.phases[end - 2 : end] == [Phase.LOCK_WAIT, Phase.LOCK_HOLD]


def test_a_table_that_changes_at_each_look_is_scanned_under_the_lock(bench: Bench) -> None:
    """After a few looks the plan is made while nothing can change. Keeps 4 of
    services/compaction/run/plan_publication."""
    file = max((bench.base / ".hoodie/timeline").glob("*.deltacommit"))
    bench.watcher = Meanwhile(Phase.LOCK_WAIT, None, lambda: os.utime(file, (0, next(seconds))))
    seconds = itertools.count(1)
    assert bench.compactor().compact().plans
    phases = bench.watcher.phases
    before = phases[: phases.index(Phase.SCHEDULE)]
    assert before.count(Phase.LOCK_HOLD) == 1 + LOOKS_MAX + 1, "recovery, the looks, and the plan"
    assert before[-4:] == [Phase.LOCK_WAIT, Phase.SCAN, Phase.PLAN, Phase.LOCK_HOLD]
    check_finished(bench.base)


class Meanwhile(Watcher):
    """Lets something happen at the end of the n-th of a phase, or of each."""

    def __init__(self, phase: Phase, number: int | None, happen: Callable[[], object]) -> None:
        super().__init__()
        self._moment = (phase, number)
        self._happen = happen

    def phase(self, phase: Phase, seconds: float) -> None:
        super().phase(phase, seconds)
        wanted, number = self._moment
        if phase is wanted and number in (None, self.phases.count(phase)):
            self._happen()
