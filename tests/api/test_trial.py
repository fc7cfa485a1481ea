"""Merges of generated rows, with the real engine."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import lakeward
from lakeward.api.trial import LOGS, merge_generated
from lakeward.cli import calibrate_command
from lakeward.cli.main import run


def test_each_size_is_one_merge_of_base_and_logs(tmp_path: Path) -> None:
    """All rows are there afterwards, updated ones once; what it took was measured, and grows with what it reads."""
    said: list[str] = []
    small, large = merge_generated(tmp_path, (500, 5_000), say=said.append)
    assert small.read_bytes < large.read_bytes and 0 < large.written_bytes < large.read_bytes
    assert small.cpu_seconds > 0 and large.cpu_seconds > 0
    assert said == [f"merging {LOGS} logs into 500 rows", f"merging {LOGS} logs into 5,000 rows"]
    table = lakeward.Table(str(tmp_path / "rows_5000"))
    assert table.count() == 5_000 and 0 < table.count(where="ts > 0") <= LOGS * 250
    assert not table.snapshot.latest_slices[0].log_files


def test_the_command_says_what_to_do_with_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibrate_command, "merge_generated", partial(merge_generated, rows=(500, 2_000)))
    assert run(["calibrate", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert len(found["merges"]) == 2 and found["price"] > 0 and found["seconds_per_byte"] > 0
    assert run(["calibrate"]) == 0
    out = capfd.readouterr().out
    assert '{ "planner.price" = "' in out and "CPU seconds" in out
