"""A session that lives for as long as the daemon, and its replacement when it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `session_life.py` saw, in a process of its own: it kills the Spark that it runs on."""
    script = Path(__file__).with_name("session_life.py")
    scratch = tmp_path_factory.mktemp("session")
    done = subprocess.run(
        [sys.executable, str(script), str(scratch)], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "Exception occurred during processing of request" not in done.stderr, "PySpark's, of a JVM that is gone"
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def test_it_is_started_by_whichever_thread_needs_it(seen: dict[str, Any]) -> None:
    """It starts when it is needed, and does not take the main thread's signal handlers."""
    assert seen["alive before anything was started"] is True
    assert seen["started_in_a_thread"] == [2, 4, 6]
    assert seen["signal handler kept"] is True


def test_settings_that_follow_from_memory_are_made(seen: dict[str, Any]) -> None:
    """What is derived follows from what is set, in spark-defaults.conf, too; a master without a number gets one."""
    assert seen["overhead of spark-defaults.conf"] == "3g"
    assert seen["settings"] == ["local[2]", "512m"]


def test_its_workers_begin_with_what_an_operation_needs(seen: dict[str, Any]) -> None:
    """They are forked from a process that has loaded the kernels once for all; none loads pandas, nor has PySpark from
    an archive, of which it would read the list before each task."""
    assert seen["loaded in a worker"] == [["lakeward.engine.task.operation"]]
    assert seen["archives in a worker"] == [[]]


def test_threads_share_it(seen: dict[str, Any]) -> None:
    """Each job has its description, and all are in the pool of a fair scheduler."""
    assert seen["one session"] is True
    assert [seen[f"job {n}"] for n in range(2)] == [[["night", f"job {n}"]] for n in range(2)]
    assert seen["mode"] == "FAIR"
    assert seen["connections left"] < 8, "the driver keeps a thread for each"


def test_executors_are_probed_once_a_session(seen: dict[str, Any]) -> None:
    """A second probe asks no executor; a new session is asked again."""
    assert seen["probes"] == 1
    assert seen["probes of two sessions"] == 2


def test_a_failed_task_says_whose_it_was(seen: dict[str, Any]) -> None:
    """Any error in it names the spec."""
    assert seen["failed spec"] == 2


def test_a_cancel_reaches_the_executors(seen: dict[str, Any]) -> None:
    """The caller hears of it within seconds, the tasks' work of two minutes ends, and the session goes on."""
    assert seen["cancelled after"] < 60
    assert seen["ticks after the cancel"] < 600
    assert seen["works after the cancel"] == [8]


def test_when_it_dies_its_job_fails_and_the_next_one_has_another(seen: dict[str, Any]) -> None:
    """`kill -9` of the driver gives a clear error that says to try again; nothing has to be restarted."""
    assert seen["victim of a kill"] == ["EngineLost", "LW-ENGINE-LOST", 75, "Spark died while it ran 'the victim'."]
    assert seen["alive after the kill"] is False
    assert seen["next job"] == [10]
    assert (seen["alive again"], seen["another session"]) == (True, True)


def test_a_driver_that_hangs_is_replaced(seen: dict[str, Any]) -> None:
    """It was stopped, not killed: it does not answer, so it counts as dead, its job fails as if it had died, and it is
    killed before another one starts. Keeps 3 of engine/dispatch/spark_session."""
    assert seen["its job ended"], "before anything else was done about it"
    assert seen["victim of a stop"] == seen["victim of a kill"]
    assert seen["alive while it hangs"] == [False, False, False]
    assert seen["threads that wait for the one that hung"] <= 4, "two of the job, its cancelling, and one question"
    assert seen["after the one that hung"] == [12]
    assert seen["the one that hung is gone"] is True


def test_a_session_that_ended_leaves_nothing(seen: dict[str, Any]) -> None:
    """Its JVM has ended by itself, and removed its folders; what was left by two that were killed, and of their jobs,
    is no more after another one. Keeps 4 of engine/dispatch/spark_session."""
    first, second = seen["left by two sessions that ended"]
    for left in (first, second):
        assert (left["code"], left["children"], left["threads"]) == (0, [], ["MainThread"])
        assert not [entry for entry in left["path"] if "spark-" in entry]
    assert second["files"] <= first["files"], "what the killed ones left may be collected later"
    assert without_memory(second) == without_memory(first) | {"files": second["files"]}


@pytest.mark.wide
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_fifty_sessions_leave_nothing(tmp_path: Path) -> None:
    """No thread, file, process, folder, setting of the environment, nor memory that grows with each."""
    script = Path(__file__).with_name("session_leaks.py")
    done = subprocess.run(
        [sys.executable, str(script), "50", str(tmp_path)], capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    first, last = json.loads(done.stdout.strip().splitlines()[-1])
    assert without_memory(last) == without_memory(first)
    assert (first["threads"], first["children"], first["folders"]) == (["MainThread"], [], [])
    assert last["megabytes"] < first["megabytes"] + 8


def without_memory(left: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in left.items() if key != "megabytes"}


def test_speculation_is_refused_before_anything_is_started(seen: dict[str, Any]) -> None:
    """It is in the settings already."""
    assert seen["speculation"] == "spark.speculation is on."
