"""Failed writes are rolled back by hand; what stays is reported with its reason."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.services.bench import PENDING
from tests.services.rollback.run.failed_tables import fail_last_write

STOPPED = ("--writers", "stopped", "--timezone", "UTC")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a plan of Hudi's that is pending, too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_golden("v9", tmp_path / "table", pending=True)


def test_what_failed_is_rolled_back(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A dry run says what, file by file, and what stays; then it is gone."""
    instant = fail_last_write(table)
    (log,) = [path.name for path in (table / "p").iterdir() if instant in path.name]
    before = everything(table)
    assert run(["rollback", str(table), "--dry-run", "--timezone", "UTC"]) == 0
    out = capfd.readouterr().out
    assert f"Would roll back deltacommit {instant}, because" in out and f"  p  {log}\n" in out
    assert f"Left: compaction {PENDING}: it was planned and not begun: `lakeward compact` carries it out" in out
    assert everything(table) == before

    assert run(["rollback", str(table), *STOPPED, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    (done,) = document["rolled_back"]
    assert (done["instant"], done["action"], done["reason"]) == (instant, "deltacommit", "writers-stopped")
    assert (done["files"], done["was_begun"]) == ([{"partition_path": "p", "name": log}], False)
    assert [(each["instant"], each["reason"]) for each in document["left"]] == [(PENDING, "waiting")]
    assert [path for path in everything(table) if instant in path] == []
    assert run(["rollback", str(table), *STOPPED]) == 0
    assert "No failed write is to be rolled back, and no service" in capfd.readouterr().out


def test_one_is_named(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Another one stays."""
    instants = [fail_last_write(table), fail_last_write(table)]
    assert run(["rollback", str(table), instants[0], *STOPPED]) == 0
    assert f"Rolled back deltacommit {instants[0]} by rollback " in capfd.readouterr().out
    assert [path for path in everything(table) if instants[0] in path] == []
    assert [path for path in everything(table) if instants[1] in path] != []


@pytest.mark.parametrize(
    ("which", "code", "words"),
    [
        ("live", 75, "Its process is at work"),
        ("completed", 2, "is completed, and is not rolled back"),
        ("plan", 2, "`lakeward compact` carries it out"),
        ("unknown", 2, "Nothing is pending at 20200101000000000"),
    ],
)
def test_what_is_not_rolled_back(
    table: Path, capfd: pytest.CaptureFixture[str], which: str, code: int, words: str
) -> None:
    """It says why, and writes nothing."""
    failed = fail_last_write(table)
    instants = {"live": failed, "completed": "20261121043706178", "plan": PENDING, "unknown": "20200101000000000"}
    if which == "live":
        (table / ".hoodie/.heartbeat").mkdir(exist_ok=True)
        Path(heartbeat_path(str(table), failed)).touch()
    before = everything(table)
    assert run(["rollback", str(table), instants[which], *STOPPED]) == code
    assert words in capfd.readouterr().err
    assert everything(table) == before


def test_a_dry_run_says_what_ends_a_clean(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A rollback does not; to ask for one is refused with the same words."""
    (table / ".hoodie/timeline/20261121235959000.clean.requested").write_bytes(b"x")
    before = everything(table)
    for arguments, code in ((["--dry-run"], 0), ([], 2)):
        assert run(["rollback", str(table), "20261121235959000", *arguments, *STOPPED]) == code
        shown = capfd.readouterr()
        assert "the next clean ends it, `lakeward clean` or the daemon's" in shown.out + shown.err
    assert everything(table) == before


def test_without_a_word_about_writers_nothing_is_written(table: Path) -> None:
    """That no writer is seen proves nothing."""
    fail_last_write(table)
    before = everything(table)
    assert run(["rollback", str(table)]) == 2
    assert everything(table) == before


def test_a_rollback_that_is_named_by_its_write(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One that is pending already is ended, whichever of the two is named."""
    from lakeward.format.timeline.rollback_plan import RollbackPlan, encode_rollback_plan

    instant, rollback = fail_last_write(table), "20261121235959000"
    names = tuple(path.name for path in (table / "p").iterdir() if instant in path.name)
    plan = encode_rollback_plan(RollbackPlan(instant, "deltacommit", {"p": names}), base_path=str(table))
    file = table / ".hoodie/timeline" / f"{rollback}.rollback.requested"
    file.write_bytes(plan)
    os.utime(file, (1795305599, 1795305599))
    assert run(["rollback", str(table), instant, *STOPPED]) == 0
    assert f"by rollback {rollback}, because it was interrupted: 1 file." in capfd.readouterr().out
