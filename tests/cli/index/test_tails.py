"""`lakeward index tails`: what it says, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.write.writing import new_table, write


def test_logs_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = new_table(tmp_path / "t")
    write(base, [("a", 1, "p", "v")])
    write(base, [("a", 2, "p", "v")])
    assert run(["index", "tails", str(base), "--auto"]) == 0
    said = capsys.readouterr().out
    assert "Logs that Lakeward writes get tails." in said and "0 of 1 logs have one, 0 B of" in said
    write(base, [("a", 3, "p", "v")])
    assert run(["index", "tails", str(base), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["are_written"] is True and (document["with_tail"], document["logs"]) == (1, 2)
    assert 0 < document["with_tail_bytes"] < document["log_bytes"]
    assert run(["index", "tails", str(base), "--off"]) == 0
    assert "Logs get no tails." in capsys.readouterr().out


def test_one_option_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "tails", str(new_table(tmp_path / "t")), "--auto", "--off"]) == 2
    assert "--auto and --off exclude each other." in capsys.readouterr().err
