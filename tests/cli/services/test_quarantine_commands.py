"""`lakeward quarantine` brings back what a clean or a search for orphan files set aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import LockHeld
from lakeward.cli.main import run
from lakeward.services.metadata.run import early_service
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.services.clean.run.cleaning import clean, compacted
from tests.services.clean.run.test_orphans import add_stray

STOPPED = ("--writers", "stopped", "--timezone", "UTC")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return compacted("v9_metadata", tmp_path / "table")


def test_the_same_clean_after_an_undo(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is gone, back and gone again is not listed by the metadata table, which is compacted behind the undo."""
    (cleaned,) = clean(table, LocalStorage(), keep_seconds=3600.0).cleans
    assert run(["quarantine", "restore", str(table), cleaned.instant, *STOPPED, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["run"], document["kind"], document["files"]) == (cleaned.instant, "clean", cleaned.files)
    assert document["metadata_compaction"]["delta_commits"] > 0 and document["metadata_left"] is None
    (again,) = clean(table, LocalStorage()).cleans
    assert again.files == cleaned.files
    assert run(["verify", str(table), "--timezone", "UTC"]) == 0


def test_a_metadata_table_that_cannot_be_compacted(
    table: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The undo stands; the error says what prevents the compaction, and what to do."""
    (cleaned,) = clean(table, LocalStorage(), keep_seconds=3600.0).cleans

    def locked(*arguments: object, **options: object) -> None:
        raise LockHeld("The table is locked.")

    monkeypatch.setattr(early_service, "scan_trigger", locked)
    assert run(["quarantine", "restore", str(table), cleaned.instant, *STOPPED]) == 0
    out = capfd.readouterr().out
    assert f"Clean {cleaned.instant} is undone by" in out
    assert "The metadata table was left as it is: The table is locked." in out
    assert "Clean nothing before it is compacted: lakeward metadata compact." in out


def test_orphan_files_come_back_by_the_same_verb(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A dry run lists them and writes nothing; two searches set them aside; `restore` puts them back. Keeps 1 and 2 of
    services/together/quarantine_restore."""
    base = copy_golden("v9", tmp_path / "table")
    path = add_stray(base)

    def lakeward(*words: str) -> dict[str, Any]:
        assert run(["quarantine", words[0], str(base), *words[1:], *STOPPED, "--json"]) == 0
        return dict(json.loads(capfd.readouterr().out))

    before = everything(base)
    found = lakeward("orphans", "--dry-run", "--age", "0s")
    assert found["dry_run"] and [each["path"] for each in found["files"]] == [path] and everything(base) == before
    assert lakeward("orphans", "--age", "0s")["recorded"] == 1
    aside = lakeward("orphans", "--age", "0s")["run"]
    assert not (base / path).exists()

    assert run(["quarantine", "restore", str(base), path, *STOPPED]) == 2
    assert f"{path} is one of 1 files of {aside}." in capfd.readouterr().err
    before = everything(base)
    planned = lakeward("restore", aside, "--dry-run")
    assert (planned["dry_run"], planned["kind"], planned["files"], planned["instant"]) == (True, "orphans", 1, None)
    assert everything(base) == before
    assert lakeward("restore", aside) == {**planned, "dry_run": False}
    assert (base / path).read_bytes() == b"stray"


def test_orphan_files_stay_a_day_beside_writers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 5 of services/clean/run/orphans: --age below a day needs stopped writers."""
    base = copy_golden("v9", tmp_path / "table")
    add_stray(base)
    before = everything(base)
    beside = ("--lock", "filesystem", "--timezone", "UTC")
    assert run(["quarantine", "orphans", str(base), "--age", "2h", *beside]) == 2
    assert "--age 2h is too short beside writers." in capfd.readouterr().err
    assert everything(base) == before


@pytest.mark.parametrize(
    ("old", "remedy"),
    [
        (
            ["clean", "TABLE", "--undo", "20260101120000000", *STOPPED],
            "Run `lakeward quarantine restore TABLE RUN`, with the other options as they are.",
        ),
        (["orphans", "list", "TABLE", "--help"], "Run `lakeward quarantine orphans TABLE`, with the same options."),
        (
            ["orphans", "set-aside", "TABLE", "--age", "2d", *STOPPED],
            "Run `lakeward quarantine orphans TABLE`, with the same options.",
        ),
    ],
)
def test_old_spellings_name_the_new_ones(
    table: Path, old: list[str], remedy: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = everything(table)
    assert run([str(table) if word == "TABLE" else word for word in old]) == 2
    assert remedy in capfd.readouterr().err
    assert everything(table) == before
