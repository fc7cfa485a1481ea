"""An index of Lakeward's own that is filled from another one, by hand: of either type, and stopped on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.main import run
from lakeward.index.simple import SimpleIndex
from tests.crash.compacting import everything
from tests.faults import Killed
from tests.write.writing import new_table, write

PLACES = ["record", pytest.param("postgres", marks=pytest.mark.services)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "table")
    write(table, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k3", 1, "b", "x")])
    return table


@pytest.fixture
def call(
    table: Path, target: str, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """A verb about the index of the type `target`: what it prints."""
    where = ["--url", request.getfixturevalue("postgresql_url")] if target == "postgres" else []

    def call(verb: str, *arguments: str, code: int = 0) -> Any:
        capfd.readouterr()
        kind = ["--to", target] if verb == "migrate" else [] if verb == "list" else ["--type", target]
        assert run(["index", verb, str(table), *arguments, *kind, *where, "--json"]) == code
        shown = capfd.readouterr()
        return json.loads(shown.out) if shown.out else shown.err

    return call


def states(call: Callable[..., Any], target: str) -> list[str]:
    return [each["state"] for each in call("list")["indexes"] if each["type"] == target]


@pytest.mark.parametrize("target", PLACES)
def test_filled_from_another_index(
    table: Path, target: str, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filled, it is looked at; one that is refused or found to be wrong is not left there, and one that was there
    before stays. Keeps 3 of services/indexing/run/index_migration."""
    assert f"is not filled from the {target} index" in call("migrate", "--from", target, code=2)
    call("migrate", "--from", "metadata", code=2)
    assert states(call, target) == []
    done = call("migrate", "--from", "simple")
    assert (done["entries"], done["check"]["faults"], done["is_dropped"]) == (3, [], False)
    assert [each["key"] for each in call("lookup", "k1", "k3", "k4")["locations"]] == ["k1", "k3"]
    assert call("verify", "--all")["faults"] == []
    assert "built already" in call("migrate", "--from", "bloom", code=2)
    assert states(call, target) == ["in use"], "it was not for migrate to drop"
    call("drop")

    with monkeypatch.context() as patched:
        patched.setattr(SimpleIndex, "parts", lambda index, partitions: ())
        assert call("migrate", "--from", "simple", code=6)["is_dropped"]
    assert states(call, target) == []
    write(table, [("k1", 2, "a", "y")])
    assert "where the table has logs" in call("migrate", "--from", "simple", code=2)
    assert states(call, target) == []


STEPS = {
    "made": "lakeward.services.indexing.run.index_migration.migrate_index",
    "filled": "lakeward.services.indexing.run.index_migration.update_and_tidy",
    "brought up to date": "lakeward.services.indexing.run.index_migration.check_index",
    "looked at": "{place}.take_place",
}


@pytest.mark.parametrize("stopped", STEPS)
@pytest.mark.parametrize("target", PLACES)
def test_stopped_on_the_way(
    target: str, stopped: str, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies at any step leaves no index that anything uses, and the next one is not held up by what it
    left. Keeps 2 of services/indexing/run/index_migration."""
    place = {"record": "RecordPlace", "postgres": "DatabasePlace"}[target]

    def dying(*given: object, **words: object) -> None:
        raise Killed(stopped)

    with monkeypatch.context() as patched:
        patched.setattr(STEPS[stopped].format(place=f"lakeward.services.indexing.table_indexes.{place}"), dying)
        with pytest.raises(Killed):
            call("migrate", "--from", "simple")
    assert "in use" not in states(call, target)
    call("lookup", "k1", code=2)
    call("update", code=2)
    assert call("migrate", "--from", "simple")["entries"] == 3
    assert states(call, target) == ["in use"]
    assert call("drop")["is_there"] and states(call, target) == []


@pytest.mark.parametrize("target", PLACES)
def test_some_partitions(target: str, table: Path, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is named is taken from the other index, and the rest is read from its rows, once: what was read before a
    kill is there, and nothing of it is left in the end."""
    write(table, [("k3", 2, "b", "y"), ("k4", 2, "c", "x")])
    assert "No keys are read from rows" in call("migrate", "--from", "simple", "--engine", "local", code=2)
    assert "nothing in the partition 'd'" in call("migrate", "--from", "simple", "--partition", "d", code=2)
    words = ("migrate", "--from", "simple", "--partition", "a")

    def dying(*given: object, **words: object) -> None:
        raise Killed("the migration")

    with monkeypatch.context() as patched:
        patched.setattr("lakeward.services.indexing.run.index_migration.located_keys", dying)
        with pytest.raises(Killed):
            call(*words)
    assert "in use" not in states(call, target)
    assert [path for path in everything(table) if path.endswith(".keys")]
    with monkeypatch.context() as patched:
        patched.setattr("lakeward.engine.task.key_checkpoint.make_checkpoint", dying)
        done = call(*words)
    assert (done["partitions"], done["entries"], done["file_groups_read"]) == (["a"], 4, 2)
    assert call("verify", "--all")["faults"] == []
    assert not [path for path in everything(table) if "building" in path]


@pytest.mark.services
@pytest.mark.parametrize("target", ["record", "postgres"])
def test_from_one_of_lakeward(target: str, table: Path, call: Callable[..., Any], postgresql_url: str) -> None:
    """What one of Lakeward's own indexes says fills the other one, logs, deletes and what is not indexed yet too."""
    source = {"record": "postgres", "postgres": "record"}[target]
    where = ["--url", postgresql_url] if source == "postgres" else []
    write(table, [("k2", 2, "a", None)], "delete")
    assert run(["index", "build", str(table), "--type", source, *where]) == 0
    write(table, [("k4", 3, "b", "x")])
    done = call("migrate", "--from", source, *where)
    assert (done["entries"], done["check"]["faults"]) == (3, [])
    assert [each["key"] for each in call("lookup", "k1", "k2", "k3", "k4")["locations"]] == ["k1", "k3", "k4"]
