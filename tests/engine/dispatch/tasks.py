"""Tasks for the dispatchers' tests; at module level, so that Spark can send them by name."""

from __future__ import annotations

import os

from lakeward.base.errors import VerificationFailed
from lakeward.engine.dispatch.spark_memory import SparkMemory

MEMORY = SparkMemory(operation_bytes=512 * 1024**2, here_bytes=2 * 1024**3, here_at_once=2)
"""What operations of a session take."""


def where_am_i(spec: str, task_attempt: int) -> tuple[str, int, int, int]:
    """The spec, and which task of which stage runs it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return spec, context.stageId(), context.partitionId(), context.taskAttemptId()


def double(spec: int, task_attempt: int) -> int:
    return 2 * spec


def fail_on_odd(spec: int, task_attempt: int) -> int:
    if spec % 2:
        raise VerificationFailed(f"{spec} is odd.", why="It is not even.", remedy="Add one.")
    return spec


def break_always(spec: int, task_attempt: int) -> int:
    raise OSError("no such disk")


def break_on_odd(spec: int, task_attempt: int) -> int:
    if spec % 2:
        raise OSError("no such disk")
    return spec


def which_worker(spec: int, task_attempt: int) -> int:
    return os.getpid()


def tick(spec: str, task_attempt: int) -> str:
    """Works for two minutes, and says so ten times a second by letting a file grow."""
    import time

    for _ in range(1200):
        with open(spec, "a") as file:
            file.write(".")
        time.sleep(0.1)
    return spec


def pool_of_my_job(spec: int, task_attempt: int) -> tuple[str, str]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return str(context.getLocalProperty("spark.scheduler.pool")), str(context.getLocalProperty("spark.job.description"))


def kill_me_if_odd(spec: int, task_attempt: int) -> int:
    import signal

    if spec % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return spec


def interrupt_me(spec: int, task_attempt: int) -> int:
    import signal

    os.kill(os.getpid(), signal.SIGINT)
    return os.getpid()


def alone(spec: str, task_attempt: int) -> float:
    """Fails where another task is in the folder. Returns when it began."""
    import time

    lock = os.path.join(spec, "lock")
    began = time.monotonic()
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    time.sleep(0.02)
    os.unlink(lock)
    return began


def which_are_loaded(spec: list[str], task_attempt: int) -> list[str]:
    import sys

    import pyarrow as pa

    pa.array([1])  # with its first array it imports what it can use
    return [name for name in spec if name in sys.modules]


def which_archives(spec: int, task_attempt: int) -> list[str]:
    """Archives that this process imports from, and reads again before each task."""
    import sys
    import zipimport

    return [path for path, importer in sys.path_importer_cache.items() if isinstance(importer, zipimport.zipimporter)]
