"""Engines for the daemon's data jobs: one Spark session for all of them, or processes of this machine for those that
are small (`engine/dispatch/engine_rule`).

Touches: a Spark session and child processes, which start with the first job that needs them; the log.
Keeps:   1. operations of all jobs in processes of this machine, and of a master here whose size is not said, take no
            more memory together than `service.memory`, nor more than the machine has; one by itself may;
         2. a session that no job has used for `IDLE_SECONDS` is ended, and its memory given back;
         3. what pages, metrics and readiness say of the session is one value, `status`.
See:     docs/decisions/0099-the-life-of-the-session.md
"""

from __future__ import annotations

from collections.abc import Callable

from structlog.stdlib import BoundLogger

from lakeward.base.clock import Clock
from lakeward.config.settings import Settings
from lakeward.daemon.status import SparkState, SparkStatus
from lakeward.engine.dispatch import machine
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.engine.dispatch.engine_rule import EngineRule, EngineSetting, rule_of_daemon
from lakeward.engine.dispatch.java import find_missing_java
from lakeward.engine.dispatch.local import LocalDispatcher, places_of_machine
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.engine.dispatch.spark_memory import SparkMemory
from lakeward.protocol.progress import Engine

IDLE_SECONDS = 600.0
"""A session costs tens of seconds to start, and some GB while it is up."""

START_AGAIN_SECONDS = 600.0
"""How long jobs that need not run on Spark do without it once it did not start."""


class Engines:
    def __init__(self, settings: Settings, *, on_replaced: Callable[[], None], clock: Clock, log: BoundLogger) -> None:
        """
        Args:
            on_replaced: called when a session is started in the place of one that died.
        """
        spark = settings.spark
        remote = spark.remote.get_secret_value() if spark.remote is not None else None
        self._where, self._is_named = spark.where, spark.is_named
        self._has_master_here = remote is None and spark.master.startswith("local")
        self._settings = settings
        self._on_replaced = on_replaced
        self._clock = clock
        self._log = log
        self._places = places_of_machine(settings.service.memory)
        # Jobs of several tables share the session; without fair scheduling one would starve the others.
        conf = {"spark.scheduler.mode": "FAIR"} | dict(spark.conf)
        self._spark = SparkDispatcher(
            spark.master,
            conf,
            memory=SparkMemory.on(self._places, settings.memory_max),
            remote=remote,
            on_started=self._started,
            on_replaced=self._replaced,
            clock=clock,
        )
        self._has_warned = False
        self._warn_without_java()

    def apply(self, settings: Settings) -> None:
        """What a running daemon can change. Its session keeps the master and the settings that it started with."""
        self._settings = settings
        self._places.resize(places_of_machine(settings.service.memory).memory_bytes)
        self._spark.change_memory(SparkMemory.on(self._places, settings.memory_max))
        self._warn_without_java()

    def choose(self, input_bytes: int, *, memory_bytes: int, permit_bytes: int) -> Dispatcher:
        """The dispatcher for a plan that reads so many bytes.

        Args:
            memory_bytes: peak memory of one operation.
            permit_bytes: what the job may take on this machine, all its operations together.
        """
        if self._engine(input_bytes, memory_bytes) is Engine.SPARK:
            return self._spark
        return self.here(memory_bytes=memory_bytes, permit_bytes=permit_bytes)

    def here(self, *, memory_bytes: int, permit_bytes: int) -> LocalDispatcher:
        """Processes of this machine."""
        return LocalDispatcher(self._places, memory_bytes=memory_bytes, permit_bytes=permit_bytes)

    def at_once(self, input_bytes: int, memory_bytes: int) -> int:
        """How many operations of such a job run at the same time; of a cluster's size nothing is known before it
        answers."""
        here = self._places.at_once(memory_bytes)
        if self._engine(input_bytes, memory_bytes) is Engine.LOCAL:
            return here
        return self._spark.parallelism or (here if self._has_master_here else machine.cores())

    def _engine(self, input_bytes: int, memory_bytes: int) -> Engine:
        return self._rule(memory_bytes).choose(input_bytes, is_up=self._spark.has_session).engine

    def _rule(self, memory_bytes: int) -> EngineRule:
        return rule_of_daemon(
            EngineSetting(self._settings.service.engine),
            master=self._where,
            is_named=self._is_named,
            why_no_spark=self._why_no_spark(),
            memory_bytes=memory_bytes,
            memory_limit_bytes=self._settings.service.memory,
        )

    def _why_no_spark(self) -> str | None:
        missing = find_missing_java()
        if missing is not None:
            return missing.what
        failed_at = self._spark.start_failed_at
        if failed_at is not None and self._clock.monotonic() - failed_at < START_AGAIN_SECONDS:
            return "its last try failed, and the log says why"
        return None

    def _warn_without_java(self) -> None:
        """Say that Spark was meant for large jobs, and cannot start; once."""
        missing = find_missing_java()
        if self._has_warned or missing is None or self._is_named:
            return
        if self._settings.service.engine == "auto":
            self._has_warned = True
            self._log.warning(
                "all jobs run in processes of this machine, since Spark cannot start",
                why=f"{missing.what} {missing.why}",
                remedy=missing.remedy,
            )

    def check(self) -> None:
        """End the session, if there is one that is idle, or see whether it still answers. One that does not is replaced
        by the next job."""
        if self._spark.end_idle(IDLE_SECONDS):
            self._log.info("Spark session ended", where=self._where, idle_seconds=IDLE_SECONDS)
        else:
            self._spark.is_alive()

    @property
    def status(self) -> SparkStatus:
        """The status at the last check. Waits for no answer."""
        state = SparkState.UP if self._spark.has_session else SparkState.NOT_STARTED
        if self._spark.is_down:
            state = SparkState.DOWN
        rule = self._rule(self._settings.defaults.memory)
        return SparkStatus(state, self._where, self._spark.ui, rule.where_work_runs)

    def stop(self, *, within: float) -> None:
        """End the session, within so many seconds once none is being started."""
        if self._spark.end(within=within):
            self._log.info("Spark session ended", where=self._where)

    def _started(self, seconds: float) -> None:
        self._log.info("Spark session started", where=self._where, seconds=round(seconds, 1))

    def _replaced(self) -> None:
        self._log.warning("Spark session died, or did not answer", where=self._where)
        self._on_replaced()
