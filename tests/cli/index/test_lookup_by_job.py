"""`lakeward index lookup` on an engine, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.main import run
from lakeward.services.indexing.run.lookup_job import look_up_by_job
from tests.write.own_record_index import built, write_by
from tests.write.test_whole_write import CLOCK
from tests.write.writing import write

KEYS = [f"k{number:02}" for number in range(30)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """With an index that has files of two commits, and lacks one."""
    base = built(tmp_path / "t", rows=[(key, 1, "p", "x") for key in KEYS[:20]])
    write_by(base, [(key, 1, "q", "x") for key in KEYS[10:25]])
    write(base, [("k26", 1, "p", "y"), ("k01", 2, "q", "y")], clock=CLOCK)
    return base


def looked_up(table: Path, capfd: pytest.CaptureFixture[str], *words: str) -> Any:
    capfd.readouterr()
    assert run(["index", "lookup", str(table), *KEYS, "--type", "record", "--json", *words]) == 0
    return json.loads(capfd.readouterr().out)


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.slow)])
def test_on_an_engine(
    engine: str, table: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes of this machine look keys up, or Spark's executors, in several tasks; the answer is that of this
    process."""
    here = looked_up(table, capfd)
    monkeypatch.setattr("lakeward.engine.dispatch.engine_rule.IN_PROCESS_BELOW_BYTES", 0)
    defaults = {**(look_up_by_job.__kwdefaults__ or {}), "run_keys_min": 1}
    monkeypatch.setattr(look_up_by_job, "__kwdefaults__", defaults)
    assert looked_up(table, capfd, "--engine", engine) == here
    assert len(here["locations"]) >= 26 and here["not_found"]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--type", "simple", "--engine", "local"], "The simple index is asked in this process."),
        (["--type", "bloom", "--engine", "spark"], "The bloom index is asked in this process."),
        (["--type", "postgres", "--master", "local[2]"], "Tasks are given no credentials of the database."),
        (["--type", "record", "--engine", "local", "--as-of", "20260101"], "--as-of is answered in this process."),
        (["--engine", "local"], "Leave --engine out, or name --type record or metadata."),
    ],
)
def test_what_runs_in_this_process(
    words: list[str], shown: str, table: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Options of an engine are refused with the reason where keys are not spread over parts, or the past is asked."""
    assert run(["index", "lookup", str(table), "k01", *words]) == 2
    assert shown in capfd.readouterr().err.replace("\n", " ")
