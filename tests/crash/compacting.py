"""One compaction of a golden table, with or without a fault, and what must be true of a table at any moment."""

from __future__ import annotations

import os
import time
from collections import Counter
from functools import partial
from pathlib import Path

from lakeward.base.clock import Clock
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.operation import run_operation
from lakeward.format.file_name import parse_base_file, parse_log_file
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.protocol.attempts.orphan_files import AGE_SECONDS_MIN
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.times.seen_times import FOLDER as MINTED
from lakeward.services.clean.run.cleaner import PLACE as RESERVE
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import CompactionReport, Compactor
from lakeward.storage.local import TEMPORARY_SUFFIX
from tests.clocks import SkippingClock
from tests.faults import FaultyStorage
from tests.golden_tables import expected_rows
from tests.our_reader import read_rows
from tests.processes import LookedOn

FULL = planner_of(CompactionType.FULL, GroupFilter(), {})
LOG = planner_of(CompactionType.LOG, GroupFilter(), {})


def compactor(
    base: Path,
    storage: FaultyStorage,
    processes: Processes,
    planner: Planner = FULL,
    *,
    clock: Clock | None = None,
    **options: object,
) -> Compactor:
    defaults: dict[str, object] = {
        "writers_stopped": True,
        "lock": FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0),
        "wait_seconds": 0.0,
        "timezone": "UTC",
    }
    dispatcher = InProcessDispatcher()
    processes.stillness = LookedOn()
    return Compactor(
        ServicedTable.for_one_attempt(
            storage,
            str(base),
            CompactionOptions(**(defaults | options)),  # type: ignore[arg-type]
            clock=clock or SkippingClock(),
            processes=processes,
        ),
        planner=planner,
        choose_dispatcher=lambda input_bytes: dispatcher,
        run_operation=partial(run_operation, storage),
    )


def compact(
    base: Path,
    storage: FaultyStorage,
    processes: Processes,
    planner: Planner = FULL,
    *,
    clock: Clock | None = None,
    **options: object,
) -> CompactionReport:
    return compactor(base, storage, processes, planner, clock=clock, **options).compact()


def check_readable(base: Path) -> None:
    """True at every moment: the rows are those of the table, each instant is completed at most once."""
    assert read_rows(base) == expected_rows("v9")
    completed = Counter(instant.time for instant in instants(base) if instant.state is State.COMPLETED)
    assert max(completed.values()) == 1, completed


def check_finished(base: Path) -> None:
    """True in the end: one compaction, its one base file, and nothing of Lakeward's left over."""
    check_readable(base)
    compactions = [i for i in instants(base) if i.action == "commit" and i.state is State.COMPLETED][1:]
    assert len(compactions) == 1, compactions
    bases = [name for path in (base / "p").iterdir() if (name := parse_base_file(path.name)) is not None]
    assert sorted(name.instant for name in bases)[1:] == [compactions[0].time], bases
    left = [path for path in everything(base) if is_leftover(path)]
    assert left == []


def check_log_compacted(base: Path) -> None:
    """True in the end of a log compaction: one delta commit of it, its one log file, and nothing of Lakeward's left
    over."""
    check_readable(base)
    times = {i.time for i in instants(base) if i.action == "logcompaction"}
    assert len(times) == 1, times
    assert [i.action for i in instants(base) if i.time in times and i.state is State.COMPLETED] == ["deltacommit"]
    outputs = [path.name for path in (base / "p").iterdir() if f"_{next(iter(times))}" in path.name]
    assert len(outputs) == 1, outputs
    assert [path for path in everything(base) if is_leftover(path)] == []


def age_temporary_files(base: Path) -> None:
    """A day passes for files that were being created when their process died."""
    then = time.time() - AGE_SECONDS_MIN - 60
    for path in base.rglob(f"*{TEMPORARY_SUFFIX}"):
        os.utime(path, (then, then))


def is_leftover(path: str) -> bool:
    return path.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/")) or path.endswith(
        (".lakeward-tmp", "/lock", "/commit")
    )


def instants(base: Path) -> list:  # type: ignore[type-arg]
    names = sorted(path.name for path in (base / ".hoodie" / "timeline").iterdir() if path.is_file())
    return [instant for name in names if (instant := parse_instant(name, 2)) is not None]


def everything(base: Path) -> list[str]:
    """Every file, but for the one that remembers the greatest time that was minted, and a clean's reserve."""
    found = (str(path.relative_to(base)) for path in base.rglob("*") if path.is_file())
    return sorted(path for path in found if not path.startswith((f".hoodie/{MINTED}/", f".hoodie/{RESERVE}")))


def left_of(base: Path, instant: str) -> list[str]:
    """What is there of an instant, but for a temporary name, which the next run removes by its age."""
    return [path for path in everything(base) if instant in path and not path.endswith(TEMPORARY_SUFFIX)]


def state_of(base: Path) -> tuple[str, ...]:
    """The shape of a table: which files there are, with new instants and random tokens blurred."""
    shape = []
    for path in everything(base):
        if is_leftover(path):
            continue
        name = path.rpartition("/")[2]
        instant = parse_instant(name, 2)
        data = parse_base_file(name)
        if instant is not None and path.startswith(".hoodie/timeline/"):
            shape.append(f"{instant.action}.{instant.state}")
        elif data is not None:
            shape.append("base file of a compaction" if "-100" in data.write_token else "base file")
        elif (log := parse_log_file(name)) is not None:
            shape.append("log file of a log compaction" if "-100" in (log.write_token or "") else "log file")
    return tuple(sorted(shape))
