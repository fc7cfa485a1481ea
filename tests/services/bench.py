"""A golden table and everything needed to compact it, for the tests of what can go wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.operation import run_operation
from lakeward.format.timeline.instant import State
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.progress import Count, Merged, Phase, Silent
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.plan.decision import PlanOutcome, Reason
from lakeward.services.compaction.plan.planner import Planner
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.storage.local import LocalStorage
from lakeward.table.file_system_view import GroupId
from tests.clocks import SkippingClock
from tests.crash.compacting import FULL, instants
from tests.processes import ScriptedProcesses

GROUP = ("p", "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0")
"""The one file group of the golden table."""
PENDING = "20261121043710038"
"""The plan that Hudi left on the golden table with pending work."""


def NOTHING(*given: object) -> PlanOutcome:
    """A planner that leaves everything alone."""
    return PlanOutcome((), ())


class Watcher(Silent):
    """Remembers what was reported to it."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self.counts: list[Count] = []
        self.steps: list[str] = []
        self.waits: list[str] = []
        self.states: list[Merged] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def waiting(self, text: str, seconds: float) -> None:
        self.waits.append(text)

    def merged(self, state: Merged) -> None:
        self.states.append(state)

    def phase(self, phase: Phase, seconds: float) -> None:
        assert seconds >= 0
        self.phases.append(phase)

    def counted(self, count: Count, number: int = 1) -> None:
        self.counts += [count] * number


class Bench:
    """A golden table and everything needed to compact it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.storage = LocalStorage()
        self.clock = SkippingClock()
        self.processes = ScriptedProcesses()
        self.watcher = Watcher()
        self.run = partial(run_operation, self.storage)
        self.guard: Callable[[], None] = lambda: None
        self.excluded: Mapping[GroupId, Reason] = {}
        self.planned_by: Mapping[str, str] = {}

    def compactor(self, planner: Planner = FULL, **options: object) -> Compactor:
        settings: dict[str, object] = {
            "writers_stopped": True,
            "lock": FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0),
            "wait_seconds": 0.0,
            "timezone": "UTC",
            "state_folder": self.base.parent / "state",
        }
        dispatcher = InProcessDispatcher()
        return Compactor(
            ServicedTable.for_one_attempt(
                self.storage,
                str(self.base),
                CompactionOptions(**(settings | options)),  # type: ignore[arg-type]
                clock=self.clock,
                processes=self.processes,
                observer=self.watcher,
                guard=lambda: self.guard(),
            ),
            planner=planner,
            choose_dispatcher=lambda input_bytes: dispatcher,
            run_operation=lambda spec, attempt: self.run(spec, attempt),
            excluded=self.excluded,
            planned_by=self.planned_by,
        )


def pending_states(base: Path) -> set[State]:
    return {instant.state for instant in instants(base) if instant.action == "compaction"}
