"""`lakeward config`: what goes to stdout, what to stderr, the exit code, and never a secret."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from lakeward.cli.main import run
from lakeward.config.settings import Settings

CONFIG = """\
[service]
jobs_max = 3

[service.groups]
nightly = 1

[locks]
writers = "share"

[[tables]]
match = "*/ord*"
interval = "5s"
locks.expire = "5m"

[[tables]]
name = "orders"
path = "/data/orders"
group = "nightly"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LAKEWARD_CONFIG", raising=False)
    path = tmp_path / "lakeward.toml"
    path.write_text(CONFIG)
    return path


def test_a_right_file(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit 0 with a line that says what it holds; named as an argument or as an option."""
    assert run(["config", "check", "--offline", str(config)]) == 0
    assert run(["config", "check", "--offline", "--config", str(config)]) == 0
    out, err = capfd.readouterr()
    assert out.count("tables named outright 1") == 2
    assert err == ""
    assert run(["config", "check", "--offline", str(config), "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"file": str(config), "ok": True, "problems": []}


def test_a_file_that_allows_no_writing_is_right(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is a warning all the same, because no operator wants to wait for compactions that never come."""
    config.write_text(f'[discovery]\nroots = ["{config.parent}"]\n')
    assert run(["config", "check", str(config)]) == 0
    assert "Nothing will be written" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "No table is named"),
        ('[discovery]\nroots = ["/nowhere/lake"]\n', "/nowhere/lake cannot be searched"),
        ('[discovery]\nroots = ["FILE"]\n', "It is a file."),
        ('[[tables]]\npath = "/nowhere/orders"\n', "/nowhere/orders does not exist"),
    ],
)
def test_places_that_are_not_there(config: Path, text: str, reported: str, capfd: pytest.CaptureFixture[str]) -> None:
    """`check` looks for what the file names: exit 2 with the line, and `run` starts nothing without any place."""
    config.write_text(text.replace("FILE", str(config)))
    assert run(["config", "check", str(config)]) == 2
    assert reported in capfd.readouterr().err
    assert run(["config", "check", "--offline", str(config)]) == (0 if text else 2)
    capfd.readouterr()
    if not text:
        assert run(["run", "--config", str(config), "--once"]) == 2
        assert reported in capfd.readouterr().err


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("postgresql://nobody@127.0.0.1:1/lakeward", "does not answer"),
        ("sqlite:////nowhere/lakeward.db", None),
    ],
)
def test_a_store_that_does_not_answer(
    config: Path, url: str, reported: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    """`check` names it at its line; a file of SQLite that is not there is made by the daemon."""
    config.write_text(f'[discovery]\nroots = ["{config.parent}"]\n[state]\nurl = "{url}"\n')
    assert run(["config", "check", str(config)]) == (2 if reported else 0)
    err = capfd.readouterr().err
    assert reported is None or (reported in err and f"{config}:4:1" in err)
    assert run(["config", "check", "--offline", str(config)]) == 0


def test_a_wrong_file(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The command exits with 2, with every problem on stderr; with --json they are the data."""
    config.write_text("[service]\njobs_max = 0\nlistn = 1\n")
    assert run(["config", "check", str(config)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert f"{config}:2:1: service.jobs_max cannot be 0." in err
    assert f"{config}:3:1: There is no key service.listn." in err
    assert "Did you mean listen?" in err
    assert run(["config", "check", str(config), "--json"]) == 2
    document = json.loads(capfd.readouterr().out)
    assert not document["ok"]
    assert [problem["where"] for problem in document["problems"]] == [f"{config}:2:1", f"{config}:3:1"]


@pytest.mark.parametrize("arguments", [("check",), ("check", "FILE", "--set", "x"), ("show", "FILE", "--set", "a.b=1")])
def test_wrong_words(config: Path, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """The command exits with 2 and gives one explanation."""
    assert run(["config", *(str(config) if word == "FILE" else word for word in arguments)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err


def test_show_is_a_configuration(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is printed means the same when it is read, origins and all."""
    assert run(["config", "show", str(config), "--origin"]) == 0
    shown = Settings.model_validate(tomllib.loads(capfd.readouterr().out))
    given = Settings.model_validate(tomllib.loads(CONFIG))
    assert shown.tables == given.tables
    assert shown.service == given.service
    assert shown.locks == given.locks


def test_show_says_where_values_come_from(
    config: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value comes from a default, the file with its line, an environment variable or a flag."""
    monkeypatch.setenv("LAKEWARD_CONFIG", str(config))
    monkeypatch.setenv("LAKEWARD__SERVICE__LOG_LEVEL", "debug")
    assert run(["config", "show", "--origin", "--set", "service.grace=5s"]) == 0
    lines = dict(line.split("#", 1) for line in capfd.readouterr().out.splitlines() if " = " in line and "#" in line)
    lines = {text.strip(): where.strip() for text, where in lines.items()}
    assert lines['name = "lakeward"'] == "default"
    assert lines["jobs_max = 3"] == f"{config}:2:1"
    assert lines["groups = { nightly = 1 }"] == f"{config}:5:1"
    assert lines['log_level = "debug"'] == "LAKEWARD__SERVICE__LOG_LEVEL"
    assert lines['grace = "5s"'] == "--set service.grace"
    assert run(["config", "show", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["settings"]["service"]["log_level"] == "debug"
    assert document["origins"]["service.log_level"] == "LAKEWARD__SERVICE__LOG_LEVEL"
    assert document["origins"]["tables[1].interval"] == f"{config}:12:1"


@pytest.mark.parametrize("table", ["orders", "/data/orders"])
def test_show_of_one_table(config: Path, table: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The table is given by its name or path, and shown with all overrides applied."""
    assert run(["config", "show", str(config), "--table", table, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["name"], document["base_path"], document["shadow"]) == ("orders", "/data/orders", None)
    assert document["settings"]["interval"] == 5
    wanted = {"writers": "share", "provider": "filesystem", "zookeeper": {}, "expire": 300}
    assert document["settings"]["locks"].items() >= wanted.items()
    assert document["origins"]["interval"] == f"tables[1] {config}:12:1"
    assert document["origins"]["group"] == f"tables[2] {config}:18:1"
    assert document["origins"]["locks.expire"] == f"tables[1] {config}:13:7"
    assert document["origins"]["locks.writers"] == f"{config}:8:1"
    assert document["origins"]["memory"] == "default"
    assert run(["config", "show", str(config), "--table", table, "--origin"]) == 0
    assert f"# tables[1] {config}:12:1" in capfd.readouterr().out


def test_show_of_a_table_that_is_only_planned(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It says so, and what to set."""
    config.write_text("")
    assert run(["config", "show", str(config), "--table", "/data/x"]) == 0
    assert "Nothing is written to this table." in capfd.readouterr().out


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--origin",)])
def test_no_secret_is_shown(
    config: Path, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it comes from."""
    (config.parent / "url").write_text("postgresql://u:canary@h/d")
    config.write_text("state.url_file = 'url'")
    monkeypatch.setenv("LAKEWARD__SPARK__REMOTE", "sc://h/;token=canary")
    monkeypatch.setenv("LAKEWARD__SPARK__CONF", "{ a.password = 'canary', a.b = 'c' }")
    assert run(["config", "show", str(config), *arguments]) == 0
    out, err = capfd.readouterr()
    assert "canary" not in out + err
    assert "postgresql://u:[hidden]@h/d" in out
    assert "a.b" in out


def test_the_schema_accepts_what_check_accepts(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The schema also refuses an unknown key."""
    assert run(["config", "schema"]) == 0
    schema = json.loads(capfd.readouterr().out)
    jsonschema.validate(tomllib.loads(CONFIG), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"service": {"listn": "x"}}, schema)
