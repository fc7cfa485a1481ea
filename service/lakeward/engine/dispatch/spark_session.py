"""One running Spark driver in this process: started, asked whether it lives, given jobs, and forgotten when it died.

Several threads may collect at once; each job has a group of its own, by which it is followed and cancelled, and a
scheduler pool, so that the jobs share the executors fairly (`spark.scheduler.mode` FAIR) instead of queueing.

Specs are an RDD of as many partitions. Spark cuts a list into equal parts, so each partition has one spec and each task
gets its own only. Through SQL the same work took three times the CPU in the driver, to plan and to compile a query, and
each worker loaded pandas (benchmarks/README.md).

Touches: a JVM that PySpark starts as a child process; the environment of this process (PYSPARK_PYTHON, SPARK_LOCAL_IP
         and SPARK_DRIVER_MEMORY, local only).
Keeps:   1. a session that was already running in this process is used and never stopped;
         2. a job that is to stop has been cancelled before the caller hears of it, if the driver still answers;
         3. a job whose driver hangs ends in an error, and no more than one thread waits for the answer of a driver;
         4. a session that was ended or forgotten leaves no process, thread, connection or folder.
See:     docs/decisions/0099-the-life-of-the-session.md
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, TaskContext
from pyspark.errors import PySparkException

from lakeward.base.errors import EngineNotStarted
from lakeward.base.printable import printable, printable_url
from lakeward.base.without_pandas import allow_pandas
from lakeward.engine.dispatch.spark_failure import what_happened
from lakeward.engine.dispatch.spark_memory import SparkMemory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.25
ANSWER_TIMEOUT_SECONDS = 15.0
"""A driver that has not answered for so long counts as dead: it is stopped, or out of memory and collecting garbage."""
END_SECONDS = 10.0
"""How long a JVM in which no session is up may take to end by itself; after that it is killed."""
WORKERS_MODULE = "lakeward.engine.task.spark_workers"
"""What a local master forks its Python workers from."""
CANCEL_SECONDS = 30.0
"""How long to wait for a cancelled job to end; its tasks find no folder to write to afterwards."""

T = TypeVar("T")


class LocalSession:
    """A driver in a JVM of this process's own; its executors are wherever `master` says."""

    def __init__(self, context: SparkContext, *, is_own: bool, has_own_java: bool = False) -> None:
        """
        Args:
            is_own: it was started here, and no other code of this process uses it.
            has_own_java: so was its JVM.
        """
        self._context = context
        self._settings = dict(context.getConf().getAll())
        self._is_own = is_own
        self._has_own_java = has_own_java
        self._folders = _folders_of(context) if has_own_java else ()
        if has_own_java:
            # It prints a traceback when a JVM is gone, which the job on it and the next one say.
            context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._question: Future[bool] | None = None
        self._asked_at = 0.0
        self._asking = threading.Lock()
        # Asked once: a caller that plans for a session that has died since gets an answer, too.
        self._parallelism = max(1, self._context.defaultParallelism)
        self.ui = str(context.uiWebUrl or "")
        self._process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)

    @classmethod
    def start(cls, master: str, settings: Mapping[str, str], memory: SparkMemory, *, heap: str | None) -> LocalSession:
        """Start a session, or use the one that runs in this process. Raises `EngineNotStarted`.

        Args:
            memory: what operations take; settings that follow from it are made where the operator made none.
            heap: of a local driver for which the operator said none; None: Spark's default.
        """
        if SparkContext._active_spark_context is not None:
            return cls(SparkContext.getOrCreate(), is_own=False)
        has_java = SparkContext._gateway is not None
        configured = SparkConf().setMaster(memory.local_master(master)).setAppName("lakeward")
        if master.startswith("local"):
            # Workers of a local master are children of this process: the same interpreter, the same packages.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            if heap is not None:
                # Unlike a setting made here, this one gives way to spark-defaults.conf.
                os.environ.setdefault("SPARK_DRIVER_MEMORY", heap)
            configured.set("spark.python.daemon.module", WORKERS_MODULE)
        configured.setAll(list(settings.items()))
        try:
            # The JVM first: only it reads spark-defaults.conf, in which the operator may have set what is missing here.
            SparkContext._ensure_initialized(conf=configured)
            whole = SparkConf().setAll(configured.getAll())
            whole.setAll(list(memory.derived(whole.get).items()))
            return cls(SparkContext.getOrCreate(whole), is_own=True, has_own_java=not has_java)
        except (PySparkException, Py4JError) as error:
            if not has_java and (gateway := SparkContext._gateway) is not None:
                _end_java(gateway)
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
        with self._asking:
            # A driver that hangs is asked again and again for as long as no job needs it: one thread waits for it.
            if self._question is None or self._question.done():
                self._question, self._asked_at = in_thread(lambda: bool(java.sc().isStopped())), time.monotonic()
            question, left = self._question, self._asked_at + ANSWER_TIMEOUT_SECONDS - time.monotonic()
        try:
            return not question.result(timeout=max(0.0, left))
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
        tasks = _FinishedTasks(lambda: _finished_tasks(context.statusTracker(), group), until=answers)
        try:
            while not answers.done():
                wait([answers], timeout=POLL_SECONDS)
                if tasks.are_silent and not answers.done() and not self.is_alive():
                    raise TimeoutError("The driver does not answer.")
                on_finished(tasks.number)
        except BaseException:
            if self.is_alive():
                cancel_until_done(lambda: context.cancelJobGroup(group), answers)
            raise
        return answers.result()

    def sql(self) -> SparkSession:
        """Data frames on this driver, with settings of their own."""
        allow_pandas()  # `mapInArrow` asks for it, and hands none out
        from pyspark.sql import SparkSession

        return SparkSession(self._context).newSession()

    def stop(self) -> None:
        """Stops the session, unless it is another process's. Its JVM ends with this process."""
        if self._is_own:
            self._context.stop()

    def end(self, *, within: float) -> None:
        """Stops the session, and ends its JVM where it was started for it: only so does its memory go back. A JVM that
        does not answer is killed."""
        if not self._is_own:
            return
        with suppress(TimeoutError, Py4JError, OSError):
            answered(self._context.stop, within / 2)
        if self._has_own_java:
            if self._process is not None:
                _await_end(self._process, within / 2)
            self.forget()

    def forget(self) -> None:
        """After it died: let PySpark, which keeps the dead JVM in class variables, start another one."""
        if self._process is not None:
            self._process.kill()  # gone, or a hanging process that answers no request
            self._process.wait()
        # The first time ends where a JVM that is gone does not answer, before it closes the server for accumulators.
        for _ in range(2):
            with suppress(Py4JError, OSError, AttributeError):
                self._context.stop()
        if (gateway := SparkContext._gateway) is not None:
            _end_java(gateway)
        for folder in self._folders:  # where it was killed, they are there still
            shutil.rmtree(folder, ignore_errors=True)
        for entry in [entry for entry in sys.path if entry.startswith(self._folders)]:
            sys.path.remove(entry)  # PySpark puts one more there with each session
            sys.path_importer_cache.pop(entry, None)


