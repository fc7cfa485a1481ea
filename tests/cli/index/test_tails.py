"""`lakeward index tails`: what it says, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.our_reader import read_rows
from tests.write.writing import new_table, values, write


def test_logs_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = new_table(tmp_path / "t")
    write(base, [("a", 1, "p", "v")])
    write(base, [("a", 2, "p", "v")])
    assert run(["index", "tails", str(base), "--auto"]) == 0
    said = capsys.readouterr().out
    assert "Logs that Lakeward writes get tails." in said and "0 of 1 logs have one. Logs take" in said
    write(base, [("a", 3, "p", "v")])
    assert run(["index", "tails", str(base), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["are_written"] is True and (document["with_tail"], document["logs"]) == (1, 2)
    assert 0 < document["with_tail_bytes"] < document["log_bytes"]
    assert run(["index", "tails", str(base), "--off"]) == 0
    assert "Logs get no tails." in capsys.readouterr().out


def test_tails_are_taken_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run changes nothing, and the file group without tails keeps its log. Keeps 1 and 2 of
    cli/services/strip_tails_command."""
    base = new_table(tmp_path / "t")
    for part in "pq":
        write(base, [(part, 1, part, "v")])
    write(base, [("q", 2, "q", "w")])
    assert run(["index", "tails", str(base), "--auto"]) == 0
    write(base, [("p", 2, "p", "w")])
    before = everything(base)
    capsys.readouterr()
    assert run(["index", "strip-tails", str(base), "--dry-run"]) == 0
    assert "Dry run: would compact 1 file group, to end 1 log with a tail." in capsys.readouterr().out
    assert everything(base) == before
    assert run(["index", "strip-tails", str(base), "--writers", "stopped", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [document[when]["with_tail"] for when in ("before", "after")] == [1, 0]
    assert [each["partition_path"] for each in document["file_groups"]] == ["p"]
    assert document["after"]["logs"] == 1 and values(read_rows(base)) == {"p": "w", "q": "w"}
    write(base, [("p", 3, "p", "x")])
    assert run(["index", "strip-tails", str(base), "--writers", "stopped"]) == 0
    assert "No log of the newest slices has a tail." in capsys.readouterr().out


def test_one_option_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "tails", str(new_table(tmp_path / "t")), "--auto", "--off"]) == 2
    assert "--auto and --off exclude each other." in capsys.readouterr().err
