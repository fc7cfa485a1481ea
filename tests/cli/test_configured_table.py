"""Which table TABLE means beside a configuration, and that verbs do for it what the daemon would do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lakeward.base.errors import UsageError
from lakeward.cli.configured_table import resolve_table
from lakeward.cli.main import run
from lakeward.config.settings import Settings
from lakeward.protocol.lock.file_system_lock import FLINK_LOCK
from tests.golden_tables import copy_golden

NAMED = Settings.model_validate({"tables": [{"path": "/data/orders", "name": "orders"}, {"path": "/data/clicks"}]})


@pytest.mark.parametrize(
    ("text", "settings", "base_path"),
    [
        ("orders", NAMED, "/data/orders"),
        ("/data/clicks", NAMED, "/data/clicks"),
        ("/elsewhere", NAMED, "/elsewhere"),
        ("./orders", NAMED, "./orders"),
        ("file:///data/x", NAMED, "file:///data/x"),
        ("orders", None, "orders"),
    ],
)
def test_what_a_word_means(text: str, settings: Settings | None, base_path: str) -> None:
    """A configured name, else a path; without a configuration only a path."""
    assert resolve_table(text, settings) == base_path


def test_a_name_goes_before_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """./orders is the folder, and one that no table is called after needs no dot."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    (tmp_path / "others").mkdir()
    assert resolve_table("orders", NAMED) == "/data/orders"
    assert resolve_table("others", NAMED) == "others"


def test_a_name_that_no_table_has() -> None:
    """The error says what was probably meant."""
    with pytest.raises(UsageError, match="Did you mean orders"):
        resolve_table("order", NAMED)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A golden table that a configuration calls `orders`, to be compacted in process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = copy_golden("v9", tmp_path / "table")
    config = tmp_path / "lakeward.toml"
    config.write_text(f"""
        service.engine = "local"
        defaults.planner = {{ "planner.small_base_size" = "1KiB" }}
        [[tables]]
        name = "orders"
        path = "{table}"
        locks = {{ writers = "share" }}
        """)
    monkeypatch.setenv("LAKEWARD_CONFIG", str(config))
    monkeypatch.setattr("lakeward.config.settings.LOCK_WAIT_SECONDS", 0.0)
    return table


def test_inspect_by_name(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The configuration is named by --config or by LAKEWARD_CONFIG."""
    assert run(["inspect", "orders", "--json"]) == 0
    by_name = json.loads(capfd.readouterr().out)
    assert run(["inspect", str(table), "--json"]) == 0
    by_path = json.loads(capfd.readouterr().out)
    assert by_name["file_groups"] == by_path["file_groups"]


def test_a_plan_is_what_the_daemon_would_do(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The configured settings count, the table's objective among them, and flags go before them."""
    assert run(["plan", "orders", "--json"]) == 0
    (decision,) = json.loads(capfd.readouterr().out)["decisions"]
    assert (decision["choice"], decision["reason"]) == ("FULL", "objective")
    config = Path(os.environ["LAKEWARD_CONFIG"])
    config.write_text('defaults.objective = "none"\n' + config.read_text())
    assert run(["plan", "orders", "--json"]) == 0
    (decision,) = json.loads(capfd.readouterr().out)["decisions"]
    assert (decision["choice"], decision["reason"]) == ("NONE", "table-trigger")
    assert run(["compact", "orders", "--dry-run", "--json"]) == 0, "which does at once what it is asked to"
    (decision,) = json.loads(capfd.readouterr().out)["decisions"]
    assert (decision["choice"], decision["reason"]) == ("FULL", "log-ratio")
    assert run(["plan", "orders", "--json", "--set", "planner.small_base_size=32MiB"]) == 0
    (decision,) = json.loads(capfd.readouterr().out)["decisions"]
    assert decision["reason"] == "small-base"
    assert run(["explain", "orders", "--json", "--type", "log"]) == 0
    (decision,) = json.loads(capfd.readouterr().out)["decisions"]
    assert decision["choice"] == "LOG"


def test_compact_takes_the_word_about_writers_from_the_configuration(
    table: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """locks.writers is a statement as --lock is: both lock files are taken; a flag goes first."""
    for module in ("config.settings", "cli.options.lock"):
        monkeypatch.setattr(f"lakeward.{module}.LOCK_WAIT_SECONDS", 0.5)
    (table / FLINK_LOCK).parent.mkdir(exist_ok=True)
    (table / FLINK_LOCK).touch()
    assert run(["compact", "orders"]) == 5
    assert FLINK_LOCK in capfd.readouterr().err
    assert run(["compact", "orders", "--writers", "stopped", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["compactions"]


def test_a_wrong_configuration_stops_every_verb(tmp_path: Path, table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit 2 with all that is wrong."""
    (tmp_path / "wrong.toml").write_text("a = 1\nb = 2")
    assert run(["inspect", "orders", "--config", str(tmp_path / "wrong.toml")]) == 2
    err = capfd.readouterr().err
    assert "wrong.toml:1:1" in err
    assert "wrong.toml:2:1" in err
