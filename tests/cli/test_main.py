"""The command line's contract: what goes to stdout, what to stderr, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.commit.lock import SPARK_LOCK
from tests.crash.compacting import check_finished, everything
from tests.golden_tables import copy_golden

IN_PROCESS = ("--local-below", "1GiB", "--writers", "stopped")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_golden("v9", tmp_path / "table")


def test_a_compaction_from_end_to_end(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Data on stdout as one JSON document, the story on stderr, exit 0."""
    assert run(["compact", str(table), *IN_PROCESS, "--json"]) == 0
    out, err = capfd.readouterr()
    (compaction,) = json.loads(out)["compactions"]
    assert compaction["operations"][0]["counts"]["rows"] == 4
    assert "scheduled" in err
    assert "committed" in err
    check_finished(table)


def test_a_second_compaction_exits_three_when_asked(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing to do is no failure, unless --exit-code makes it tell."""
    assert run(["compact", str(table), *IN_PROCESS]) == 0
    assert run(["compact", str(table), *IN_PROCESS]) == 0
    assert "Nothing to compact." in capfd.readouterr().out
    assert run(["compact", str(table), *IN_PROCESS, "--exit-code"]) == 3


@pytest.mark.parametrize("statement", [(), ("--writers", "stopped", "--lock", "filesystem")])
def test_a_verb_that_writes_needs_one_statement_about_writers(
    table: Path, statement: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """Without one, or with two, it refuses and says what to do."""
    before = everything(table)
    assert run(["compact", str(table), *statement]) == 2
    assert "--lock filesystem" in capfd.readouterr().err
    assert everything(table) == before


def test_a_dry_run_needs_no_statement(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It writes nothing, so there is nothing to promise."""
    before = everything(table)
    assert run(["compact", str(table), "--dry-run", "--json"]) == 0
    (decision,) = json.loads(capfd.readouterr().out)["decisions"]
    assert (decision["choice"], decision["reason"]) == ("FULL", "has-logs")
    assert run(["compact", str(table), "--dry-run"]) == 0
    assert "Nothing written." in capfd.readouterr().out
    assert everything(table) == before


def test_a_refused_table_exits_two(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Naming the property and the remedy, as JSON when asked."""
    properties = table / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("cdc.enabled=false", "cdc.enabled=true"))
    before = everything(table)
    assert run(["compact", str(table), *IN_PROCESS, "--json"]) == 2
    error = json.loads(capfd.readouterr().err.splitlines()[-1])["error"]
    assert error["code"] == "LW-REFUSED"
    assert "hoodie.table.cdc.enabled" in error["why"]
    assert error["remedy"]
    assert everything(table) == before


def test_a_held_lock_exits_five(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """After --lock-wait, naming the file."""
    (table / SPARK_LOCK).touch()
    assert run(["compact", str(table), *IN_PROCESS, "--lock-wait", "0s"]) == 5
    assert SPARK_LOCK in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("compact",),
        ("compact", "TABLE", "--nonsense"),
        ("compact", "TABLE", "--type", "sideways"),
        ("compact", "TABLE", "--writers", "stopped", "--memory", "lots"),
        ("compact", "TABLE", "--writers", "stopped", "--wait", "forever"),
        ("compact", "TABLE", "--writers", "stopped", "--spark-conf", "novalue"),
        ("inspect", "/no/such/table"),
        ("inspect", "s3://bucket/table"),
    ],
)
def test_wrong_words_exit_two(table: Path, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """With one explanation on stderr and nothing on stdout."""
    assert run([str(table) if word == "TABLE" else word for word in arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.strip()
    assert "Traceback" not in err


def test_versions_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    """What must agree on every machine."""
    assert run(["version", "--json"]) == 0
    assert {"lakeward", "python", "pyarrow"} <= json.loads(capfd.readouterr().out).keys()


def test_help_names_every_verb(capfd: pytest.CaptureFixture[str]) -> None:
    """And exits 0."""
    assert run(["--help"]) == 0
    out = capfd.readouterr().out
    assert all(verb in out for verb in ("inspect", "compact", "version"))
