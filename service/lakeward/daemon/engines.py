"""Engines for the daemon's data jobs: one Spark session for all of them, or processes of this machine for plans that
are small.

Touches: a Spark session and child processes, which start with the first job that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from lakeward.config.settings import SparkSettings
from lakeward.daemon.status import SparkState, SparkStatus
from lakeward.dispatch.dispatcher import Dispatcher, Engine
from lakeward.dispatch.engine_rule import rule_of_daemon
from lakeward.dispatch.local import LocalDispatcher, processes_of
from lakeward.dispatch.spark import SparkDispatcher


class Engines:
    def __init__(
        self, settings: SparkSettings, *, memory_bytes: int, memory_limit_bytes: int, on_replaced: Callable[[], None]
    ) -> None:
        """
        Args:
            memory_bytes: peak memory of one operation.
            memory_limit_bytes: what all operations on this machine may take.
            on_replaced: called when a session is started in the place of one that died.
        """
        remote = settings.remote.get_secret_value() if settings.remote is not None else None
        self._rule = rule_of_daemon(
            settings.local_below,
            master=settings.where,
            memory_bytes=memory_bytes,
            memory_limit_bytes=memory_limit_bytes,
        )
        # Jobs of several tables share the session; without fair scheduling one would starve the others.
        conf = {"spark.scheduler.mode": "FAIR"} | dict(settings.conf)
        self._spark = SparkDispatcher(settings.master, conf, pool=settings.pool, remote=remote, on_replaced=on_replaced)
        self._local = LocalDispatcher(processes_of(memory_bytes, limit_bytes=memory_limit_bytes))
        self._is_alive = True

    def apply(self, settings: SparkSettings) -> None:
        """What a running daemon can change."""
        self._rule = replace(self._rule, local_below=settings.local_below or 0)

    def choose(self, input_bytes: int) -> Dispatcher:
        """The dispatcher for a plan that reads so many bytes."""
        return self._spark if self._rule.choose(input_bytes).engine is Engine.SPARK else self._local

    @property
    def at_once(self) -> int:
        """How many operations of a job run at the same time; of a cluster's size nothing is known before it answers."""
        return self._spark.parallelism or os.cpu_count() or 1

    def check(self) -> None:
        """See whether the session, if there is one, still answers. One that does not is replaced by the next job."""
        self._is_alive = self._spark.is_alive()

    @property
    def status(self) -> SparkStatus:
        """The status at the last check. Waits for no answer."""
        if not self._spark.has_session:
            return SparkStatus(SparkState.NOT_STARTED, self._rule.master)
        return SparkStatus(SparkState.UP if self._is_alive else SparkState.DOWN, self._rule.master)

    def stop(self) -> None:
        self._spark.stop()
