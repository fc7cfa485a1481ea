"""A Spark session behind Spark Connect (`sc://host`): the driver is a server elsewhere, this process has no JVM.

Needs the extra `connect`. How many tasks of a job are finished cannot be asked there, so progress is known only from
what the tasks leave on storage; cancelling works by the job's tag.

There is no RDD there. `range(0, n, 1, numPartitions=n)` puts the number i into partition i and nothing else, and
`mapInArrow` runs the task there; a repartitioned DataFrame would spread n rows over n partitions at random. Specs
travel inside the function.

Touches: the server, over gRPC.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lakeward.base.errors import EngineAway, UsageError
from lakeward.base.printable import encodings, printable, printable_url, secrets_in
from lakeward.base.without_pandas import allow_pandas
from lakeward.engine.dispatch.spark_failure import what_happened
from lakeward.engine.dispatch.spark_session import (
    ANSWER_TIMEOUT_SECONDS,
    POLL_SECONDS,
    answered,
    cancel_until_done,
    in_thread,
)

if TYPE_CHECKING:
    import pyarrow as pa

ANSWER_COLUMNS = "answer binary"
PROBES = 8
"""Tasks of a version probe: how many executors the server has cannot be asked."""


class ConnectSession:
    """A session on a Connect server."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @classmethod
    def start(cls, remote: str, settings: Mapping[str, str]) -> ConnectSession:
        """Settings that only the start of a driver takes are left. Raises `EngineAway`."""
        allow_pandas()
        try:
            from pyspark.sql.connect.session import SparkSession
        except ImportError as error:
            raise UsageError(
                "Spark Connect is not installed.",
                why=f"{error}.",
                remedy="Install the extra that brings it: pip install 'lakeward[connect]'.",
            ) from error
        try:
            # The builder of `pyspark.sql` would turn the whole process to Connect by an environment variable.
            session = SparkSession.builder.remote(remote).getOrCreate()
            # A task's answer is one small row; a batch of its input is one number.
            for key, value in {"spark.sql.execution.arrow.maxRecordsPerBatch": "1", **settings}.items():
                if session.conf.isModifiable(key):
                    session.conf.set(key, value)
        except Exception as error:
            raise EngineAway(
                f"Spark Connect does not answer at {printable_url(remote)}.",
                why=printable(what_happened(error), encodings(secrets_in(remote))),
                remedy="Check spark.remote and the server; the table is as it was.",
            ) from error
        return cls(session)

    @property
    def parallelism(self) -> int:
        return PROBES

    @property
    def ui(self) -> str:
        return ""  # the address of its pages is not known behind Connect

    def setting(self, key: str) -> str | None:
        value = self._session.conf.get(key, None)
        return None if value is None else str(value)

    def is_alive(self) -> bool:
        try:
            return bool(answered(lambda: self._session.version, ANSWER_TIMEOUT_SECONDS))
        except Exception:
            return False  # whatever gRPC says, it is not an answer

    def run_tasks(
        self,
        work: Callable[[bytes, int], bytes],
        specs: Sequence[bytes],
        *,
        description: str,
        pool: str,
        on_finished: Callable[[int], None],
    ) -> list[bytes]:
        """What `work` gives for each spec. What `on_finished` raises cancels the job."""
        tag = f"lakeward-{uuid.uuid4()}"
        numbers = self._session.range(0, len(specs), 1, numPartitions=len(specs))
        frame = numbers.mapInArrow(_in_batches(work, list(specs)), ANSWER_COLUMNS)

        def collect() -> list[bytes]:
            # Tags belong to the thread that submits the job; this one does nothing else.
            self._session.addTag(tag)
            return [bytes(row["answer"]) for row in frame.collect()]

        answers = in_thread(collect)
        try:
            while not answers.done():
                wait([answers], timeout=POLL_SECONDS)
                on_finished(0)
        except BaseException:
            cancel_until_done(lambda: self._session.interruptTag(tag), answers)
            raise
        return answers.result()

    def stop(self) -> None:
        self._session.stop()

    def end(self, *, within: float) -> None:
        with suppress(Exception):  # as in `is_alive`; what is left there is the server's
            answered(self.stop, within)

    def forget(self) -> None:
        """A session that does not answer leaves nothing in this process that a new one would meet."""


def _in_batches(
    work: Callable[[bytes, int], bytes], specs: list[bytes]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "runs inside a Spark task"
        for batch in batches:
            for index in batch.column(0).to_pylist():
                answer = work(specs[index], context.attemptNumber())
                yield pa.RecordBatch.from_pydict({"answer": pa.array([answer], pa.binary())})

    return run
