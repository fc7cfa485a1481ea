"""Whatever takes something back, stopped at every call to the storage: rollbacks, dead compactions that are released,
restores. A row is one of them on one table; the loop is in tests/crash/harness.py."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Refused
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.format.timeline.instant import State
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.run.tasks import run_task
from lakeward.services.clustering.run.undo import undo_clustering
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ
from tests.crash.compacting import check_readable, compact, everything, instants, is_leftover
from tests.crash.harness import Case, Extent, Place, Row, Run, cases_of
from tests.crash.test_services import clean_and_keep, clustered
from tests.faults import FaultKind, FaultyStorage
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE, timeline
from tests.metadata_golden import GOLDEN as WITH_METADATA
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import compacted, contents, data_files
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import made as made_small_groups
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.rollback.run.failed_tables import fail_last_write, mark, roll_back
from tests.services.rollback.run.test_releasing import dead_compaction, dead_log_compaction
from tests.services.rollback.run.test_roll_back import check_rolled_back, of_write, rollbacks
from tests.services.together.restore.run.test_bringing_back import commits, then
from tests.services.together.restore.run.test_restore import (
    LAST,
    PLANNERS,
    SECOND,
    THIRD,
    but_restores,
    go_back,
    planned,
    restores,
    seen_rows,
    with_metadata,
    without,
)

pytestmark = pytest.mark.crash

KILL = FaultKind.KILL


def rolling_back(golden: str, folder: Path) -> Case:
    """No file of a failed write goes before a plan names it, nothing of it is left in the metadata table once the
    rollback is completed, and the next run ends it. Keeps 2, 3 and 4 of services/rollback/run/roll_back, and Keeps
    of services/rollback/run/takeover: once its completed file is stated, that one is created."""
    table = copy_golden(golden, folder)
    instant = fail_last_write(table)
    mark(table, instant, in_lists=False)
    files = {path for path in of_write(table, instant) if not path.startswith(".hoodie/")}
    before = set(everything(table)) - of_write(table, instant)

    def check_now(base: Path, whole: Path) -> None:
        there = set(everything(base))
        assert before <= there
        assert files <= there or rollbacks(base, State.REQUESTED)
        if rollbacks(base, State.COMPLETED):
            assert {path for path in of_write(base, instant) if path.startswith(".hoodie/metadata")} == set()

    def check_end(base: Path, whole: Path) -> None:
        left = {path for path in everything(base) if is_leftover(path) or is_lock(path)} - before
        assert not {path for path in left if not path.endswith(".lakeward-tmp") and not is_lock(path)}
        check_rolled_back(base, instant, before | left)

    return Case(table=table, run=roll_back, again=twice(roll_back), check_now=check_now, check_end=check_end)


def releasing(action: str, folder: Path) -> Case:
    """What the dead attempt at a compaction wrote counts at no moment, and in the end only the plan is left; of a log
    compaction not even that. Keeps 12 of services/rollback/run/roll_back."""
    is_log = action == "logcompaction"
    table = dead_log_compaction(folder) if is_log else dead_compaction(folder)

    def check_now(base: Path, whole: Path) -> None:
        check_readable(base)

    def check_end(base: Path, whole: Path) -> None:
        states = {each.state for each in instants(base) if each.action == action}
        # A log compaction that is not begun any more is a plan like any other, which a compaction carries out.
        assert states in ([set(), {State.REQUESTED}] if is_log else [{State.REQUESTED}])
        left = [path for path in everything(base) if is_leftover(path)]
        assert [path for path in left if not path.endswith(".lakeward-tmp") and not is_lock(path)] == []
        check_readable(base)

    return Case(table=table, run=roll_back, again=twice(roll_back), check_now=check_now, check_end=check_end)


def restoring(planner_and_target: str, folder: Path) -> Case:
    """At each moment the rows are those of a commit; no file is gone without a restore that names its
    instant, and the next run ends it. A compaction that came after the last commit changed no row, and neither does
    undoing it. Keeps 2 and 3 of services/together/restore/run/restore."""
    planner, name = planner_and_target.split("-to-")
    target = {"second": SECOND, "last": LAST}[name]
    table = copy_golden("v9", folder)
    compact(table, FaultyStorage(), ScriptedProcesses(), PLANNERS[planner])
    with_metadata(table)
    services = {i.time for i in timeline(table, DATA_TIMELINE) if i.time > LAST}
    assert services
    states = [read_rows(table)]
    for gone in ({LAST, *services}, {THIRD, LAST, *services}):
        states.append(read_rows(without(Path(shutil.copytree(table, folder.with_name("state"))), *gone)))
        shutil.rmtree(folder.with_name("state"))
    expected = states[2] if target == SECOND else states[0]
    data = {path for path in everything(table) if path.startswith("p/")}

    def check_now(base: Path, whole: Path) -> None:
        assert seen(base, services) in states
        named = restores(base, State.REQUESTED)
        for path in data - set(everything(base)):
            assert named and any(time in path for time in planned(base, named[0]))

    def check_end(base: Path, whole: Path) -> None:
        assert read_rows(base) == expected
        assert restores(base, State.REQUESTED) == restores(base, State.COMPLETED)
        assert len(restores(base, State.COMPLETED)) == 1
        assert but_leftovers(base) == but_leftovers(whole)
        assert [path for path in everything(base) if ".heartbeat" in path or "/attempt-" in path] == []

    run = going_back(target)
    return Case(table=table, run=run, again=twice(run), check_now=check_now, check_end=check_end)


def restoring_behind_a_clean(golden: str, folder: Path) -> Case:
    """At each moment the rows are those of now or of then, each file is in its place, in the quarantine, or of an
    instant that a restore names; and the next run ends it."""
    table = compacted(golden, folder)
    target, last = commits(table)[1], commits(table)[-1]
    expected = then(table, folder.with_name("expected"))
    between = without(Path(shutil.copytree(table, folder.with_name("between"))), *commits(table)[3:])
    states = [read_rows(table), read_rows(between), read_rows(expected)]
    files = contents(table)

    def check_now(base: Path, whole: Path) -> None:
        assert seen(base, {last}) in states
        named = restores(base, State.REQUESTED)
        there = contents(base)
        for path, content in files.items():
            if path in there:
                assert there[path] == content
            else:
                assert named and any(time in path for time in planned(base, named[0])), path

    def check_end(base: Path, whole: Path) -> None:
        assert read_rows(base) == states[-1]
        assert data_files(base) == data_files(expected)
        assert len(restores(base, State.COMPLETED)) == 1
        assert [path for path in everything(base) if ".heartbeat" in path or "/attempt-" in path] == []

    return Case(table=table, before=clean_and_keep, run=going_back(target), check_now=check_now, check_end=check_end)


def undoing_a_clustering(table_type: str, folder: Path) -> Case:
    """The rows are the same at each moment, and in the end in as many file groups as before, which every index knows.
    Keeps 1 of services/clustering/run/undo."""
    table = made_small_groups(folder, table_type, indexed=True)
    pack(table, packing=PackOptions(groups_min=2))

    def run(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        at = serviced_table(str(base), storage, processes, **options)
        undo_clustering(at, lambda _: InProcessDispatcher(), partial(run_task, storage))

    def again(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        with suppress(Refused):  # it is undone already
            run(base, storage, processes, **options)

    return replace(clustered(table, run, groups=(6,)), again=again, every=12)


def going_back(target: str) -> Run:
    def run(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        go_back(base, target, storage, processes=processes, **options)

    return run


def twice(run: Run) -> Run:
    """The second time finds nothing to do."""

    def again(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        for _ in range(2):
            run(base, storage, processes, **options)

    return again


def is_lock(path: str) -> bool:
    """A process that died last of all left its lock, which the next one takes that has something to do."""
    return path.endswith(("/lock", "/table_lock.json"))


def seen(base: Path, services: set[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(dir=base.parent) as scratch:
        return seen_rows(base, services, Path(scratch) / "seen")


def but_leftovers(base: Path) -> list[str]:
    return [path for path in but_restores(base) if not is_leftover(path) and not is_lock(path)]


KILLED = Extent(check=(KILL,), test=(KILL,))
NIGHTLY = Extent(test=())

ROWS = (
    Row(make=rolling_back, table="v9", disk=KILLED, store=KILLED),
    Row(make=rolling_back, table=WITH_METADATA, disk=KILLED, store=NIGHTLY),
    Row(make=rolling_back, table="v8_metadata", disk=NIGHTLY),
    Row(make=releasing, table="compaction", disk=KILLED),
    Row(make=releasing, table="logcompaction", disk=KILLED),
    Row(make=restoring, table="full-to-second", disk=KILLED, store=NIGHTLY),
    Row(make=restoring, table="full-to-last", disk=NIGHTLY),
    Row(make=restoring, table="log-to-second", disk=NIGHTLY),
    Row(make=restoring, table="log-to-last", disk=NIGHTLY),
    Row(make=restoring_behind_a_clean, table="v9", disk=KILLED, store=NIGHTLY),
    Row(make=restoring_behind_a_clean, table=WITH_METADATA, disk=NIGHTLY),
    Row(make=undoing_a_clustering, table=MERGE_ON_READ, disk=KILLED, store=NIGHTLY),
    Row(make=undoing_a_clustering, table=COPY_ON_WRITE, disk=NIGHTLY),
)


@pytest.mark.parametrize(("row", "place", "kind"), cases_of(ROWS))
def test_what_takes_something_back_survives_every_fault(
    row: Row, place: Place, kind: FaultKind, survives: Callable[[Row, Place, FaultKind], None]
) -> None:
    """Whatever call fails, dies, tears or loses its reply: running again ends it."""
    survives(row, place, kind)
