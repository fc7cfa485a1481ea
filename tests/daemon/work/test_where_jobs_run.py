"""The engines of a daemon with default settings, by what its jobs read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from lakeward.config.job_summary import summarise_job
from lakeward.daemon import engines as engines_module
from lakeward.daemon import served_table
from lakeward.daemon.engines import Engines
from lakeward.daemon.scheduling.schedule import Schedule
from lakeward.engine.dispatch import engine_rule
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.local import LocalDispatcher
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.protocol.progress import Engine
from tests.daemon.serving import InProcess, Serving
from tests.golden_tables import copy_golden


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Engine]]:
    """What ran on which engine; all of it does in this process."""
    ran: list[tuple[str, Engine]] = []

    def running(engine: Engine) -> Callable[..., Any]:
        def run(self: object, task: Any, specs: Any, *, description: str, on_progress: Any) -> Any:
            ran.append((description.partition(" ")[0], engine))
            return InProcessDispatcher().run(task, specs, description=description, on_progress=on_progress)

        return run

    monkeypatch.setattr(SparkDispatcher, "run", running(Engine.SPARK))
    monkeypatch.setattr(SparkDispatcher, "probe", lambda self, *_, **__: None)
    monkeypatch.setattr(LocalDispatcher, "run", running(Engine.LOCAL))
    monkeypatch.setattr(engines_module, "find_missing_java", lambda: None)
    return ran


@pytest.mark.parametrize(("bound", "engine"), [(None, Engine.LOCAL), (1, Engine.SPARK)])
def test_a_large_job_is_a_spark_job_and_a_small_one_is_not(
    bound: int | None,
    engine: Engine,
    ran: list[tuple[str, Engine]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table of the test takes the bound's place of a large one. The job's figures and the metric say where it
    ran, as pages and commands show it."""
    table = copy_golden("v9", tmp_path / "tables/orders")
    if bound is not None:
        monkeypatch.setattr(engine_rule, "DAEMON_SPARK_BYTES", bound)
    monkeypatch.setattr(served_table, "Schedule", partial(Schedule, verification_interval=60.0))
    serving = Serving(tmp_path / "tables", tmp_path / "state")
    log = structlog.stdlib.get_logger("test")
    engines = Engines(serving.settings, on_replaced=lambda: None, clock=serving.clock, log=log)
    monkeypatch.setattr(InProcess, "choose", lambda self, size, **limits: engines.choose(size, **limits))

    serving.run(180)

    assert {what for what, _ in ran} >= {"compaction", "verification"}
    assert {each for _, each in ran} == {engine}
    assert serving.sample("lakeward_engine_plans_total", table="orders", engine=engine.value) == 1
    done = {job.service: job for job in serving.store.jobs.latest(str(table)) if job.result == "committed"}
    for service in ("compaction", "verification"):
        assert ("on Spark" in summarise_job(done[service].figures)) == (engine is Engine.SPARK)
