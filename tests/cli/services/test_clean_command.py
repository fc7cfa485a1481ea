"""`lakeward clean --dry-run` says what would go, in people's words and as JSON, and deletes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.main import run
from tests.table.table_history import TableHistory

TWO_VERSIONS = ("--policy", "versions", "--retain", "2")
A, B = "aaaaaaaa-0", "bbbbbbbb-0"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with five slices of one group and two of another, in two partitions."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    history = TableHistory(tmp_path / "table", seed=1)
    for partition, file_id in (("p=1", A), ("p=2", B), ("p=1", A), ("p=1", A), ("p=1", A), ("p=2", B), ("p=1", A)):
        history.rewrite(partition, file_id)
    return history.base


def everything(table: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in table.rglob("*") if path.is_file()}


def planned(table: Path, capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["clean", str(table), "--dry-run", "--json", *words]) == 0
    document: dict[str, Any] = json.loads(capfd.readouterr().out)
    return document


def test_what_would_go(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Files, bytes and reasons of each dead slice are said, and what keeps the other old ones; nothing is written."""
    before = everything(table)
    document = planned(table, capfd, "--policy", "commits", "--retain", "3")

    assert (document["policy"], document["retain"]) == ("commits", 3)
    assert document["earliest_retained"] == sorted((table / ".hoodie/timeline").glob("*_*"))[4].name.split("_")[0]
    assert [each["partition"] for each in document["dead"]] == ["p=1", "p=1"]
    names = [name for each in document["dead"] for name in each["files"]]
    assert names == sorted((path.name for path in (table / "p=1").glob("aaaa*")), reverse=True)[3:]
    assert document["files"] == 2
    assert document["bytes"] == sum((table / "p=1" / name).stat().st_size for name in names)
    assert document["dead"][0]["reasons"] == [
        "before-earliest",
        "not-newest",
        "not-planned",
        "not-savepointed",
        "not-read",
    ]
    assert [(each["partition"], each["reasons"][0]["reason"]) for each in document["kept"]] == [
        ("p=1", "retained"),
        ("p=1", "retained"),
        ("p=2", "retained"),
    ]
    assert [each["reasons"][0]["more_commits"] for each in document["kept"]] == [3, 1, 2]
    assert everything(table) == before


def test_hudis_own_settings(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keys of Hudi's cleaner are taken as they are; the command's own options win."""
    policy = ("--set", "hoodie.cleaner.policy=KEEP_LATEST_FILE_VERSIONS")
    document = planned(table, capfd, *policy, "--set", "hoodie.clean.fileversions.retained=4")
    assert (document["policy"], document["retain"], document["files"]) == ("versions", 4, 1)
    document = planned(table, capfd, *policy, "--policy", "commits", "--retain", "3")
    assert (document["policy"], document["retain"], document["files"]) == ("commits", 3, 2)


def test_in_words(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The policy and what it promises, sums by partition and reason, and when the first of what is kept can go."""
    assert run(["clean", str(table), "--dry-run", "--policy", "versions", "--retain", "2"]) == 0
    said = capfd.readouterr().out
    assert "By versions: the 2 newest slices of each file group stay." in said
    assert "To go, beyond-versions: 3 files of 3 slices," in said
    assert "Kept, retained: 2 files of 2 slices," in said
    assert "the first can go after 1 more slice of its file group" in said
    assert "would go. Nothing deleted." in said


def test_only_some_partitions(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A pattern chooses; one that matches nothing is an error, not a table without work. Keeps 1 of
    cli/services/clean_command."""
    document = planned(table, capfd, "--policy", "versions", "--retain", "1", "--partition", "*=2")
    assert {each["partition"] for each in document["dead"]} == {"p=2"}
    assert run(["clean", str(table), "--dry-run", "--partition", "p=3"]) == 2
    assert "--partition p=3 matches nothing" in capfd.readouterr().err


def test_nothing_to_do(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Hudi's ten commits by default are more than there are; --exit-code informs a script."""
    assert run(["clean", str(table), "--dry-run", "--exit-code"]) == 3
    assert "By commits, 10: 7 commits have completed" in capfd.readouterr().out
    assert run(["clean", str(table), "--dry-run", "--policy", "hours", "--exit-code"]) == 3
    assert "By hours, 24: nothing was committed within them" in capfd.readouterr().out


def test_a_table_that_may_not_be_cleaned(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A savepoint that is being made refuses it."""
    (table / ".hoodie/timeline/20260101000001000.savepoint.inflight").touch()
    assert run(["clean", str(table), "--dry-run"]) == 2
    assert "pending-savepoint" in capfd.readouterr().err


def test_a_clean_is_carried_out(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What --dry-run names is deleted and nothing else, and then there is nothing to do."""
    dead = {name for each in planned(table, capfd, *TWO_VERSIONS)["dead"] for name in each["files"]}
    before = {path.name for path in table.rglob("*.parquet")}
    assert run(["clean", str(table), *TWO_VERSIONS, "--writers", "stopped", "--json"]) == 0
    ((cleaned,), waiting, _) = json.loads(capfd.readouterr().out).values()

    assert (cleaned["files"], cleaned["recovered"], cleaned["kept"], waiting) == (len(dead), False, [], [])
    assert dead and before - {path.name for path in table.rglob("*.parquet")} == dead
    assert len(list((table / ".hoodie/timeline").glob(f"{cleaned['instant']}_*.clean"))) == 1
    assert run(["clean", str(table), *TWO_VERSIONS, "--writers", "stopped", "--exit-code"]) == 3
    assert "Nothing to clean." in capfd.readouterr().out


def test_a_clean_in_words(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """How many files went, and as of when the table can still be read; progress goes elsewhere."""
    assert run(["clean", str(table), "--retain", "3", "--writers", "stopped"]) == 0
    said = capfd.readouterr()
    assert "2 files of 305 B deleted" in said.out and "The table can be read as of" in said.out
    assert "files deleted: 2 of 2" in said.err


def test_without_a_word_about_writers_nothing_is_written(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The command says what to state. Keeps 2 of cli/services/clean_command."""
    before = everything(table)
    assert run(["clean", str(table), *TWO_VERSIONS]) == 2
    assert "--writers stopped" in capfd.readouterr().err
    assert everything(table) == before
