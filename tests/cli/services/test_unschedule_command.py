"""A pending plan of Lakeward is unscheduled by hand; everybody else's stays, and says why."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from tests.crash.compacting import check_finished, check_readable, everything
from tests.golden_tables import copy_golden
from tests.services.bench import GROUP, PENDING

STOPPED = ("--writers", "stopped", "--timezone", "UTC")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a plan of Lakeward, whose first attempt failed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return planned(copy_golden("v9", tmp_path / "table"), monkeypatch)


def planned(table: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def away(base_path: str, spec: object, attempt: int) -> None:
        raise OSError("the disk is away")

    with monkeypatch.context() as patched:
        patched.setattr("lakeward.cli.services.compact_command.run_operation_at", away)
        assert run(["compact", str(table), "--engine", "local", *STOPPED]) == 1
    return table


def instant_of(table: Path) -> str:
    (plan,) = (table / ".hoodie/timeline").glob("*.compaction.requested")
    return plan.name.partition(".")[0]


def test_a_plan_of_lakeward(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A dry run says which; then it is gone, and the table can be compacted again."""
    instant, before = instant_of(table), everything(table)
    capfd.readouterr()

    assert run(["unschedule", str(table), "--dry-run", "--timezone", "UTC"]) == 0
    assert f"Would unschedule compaction {instant}. It holds 1 file group" in capfd.readouterr().out
    assert everything(table) == before

    assert run(["unschedule", str(table), instant, *STOPPED, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["unscheduled"]["instant"], document["dry_run"]) == (instant, False)
    assert document["unscheduled"]["groups"] == [{"partition_path": GROUP[0], "file_id": GROUP[1]}]
    assert not list((table / ".hoodie/timeline").glob("*.compaction.*"))
    check_readable(table)
    assert run(["compact", str(table), "--engine", "local", *STOPPED]) == 0
    check_finished(table)


def test_nothing_of_lakeward(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """That is no failure; Hudi's plans are named."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    before = everything(table)

    assert run(["unschedule", str(table), *STOPPED]) == 0
    assert f"No plan of Lakeward is pending. Of other engines: {PENDING}." in capfd.readouterr().out
    assert run(["unschedule", str(table), *STOPPED, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"unscheduled": None, "foreign": [PENDING]}
    assert everything(table) == before


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_hudis_own_plan_stays(tmp_path: Path, dry_run: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """The error says how Hudi unschedules it."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    before = everything(table)

    assert run(["unschedule", str(table), PENDING, *STOPPED, *dry_run]) == 2

    err = capfd.readouterr().err
    assert "Another engine planned it" in err
    assert f"compaction unschedule --instant {PENDING}" in err
    assert everything(table) == before


def test_a_plan_of_hudis_that_is_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is removed by name, with no writer at work, and beside writers once it was silent for long enough."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    plan = table / ".hoodie/timeline" / f"{PENDING}.compaction.requested"
    os.utime(plan)
    shared = ("--lock", "filesystem", "--timezone", "UTC", "--foreign")
    assert run(["unschedule", str(table), *shared]) == 2
    assert "--foreign goes with an INSTANT." in capfd.readouterr().err
    assert run(["unschedule", str(table), PENDING, *shared]) == 2
    assert "it changed within rollback.silent_after" in capfd.readouterr().err
    then = time.time() - 7 * 3600
    os.utime(plan, (then, then))
    assert run(["unschedule", str(table), PENDING, *shared, "--dry-run"]) == 0
    os.utime(plan)
    assert plan.exists()
    assert run(["unschedule", str(table), PENDING, *STOPPED, "--foreign"]) == 0
    assert not plan.exists()
    check_readable(table)


def test_work_under_way_stays(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A living heartbeat means that another process is at work: try again later."""
    instant = instant_of(table)
    path = Path(heartbeat_path(str(table), instant))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (time.time() - 10, time.time() - 10))
    before = everything(table)

    assert run(["unschedule", str(table), *STOPPED]) == 75

    assert "A process is carrying it out" in capfd.readouterr().err
    assert everything(table) == before


def test_one_that_is_gone(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A plan that is gone is refused, and so is one that never was."""
    assert run(["unschedule", str(table), "20200101000000000", *STOPPED]) == 2
    assert "completed, or gone already" in capfd.readouterr().err


def test_it_needs_a_word_about_the_writers(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every command that writes needs it; a dry run does not."""
    before = everything(table)
    assert run(["unschedule", str(table)]) == 2
    assert "--writers stopped" in capfd.readouterr().err
    assert everything(table) == before
