"""The races that have a name, with real processes: killed, stopped, woken up too late."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lakeward.base.errors import LockHeld, TryLater
from lakeward.format.timeline.instant import State
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.owner import Processes
from tests.crash.compacting import age_temporary_files, check_finished, check_readable, compact, everything, instants
from tests.crash.other_process import age, process
from tests.crash.stopping_process import hear_interrupts
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden
from tests.processes import ScriptedProcesses

pytestmark = pytest.mark.crash


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table")


@pytest.mark.parametrize(
    "call",
    [
        "create {table}/.hoodie/lock",
        "create {table}/.hoodie/timeline",
        "create {table}/.hoodie/.heartbeat",
        "open_output",
        "close",
        "move",
        "link",
        "delete_folder",
    ],
)
def test_kill_nine_and_run_again(base: Path, call: str) -> None:
    """A process killed for real leaves lock, heartbeat and files; the next one sees that it is dead and finishes."""
    with process(base, call.format(table=base), "kill") as child:
        assert child.exit_code == -signal.SIGKILL
    check_readable(base)
    age_temporary_files(base)
    compact(base, FaultyStorage(), Processes())
    check_finished(base)


def test_a_process_stopped_before_it_publishes_is_taken_over(base: Path) -> None:
    """A process that gets SIGSTOP between the last check and the publication, past lock and heartbeat, links too
    late."""
    with process(base, "link", "stop") as child:
        # The stopped process holds the lock, and no other may take that while it does not expire.
        with pytest.raises(LockHeld):
            compact(base, FaultyStorage(), ScriptedProcesses())
        age(base, SPARK_LOCK, ".hoodie/.heartbeat/*", seconds=600)
        locks = FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0, expire_seconds=300.0)
        report = compact(base, FaultyStorage(), ScriptedProcesses(), lock=locks)
        assert [plan.recovered for plan in report.plans] == [True]
        check_finished(base)
        before = everything(base)
        said = child.wake()
        assert child.exit_code == 75, said
        assert "took this attempt over" in said
        assert everything(base) == before


def test_a_process_that_wakes_up_while_it_is_rolled_back_publishes_nothing(base: Path) -> None:
    """It wakes after its commit was looked for and before its files are deleted: the folder goes first for that
    moment."""
    with process(base, "link", "stop") as child:
        age(base, SPARK_LOCK, ".hoodie/.heartbeat/*", seconds=600)
        said = ""

        class WakingStorage(FaultyStorage):
            def remove(self, path: str) -> bool:
                nonlocal said
                if path.endswith(".parquet") and child.exit_code is None:
                    said = child.wake()
                return super().remove(path)

        locks = FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0, expire_seconds=300.0)
        compact(base, WakingStorage(), ScriptedProcesses(), lock=locks)
        assert child.exit_code == 75, said
        check_finished(base)


def test_a_process_stopped_before_it_moves_its_files_in_moves_nothing(base: Path) -> None:
    """A process that is woken one step earlier finds its folder gone."""
    with process(base, "move", "stop") as child:
        age(base, SPARK_LOCK, ".hoodie/.heartbeat/*", seconds=600)
        locks = FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0, expire_seconds=300.0)
        compact(base, FaultyStorage(), ScriptedProcesses(), lock=locks)
        before = everything(base)
        said = child.wake()
        assert child.exit_code == 75, said
        assert everything(base) == before
        check_finished(base)


def test_a_zombie_that_wakes_up_while_merging_writes_nothing(base: Path) -> None:
    """Its attempt was rolled back and its plan carried out by another process; its open file has no name any more."""
    with process(base, "close", "stop") as child:
        age(base, ".hoodie/.heartbeat/*", seconds=600)
        compact(base, FaultyStorage(), ScriptedProcesses())
        before = everything(base)
        said = child.wake()
        assert child.exit_code != 0, said
        assert everything(base) == before
        check_finished(base)


def test_two_processes_on_one_plan(base: Path) -> None:
    """While one is alive the other waits and then asks to come back; the plan is carried out once."""
    with process(base, "open_output", "stop") as child:
        with pytest.raises(TryLater):
            compact(base, FaultyStorage(), ScriptedProcesses())
        said = child.wake()
        assert child.exit_code == 0, said
    check_finished(base)


def test_ctrl_c_rolls_the_attempt_back(base: Path) -> None:
    """A process that gets SIGINT in the middle of an operation leaves the plan and nothing else."""
    with process(base, "open_output", "stop") as child:
        os.kill(child.pid, signal.SIGINT)
        child.wake()
        assert child.exit_code != 0
    states = {instant.state for instant in instants(base) if instant.action == "compaction"}
    assert states == {State.REQUESTED}
    compact(base, FaultyStorage(), ScriptedProcesses())
    check_finished(base)


def test_interrupts_are_heard_where_the_tests_run_in_the_background() -> None:
    """The other process hears SIGINT, though a script that runs the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        hear_interrupts()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
