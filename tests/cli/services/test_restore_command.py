"""A table is taken back to a commit by hand; what is lost is reported before and after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.services.clean.run.cleaning import clean, compacted

SECOND, LAST = "20261121043706178", "20261121043709156"
STOPPED = ("--writers", "stopped", "--timezone", "UTC")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a plan of Hudi's that is pending, too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_golden("v9", tmp_path / "table", pending=True)


def test_what_is_lost_is_shown(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 2 of cli/services/restore_command, in text and as JSON; a dry run writes nothing, and a second one
    has nothing to do."""
    before = everything(table)
    assert run(["restore", str(table), "--to", SECOND, "--dry-run", "--timezone", "UTC"]) == 0
    out = capfd.readouterr().out
    assert f"Would restore to {SECOND} (2026-11-21 04:37:06): 2 files of" in out
    assert f"  deltacommit {LAST}: 1 file, " in out
    assert "compaction 20261121043710038: 0 files, not completed" in out
    assert everything(table) == before

    assert run(["restore", str(table), "--to", SECOND, *STOPPED, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["target"], document["dry_run"], document["was_begun"]) == (SECOND, False, False)
    assert [each["instant"] for each in document["rolled_back"]][1] == LAST
    assert document["restore"] is not None and document["metadata_table_removed"] is False

    assert run(["restore", str(table), "--to", SECOND, *STOPPED]) == 0
    assert f"The table is at {SECOND} already." in capfd.readouterr().out
    assert run(["restore", str(table), "--to", SECOND, "--dry-run", "--timezone", "UTC"]) == 0
    assert f"The table is at {SECOND} already." in capfd.readouterr().out


def test_which_cleans_are_undone_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before, with files and bytes, and after."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = compacted("v9", tmp_path / "table")
    (cleaned,) = clean(table, LocalStorage(), keep_seconds=3600.0).cleans
    assert run(["restore", str(table), "--to", SECOND, "--dry-run", "--timezone", "UTC"]) == 0
    assert f"Would undo clean {cleaned.instant} first: 4 files of " in capfd.readouterr().out

    assert run(["restore", str(table), "--to", SECOND, *STOPPED]) == 0
    shown = capfd.readouterr()
    assert f"Clean {cleaned.instant} was undone first: 4 files of " in shown.out
    assert f"undoing clean {cleaned.instant}: files: 4" in shown.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--to", SECOND), "Stop all writers and table services, and say so: --writers stopped."),
        (("--to", SECOND, "--lock", "filesystem"), "A restore is refused beside writers."),
        (("--to", "20260101000000000", *STOPPED), "not on the active timeline"),
        (("--to", "20261121043710038", *STOPPED), "this one is requested, not completed"),
    ],
)
def test_what_is_refused(table: Path, options: tuple[str, ...], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 1 of cli/services/restore_command: nothing is written then."""
    before = everything(table)
    assert run(["restore", str(table), *options]) == 2
    assert says in capfd.readouterr().err
    assert everything(table) == before
