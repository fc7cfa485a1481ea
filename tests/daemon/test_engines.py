"""Engines on which jobs run, without a Spark."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from pydantic import SecretStr

from lakeward.config.settings import SparkSettings
from lakeward.daemon.engines import Engines
from lakeward.daemon.status import SparkState
from lakeward.dispatch.local import LocalDispatcher
from lakeward.dispatch.spark import SparkDispatcher
from lakeward.errors import LakewardError

TIMEOUT_SECONDS = 30.0
MEMORY = 512 * 1024**2


def nothing() -> None:
    pass


def engines_of(**settings: Any) -> Engines:
    return engines_with(SparkSettings(**settings))


def engines_with(settings: SparkSettings) -> Engines:
    return Engines(settings, memory_bytes=MEMORY, memory_limit_bytes=MEMORY, on_replaced=nothing)


def test_small_plans_run_here_and_only_when_asked_for() -> None:
    """Spark runs everything, unless the settings name a size below which processes of this machine do, as many at once
    as have their memory within `service.memory`."""
    assert isinstance(engines_of().choose(0), SparkDispatcher)
    engines = engines_of(local_below=1000)
    assert isinstance(local := engines.choose(999), LocalDispatcher)
    assert local.name == "1 process of this machine"
    assert isinstance(engines.choose(1000), SparkDispatcher)
    assert engines.choose(1000) is engines.choose(2000), "one session for all jobs"


def test_nothing_is_started_by_being_asked() -> None:
    """Before the first job the daemon does not know the cluster; this machine's cores are the guess."""
    engines = engines_of(master="spark://elsewhere:7077")
    assert engines.at_once == (os.cpu_count() or 1)
    assert (engines.status.state, engines.status.where) == (SparkState.NOT_STARTED, "spark://elsewhere:7077")
    engines.check()
    assert engines.status.state is SparkState.NOT_STARTED
    engines.apply(SparkSettings(local_below=10))
    assert isinstance(engines.choose(9), LocalDispatcher)
    assert engines.status.where == "spark://elsewhere:7077", "a running daemon keeps its master"
    engines.stop()


def test_an_address_with_a_token_is_not_shown() -> None:
    """A Connect address may hold credentials."""
    remote = SparkSettings(remote=SecretStr("sc://cluster:15002/;token=canary"))
    assert engines_with(remote).status.where == "Spark Connect"


def test_no_caller_waits_for_a_spark_that_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop shows its state and planning asks how wide it is, while a master may take minutes to answer."""
    starting, go_on = threading.Event(), threading.Event()

    def start(self: SparkDispatcher) -> None:
        starting.set()
        go_on.wait(TIMEOUT_SECONDS)
        raise LakewardError("It did not start.")

    monkeypatch.setattr(SparkDispatcher, "_start", start)
    engines = engines_of()

    def probe() -> None:
        with pytest.raises(LakewardError):
            engines.choose(1).probe()

    job = threading.Thread(target=probe)
    job.start()
    assert starting.wait(TIMEOUT_SECONDS)
    asked: list[object] = []
    asking = threading.Thread(target=lambda: asked.extend([engines.status.state, engines.at_once]))
    asking.start()
    asking.join(TIMEOUT_SECONDS / 3)
    answered = list(asked)
    go_on.set()
    job.join(TIMEOUT_SECONDS)
    asking.join(TIMEOUT_SECONDS)

    assert answered == [SparkState.NOT_STARTED, os.cpu_count() or 1]
