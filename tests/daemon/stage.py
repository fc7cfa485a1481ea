"""A scheduler on a stage: a manual clock, and the answers that a test gives to what is instructed."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TypeVar

from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.events import (
    Cancel,
    Event,
    FactKind,
    Instruction,
    JobEnded,
    LeaseGained,
    Plan,
    Planned,
    Poll,
    Polled,
    Record,
    Run,
    TableAdded,
    Tick,
    WorkFailed,
)
from lakeward.daemon.scheduling.outlook import Outlook
from lakeward.daemon.scheduling.schedule import Limits, Schedule
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.scheduling.scheduler import Scheduler
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult, ProblemKind, WorkProblem

START = 1_800_000_000.0
"""A Friday, 2027-01-15 08:00 UTC."""

WORK = Demand(operations=3, read_bytes=1000, write_bytes=1000, benefit=1.0, oldest_unmerged_at=START)

COMPACTION_ONLY = frozenset({JobKind.COMPACTION})

Kind = TypeVar("Kind", bound=Instruction)


class Stage:
    def __init__(self, limits: Limits | None = None, seed: int = 0) -> None:
        self.scheduler = Scheduler(limits or Limits(), Random(seed))
        self.now = START
        self.last: list[Instruction] = []
        """What the last event or wait brought about."""
        self.scans: dict[str, Poll | Plan] = {}
        """What each table waits for an answer to."""
        self._demands: dict[str, Demand | None] = {}

    def say(self, *events: Event) -> list[Instruction]:
        self.last = [instruction for event in events for instruction in self._handle(event)]
        return self.last

    def wait(self, seconds: float, *, answering: bool = True) -> list[Instruction]:
        """Let time pass, with a Tick whenever the scheduler asked for one.

        Polls are answered with unchanged, and plans with the table's last demand, if `answering`.
        """
        until, out = self.now + seconds, self._answer() if answering else []
        while (wake := self.scheduler.next_wake) is not None and wake <= until:
            self.now = max(self.now, wake)
            out += self._handle(Tick())
            out += self._answer() if answering else []
        self.now = until
        self.last = out + self._handle(Tick())
        return self.last

    def _answer(self) -> list[Instruction]:
        out = []
        while self.scans:
            name, scan = self.scans.popitem()
            if isinstance(scan, Poll):
                out += self._handle(Polled(name, scan.work_id, False))
            else:
                out += self._handle(Planned(name, scan.work_id, self._demands.get(name)))
        return out

    def _handle(self, event: Event) -> list[Instruction]:
        out = self.scheduler.handle(event, self.now)
        if isinstance(event, Polled | Planned | WorkFailed):
            self._forget({event.work_id})
        self._forget({instruction.work_id for instruction in out if isinstance(instruction, Cancel)})
        self.scans.update({scan.table: scan for scan in out if isinstance(scan, Poll | Plan)})
        return out

    def _forget(self, work_ids: set[str]) -> None:
        self.scans = {name: scan for name, scan in self.scans.items() if scan.work_id not in work_ids}

    def add(self, *names: str, leased: bool = True, **settings: object) -> None:
        schedule = Schedule(**{"services": COMPACTION_ONLY, **settings})  # type: ignore[arg-type]
        for name in names:
            self.say(TableAdded(name, schedule))
            if leased:
                self.say(LeaseGained(name))

    def recovered(self, *names: str, **settings: object) -> None:
        """Tables that this daemon has the lease of and whose recovery is done."""
        self.add(*names, **settings)
        while any(self.view(name).state is TableState.RECOVERING for name in names):
            for name in names:
                if running := self.view(name).running:
                    self.end(running[0])

    def poll_of(self, name: str, within: float = 100.0) -> Poll:
        """The poll of the table that is under way, or else the next one; not answered yet."""
        end = self.now + within
        while not isinstance(poll := self.scans.get(name), Poll):
            wake = self.scheduler.next_wake
            assert wake is not None and wake < end, f"{name} is not polled within {within} seconds"
            self.wait(max(0.0, wake - self.now), answering=False)
        return poll

    def polled(self, name: str, *, changed: bool = True) -> list[Instruction]:
        return self.say(Polled(name, self.poll_of(name).work_id, changed))

    def planned(self, name: str, demand: Demand | None = WORK) -> list[Instruction]:
        """Poll the table, and plan it."""
        self._demands[name] = demand
        while not isinstance(plan := self.scans.get(name), Plan):
            self.polled(name)
        return self.say(Planned(name, plan.work_id, demand))

    def end(self, job: Job, *problems: WorkProblem, result: JobResult | None = None) -> list[Instruction]:
        if result is None:
            result = JobResult.FAILED if problems else JobResult.COMMITTED
        return self.say(JobEnded(job.id, JobReport(result, problems=problems)))

    def fail_scan(self, scan: Poll | Plan, kind: ProblemKind, text: str = "It broke.") -> list[Instruction]:
        return self.say(WorkFailed(scan.table, scan.work_id, WorkProblem(kind, text)))

    def view(self, name: str) -> Outlook:
        return self.scheduler.outlooks()[name]

    def held_until(self, name: str) -> float:
        """When what went wrong with it is over."""
        until = self.view(name).holds[0].until
        assert until is not None
        return until

    def state(self, name: str) -> TableState:
        return self.view(name).state


def of(kind: type[Kind], instructions: Iterable[Instruction], table: str | None = None) -> list[Kind]:
    found = [instruction for instruction in instructions if isinstance(instruction, kind)]
    return [instruction for instruction in found if table is None or table_of(instruction) == table]


def one(kind: type[Kind], instructions: Iterable[Instruction], table: str | None = None) -> Kind:
    found = of(kind, instructions, table)
    assert len(found) == 1, f"{len(found)} {kind.__name__} in {list(instructions)}"
    return found[0]


def table_of(instruction: Instruction) -> str | None:
    match instruction:
        case Run(job):
            return job.table
        case Cancel():
            return None
        case _:
            return instruction.table


def jobs(instructions: Iterable[Instruction]) -> list[tuple[str, JobKind]]:
    return [(run.job.table, run.job.service) for run in of(Run, instructions)]


def records(instructions: Iterable[Instruction]) -> list[FactKind]:
    return [record.kind for record in of(Record, instructions)]
