"""Run the work on Spark: one spec = one task, through the DataFrame API.

`spark.range(0, n, 1, numPartitions=n)` puts the number i into partition i and nothing else, and `mapInArrow` runs
the task there; a repartitioned DataFrame would spread n rows over n partitions at random. Specs travel inside the
function. Results come back as rows. No Hudi jar is needed.

Touches: a Spark session, started when first needed.
Keeps:   1. each spec is run by exactly one task (and by that task's retries, told apart by their attempt number);
         2. a session that was already running in this process is used and never stopped.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakeward.dispatch.dispatcher import (
    Done,
    Failure,
    Progress,
    Result,
    Spec,
    Versions,
    check_versions,
    own_versions,
)
from lakeward.dispatch.java import ensure_java
from lakeward.errors import LakewardError, Refused

POLL_SECONDS = 0.25
OUTCOME_COLUMNS = "index long, outcome binary"

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")

DEFAULT_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}",
    # A task's reply is one small row; a batch of its input is one number.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
}


class SparkDispatcher:
    """Runs work on the Spark at `master`; the session lives until `stop`."""

    def __init__(self, master: str, settings: Mapping[str, str] | None = None) -> None:
        self._master = master
        self._settings = DEFAULT_SETTINGS | dict(settings or {})
        self._session: SparkSession | None = None
        self._is_ours = False

    @property
    def name(self) -> str:
        return f"Spark {self._master}"

    def run(
        self,
        task: Callable[[Spec, int], Result],
        specs: Sequence[Spec],
        *,
        description: str,
        on_progress: Callable[[Progress], None],
    ) -> list[Done[Result] | Failure]:
        if not specs:
            return []
        total = len(specs)
        frame = (
            self._started()
            .range(0, total, 1, numPartitions=total)
            .mapInArrow(_runner(task, list(specs)), OUTCOME_COLUMNS)
        )
        rows = self._collect(frame, description, lambda finished: on_progress(Progress(finished, total)))
        # Pickled by our own function in our own executors: the same trust as the function that Spark ships there.
        outcomes: list[Done[Result] | Failure] = [pickle.loads(row["outcome"]) for row in rows]
        outcomes.sort(key=lambda outcome: outcome.index)
        assert [outcome.index for outcome in outcomes] == list(range(total)), "one outcome a spec"
        return outcomes

    def probe(self) -> None:
        session = self._started()
        if session.conf.get("spark.speculation", "false") == "true":
            raise Refused(
                "spark.speculation is on.",
                why="A speculative copy of a task merges the same file slice a second time, only to be thrown away.",
                remedy="Set spark.speculation=false for this session.",
            )
        # One task a core, so that in all likelihood every executor answers at least once.
        specs = list(range(max(1, session.sparkContext.defaultParallelism)))
        outcomes = self.run(_versions, specs, description="version probe", on_progress=lambda progress: None)
        found = []
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                raise outcome.error
            found.append(outcome.result)
        check_versions(found, own_versions())

    def stop(self) -> None:
        if self._session is not None and self._is_ours:
            self._session.stop()
        self._session = None

    def _started(self) -> SparkSession:
        if self._session is None:
            ensure_java()
            running = SparkSession.getActiveSession()
            self._is_ours = running is None
            self._session = running or self._start()
        return self._session

    def _start(self) -> SparkSession:
        if self._master.startswith("local"):
            # Workers of a local master are children of this process: the same interpreter, the same packages.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master(self._master).appName("lakeward")
        for key, value in self._settings.items():
            builder = builder.config(key, value)
        try:
            return builder.getOrCreate()
        except PySparkException as error:
            raise LakewardError(
                f"Spark did not start on {self._master}.",
                why=f"{_what_happened(error)} What Java said stands above.",
                remedy="Check --master, --spark-conf and JAVA_HOME; the table is as it was.",
            ) from error

    def _collect(self, frame: DataFrame, description: str, on_finished: Callable[[int], None]) -> list[Any]:
        """The rows of `frame`, while saying how many of its tasks are finished."""
        context = frame.sparkSession.sparkContext
        group = f"lakeward-{uuid.uuid4()}"

        def collect() -> list[Any]:
            context.setJobGroup(group, description, interruptOnCancel=True)
            return frame.collect()

        with ThreadPoolExecutor(1, thread_name_prefix="lakeward-spark") as pool:
            rows: Future[list[Any]] = pool.submit(collect)
            try:
                while not rows.done():
                    wait([rows], timeout=POLL_SECONDS)
                    on_finished(_finished_tasks(context.statusTracker(), group))
            except BaseException:
                context.cancelJobGroup(group)
                raise
            try:
                return rows.result()
            except Exception as error:
                raise LakewardError(
                    f"The Spark job '{description}' failed.",
                    why=_what_happened(error),
                    remedy="See the executor's log for the whole story; the table is as it was.",
                ) from error


def _runner(
    task: Callable[[Spec, int], Result], specs: list[Spec]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs inside a Spark task"
        for batch in batches:
            for index in batch.column(0).to_pylist():
                outcome: Done[Any] | Failure
                try:
                    outcome = Done(index, task(specs[index], context.attemptNumber()))
                except LakewardError as error:
                    outcome = Failure(index, error)
                yield pa.RecordBatch.from_pydict(
                    {"index": pa.array([index], pa.int64()), "outcome": pa.array([pickle.dumps(outcome)], pa.binary())}
                )

    return run


def _versions(index: int, task_attempt: int) -> Versions:
    return own_versions()


def _finished_tasks(tracker: Any, group: str) -> int:
    finished = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            stage_info = tracker.getStageInfo(stage)
            finished += stage_info.numCompletedTasks if stage_info is not None else 0
    return finished


def _what_happened(error: Exception) -> str:
    """The line of a Spark exception that says what happened: the last of the Python traceback in it, if any."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if _EXCEPTION_LINE.match(line)]
    return (python[-1] if python else lines[0] if lines else type(error).__name__)[:500]


_EXCEPTION_LINE = re.compile(r"(?!org\.|java\.|at |Caused by)[A-Za-z_.]*(Error|Exception)\b")
