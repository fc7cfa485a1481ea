"""Savepoints by hand: made, listed, explained, deleted; and what can be archived beside one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden

STOPPED = ("--writers", "stopped", "--timezone", "UTC")
NEWEST, OLDER = "20261121043709156", "20261121043708181"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_golden("v9", tmp_path / "table")


def test_from_beginning_to_end(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A dry run writes nothing; `list` and `explain` show what only the savepoint keeps, which a compaction brings."""
    before = everything(table)
    assert run(["savepoint", "create", str(table), "--dry-run", "--timezone", "UTC"]) == 0
    assert f"Would make a savepoint of {NEWEST}. It keeps 4 files" in capfd.readouterr().out
    assert everything(table) == before

    assert run(["savepoint", "create", str(table), OLDER, "--comment", "a load", "--user", "ann", *STOPPED]) == 0
    assert run(["compact", str(table), "--engine", "local", "--type", "full", *STOPPED]) == 0
    capfd.readouterr()
    assert run(["savepoint", "list", str(table), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    (listed,) = document["savepoints"]
    assert (listed["instant"], listed["user"], listed["comment"], document["begun"]) == (OLDER, "ann", "a load", [])
    assert listed["files_only_it_keeps"] == listed["files"] == 4
    assert listed["bytes_only_it_keeps"] == listed["bytes"] > 0
    assert run(["savepoint", "list", str(table)]) == 0
    assert OLDER in capfd.readouterr().out
    assert run(["explain", str(table), "--timezone", "UTC"]) == 0
    assert f"KiB pinned by savepoint {OLDER} since" in capfd.readouterr().out

    assert run(["savepoint", "delete", str(table), OLDER, *STOPPED]) == 0
    assert f"Deleted the savepoint of {OLDER}." in capfd.readouterr().out
    assert run(["savepoint", "delete", str(table), OLDER, *STOPPED]) == 2
    assert run(["savepoint", "list", str(table)]) == 0
    assert "No savepoint." in capfd.readouterr().out


def test_it_needs_a_word_about_the_writers(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every command that writes needs it."""
    before = everything(table)
    assert run(["savepoint", "create", str(table)]) == 2
    assert run(["savepoint", "delete", str(table), NEWEST]) == 2
    assert "--writers stopped" in capfd.readouterr().err
    assert everything(table) == before


def test_what_can_be_archived(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The savepoint holds the timeline, and a file of no commit does; nothing is written."""
    assert run(["savepoint", "create", str(table), OLDER, *STOPPED]) == 0
    base = next((table / "p").glob("*.parquet"))
    stray = base.with_name(base.name.replace(base.name[-25:-8], "20261121043707000"))
    shutil.copy(base, stray)
    before = everything(table)
    keep = (
        "--keep-min",
        "1",
        "--keep-max",
        "2",
        "--commits-retained",
        "1",
        "--delta-commits",
        "1",
        "--timezone",
        "UTC",
    )

    assert run(["archive", str(table), "--dry-run", *keep, "--json"]) == 0
    out = capfd.readouterr().out
    document = json.loads(out[out.index("{") :])
    kept = {each["reason"]: each["from"] for each in document["kept"]}
    assert kept["savepoint"] == OLDER
    assert kept["uncommitted-files"] == "20261121043706178"
    assert (document["is_due"], document["blocked_by"]) == (True, "uncommitted-files")
    assert [each["instant"] for each in document["archived"]] == ["20261121043703223"]
    assert run(["archive", str(table), "--dry-run", *keep]) == 0
    assert "1 instant would go; 4 completed commits are on the timeline." in capfd.readouterr().out
    assert run(["archive", str(table), "--dry-run", "--timezone", "UTC"]) == 0
    assert "has 4 completed commits, of up to 30" in capfd.readouterr().out
    assert everything(table) == before


@pytest.mark.parametrize("words", [(), ("--dry-run", "--keep-min", "5", "--keep-max", "4")])
def test_words_that_do_not_go_together(table: Path, words: tuple[str, ...]) -> None:
    """The archiving itself is left to Hudi, and the smaller number is not the larger one."""
    assert run(["archive", str(table), *words]) == 2