def _folders_of(context: SparkContext) -> tuple[str, ...]:
    """Temporary folders of a driver, which it removes when it ends by itself."""
    blocks = context._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager()  # type: ignore[union-attr]
    return os.path.dirname(context._temp_dir), *blocks.localDirsString()


class _FinishedTasks:
    """How many tasks of a job are finished, asked again and again by a thread of its own: a driver that hangs answers
    none, and its job is to hear of that."""

    def __init__(self, count: Callable[[], int], *, until: Future[Any]) -> None:
        self.number = 0
        self._heard_at = time.monotonic()
        self._count = count
        self._until = until
        self._asking = in_thread(self._ask)

    @property
    def are_silent(self) -> bool:
        """The driver has not answered for so long that it counts as dead, or could not be asked."""
        return self._asking.done() or time.monotonic() - self._heard_at > ANSWER_TIMEOUT_SECONDS

    def _ask(self) -> None:
        while not self._until.done():
            self.number = self._count()
            self._heard_at = time.monotonic()
            wait([self._until], timeout=POLL_SECONDS)


def _end_java(gateway: Any) -> None:
    """End the JVM behind PySpark's gateway and let PySpark forget both."""
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None:
        _await_end(process, END_SECONDS)
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None


def _await_end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """The JVM ends itself, and removes its folders, when its input is closed; one that does not is killed."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


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
