"""A command answers before it loads what only its work needs: imports are at the door of the verb."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from lakeward.cli.verbs import app
from tests.golden_tables import copy_golden

HEAVY = {
    *("alembic", "apscheduler", "fastavro", "jinja2", "kazoo", "numba", "numpy", "obstore", "pandas", "psutil"),
    *("psycopg", "py4j", "pyarrow", "pyspark", "sqlalchemy", "starlette", "structlog", "uvicorn"),
}

IN_A_FRESH_PROCESS = """
import contextlib, io, json, sys
from lakeward.cli.main import run
with contextlib.redirect_stdout(io.StringIO()):
    codes = [run(words) for words in json.loads(sys.argv[1])]
print(json.dumps([codes, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def loaded_by(*commands: list[str]) -> set[str]:
    """The packages that a process has loaded that carried these out, each with exit code 0."""
    words = [sys.executable, "-c", IN_A_FRESH_PROCESS, json.dumps(commands)]
    codes, packages = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert set(codes) == {0}
    return set(packages)


def test_help_loads_nothing_that_is_slow_to_load() -> None:
    """`lakeward --help`, and `--help` of each verb, loads none of what reads tables, keeps the store or serves."""
    verbs: list[list[str]] = [[]]
    for name, verb in sorted(get_command(app).commands.items()):  # type: ignore[attr-defined]
        verbs += [[name], *([name, inner] for inner in sorted(getattr(verb, "commands", {})))]
    assert ["metadata", "compact"] in verbs
    assert not HEAVY & loaded_by(*([*words, "--help"] for words in verbs))


def test_inspecting_a_table_loads_no_arrow_and_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`inspect` reads names and metadata: neither Arrow nor the kernels nor the store's libraries are loaded for it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = copy_golden("v9", tmp_path / "table")
    assert not {"numba", "numpy", "pyarrow", "pyspark", "sqlalchemy", "kazoo"} & loaded_by(["inspect", str(table)])


def test_a_plan_loads_no_database_where_there_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a store nothing can be parked, and what would open it is not loaded; nor are kernels or Spark."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = copy_golden("v9", tmp_path / "table")
    assert not {"numba", "pyspark", "sqlalchemy", "alembic"} & loaded_by(["plan", str(table)])
