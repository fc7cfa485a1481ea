"""Engines on which jobs run, without a Spark."""

from __future__ import annotations

import threading
from typing import Any, Literal

import pytest
import structlog
from pydantic import SecretStr
from structlog.testing import capture_logs

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError, UsageError
from lakeward.config.settings import ServiceSettings, Settings, SparkSettings
from lakeward.daemon import engines as engines_module
from lakeward.daemon.engines import START_AGAIN_SECONDS, Engines
from lakeward.daemon.status import SparkState
from lakeward.engine.dispatch import machine
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.engine.dispatch.engine_rule import DAEMON_SPARK_BYTES, DAEMON_SPARK_UP_BYTES
from lakeward.engine.dispatch.local import LocalDispatcher
from lakeward.engine.dispatch.spark import SparkDispatcher
from tests.clocks import SettableClock
from tests.engine.dispatch.fake_session import FakeSession

TIMEOUT_SECONDS = 30.0
MEMORY = 512 * 1024**2

Engine = Literal["auto", "spark", "local"]


def nothing() -> None:
    pass


def settings_with(memory_limit: int = MEMORY, *, engine: Engine = "auto", **spark: Any) -> Settings:
    return Settings(spark=SparkSettings(**spark), service=ServiceSettings(memory=memory_limit, engine=engine))


def engines_of(*, clock: Clock | None = None, engine: Engine = "auto", **spark: Any) -> Engines:
    log = structlog.stdlib.get_logger("test")
    return Engines(settings_with(engine=engine, **spark), on_replaced=nothing, clock=clock or SettableClock(), log=log)


def choose(engines: Engines, input_bytes: int, *, memory_bytes: int = MEMORY) -> Dispatcher:
    return engines.choose(input_bytes, memory_bytes=memory_bytes, permit_bytes=MEMORY)


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Java, whatever this one has."""
    monkeypatch.setattr(engines_module, "find_missing_java", lambda: None)


def test_the_size_decides_unless_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the rule of engine/dispatch/engine_rule; processes are as many at once as have their memory within
    `service.memory`. While a session is up, smaller jobs go there."""
    engines = engines_of()
    assert isinstance(choose(engines, 0), LocalDispatcher)
    assert isinstance(local := choose(engines, DAEMON_SPARK_BYTES - 1), LocalDispatcher)
    assert local.name == "1 process of this machine"
    spark = choose(engines, DAEMON_SPARK_BYTES)
    assert isinstance(spark, SparkDispatcher)
    assert choose(engines, DAEMON_SPARK_BYTES + 1) is spark, "one session for all jobs"
    assert isinstance(choose(engines_of(master="local[*]"), 0), SparkDispatcher)
    assert isinstance(choose(engines_of(engine="spark"), 0), SparkDispatcher)
    assert isinstance(choose(engines_of(engine="local", master="yarn"), 2**40), LocalDispatcher)
    monkeypatch.setattr(SparkDispatcher, "has_session", True)
    assert isinstance(choose(engines, DAEMON_SPARK_UP_BYTES - 1), LocalDispatcher)
    assert choose(engines, DAEMON_SPARK_UP_BYTES) is spark


def test_without_java_work_runs_here_and_that_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy, and without anything started; a reload that leaves it as it is says nothing."""
    missing = UsageError("No Java 17 or newer was found.", why="Spark runs on it.", remedy="Install a Java runtime.")
    monkeypatch.setattr(engines_module, "find_missing_java", lambda: missing)
    with capture_logs() as logged:
        engines = engines_of()
        assert isinstance(choose(engines, 2**40), LocalDispatcher)
        engines.apply(settings_with())
        sentence = engines.status.where_work_runs
        # Java is not missed where Spark is not meant; where it is meant by name its jobs end with that error.
        engines_of(engine="local")
        engines_of(master="spark://elsewhere:7077")
    assert sentence.startswith("All jobs run in processes of this machine, since Spark cannot start: No Java 17")
    assert logged == [
        {
            "event": "all jobs run in processes of this machine, since Spark cannot start",
            "log_level": "warning",
            "why": "No Java 17 or newer was found. Spark runs on it.",
            "remedy": "Install a Java runtime.",
        }
    ]


def test_a_spark_that_does_not_start_holds_no_job_up_that_can_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """No operator asked for Spark by name: the job that met it fails once, and until ten minutes are over jobs run in
    processes. Then a large one tries again."""

    def start(self: SparkDispatcher) -> None:
        raise LakewardError("It did not start.")

    monkeypatch.setattr(SparkDispatcher, "_start", start)
    clock = SettableClock()
    for named in ({}, {"master": "local[*]"}):
        engines = engines_of(clock=clock, **named)
        with pytest.raises(LakewardError):
            choose(engines, DAEMON_SPARK_BYTES).probe()
        clock.sleep(START_AGAIN_SECONDS - 1)
        assert isinstance(choose(engines, 2**40), SparkDispatcher if named else LocalDispatcher)
        assert engines.status.state is SparkState.DOWN
        if not named:
            assert engines.status.where_work_runs == (
                "All jobs run in processes of this machine, since Spark cannot start: its last try failed, and the log "
                "says why."
            )
        clock.sleep(1.0)
        assert isinstance(choose(engines, DAEMON_SPARK_BYTES), SparkDispatcher)


def test_jobs_of_all_tables_share_what_operations_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever one of their operations takes, and whatever the limit is now. Keeps of daemon/engines."""
    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setattr(machine, "memory_bytes", lambda: 6 * MEMORY)
    engines = engines_of(memory_limit=4 * MEMORY)
    first, second = choose(engines, 1), choose(engines, 1, memory_bytes=2 * MEMORY)
    assert isinstance(first, LocalDispatcher)
    assert isinstance(second, LocalDispatcher)
    assert first._places is second._places
    assert [engines.at_once(1, memory) for memory in (MEMORY, 2 * MEMORY)] == [4, 2]
    engines.apply(settings_with(memory_limit=100 * MEMORY))
    assert [engines.at_once(1, memory) for memory in (MEMORY, 2 * MEMORY)] == [6, 3], "the machine has no more"


