"""A command answers before it loads what only its work needs: imports are at the door of the verb."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeward.cli.verbs import PANELS, app
from lakeward.state.migration import migrate
from tests.golden_tables import copy_golden

HEAVY = {
    *("alembic", "apscheduler", "asyncio", "fastavro", "jinja2", "kazoo", "numba", "numpy", "obstore", "pandas"),
    *("psutil", "psycopg", "py4j", "pyarrow", "pydantic", "pyspark", "rich", "sqlalchemy", "starlette", "structlog"),
    *(
        "uvicorn",
        "lakeward.config.settings",
        "lakeward.protocol.serviced_table",
        "lakeward.table",
        "sqlalchemy.dialects.postgresql",
    ),
}
"""Libraries that take a tenth of a second or more to load, on their own or with others; and what loads several."""

LOADED_FOR = {
    "version": set(),
    "config check {config}": {"pydantic", "lakeward.config.settings", "lakeward.table"},
    "init {config} --overwrite --tables {table}": {"pydantic", "lakeward.config.settings", "lakeward.table"},
    "inspect {table}": {"pydantic", "lakeward.config.settings", "lakeward.table", "rich"},
    # A plan says of each log that it names whether its schema can be merged: Arrow's types.
    "plan {table}": {
        *("pydantic", "lakeward.config.settings", "lakeward.table", "rich"),
        *("lakeward.protocol.serviced_table", "numpy", "psutil", "pyarrow"),
    },
    "explain {table}": {
        *("pydantic", "lakeward.config.settings", "lakeward.table", "rich"),
        *("lakeward.protocol.serviced_table", "numpy", "psutil", "pyarrow"),
    },
    "compact {table} --dry-run": {
        *("pydantic", "lakeward.config.settings", "lakeward.table", "rich"),
        *("lakeward.protocol.serviced_table", "numpy", "psutil", "pyarrow"),
    },
    # In process, as all that is small: neither Spark nor the store, and nothing that only other services need.
    "compact {table} --type full --writers stopped --timezone UTC": {
        *("pydantic", "lakeward.config.settings", "lakeward.table", "rich"),
        *("lakeward.protocol.serviced_table", "numpy", "psutil", "pyarrow", "fastavro", "numba"),
    },
    "state status --url {store}": {
        *("pydantic", "lakeward.config.settings", "lakeward.table"),
        *("asyncio", "sqlalchemy"),
    },
    "pause orders --reason x --config {config} --url {store}": {
        *("pydantic", "lakeward.config.settings", "lakeward.table"),
        *("asyncio", "sqlalchemy"),
    },
    "jobs --url {store}": {
        *("pydantic", "lakeward.config.settings", "lakeward.table", "rich"),
        *("asyncio", "sqlalchemy"),
    },
    "events --url {store}": {
        *("pydantic", "lakeward.config.settings", "lakeward.table", "rich"),
        *("asyncio", "sqlalchemy"),
    },
}
"""All that each of these verbs may load of what is heavy, where the store is a file and has its schema."""

IN_A_FRESH_PROCESS = """
import contextlib, io, json, sys
from lakeward.cli.main import run
from lakeward.base.without_pandas import leave_pandas_out
leave_pandas_out()
with contextlib.redirect_stdout(io.StringIO()):
    codes = [run(words) for words in json.loads(sys.argv[1])]
print(json.dumps([codes, sorted(sys.modules)]))
"""


def loaded_by(*commands: list[str]) -> set[str]:
    """What is heavy and was loaded by a process that carried these out, each with exit code 0."""
    words = [sys.executable, "-c", IN_A_FRESH_PROCESS, json.dumps(commands)]
    codes, modules = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert set(codes) == {0}
    return HEAVY & set(modules)


def test_help_loads_nothing_that_is_slow_to_load() -> None:
    """Keeps 2 and 3 of cli/verb_group: `lakeward --help`, that of each group and that of a verb which needs little
    load none of what reads tables, keeps the store or serves, nor Pydantic and Rich."""
    groups = [[], *([verb.name] for verbs in PANELS.values() for verb in verbs if verb.verbs), ["version"]]
    assert ["metadata"] in groups
    assert not loaded_by(*([*words, "--help"] for words in groups))


def test_no_verb_is_loaded_to_complete_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of cli/verb_group: a shell is shown the verbs with their help, and none is loaded for it."""
    monkeypatch.setattr("lakeward.cli.verb_group.import_module", lambda name: pytest.fail(name))
    monkeypatch.setenv("_LAKEWARD_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "lakeward metadata d")
    completed = CliRunner().invoke(app, [], prog_name="lakeward").stdout
    assert "disable\tRemove the whole metadata table" in completed
    assert "drop\t" in completed and "compact" not in completed and "rebuild" not in completed


@pytest.mark.slow
@pytest.mark.parametrize("verb", LOADED_FOR)
def test_a_verb_loads_only_what_its_own_work_needs(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`inspect` reads names and metadata, without Arrow and the store; a plan asks no store that is not there; a store
    in a file is asked without Alembic, which migrates, and without what belongs to PostgreSQL."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = copy_golden("v9", tmp_path / "lake" / "orders")
    config, store = tmp_path / "lakeward.toml", f"sqlite:///{tmp_path}/lakeward.db"
    config.write_text(f'[[tables]]\nname = "orders"\npath = "{table}"\n')
    if "{store}" in verb:
        migrate(store)
    assert loaded_by(verb.format(table=table, config=config, store=store).split()) == LOADED_FOR[verb]


def test_the_list_of_verbs_says_whole_sentences() -> None:
    """`--help` says of each verb its first sentence, however long; the lines are broken, never cut."""
    said = CliRunner().invoke(app, ["--help"]).stdout
    assert "..." not in said.partition("Look at a table:")[2]
    assert "what would be refused." in " ".join(said.split())
