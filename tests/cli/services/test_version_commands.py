"""`lakeward table upgrade` by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.golden_tables import copy_golden


def test_from_a_dry_run_to_another_version(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 1 and 2 of cli/services/version_commands: nothing is written with --dry-run, nor without a word about the
    writers, a shared lock is no such word, and what is done is what was told."""
    base = copy_golden("v9", tmp_path / "t")
    words = ["table", "upgrade", str(base), "--to", "10", "--timezone", "UTC"]
    file = base / ".hoodie/hoodie.properties"
    before = file.read_bytes()
    assert run([*words, "--dry-run", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    for stated in ([], ["--lock", "filesystem"]):
        assert run([*words, *stated]) == 2
        assert "--writers stopped" in capfd.readouterr().err
    assert file.read_bytes() == before
    assert run([*words, "--writers", "stopped", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {**told, "dry_run": False}
    assert told["steps"][-1]["properties"]["hoodie.table.version"] == "10"
    assert run([*words, "--writers", "stopped"]) == 0
    assert "already. Nothing to do." in capfd.readouterr().out
