"""The compacting half of `benchmarks.commit_section`, started by it: one compaction of one table.

    python -m benchmarks.commit_section_process TABLE full|log FILE_IDS [--profile FILE]
    python -m benchmarks.commit_section_process TABLE archive INSTANTS [--profile FILE]

All is as in `lakeward compact`, but that nothing is merged: each operation gets a file that was made before, and
statistics of it; or as in `lakeward archive`, by numbers by which so many instants go. Prints, for each time that the
table lock was held, how long and by what.

Touches: the table, which is worn afterwards.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.indexed_table import LOG_ROWS, Template, base_file_template, log_file_template
from lakeward.base.clock import SystemClock
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec
from lakeward.engine.task.peak_memory import PeakMemory
from lakeward.protocol.attempts import attempt
from lakeward.protocol.attempts.folder_fencing import FolderFencing
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.delta_commit import StagedDeltaCommit
from lakeward.protocol.metadata.metadata_writer import DeltaCommitWriter
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.times import instant_time
from lakeward.protocol.transition import TimelineFiles
from lakeward.read.slice_input import MergeCounts
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run import archiver
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run import claim, plan_publication, publication
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import load_timeline

SKEW_WAIT = "skew_wait"
STEPS: tuple[tuple[Any, str, str], ...] = (
    (ServicedTable, "snapshot", "snapshot"),
    (plan_publication, "choose", "plan"),
    (plan_publication, "timeline_if_unchanged", "compare"),
    (ServicedTable, "minter", "times_there"),
    (TimelineFiles, "request", "request"),
    (claim, "find_targets", "find_targets"),
    (publication, "find_targets", "find_targets"),
    (publication.CompactionService, "_encode", "encode_commit"),
    (DeltaCommitWriter, "stage", "metadata_stage"),
    (StagedDeltaCommit, "publish", "metadata_publish"),
    (FolderFencing, "bring_in", "move_in"),
    (attempt, "find_moved_in", "find_losers"),
    (FolderFencing, "complete", "complete"),
    (instant_time, "next_times", SKEW_WAIT),
    (instant_time.Minter, "_remember", "remember_time"),
    (archiver, "load_history", "history"),
    (archiver, "publish_history", "publish"),
    (archiver, "delete_archived", "delete"),
    (ServicedTable, "sweep", "sweep"),
)
"""The place where each is called, and the name under which it is reported."""
HOLDS = ("recover", "schedule", "claim", "commit")
"""For what a compaction takes the lock, in this order."""
ARCHIVE = "archive"


OPTIONS = CompactionOptions(writers_stopped=True, lock=FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0))


class Spent(NamedTuple):
    seconds: float
    cpu_seconds: float

    @classmethod
    def until_now(cls) -> Spent:
        return cls(time.perf_counter(), time.process_time())

    def plus(self, other: Spent) -> Spent:
        return Spent(self.seconds + other.seconds, self.cpu_seconds + other.cpu_seconds)

    def minus(self, other: Spent) -> Spent:
        return Spent(self.seconds - other.seconds, self.cpu_seconds - other.cpu_seconds)


NOTHING = Spent(0.0, 0.0)


@dataclass(slots=True)
class Hold:
    """One time that the lock was held."""

    spent: Spent = NOTHING
    steps: dict[str, Spent] = field(default_factory=dict)
    """Each without the steps within it."""


class Stopwatch:
    def __init__(self) -> None:
        self.holds: list[Hold] = []
        self._hold: Hold | None = None
        self._within: list[Spent] = []
        """For each step under way, what those within it spent."""

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as patches:
            for owner, name, step in STEPS:
                patches.enter_context(patch.object(owner, name, self._timed(getattr(owner, name), step)))
            patches.enter_context(patch.object(ServicedTable, "locked", self._locked(ServicedTable.locked)))
            yield

    def _timed(self, function: Callable[..., Any], step: str) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._hold is None:
                return function(*args, **kwargs)
            started = Spent.until_now()
            self._within.append(NOTHING)
            try:
                return function(*args, **kwargs)
            finally:
                spent, steps = Spent.until_now().minus(started), self._hold.steps
                steps[step] = steps.get(step, NOTHING).plus(spent.minus(self._within.pop()))
                if self._within:
                    self._within[-1] = self._within[-1].plus(spent)

        return timed

    def _locked(self, locked: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def timed(table: ServicedTable, **options: Any) -> Iterator[Fence]:
            with locked(table, **options) as fence:
                self._hold = hold = Hold()
                self.holds.append(hold)
                started = Spent.until_now()
                try:
                    yield fence
                finally:
                    hold.spent = Spent.until_now().minus(started)
                    self._hold = None

        return timed


class MadeBefore:
    """Stands in for the merge."""

    def __init__(self, folder: Path) -> None:
        self._templates: dict[OperationKind, tuple[Path, Template]] = {}
        for kind, template in (
            (OperationKind.FULL, base_file_template()),
            (OperationKind.LOG, log_file_template("20260101000000000")),
        ):
            path = folder / kind
            path.write_bytes(template.content)
            self._templates[kind] = path, template

    def run(self, spec: OperationSpec, task_attempt: int) -> OperationResult:
        path, template = self._templates[spec.kind]
        name = spec.file_name(task_attempt)
        os.link(path, Path(spec.attempt_folder, name))
        made = template.file(spec.slice.partition_path, spec.slice.file_id, name)
        return OperationResult(
            index=spec.index,
            partition_path=made.partition_path,
            file_id=made.file_id,
            file_name=made.name,
            size_bytes=made.size,
            counts=MergeCounts(0, len(spec.slice.log_files), 1, 0, 0, LOG_ROWS, LOG_ROWS, LOG_ROWS, 0, 0, LOG_ROWS),
            digest="",
            input_bytes=spec.input_bytes,
            seconds=0.0,
            kind=spec.kind,
            column_stats=made.column_stats,
        )


class QuietDispatcher(InProcessDispatcher):
    """Asks for no report after each operation, which lists the attempt's folder: five thousand times five thousand."""

    def run(self, task: Any, specs: Any, *, description: str, on_progress: Any) -> Any:
        return super().run(task, specs, description=description, on_progress=lambda progress: None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("kind", choices=(CompactionType.FULL, CompactionType.LOG, ARCHIVE))
    parser.add_argument("what", nargs="*", help="file ids, all without any; for an archiving, the number of instants")
    parser.add_argument("--profile", help="where to write what cProfile saw of the work")
    arguments = parser.parse_args()
    # Not what the system says of this process alone: that counts the one that started it, until it was this one.
    stopwatch, memory = Stopwatch(), PeakMemory()
    with ExitStack() as resources:
        if arguments.kind == ARCHIVE:
            work = partial(archive, arguments.table, int(arguments.what[0]))
        else:
            folder = resources.enter_context(tempfile.TemporaryDirectory(dir=arguments.table.parent))
            kind = CompactionType(arguments.kind)
            work = partial(compact, arguments.table, kind, arguments.what, MadeBefore(Path(folder)))
        resources.enter_context(stopwatch.running())
        profile = cProfile.Profile()
        if arguments.profile:
            profile.enable()
        started = time.perf_counter()
        operations, names = work()
        seconds = time.perf_counter() - started
        if arguments.profile:
            profile.disable()
            profile.dump_stats(arguments.profile)
    figures = {
        "operations": operations,
        "seconds": seconds,
        "peak_rss_mb": memory.peak_bytes() / 1_000_000,
        "holds": {
            name: {
                **hold.spent.minus(hold.steps.get(SKEW_WAIT, NOTHING))._asdict(),
                "steps": {step: spent._asdict() for step, spent in hold.steps.items()},
            }
            for name, hold in zip(names, stopwatch.holds, strict=True)
        },
    }
    print(json.dumps(figures))
    return 0


def compact(table: Path, kind: CompactionType, groups: Sequence[str], made: MadeBefore) -> tuple[int, Sequence[str]]:
    """Returns the number of operations, and for what the lock was taken."""
    dispatcher = QuietDispatcher()
    compactor = Compactor(
        ServicedTable.for_one_attempt(
            LocalStorage(),
            str(table),
            OPTIONS,
            clock=SystemClock(),
            processes=Processes(),
        ),
        planner=planner_of(
            kind,
            GroupFilter(file_groups=tuple(groups)),
            {} if kind is CompactionType.FULL else {"planner.budget": "1000000GiB"},
        ),
        choose_dispatcher=lambda input_bytes: dispatcher,
        run_operation=made.run,
    )
    (plan,) = compactor.compact().plans
    return len(plan.operations), HOLDS


def archive(table: Path, instants: int) -> tuple[int, Sequence[str]]:
    """The same of an archiving of so many."""
    storage, processes, clock = LocalStorage(), Processes(), SystemClock()
    serviced = ServicedTable.for_one_attempt(
        storage, str(table), OPTIONS, clock=clock, processes=processes, observer=None, guard=lambda: None
    )
    config = load_table_config(storage, str(table), clock=clock).config
    stay = len(load_timeline(storage, str(table), config).completed_writes) - instants
    report = archiver.Archiver(serviced, ArchiveOptions(stay, stay, 1, 1)).archive()
    assert len(report.archived) == instants, report
    batches = range(0, instants, archiver.BATCH_INSTANTS)
    return instants, [f"batch {number}" for number, _ in enumerate(batches, 1)]


if __name__ == "__main__":
    sys.exit(main())
