"""Work on Spark: one spec = one task."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from lakeward.base.errors import LakewardError, Refused, UsageError, VerificationFailed
from lakeward.engine.dispatch import spark as spark_module
from lakeward.engine.dispatch.dispatcher import Done, Failure, Progress, Versions
from lakeward.engine.dispatch.spark import SparkDispatcher
from tests.engine.dispatch import tasks
from tests.golden_tables import copy_golden

pytestmark = pytest.mark.interop


@pytest.fixture
def dispatcher(spark: SparkSession) -> SparkDispatcher:
    return SparkDispatcher("local[2]", memory=tasks.MEMORY)


def ignore(progress: Progress) -> None:
    pass


def test_each_spec_runs_in_a_task_of_its_own(dispatcher: SparkDispatcher) -> None:
    """n specs are n tasks of one stage, each with exactly one spec."""
    specs = [f"spec-{number}" for number in range(7)]
    outcomes = dispatcher.run(tasks.where_am_i, specs, description="test", on_progress=ignore)
    results = [outcome.result for outcome in outcomes if isinstance(outcome, Done)]
    assert [result[0] for result in results] == specs
    assert len({stage for _, stage, _, _ in results}) == 1
    assert [partition for _, _, partition, _ in results] == list(range(7))
    assert len({task for _, _, _, task in results}) == 7


def test_an_error_of_lakeward_is_an_outcome(dispatcher: SparkDispatcher) -> None:
    """It comes back as it was raised, for the spec that raised it, and is not tried again."""
    outcomes = dispatcher.run(tasks.fail_on_odd, [0, 1, 2, 3], description="test", on_progress=ignore)
    assert [type(outcome) for outcome in outcomes] == [Done, Failure, Done, Failure]
    failure = outcomes[1]
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, VerificationFailed)
    assert (failure.error.what, failure.error.why, failure.error.remedy) == ("1 is odd.", "It is not even.", "Add one.")


def test_any_other_error_fails_the_job_and_says_what_it_was(dispatcher: SparkDispatcher) -> None:
    """Spark's own retries are used up first; then the job fails with the task's message."""
    with pytest.raises(LakewardError) as error:
        dispatcher.run(tasks.break_always, [1], description="test", on_progress=ignore)
    assert "no such disk" in error.value.why
    assert error.value.exit_code == 1


def test_progress_reaches_the_total(dispatcher: SparkDispatcher) -> None:
    """The last report says that all tasks are finished."""
    seen: list[Progress] = []
    dispatcher.run(tasks.double, list(range(5)), description="test", on_progress=seen.append)
    assert seen[-1] == Progress(5, 5)


def test_nothing_to_do_starts_no_spark() -> None:
    """An empty plan asks for no session."""
    dispatcher = SparkDispatcher("no-such-master", memory=tasks.MEMORY)
    assert dispatcher.run(tasks.double, [], description="test", on_progress=ignore) == []


def test_another_version_on_an_executor_refuses(dispatcher: SparkDispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe compares what executors answer with this process."""
    dispatcher.probe()
    monkeypatch.setattr(spark_module, "own_versions", lambda: Versions("3.99", (("pyarrow", "1"),)))
    with pytest.raises(Refused, match="other versions"):
        dispatcher.probe()


def test_speculation_refuses() -> None:
    """Two copies of one task would merge a slice twice."""
    dispatcher = SparkDispatcher("local[2]", memory=tasks.MEMORY)
    # Spark does not let this setting change in a running session, so a session that has it is stood in for.
    dispatcher._session = SimpleNamespace(  # type: ignore[assignment]
        is_alive=lambda: True, setting={"spark.speculation": "True"}.get
    )
    with pytest.raises(Refused, match="speculation"):
        dispatcher.probe()


def test_a_session_that_does_not_start_says_so(tmp_path: Path) -> None:
    """A process of its own, since this one has a session, prints three sentences and no traceback."""
    command = [sys.executable, "-m", "lakeward.cli.main", "compact", str(copy_golden("v9", tmp_path / "table"))]
    done = subprocess.run(
        [*command, "--writers", "stopped", "--engine", "spark", "--spark-conf", "spark.driver.memory=nonsense"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "Spark did not start on local[*]." in done.stderr
    assert "Traceback" not in done.stderr


def test_work_that_needs_the_driver_here_is_refused_behind_connect() -> None:
    """The refusal names what to give in its place."""
    with pytest.raises(UsageError, match="Spark Connect") as error:
        SparkDispatcher("local[2]", memory=tasks.MEMORY, remote="sc://host").driver()
    assert "--master" in error.value.remedy


@pytest.mark.parametrize(
    ("master", "remote", "is_here"),
    [
        ("local[2]", None, True),
        ("local-cluster[2,1,1024]", None, True),
        ("spark://host:7077", None, False),
        ("yarn", None, False),
        ("local[2]", "sc://host", False),
    ],
)
def test_workers_of_a_local_master_see_this_machines_files(master: str, remote: str | None, is_here: bool) -> None:
    """Before a session runs its master says it, and then that of the session, which may be another one's."""
    dispatcher = SparkDispatcher(master, memory=tasks.MEMORY, remote=remote)
    assert dispatcher.is_on_this_machine is is_here
    dispatcher._session = SimpleNamespace(setting={"spark.master": "spark://other:7077"}.get)
    assert dispatcher.is_on_this_machine is False
