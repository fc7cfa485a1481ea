"""A Spark session behind Spark Connect (`sc://host`): the driver is a server elsewhere, this process has no JVM.

Needs the extra `connect`. How many tasks of a job are finished cannot be asked there, so progress is known only from
what the tasks leave on storage; cancelling works by the job's tag.

Touches: the server, over gRPC.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

from lakeward.dispatch.spark_failure import what_happened
from lakeward.dispatch.spark_session import (
    ANSWER_TIMEOUT_SECONDS,
    POLL_SECONDS,
    answered,
    cancel_until_done,
    in_thread,
)
from lakeward.errors import LakewardError, UsageError
from lakeward.printable import encodings, printable, printable_url, secrets_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROBES = 8
"""Tasks of a version probe: how many executors the server has cannot be asked."""


class ConnectSession:
    """A session on a Connect server."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @classmethod
    def start(cls, remote: str, settings: Mapping[str, str]) -> ConnectSession:
        """Settings that only the start of a driver takes are left. Raises `LakewardError` when no server answers."""
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
            for key, value in settings.items():
                if session.conf.isModifiable(key):
                    session.conf.set(key, value)
        except Exception as error:
            raise LakewardError(
                f"Spark Connect does not answer at {printable_url(remote)}.",
                why=printable(what_happened(error), encodings(secrets_in(remote))),
                remedy="Check spark.remote and the server; the table is as it was.",
            ) from error
        return cls(session)

    @property
    def parallelism(self) -> int:
        return PROBES

    def setting(self, key: str) -> str | None:
        value = self._session.conf.get(key, None)
        return None if value is None else str(value)

    def tasks(self, number: int) -> DataFrame:
        frame: DataFrame = self._session.range(0, number, 1, numPartitions=number)
        return frame

    def is_alive(self) -> bool:
        try:
            return bool(answered(lambda: self._session.version, ANSWER_TIMEOUT_SECONDS))
        except Exception:
            return False  # whatever gRPC says, it is not an answer

    def collect(
        self, frame: DataFrame, *, description: str, pool: str, on_finished: Callable[[int], None]
    ) -> list[Any]:
        """The rows of `frame`. What `on_finished` raises cancels the job."""
        tag = f"lakeward-{uuid.uuid4()}"

        def collect() -> list[Any]:
            # Tags belong to the thread that submits the job; this one does nothing else.
            self._session.addTag(tag)
            return frame.collect()

        rows = in_thread(collect)
        try:
            while not rows.done():
                wait([rows], timeout=POLL_SECONDS)
                on_finished(0)
        except BaseException:
            cancel_until_done(lambda: self._session.interruptTag(tag), rows)
            raise
        return rows.result()

    def stop(self) -> None:
        self._session.stop()

    def forget(self) -> None:
        """A session that does not answer leaves nothing in this process that a new one would meet."""
