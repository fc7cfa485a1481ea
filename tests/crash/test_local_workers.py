"""A compaction in processes of this machine whose workers, or whose own process, are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest

from lakeward.base.errors import Cancelled, TaskFailed
from lakeward.engine.task.entry import run_operation_at
from lakeward.format.timeline.instant import State
from lakeward.protocol.owner import Processes
from tests.crash.compacting import check_finished, check_readable, compact, everything, is_leftover
from tests.crash.local_tasks import compact_locally, held_open, killed_at_the_end
from tests.crash.other_process import wait_until
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden
from tests.services.bench import pending_states

pytestmark = pytest.mark.crash

REPOSITORY = str(Path(__file__).parents[2])


def check_rolled_back(base: Path) -> None:
    """The plan stays, and nothing else of Lakeward's."""
    check_readable(base)
    assert pending_states(base) == {State.REQUESTED}
    assert [path for path in everything(base) if is_leftover(path)] == []


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_worker_killed_after_it_wrote_its_file(tmp_path: Path) -> None:
    """The attempt fails by the file group that it was about, and is rolled back with the file; the next ends well."""
    base = copy_golden("v9", tmp_path / "table")
    with pytest.raises(TaskFailed, match="A task of 'compaction") as error:
        compact_locally(base, partial(killed_at_the_end, str(base)))
    assert error.value.file_group is not None and error.value.file_group[0] == "p"
    check_rolled_back(base)
    (plan,) = compact_locally(base, partial(run_operation_at, str(base))).plans
    assert (plan.recovered, plan.engine) == (True, "local")
    check_finished(base)


def test_an_attempt_stopped_while_a_worker_writes(tmp_path: Path) -> None:
    """Ctrl-C, or a lost lease: the worker is dead before its attempt is rolled back."""
    base, said = copy_golden("v9", tmp_path / "table"), tmp_path / "said"

    def guard() -> None:
        if said.exists():
            raise Cancelled("Interrupted.")

    with pytest.raises(Cancelled):
        compact_locally(base, partial(held_open, str(said), str(base)), guard)
    assert is_gone(int(said.read_text()))
    check_rolled_back(base)


@pytest.mark.slow
def test_a_command_killed_while_its_worker_writes(tmp_path: Path) -> None:
    """Keeps 3 of engine/dispatch/local: the worker, whose parent can send it nothing any more, ends itself; the next
    run rolls the attempt back and carries the plan out."""
    base, said = copy_golden("v9", tmp_path / "table"), tmp_path / "said"
    environment = os.environ | {"PYTHONPATH": REPOSITORY}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.local_tasks", str(base), str(said)], cwd=REPOSITORY, env=environment
    ) as command:
        try:
            wait_until(lambda: said.exists() or command.poll() is not None)
        finally:
            command.kill()
    worker = int(said.read_text())
    wait_until(lambda: is_gone(worker))
    assert pending_states(base) == {State.INFLIGHT, State.REQUESTED}
    check_readable(base)
    compact(base, FaultyStorage(), Processes())
    check_finished(base)
