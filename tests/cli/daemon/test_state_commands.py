"""`lakeward state`, as an operator meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.base.clock import SystemClock
from lakeward.cli.main import run
from lakeward.state.store import open_store
from tests.golden_tables import copy_golden
from tests.state.test_salvage import damaged_store


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("LAKEWARD_CONFIG", raising=False)
    return f"sqlite:///{tmp_path}/lakeward.db"


def test_status_and_migrate(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Empty, brought forward, nothing to do; each in words and as JSON."""
    assert run(["state", "status", "--url", url]) == 0
    assert "lakeward state migrate" in capfd.readouterr().out
    assert run(["state", "migrate", "--url", url]) == 0
    assert "applied 0006" in capfd.readouterr().out
    assert run(["state", "migrate", "--url", url]) == 0
    assert "nothing to do" in capfd.readouterr().out
    assert run(["state", "status", "--url", url, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["state"] == "current"


def test_the_configuration_says_where_the_store_is(url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The store is that of --config, or else of this user; --url wins over both."""
    config = tmp_path / "lakeward.toml"
    config.write_text(f'[state]\nurl = "{url}"\n')
    assert run(["state", "migrate", "--config", str(config)]) == 0
    assert (tmp_path / "lakeward.db").exists()
    capfd.readouterr()
    assert run(["state", "status"]) == 0
    assert "/lakeward/lakeward.db" in capfd.readouterr().out
    assert run(["state", "status", "--config", str(config), "--url", "sqlite:////else/where.db"]) == 0
    assert "/else/where.db" in capfd.readouterr().out


def test_rebuild_fills_the_store_from_the_timelines(
    url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A dry run changes nothing; a table that cannot be read is reported, and makes exit 4."""
    orders = copy_golden("v9", tmp_path / "orders", pending=True)
    assert run(["state", "rebuild", str(orders), "--url", url, "--dry-run", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["dry_run"], report["tables"][0]["plans"]) == (True, 1)
    assert not (tmp_path / "lakeward.db").exists()

    assert run(["state", "rebuild", str(orders), str(tmp_path / "missing"), "--url", url]) == 4
    out, err = capfd.readouterr()
    assert f"{orders}: found pending plans 1" in out
    assert "missing: not readable" in err
    store = open_store(url, clock=SystemClock())
    assert [plan.action for plan in store.observations.plans(str(orders))] == ["compaction"]
    store.close()


def test_a_damaged_store_is_rebuilt(url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 2 of state/store, and Keeps 4 of daemon/history/rebuild: every other command names the remedy; this one
    keeps the file, the controls and what is parked."""
    damaged_store(tmp_path / "lakeward.db", SystemClock())
    assert run(["events", "--url", url]) == 1
    assert "state rebuild" in capfd.readouterr().err
    assert run(["state", "rebuild", "--url", url, "--dry-run"]) == 0
    assert "damaged" in capfd.readouterr().out
    assert len(list(tmp_path.glob("lakeward.db.damaged-*"))) == 0

    assert run(["state", "rebuild", "--url", url]) == 4, "its table /lake/orders does not exist"
    assert "Taken from it: controls 1, parked 1, tables 1" in capfd.readouterr().out
    assert len([path for path in tmp_path.glob("lakeward.db.damaged-*") if path.stat().st_size]) == 1
    store = open_store(url, clock=SystemClock())
    assert [control.target for control in store.controls.in_force(SystemClock().now())] == ["orders"]
    assert [parked.file_group for parked in store.controls.parked(SystemClock().now())] == [("p", "fg1")]
    store.close()


def test_no_password_is_printed(url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A password stays hidden when the database cannot be reached, and with --debug."""
    secret = f"postgresql://ada:hunter2-canary@/db?host={tmp_path}&connect_timeout=1"
    assert run(["state", "status", "--url", secret, "--debug"]) == 75
    out, err = capfd.readouterr()
    assert "hunter2-canary" not in out + err
    assert "ada" in err
