"""`lakeward table upgrade` and `downgrade` by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.our_reader import read_rows
from tests.write.writing import BUCKETS, new_table, values, write


def test_from_a_dry_run_to_another_version(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 1 and 2 of cli/services/version_commands: nothing is written with --dry-run, nor without a word about the
    writers, a shared lock is no such word, and what is done is what was announced."""
    base = copy_golden("v9", tmp_path / "t")
    words = ["table", "upgrade", str(base), "--to", "10", "--timezone", "UTC"]
    file = base / ".hoodie/hoodie.properties"
    before = file.read_bytes()
    assert run([*words, "--dry-run", "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    for given in ([], ["--lock", "filesystem"]):
        assert run([*words, *given]) == 2
        assert "--writers stopped" in capfd.readouterr().err
    assert file.read_bytes() == before
    assert run([*words, "--writers", "stopped", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {**shown, "dry_run": False}
    assert shown["steps"][-1]["properties"]["hoodie.table.version"] == "10"
    assert run([*words, "--writers", "stopped"]) == 0
    assert "already. Nothing to do." in capfd.readouterr().out


def test_the_way_down_is_shown_and_gone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 2 of cli/services/version_commands: what is compacted and cleaned is reported before, by file."""
    base, clock = new_table(tmp_path / "t", version=10, has_metadata_table=False), SkippingClock()
    clock.slept = -60.0  # the writes are a minute old, for the command's own clock
    write(base, [("a", 1, "p", "first")], clock=clock, **BUCKETS)
    write(base, [("a", 2, "p", "second")], clock=clock, **BUCKETS)
    words = ["table", "downgrade", str(base), "--to", "9", "--timezone", "UTC"]
    assert run([*words, "--dry-run"]) == 0
    shown = capfd.readouterr().out
    assert "Would downgrade the table to version 9:\n  compaction, since" in shown and "    2 in all, " in shown
    assert run([*words, "--writers", "stopped", "--json"]) == 0
    steps = json.loads(capfd.readouterr().out)["steps"]
    assert [step["step"] for step in steps] == ["compaction", "clean", "properties"]
    assert all(name in shown for name in steps[1]["subjects"])
    assert values(read_rows(base)) == {"a": "second"}
