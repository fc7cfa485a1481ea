"""Run the work on Spark: one spec = one task; each spec goes out as bytes and each outcome comes back as bytes.

How a session of either kind puts one spec into one task is its own (`spark_session`, `spark_connect`). No Hudi jar is
needed.

    no session --first need--> running --died--> (the jobs on it fail, `EngineLost`) --next need--> running
                                  |--stop, or no job for so long--> no session

Touches: a Spark session, started when first needed, whichever thread needs it; shared by all threads.
Keeps:   1. each spec is run by exactly one task (and by that task's retries, told apart by their attempt number);
         2. a session that was already running in this process is used and never stopped;
         3. no work begins on a session with speculation, or whose executors have other versions;
         4. what says where the work runs holds no secret, and Spark's event log none of the settings' secrets;
         5. a session whose settings leave operations less memory than they take is used, and that is said once;
         6. no session is ended under a job, and a job that comes while one is ended gets a new one.
See:     docs/decisions/0099-the-life-of-the-session.md
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from lakeward.base.clock import Clock, SystemClock
from lakeward.base.errors import EngineLost, LakewardError, Refused, TaskFailed, UsageError
from lakeward.base.kernel_process import build_missing
from lakeward.base.printable import SPARK_REDACTION, printable_url
from lakeward.engine.dispatch.dispatcher import (
    Done,
    Failure,
    Progress,
    Result,
    Spec,
    Versions,
    check_versions,
    own_versions,
)
from lakeward.engine.dispatch.java import ensure_java
from lakeward.engine.dispatch.spark_failure import mark, marked_index, what_happened
from lakeward.engine.dispatch.spark_master import check_master
from lakeward.engine.dispatch.spark_memory import SparkMemory
from lakeward.protocol.progress import Engine

if TYPE_CHECKING:
    from lakeward.engine.dispatch.spark_session import LocalSession

_LOG = logging.getLogger("lakeward.engine.dispatch")

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")

POOL = "lakeward"
END_SECONDS = 60.0
"""How long a session that is idle may take to end."""

JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms32m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
"""The driver hands out tasks and moves no rows: compiling its code twice, and collecting on all cores, was half of the
CPU that a session took; a heap that begins with a sixty-fourth of the machine, and is not given back, a third of its
memory (benchmarks/README.md). `spark.driver.extraJavaOptions` of the operator replaces all of it."""
DRIVER_HEAP = "512m"
"""The heap of such a driver on a local master, at most: Spark starts with no less. What the operator says in
`spark.driver.memory`, spark-defaults.conf or SPARK_DRIVER_MEMORY stays."""
ROW_JAVA_OPTIONS = "-XX:+UseSerialGC"
"""A local driver through whose shuffle and sort rows go: compiling twice is worth it from some million rows on (two
million were written with 22 s of CPU in place of 28), and costs nothing below."""

_LOGGING = f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}"

DEFAULT_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"{_LOGGING} {JAVA_OPTIONS}",
    # Jobs of several tables share the executors instead of queueing behind the first.
    "spark.scheduler.mode": "FAIR",
    # For the event log and whatever else Spark shows of its settings.
    "spark.redaction.regex": SPARK_REDACTION,
}


class Session(Protocol):
    """What a dispatcher needs of a running Spark, be its driver here or behind Spark Connect."""

    @property
    def parallelism(self) -> int: ...

    @property
    def ui(self) -> str:
        """The address of its pages; empty where they are off, or not known."""

    def setting(self, key: str) -> str | None: ...

    def is_alive(self) -> bool: ...

    def run_tasks(
        self,
        work: Callable[[bytes, int], bytes],
        specs: Sequence[bytes],
        *,
        description: str,
        pool: str,
        on_finished: Callable[[int], None],
    ) -> list[bytes]:
        """What `work(spec, task attempt)` gives for each spec, each in a task of its own, in any order; what
        `on_finished` raises, called with how many tasks are finished, cancels them."""

    def stop(self) -> None: ...

    def end(self, *, within: float) -> None:
        """Stops the session within so many seconds, whether it answers or not, and gives back what it took of this
        machine."""

    def forget(self) -> None: ...


class SparkDispatcher:
    """Runs work on the Spark at `master`, or behind `remote`; the session lives until it is stopped or dies."""

    def __init__(
        self,
        master: str,
        settings: Mapping[str, str] | None = None,
        *,
        memory: SparkMemory,
        pool: str = POOL,
        remote: str | None = None,
        moves_rows: bool = False,
        on_started: Callable[[float], None] = lambda seconds: None,
        on_replaced: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        """
        Args:
            memory: what the operations of the session take.
            moves_rows: whether rows go through Spark, and not operations alone.
            on_started: called with the seconds that a session took to start.
            on_replaced: called when a session is started in the place of one that died.
            clock: by which a session is idle.
        """
        self._master = master
        self._remote = remote
        of_rows = {"spark.driver.extraJavaOptions": f"{_LOGGING} {ROW_JAVA_OPTIONS}"} if moves_rows else {}
        self._settings = DEFAULT_SETTINGS | of_rows | dict(settings or {})
        self._memory = memory
        self._moves_rows = moves_rows
        self._pool = pool
        self._on_started = on_started
        self._on_replaced = on_replaced
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        """Held for as long as a session takes to start or to end."""
        self._session: Session | None = None
        self._start_failed_at: float | None = None
        self._silent: Session | None = None
        """The session that did not answer when it was last asked."""
        self._users = 0
        """Jobs that are on a session. One more is only counted under `_lock`."""
        self._users_lock = threading.Lock()
        self._used_at = self._clock.monotonic()
        self._is_probed = False
        """The caller wants to know that executors have the versions of this process, of each session."""
        self._found: list[Versions] | None = None
        """What the executors of this session answered."""

    engine = Engine.SPARK

    @property
    def name(self) -> str:
        return f"Spark {printable_url(self._remote or self._master)}"

    @property
    def is_ready(self) -> bool:
        return self.has_session

    @property
    def is_on_this_machine(self) -> bool:
        session = self._session  # without the lock: see `parallelism`
        master = self._master if session is None else session.setting("spark.master") or ""
        return self._remote is None and master.startswith("local")

    def run(
        self,
        task: Callable[[Spec, int], Result],
        specs: Sequence[Spec],
        *,
        description: str,
        on_progress: Callable[[Progress], None],
    ) -> list[Done[Result] | Failure]:
        """What `on_progress` raises cancels the job. Raises `TaskFailed`, and `EngineLost` when Spark died."""
        if not specs:
            return []
        build_missing()  # here, where it is reported; workers of this machine would each wait for it
        with self._used() as session:
            if self._is_probed:
                # It may be another one than the caller probed.
                self._probe(session, lambda: on_progress(Progress(0, len(specs))))
            return self._run_on(session, task, specs, description=description, on_progress=on_progress)

    def check(self) -> None:
        """What a session needs of this machine and of the master, before one is started. Raises `UsageError` where
        there is no fitting Java, and `EngineAway` where no master answers."""
        if self._remote is None and self._session is None:
            ensure_java()
            check_master(self._master)

    def probe(self, guard: Callable[[], None] = lambda: None) -> None:
        self._is_probed = True
        with self._used() as session:
            self._probe(session, guard)

    def _probe(self, session: Session, guard: Callable[[], None] = lambda: None) -> None:
        if (session.setting("spark.speculation") or "false").lower() == "true":
            raise _speculation()
        with self._lock:
            found = self._found if self._session is session else None
        if found is None:
            # One task a core, so that in all likelihood every executor answers at least once.
            specs = list(range(session.parallelism))
            outcomes = self._run_on(
                session, _versions, specs, description="version probe", on_progress=lambda progress: guard()
            )
            found = []
            for outcome in outcomes:
                if isinstance(outcome, Failure):
                    raise outcome.error
                found.append(outcome.result)
            with self._lock:
                if self._session is session:
                    self._found = found
        check_versions(found, own_versions())

    def driver(self) -> LocalSession:
        """The running session, for work that is no list of specs, after `probe`. Raises `UsageError` where the driver
        is behind Spark Connect."""
        if self._remote is not None:
            raise UsageError(
                "This work needs a Spark driver of this process's own.",
                why=f"{printable_url(self._remote)} is Spark Connect, where the driver is elsewhere.",
                remedy="Name a master in its place (spark.master, --master).",
            )
        self._is_probed = True
        with self._used() as session:
            self._probe(session)
        return cast("LocalSession", session)  # what is started without Connect

    def change_memory(self, memory: SparkMemory) -> None:
        """What operations take from now on. A session that runs keeps its settings, and what these lack is said."""
        changed, self._memory = memory != self._memory, memory
        session = self._session  # without the lock: see `parallelism`
        if changed and session is not None:
            self._warn(session)

    @property
    def has_session(self) -> bool:
        """Whether one was started and is not known to have died. Sends no request, and does not wait while one
        starts."""
        return self._session is not None

    @property
    def parallelism(self) -> int | None:
        """How many tasks the running session does at once; None while none runs, or starts."""
        session = self._session  # without the lock, which is held for as long as Spark takes to start
        return session.parallelism if session is not None else None

    @property
    def ui(self) -> str:
        """The address of the running session's pages; empty where none runs, or it has none."""
        session = self._session  # without the lock: see `parallelism`
        return session.ui if session is not None else ""

    def is_alive(self) -> bool:
        """Whether a session runs and answers. None that was ever started is none that died: that is True."""
        session = self._session  # without the lock: see `parallelism`
        if session is None:
            return True
        is_alive = session.is_alive()
        self._silent = None if is_alive else session
        return is_alive

    @property
    def is_down(self) -> bool:
        """Whether the session did not answer when it was last asked, or could not be started. Waits for no answer."""
        session = self._session
        return self._start_failed_at is not None if session is None else session is self._silent

    @property
    def start_failed_at(self) -> float | None:
        """When the last try to start a session failed, by the monotonic clock; None where it did not."""
        return self._start_failed_at

    def stop(self) -> None:
        with self._lock:
            session, self._session, self._found = self._session, None, None
            if session is not None:
                session.stop() if session.is_alive() else session.forget()

    def end(self, *, within: float) -> bool:
        """End the session, within so many seconds once none is being started, and give back what it took of this
        machine. False: there was none."""
        with self._lock:
            return self._end(within)

    def end_idle(self, after: float) -> bool:
        """End a session that no job has used for so many seconds. Returns whether one was ended; does not wait for one
        that is being started or ended."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            with self._users_lock:
                is_idle = not self._users and self._clock.monotonic() - self._used_at >= after
            return is_idle and self._end(END_SECONDS)
        finally:
            self._lock.release()

    def _end(self, within: float) -> bool:
        session, self._session, self._found = self._session, None, None
        if session is not None:
            session.end(within=within)
        return session is not None

    @contextmanager
    def _used(self) -> Iterator[Session]:
        """The session that runs, or a new one, which is not ended meanwhile for being idle."""
        with self._lock:
            session = self._started()
            with self._users_lock:
                self._users += 1
        try:
            yield session
        finally:
            with self._users_lock:
                self._users -= 1
                self._used_at = self._clock.monotonic()

    def _run_on(
        self,
        session: Session,
        task: Callable[[Spec, int], Result],
        specs: Sequence[Spec],
        *,
        description: str,
        on_progress: Callable[[Progress], None],
    ) -> list[Done[Result] | Failure]:
        total = len(specs)
        stopped: list[BaseException] = []

        def report(finished: int) -> None:
            try:
                on_progress(Progress(finished, total))
            except BaseException as error:
                stopped.append(error)
                raise

        try:
            pickled = [pickle.dumps((index, spec)) for index, spec in enumerate(specs)]
            answers = session.run_tasks(
                _runner(task), pickled, description=description, pool=self._pool, on_finished=report
            )
        except LakewardError:
            raise
        except Exception as error:
            if stopped:
                raise
            raise _failed(session, error, description) from error
        on_progress(Progress(total, total))
        # Pickled by our own function in our own executors: the same trust as the function that Spark ships there.
        outcomes: list[Done[Result] | Failure] = [pickle.loads(answer) for answer in answers]
        outcomes.sort(key=lambda outcome: outcome.index)
        assert [outcome.index for outcome in outcomes] == list(range(total)), "one outcome a spec"
        return outcomes

    def _started(self) -> Session:
        """The session that runs, or a new one where none does or the last one died. Under `_lock`."""
        if self._session is not None and not self._session.is_alive():
            self._session.forget()
            self._session = self._found = None
            self._on_replaced()
        if self._session is None:
            if self._settings.get("spark.speculation", "false").lower() == "true":
                raise _speculation()
            began = self._clock.monotonic()
            try:
                self._session = self._start()
            finally:
                self._start_failed_at = self._clock.monotonic() if self._session is None else None
            self._on_started(self._clock.monotonic() - began)
            self._warn(self._session)
        return self._session

    def _warn(self, session: Session) -> None:
        lacks = self._memory.shortfall(session.setting)
        if lacks is not None:
            _LOG.warning("%s", lacks)

    def _start(self) -> Session:
        # Imported late: only who runs work needs PySpark, and only who asks for it Connect.
        if self._remote is not None:
            from lakeward.engine.dispatch.spark_connect import ConnectSession

            return ConnectSession.start(self._remote, self._settings)
        self.check()
        from lakeward.engine.dispatch.spark_session import LocalSession

        heap = None if self._moves_rows else DRIVER_HEAP
        return LocalSession.start(self._master, self._settings, self._memory, heap=heap)


def _runner(task: Callable[[Spec, int], Result]) -> Callable[[bytes, int], bytes]:
    def work(pickled: bytes, task_attempt: int) -> bytes:
        index, spec = pickle.loads(pickled)
        outcome: Done[Any] | Failure
        try:
            outcome = Done(index, task(spec, task_attempt))
        except LakewardError as error:
            outcome = Failure(index, error)
        except Exception as error:
            mark(error, index)
            raise
        return pickle.dumps(outcome)

    return work


def _versions(index: int, task_attempt: int) -> Versions:
    return own_versions()


def _failed(session: Session, error: Exception, description: str) -> LakewardError:
    if not session.is_alive():
        return EngineLost(
            f"Spark died while it ran '{description}'.",
            why="Its driver process ended or no longer answers; the machine may have run out of memory.",
            remedy="Nothing was published. Run it again: a new session is started.",
        )
    return TaskFailed(
        f"The Spark job '{description}' failed.",
        why=what_happened(error),
        remedy="See the executor's log for the whole story; the table is as it was.",
        index=marked_index(error),
    )


def _speculation() -> Refused:
    return Refused(
        "spark.speculation is on.",
        why="A speculative copy of a task merges the same file slice a second time, only to be thrown away.",
        remedy="Set spark.speculation=false for this session.",
    )
