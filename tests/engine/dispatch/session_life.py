"""Run by test_spark_session in a process of its own: one dispatcher through the life and death of its session.

Prints one JSON object of what was seen.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

REPOSITORY = str(Path(__file__).parents[3])
sys.path.insert(0, REPOSITORY)
# Workers must find the tests' tasks.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [REPOSITORY, os.environ.get("PYTHONPATH")]))

from pyspark import SparkContext  # noqa: E402

from lakeward.base.errors import Cancelled, EngineLost, LakewardError, TaskFailed  # noqa: E402
from lakeward.engine.dispatch.dispatcher import Done, Progress  # noqa: E402
from lakeward.engine.dispatch.spark import SparkDispatcher  # noqa: E402
from lakeward.engine.dispatch.spark_memory import SparkMemory  # noqa: E402
from tests.engine.dispatch import session_leaks, tasks  # noqa: E402

scratch = Path(sys.argv[1])
seen: dict[str, Any] = {}
temporary = scratch / "temporary"
temporary.mkdir()
session_leaks.temporary_files_in(temporary)
(scratch / "conf").mkdir()
(scratch / "conf" / "spark-defaults.conf").write_text("spark.executor.memoryOverhead 3g\n")
os.environ["SPARK_CONF_DIR"] = str(scratch / "conf")


class Noted(SparkMemory):
    def derived(self, setting: Any) -> dict[str, str]:
        seen["overhead of spark-defaults.conf"] = setting("spark.executor.memoryOverhead")
        return {"spark.lakeward.derived": setting("spark.driver.memory")}


memory = Noted(tasks.MEMORY.operation_bytes, tasks.MEMORY.here_bytes, here_at_once=2)
dispatcher = SparkDispatcher("local[*]", {"spark.driver.memory": "512m"}, pool="night", memory=memory)


def run(task: Any, specs: list[Any], description: str = "test", on_progress: Any = lambda progress: None) -> list[Any]:
    outcomes = dispatcher.run(task, specs, description=description, on_progress=on_progress)
    return [outcome.result for outcome in outcomes if isinstance(outcome, Done)]


def in_thread(act: Any) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def java() -> Any:
    return SparkContext._gateway.proc  # type: ignore[union-attr]


# Started by a thread that is not the main one, and not by the question whether it lives.
seen["alive before anything was started"] = dispatcher.is_alive()
before = signal.getsignal(signal.SIGINT)
in_thread(lambda: seen.update(started_in_a_thread=run(tasks.double, [1, 2, 3]))).join()
seen["settings"] = [SparkContext.getOrCreate().getConf().get(key) for key in ("spark.master", "spark.lakeward.derived")]
seen["signal handler kept"] = signal.getsignal(signal.SIGINT) is before
first = java().pid

seen["loaded in a worker"] = run(tasks.which_are_loaded, [["lakeward.engine.task.operation", "pandas"]])
seen["archives in a worker"] = run(tasks.which_archives, [0])

# Jobs of several threads on one session, each with its own description, all in the pool.
threads = [
    in_thread(lambda n=n: seen.update({f"job {n}": run(tasks.pool_of_my_job, [0], f"job {n}")}))  # type: ignore[misc]
    for n in range(2)
]
for thread in threads:
    thread.join()
seen["one session"] = java().pid == first
seen["mode"] = dispatcher._session.setting("spark.scheduler.mode")  # type: ignore[union-attr]

# The probe asks the executors once a session.
jobs: list[str] = []
run_on = dispatcher._run_on


def counting(*arguments: Any, description: str, **options: Any) -> Any:
    jobs.append(description)
    return run_on(*arguments, description=description, **options)


dispatcher._run_on = counting  # type: ignore[method-assign]
dispatcher.probe()
dispatcher.probe()
seen["probes"] = jobs.count("version probe")
try:
    run(tasks.break_on_odd, [0, 2, 3, 4])
except TaskFailed as error:
    seen["failed spec"] = error.index

# Cancelled while its tasks work: the caller hears of it at once, the tasks end.
files = [scratch / "tick-0", scratch / "tick-1"]


def cancel(progress: Progress) -> None:
    if all(file.exists() for file in files):
        raise Cancelled("Enough.")


started = time.monotonic()
try:
    run(tasks.tick, [str(file) for file in files], on_progress=cancel)
except Cancelled:
    seen["cancelled after"] = time.monotonic() - started
deadline = time.monotonic() + 30
sizes: list[int] = []
while time.monotonic() < deadline:
    now = [file.stat().st_size for file in files]
    if now == sizes:
        break
    sizes = now
    time.sleep(1.0)
seen["ticks after the cancel"] = sum(sizes)
seen["works after the cancel"] = run(tasks.double, [4])

# Connections of threads that ended are given back.
for _ in range(10):
    in_thread(lambda: run(tasks.double, [1])).join()
seen["connections left"] = len(SparkContext._gateway._gateway_client.deque)  # type: ignore[union-attr]

# The driver is killed while a job runs: that job fails, and says why; the next one runs on a new session.
victim = scratch / "victim"


def hurt(by: str) -> None:
    try:
        run(tasks.tick, [str(victim)], "the victim")
    except LakewardError as error:
        seen[f"victim of {by}"] = [type(error).__name__, error.code, error.exit_code, error.what]


thread = in_thread(lambda: hurt("a kill"))
wait_for(victim.exists)
os.kill(java().pid, signal.SIGKILL)
thread.join(timeout=60)
seen["alive after the kill"] = dispatcher.is_alive()
in_thread(lambda: seen.update({"next job": run(tasks.double, [5])})).join()
seen["alive again"] = dispatcher.is_alive()
seen["another session"] = java().pid != first
dispatcher.probe()
seen["probes of two sessions"] = jobs.count("version probe")

# A driver that hangs while a job runs counts as dead, too: the job ends, and the next one has another session.
from lakeward.engine.dispatch import spark_session  # noqa: E402

spark_session.ANSWER_TIMEOUT_SECONDS = 2.0
hanging = java()
victim.unlink()
thread = in_thread(lambda: hurt("a stop"))
wait_for(victim.exists)
os.kill(hanging.pid, signal.SIGSTOP)
thread.join(timeout=60)
seen["its job ended"] = not thread.is_alive()
seen["alive while it hangs"] = [dispatcher.is_alive() for _ in range(3)]
waiting = [each for each in threading.enumerate() if each.name == "lakeward-spark"]
seen["threads that wait for the one that hung"] = len(waiting)
seen["after the one that hung"] = run(tasks.double, [6])
seen["the one that hung is gone"] = hanging.poll() is not None

# What is ended gives everything back, and again.
ended = []
for _ in range(2):
    run(tasks.double, [7])
    of_session = java()
    dispatcher.end(within=60.0)
    ended.append(session_leaks.what_is_left(temporary) | {"code": of_session.poll()})
seen["left by two sessions that ended"] = ended
try:
    SparkDispatcher("local[2]", {"spark.speculation": "true"}, memory=tasks.MEMORY).run(
        tasks.double, [1], description="speculating", on_progress=lambda progress: None
    )
except LakewardError as error:
    seen["speculation"] = error.what
assert EngineLost
print(json.dumps(seen))