def test_nothing_is_started_by_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first job the daemon does not know the cluster; this machine's cores are the guess. Of a master here
    it knows what has memory."""
    monkeypatch.setattr(machine, "cores", lambda: 8)
    engines = engines_of(master="spark://elsewhere:7077")
    assert engines.at_once(1, MEMORY) == 8
    assert engines_of(master="local[*]").at_once(1, MEMORY) == 1
    assert (engines.status.state, engines.status.where) == (SparkState.NOT_STARTED, "spark://elsewhere:7077")
    engines.check()
    assert engines.status.state is SparkState.NOT_STARTED
    engines.apply(settings_with(engine="local"))
    assert isinstance(choose(engines, 9), LocalDispatcher)
    engines.apply(settings_with())
    assert isinstance(choose(engines, 9), SparkDispatcher), "a running daemon keeps its master"
    assert engines.status.where == "spark://elsewhere:7077"
    engines.stop(within=1.0)


def test_an_address_with_a_token_is_not_shown() -> None:
    """A Connect address may hold credentials."""
    engines = engines_of(remote=SecretStr("sc://cluster:15002/;token=canary"))
    assert engines.status.where == "Spark Connect"


def test_no_caller_waits_for_a_spark_that_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop shows its state and planning asks how wide it is, while a master may take minutes to answer."""
    starting, go_on = threading.Event(), threading.Event()

    def start(self: SparkDispatcher) -> None:
        starting.set()
        go_on.wait(TIMEOUT_SECONDS)
        raise LakewardError("It did not start.")

    monkeypatch.setattr(SparkDispatcher, "_start", start)
    engines = engines_of(master="local[*]")

    def probe() -> None:
        with pytest.raises(LakewardError):
            choose(engines, 1).probe()

    job = threading.Thread(target=probe)
    job.start()
    assert starting.wait(TIMEOUT_SECONDS)
    asked: list[object] = []
    asking = threading.Thread(target=lambda: asked.extend([engines.status.state, engines.at_once(1, MEMORY)]))
    asking.start()
    asking.join(TIMEOUT_SECONDS / 3)
    answered = list(asked)
    go_on.set()
    job.join(TIMEOUT_SECONDS)
    asking.join(TIMEOUT_SECONDS)

    assert answered == [SparkState.NOT_STARTED, 1]
    assert engines.status.state is SparkState.DOWN, "it did not start"


def test_the_session_of_an_idle_daemon_is_ended_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is up from the first job on, and not started again when `IDLE_SECONDS` is over; the log has one line for
    each start and each end. Keeps 2, 3 of daemon/engines."""
    sessions = [FakeSession() for _ in range(3)]
    clock, coming = SettableClock(1000.0), iter(sessions)

    def start(self: SparkDispatcher) -> FakeSession:
        clock.sleep(8.0)
        return next(coming)

    monkeypatch.setattr(SparkDispatcher, "_start", start)
    engines = engines_of(clock=clock, master="local[2]")
    states = [engines.status.state]

    def look() -> None:
        engines.check()
        states.append(engines.status.state)

    with capture_logs() as log:
        choose(engines, 1).probe()
        look()
        clock.sleep(599.0)
        look()
        clock.sleep(1.0)
        look()
        look()
        choose(engines, 1).probe()
        sessions[1].is_answering = False
        look()
        choose(engines, 1).probe()
        states.append(engines.status.state)
        engines.stop(within=1.0)
        engines.stop(within=1.0)
    states.append(engines.status.state)
    up, down, not_started = SparkState.UP, SparkState.DOWN, SparkState.NOT_STARTED
    assert states == [not_started, up, up, not_started, not_started, down, up, not_started]
    said = {"where": "local[2]", "log_level": "info"}
    started, ended = (
        {"event": "Spark session started", "seconds": 8.0, **said},
        {"event": "Spark session ended", **said},
    )
    died = {"event": "Spark session died, or did not answer", "where": "local[2]", "log_level": "warning"}
    assert log == [started, {**ended, "idle_seconds": 600.0}, started, died, started, ended]
