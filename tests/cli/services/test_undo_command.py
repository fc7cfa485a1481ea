"""`lakeward clean --undo` brings back what a clean took, and leaves a metadata table that the next clean can tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.base.errors import LockHeld
from lakeward.cli.main import run
from lakeward.services.metadata.run import early_service
from lakeward.storage.local import LocalStorage
from tests.services.clean.run.cleaning import clean, compacted

STOPPED = ("--writers", "stopped", "--timezone", "UTC")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return compacted("v9_metadata", tmp_path / "table")


def test_the_same_clean_after_an_undo(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is gone, back and gone again is not listed by the metadata table, whose logs the undo leaves compacted."""
    (cleaned,) = clean(table, LocalStorage(), keep_seconds=3600.0).cleans
    assert run(["clean", str(table), "--undo", cleaned.instant, *STOPPED, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["undone"] == cleaned.instant
    assert document["metadata_compaction"]["delta_commits"] > 0 and document["metadata_left"] is None
    (again,) = clean(table, LocalStorage()).cleans
    assert again.files == cleaned.files
    assert run(["verify", str(table), "--timezone", "UTC"]) == 0


def test_a_metadata_table_that_cannot_be_compacted(
    table: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The undo stands; what prevents the compaction is told, and what to do."""
    (cleaned,) = clean(table, LocalStorage(), keep_seconds=3600.0).cleans

    def locked(*arguments: object, **options: object) -> None:
        raise LockHeld("The table is locked.")

    monkeypatch.setattr(early_service, "scan_trigger", locked)
    assert run(["clean", str(table), "--undo", cleaned.instant, *STOPPED]) == 0
    out = capfd.readouterr().out
    assert f"Clean {cleaned.instant} is undone by" in out
    assert "The metadata table was left as it is: The table is locked." in out
    assert "Clean nothing before it is compacted: lakeward metadata compact." in out
