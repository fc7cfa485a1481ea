"""One running Spark driver in this process: started, asked whether it lives, given jobs, and forgotten when it died.

Several threads may collect at once; each job has a group of its own, by which it is followed and cancelled, and a
scheduler pool, so that the jobs share the executors fairly (`spark.scheduler.mode` FAIR) instead of queueing.

Specs are an RDD of as many partitions. Spark cuts a list into equal parts, so each partition has one spec and each task
gets its own only. Through SQL the same work took three times the CPU in the driver, to plan and to compile a query, and
each worker loaded pandas (benchmarks/README.md).

Touches: a JVM that PySpark starts as a child process; the environment of this process (PYSPARK_PYTHON, local only).
Keeps:   1. a session that was already running in this process is used and never stopped;
         2. a job that is told to stop has been cancelled before the caller hears of it, if the driver still answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, TaskContext
from pyspark.errors import PySparkException

from lakeward.dispatch.spark_failure import what_happened
from lakeward.dispatch.spark_memory import SparkMemory
from lakeward.errors import EngineNotStarted
from lakeward.printable import printable, printable_url
from lakeward.without_pandas import allow_pandas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.25
ANSWER_TIMEOUT_SECONDS = 15.0
"""A driver that has not answered for so long counts as dead: it is stopped, or out of memory and collecting garbage."""
WORKERS_MODULE = "lakeward.task.spark_workers"
"""What a local master forks its Python workers from."""
CANCEL_SECONDS = 30.0
"""How long to wait for a cancelled job to end; its tasks find no folder to write to afterwards."""

T = TypeVar("T")


class LocalSession:
    """A driver in a JVM of this process's own; its executors are wherever `master` says."""

    def __init__(self, context: SparkContext, *, is_ours: bool) -> None:
        self._context = context
        self._settings = dict(context.getConf().getAll())
        self._is_ours = is_ours
        # Asked once: a caller that plans for a session that has died since gets an answer, too.
        self._parallelism = max(1, self._context.defaultParallelism)
        self._process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)

    @classmethod
    def start(cls, master: str, settings: Mapping[str, str], memory: SparkMemory) -> LocalSession:
        """Start a session, or use the one that runs in this process. Raises `EngineNotStarted`.

        Args:
            memory: what operations take; settings that follow from it are made where the operator made none.
        """
        if SparkContext._active_spark_context is not None:
            return cls(SparkContext.getOrCreate(), is_ours=False)
        configured = SparkConf().setMaster(memory.local_master(master)).setAppName("lakeward")
        if master.startswith("local"):
            # Workers of a local master are children of this process: the same interpreter, the same packages.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            configured.set("spark.python.daemon.module", WORKERS_MODULE)
        configured.setAll(list(settings.items()))
        try:
            # The JVM first: only it reads spark-defaults.conf, in which the operator may have set what is missing here.
            SparkContext._ensure_initialized(conf=configured)
            whole = SparkConf().setAll(configured.getAll())
            whole.setAll(list(memory.derived(whole.get).items()))
            return cls(SparkContext.getOrCreate(whole), is_ours=True)
        except (PySparkException, Py4JError) as error:
            raise EngineNotStarted(
                f"Spark did not start on {printable_url(master)}.",
                why=f"{printable(what_happened(error))} What Java said stands above.",
                remedy="Check --master, --spark-conf and JAVA_HOME; the table is as it was.",
            ) from error

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def setting(self, key: str) -> str | None:
        return self._settings.get(key)

    def is_alive(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            return False
        java = self._context._jsc
        if java is None:
            return False  # another process stopped it
        try:
            return not answered(lambda: java.sc().isStopped(), ANSWER_TIMEOUT_SECONDS)
        except (Py4JError, OSError, TimeoutError):
            return False

    def run_tasks(
        self,
        work: Callable[[bytes, int], bytes],
        specs: Sequence[bytes],
        *,
        description: str,
        pool: str,
        on_finished: Callable[[int], None],
    ) -> list[bytes]:
        """What `work` gives for each spec, while saying how many tasks are finished; what `on_finished` raises cancels
        the job."""

        def collect() -> list[bytes]:
            return self._context.parallelize(specs, len(specs)).mapPartitions(_in_partition(work)).collect()

        return self.run(collect, description=description, pool=pool, on_finished=on_finished)

    def run(self, act: Callable[[], T], *, description: str, pool: str, on_finished: Callable[[int], None]) -> T:
        """What `act` gives, in a thread whose jobs are one group, while saying how many of their tasks are finished;
        what `on_finished` raises cancels them."""
        context = self._context
        group = f"lakeward-{uuid.uuid4()}"

        def in_group() -> T:
            # Groups and pools belong to the thread that submits the job; this one does nothing else.
            context.setJobGroup(group, description, interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", pool)
            return act()

        answers = in_thread(in_group)
        try:
            while not answers.done():
                wait([answers], timeout=POLL_SECONDS)
                on_finished(_finished_tasks(context.statusTracker(), group))
        except BaseException:
            cancel_until_done(lambda: context.cancelJobGroup(group), answers)
            raise
        return answers.result()

    def sql(self) -> SparkSession:
        """Data frames on this driver, with settings of their own."""
        allow_pandas()  # `mapInArrow` asks for it, and hands none out
        from pyspark.sql import SparkSession

        return SparkSession(self._context).newSession()

    def stop(self) -> None:
        """Stops the session, unless it is another process's."""
        if self._is_ours:
            self._context.stop()

    def forget(self) -> None:
        """After it died: let PySpark, which keeps the dead JVM in class variables, start another one."""
        if self._process is not None:
            self._process.kill()  # gone, or a hanging process that answers no request
            self._process.wait()
        gateway = SparkContext._gateway
        with suppress(Py4JError, OSError, AttributeError):
            self._context.stop()
        with suppress(Py4JError, OSError, AttributeError):
            gateway.shutdown()  # type: ignore[union-attr]  # None: an AttributeError more
        SparkContext._gateway = None
        SparkContext._jvm = None
        SparkContext._active_spark_context = None


def _in_partition(work: Callable[[bytes, int], bytes]) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    def run(specs: Iterable[bytes]) -> Iterator[bytes]:
        context = TaskContext.get()
        assert context is not None, "runs inside a Spark task"
        for spec in specs:
            yield work(spec, context.attemptNumber())

    return run


def in_thread(act: Callable[[], T]) -> Future[T]:
    """`act` in a thread of its own, which does not keep the process from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="lakeward-spark", daemon=True).start()
    return future


def answered(ask: Callable[[], T], seconds: float) -> T:
    """The answer of a driver that may hang. Raises `TimeoutError`."""
    return in_thread(ask).result(timeout=seconds)


def cancel_until_done(cancel: Callable[[], object], answers: Future[Any]) -> None:
    """Cancel again and again: a job that is just being submitted does not notice the first time."""
    waited = 0.0
    while not answers.done() and waited < CANCEL_SECONDS:
        try:
            answered(cancel, ANSWER_TIMEOUT_SECONDS)
        except Exception:
            return  # the driver is gone or hangs, and with it goes the job
        wait([answers], timeout=POLL_SECONDS)
        waited += POLL_SECONDS


def _finished_tasks(tracker: Any, group: str) -> int:
    finished = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            stage_info = tracker.getStageInfo(stage)
            finished += stage_info.numCompletedTasks if stage_info is not None else 0
    return finished
