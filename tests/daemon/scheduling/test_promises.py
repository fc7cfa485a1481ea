"""What the daemon promises a table under default settings: scheduler and planner as they are, over a table of sizes.

Time is the stage's. Each plan that the scheduler asks for is made by the table's own planner, and each job carries out
what a plan made just then says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC

import pytest

from lakeward.config.settings import Settings
from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.events import (
    Instruction,
    JobEnded,
    LeaseGained,
    Plan,
    Planned,
    Poll,
    Polled,
    Run,
    TableAdded,
)
from lakeward.daemon.served_table import served_table
from lakeward.format.timeline.instant import Instant, format_instant_time
from lakeward.protocol.job_report import JobReport, JobResult
from lakeward.services.compaction.job import TableCompaction
from lakeward.services.compaction.plan.decision import Form, PlanOutcome, Reason
from lakeward.services.compaction.plan.pay_back import look_in
from lakeward.table.backlog import backlog_of
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.daemon.stage import START, Stage
from tests.synthetic_table import completed, file_group, log_compacted, snapshot_of

pytestmark = pytest.mark.slow

MIB = 1024**2
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass
class Group:
    base: tuple[str, int]
    logs: list[tuple[str, int]]
    compactions: list[LogCompaction]


class Promise(Stage):
    """One table of the daemon, and its stage."""

    def __init__(self, *base_bytes: int, **given: object) -> None:
        super().__init__()
        settings = Settings.model_validate({"locks": {"writers": "share"}, "defaults": given})
        self.table = served_table(settings, "t", "/t", watched_since=START)
        self.instants: list[Instant] = completed(self.instant(-1), "commit")
        self.groups = [Group((self.instant(-1), size), [], []) for size in base_bytes]
        self.done: list[tuple[float, PlanOutcome]] = []
        """When each job was done, and what it did."""
        self.changed = True
        self.oldest = 0.0
        """The greatest age that a record in logs only ever had."""
        self.looks = 0
        self.say(TableAdded("t", self.table.schedule, verified_at=START), LeaseGained("t"))
        self.wait(2 * MINUTE)  # recovered

    def instant(self, later: float = 0) -> str:
        return format_instant_time(int((self.now + later) * 1000), UTC)

    def write(self, size: int) -> None:
        """A delta commit into every group."""
        self.instants += completed(self.instant(), "deltacommit")
        for group in self.groups:
            group.logs.append((self.instant(), size))
        self.changed = True

    def snapshot(self) -> TableSnapshot:
        groups = [
            file_group("p", f"{number:04}-0", base=group.base, logs=group.logs)
            for number, group in enumerate(self.groups)
        ]
        compactions = {("p", f"{number:04}-0"): tuple(group.compactions) for number, group in enumerate(self.groups)}
        return snapshot_of(groups, self.instants, log_compactions=compactions)

    def plan(self) -> PlanOutcome:
        self.now += 0.001  # an instant of its own
        self.looks += 1
        return TableCompaction().rules(self.table.settings)(self.snapshot(), self.instant(), {})

    def pass_time(self, seconds: float, *, step: float = MINUTE) -> None:
        for _ in range(int(seconds / step)):
            self.wait(step)
            oldest = backlog_of(self.snapshot()).oldest_unmerged_at
            self.oldest = max(self.oldest, 0.0 if oldest is None else self.now - oldest)

    def _handle(self, event: object) -> list[Instruction]:
        out = super()._handle(event)  # type: ignore[arg-type]
        for instruction in list(out):
            if isinstance(instruction, Run):
                out += self._handle(JobEnded(instruction.job.id, JobReport(self._carry_out())))
        return out

    def _answer(self) -> list[Instruction]:
        out: list[Instruction] = []
        while self.scans:
            name, scan = self.scans.popitem()
            if isinstance(scan, Poll):
                changed, self.changed = self.changed, False
                out += self._handle(Polled(name, scan.work_id, changed))
            else:
                assert isinstance(scan, Plan)
                out += self._handle(Planned(name, scan.work_id, self._demand(self.plan())))
        return out

    def _demand(self, outcome: PlanOutcome) -> Demand:
        left, look = outcome.objective_seconds_left, look_in(outcome.decisions)
        return Demand(
            operations=len(outcome.operations),
            oldest_unmerged_at=backlog_of(self.snapshot()).oldest_unmerged_at,
            due_by_objective_at=None if left is None else self.now + left,
            due_by_price_at=None if math.isinf(look) else self.now + look,
        )

    def _carry_out(self) -> JobResult:
        outcome = self.plan()
        if not outcome.operations:
            return JobResult.NOTHING  # recovery, or nothing is left to do
        self.changed = True
        at = self.instant()
        kinds = {operation.operation_type for operation in outcome.operations}
        log_at = self.instant(0.001)
        if outcome.form is Form.HYBRID:
            log_at = at
            self.instants += completed(at, "commit")
        else:
            self.instants += completed(at, "commit") if "FULL" in kinds else []
            self.instants += log_compacted(log_at) if "LOG" in kinds else []
        for operation in outcome.operations:
            number = int(operation.file_id[:4])
            group = self.groups[number]
            if operation.operation_type == "FULL":
                self.groups[number] = Group((at, group.base[1]), [], [])
            else:
                group.logs.append((log_at, round(operation.write_bytes)))
                group.compactions.append(LogCompaction(log_at, frozenset(operation.log_files)))
        self.done.append((self.now, outcome))
        return JobResult.COMMITTED

    @property
    def fulls(self) -> list[int]:
        """How many groups each job compacted fully."""
        return [sum(each.operation_type == "FULL" for each in outcome.operations) for _, outcome in self.done]


def test_what_begins_to_pay_in_a_pause_of_writers_is_merged_then() -> None:
    """After one delta commit, before the next regular plan, since each read pays for the log; and a table that nothing
    reads is not looked at more often than by the rules of RFC-103."""
    hot = {"planner.policy": "cost", "planner.reads": "20/minute"}
    table = Promise(1024 * MIB, planner=hot)
    table.write(2 * MIB)
    began = table.now
    table.pass_time(HOUR, step=10.0)
    assert table.fulls == [1]
    (decision,) = table.done[0][1].decisions
    assert decision.reason is Reason.PAYS_BACK
    pays_back = decision.numbers["pays_back_seconds"]
    age = decision.numbers["base_seconds"]
    assert 2 * pays_back <= age <= 2.1 * pays_back + 30 and 400 < table.done[0][0] - began < 600
    looks = []
    for planner in ({}, {"planner.policy": "cost", "planner.reads": "0/day"}):
        calm = Promise(64 * MIB, planner=planner)
        calm.write(2 * MIB)
        calm.pass_time(3 * HOUR)
        looks.append(calm.looks)
    assert looks[0] == looks[1] > 10


def test_one_small_log_over_a_large_base_is_merged_within_a_day() -> None:
    """500 MiB, one log of 2 MiB, default settings: it is merged within the objective, and once; no alert fires."""
    table = Promise(500 * MIB)
    table.write(2 * MIB)
    table.pass_time(21 * HOUR)
    assert table.fulls == []
    table.pass_time(6 * HOUR)
    assert table.fulls == [1]
    (_, outcome) = table.done[0]
    assert [decision.reason.value for decision in outcome.decisions] == ["objective"]
    assert 0.9 * DAY <= table.oldest < DAY


def test_a_hundred_cold_groups_do_not_fall_due_at_once() -> None:
    """Written in one commit, they are merged over the last tenth of the objective, and all of them in time."""
    table = Promise(*(500 * MIB for _ in range(100)))
    table.write(2 * MIB)
    table.pass_time(25 * HOUR, step=5 * MINUTE)
    assert sum(table.fulls) == 100 and max(table.fulls) < 30
    times = [at for at, _ in table.done]
    assert times[-1] - times[0] > 0.04 * DAY
    assert table.oldest < DAY


def test_a_table_that_is_written_all_day_keeps_its_objective() -> None:
    """LOG after LOG makes no record younger: every group is merged with its base once a day, whatever the logs do."""
    table = Promise(*(500 * MIB for _ in range(3)))
    for _ in range(3 * 24):
        table.write(64 * 1024)
        table.pass_time(HOUR, step=10 * MINUTE)
    assert any(each.operation_type == "LOG" for _, outcome in table.done for each in outcome.operations)
    assert 3 * 3 <= sum(table.fulls) <= 4 * 3
    assert table.oldest < DAY


def test_without_an_objective_nothing_is_due_by_its_age() -> None:
    """`none`: a cold group stays as it is."""
    table = Promise(500 * MIB, objective="none")
    table.write(2 * MIB)
    table.pass_time(3 * DAY, step=HOUR)
    assert table.done == []


def test_a_table_that_is_written_every_minute_is_compacted_at_every_fifth_commit() -> None:
    """20 MiB, a commit a minute, default settings: what Hudi itself would do, and not a rewrite after every commit."""
    table = Promise(20 * MIB)
    for _ in range(60):
        table.write(10 * 1024)
        table.pass_time(MINUTE, step=10.0)
    assert table.fulls == [1] * 12
    assert {len(operation.log_files) for _, outcome in table.done for operation in outcome.operations} == {5}


@pytest.mark.parametrize("form", ["split", "hybrid"])
def test_log_compactions_are_planned_at_every_fifth_commit_too(form: str) -> None:
    """A LOG ends the count of delta commits as a FULL does, in both forms of publishing."""
    table = Promise(2000 * MIB, planner={"planner.publish": form})
    for _ in range(40):
        table.write(100 * 1024)
        table.pass_time(MINUTE, step=10.0)
    assert len(table.done) == 8 and table.fulls == [0] * 8


def test_an_operator_may_set_another_trigger() -> None:
    """One delta commit is what the daemon did before it had a trigger of its own."""
    table = Promise(20 * MIB, planner={"hoodie.compact.inline.max.delta.commits": 1})
    for _ in range(10):
        table.write(10 * 1024)
        table.pass_time(MINUTE, step=10.0)
    assert table.fulls == [1] * 10
