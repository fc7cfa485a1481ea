"""An index in a real PostgreSQL, by hand: built, asked, brought up to date, verified and dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.faults import Killed
from tests.our_reader import read_rows
from tests.write.writing import new_table, write

pytestmark = pytest.mark.services


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "table")
    write(table, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k3", 1, "b", "x")])
    return table


def dying(*given: object) -> None:
    raise Killed("the rebuild")


def test_an_index_of_a_table(
    table: Path, postgresql_url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers as the rows are, before and after it is brought up to date, and rebuilt; a rebuild that is stopped
    leaves the old one; dropped, nothing is left. The table is not written."""

    def call(verb: str, *arguments: str, code: int = 0) -> Any:
        words = ["index", verb, str(table), *arguments, "--type", "postgres", "--url", postgresql_url]
        assert run([*words, "--json"]) == code
        return json.loads(capfd.readouterr().out or "null")

    def found() -> list[tuple[str, str]]:
        shown = call("lookup", "k1", "k2", "k3", "k4")
        return [(each["key"], each["partition_path"]) for each in shown["locations"]]

    before = everything(table)
    call("lookup", "k1", code=2)
    built = call("build")
    assert (built["entries"], built["commits"]) == (3, [])
    assert found() == [("k1", "a"), ("k2", "a"), ("k3", "b")]
    call("build", code=2)
    assert found() == [("k1", "a"), ("k2", "a"), ("k3", "b")]
    assert everything(table) == before

    write(table, [("k2", 2, "a", None)], "delete")
    write(table, [("k4", 3, "b", "x")])
    before = everything(table)
    now = [("k1", "a"), ("k3", "b"), ("k4", "b")]
    assert found() == now, "what it does not have yet is covered"
    assert len(call("update")["commits"]) == 2
    assert call("update")["commits"] == []
    assert found() == now
    assert call("verify", "--all")["faults"] == []
    compared = call("compare", "--type", "bloom")
    assert (compared["keys"], compared["differing"]) == (6, 0)
    bloom, own = (each["cost"] for each in compared["indexes"])
    assert (own["commits"], own["commit_entries"], bloom["commit_entries"]) == (2, 1, None)
    assert 30 < own["commit_bytes"] < 100, "a row of one short key and three numbers"
    assert everything(table) == before
    write(table, [("k5", 4, "b", "x")])
    assert run(["index", "list", str(table), "--url", postgresql_url, "--json"]) == 0
    *_, listed = json.loads(capfd.readouterr().out)["indexes"]
    assert (listed["type"], listed["name"], listed["scope"], listed["behind_commits"]) == (
        "postgres",
        "keys",
        "table",
        1,
    )
    assert listed["bytes"] > 0 and listed["behind_bytes"] > 0 and listed["behind_seconds"] >= 0
    assert run(["index", "list", str(table), "--url", postgresql_url]) == 0
    assert "1 commit, " in capfd.readouterr().out

    assert call("rebuild", "--dry-run")["dry_run"] and call("update")["commits"]
    before = everything(table)
    rebuilt = call("rebuild")
    assert (rebuilt["file_groups"] > 0, rebuilt["entries"]) == (True, 4) and found() == now
    assert call("verify", "--all")["faults"] == []
    assert call("update")["commits"] == []
    assert run(["index", "list", str(table), "--url", postgresql_url, "--json"]) == 0
    assert [each["name"] for each in json.loads(capfd.readouterr().out)["indexes"]][-2:] == ["partition_stats", "keys"]
    with monkeypatch.context() as patched:
        patched.setattr("lakeward.services.indexing.run.index_build.update_and_tidy", dying)
        with pytest.raises(Killed):
            run(["index", "rebuild", str(table), "--type", "postgres", "--url", postgresql_url])
    capfd.readouterr()
    assert found() == now, "the old one is there still"
    assert run(["index", "list", str(table), "--url", postgresql_url, "--json"]) == 0
    listed = [(each["name"], each["state"]) for each in json.loads(capfd.readouterr().out)["indexes"]]
    assert listed[-2:] == [("keys", "in use"), ("keys.rebuilt", "being built")]
    call("rebuild")
    assert found() == now

    assert call("drop", "--dry-run")["is_there"] and found() == now
    assert call("drop")["is_there"]
    for words in ((), ("--dry-run",)):
        call("drop", *words, code=2)
    call("lookup", "k1", code=2)


def test_a_write_goes_by_it(
    table: Path, tmp_path: Path, postgresql_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A row for another partition goes to the one that has its key, also where the index has not taken that in yet;
    Spark's tasks are given no credentials."""
    rows = tmp_path / "rows.jsonl"
    words = ["write", str(table), "--input", str(rows), "--writers", "stopped", "--index", "postgres"]
    words += ["--index-url", postgresql_url]
    assert run(["index", "build", str(table), "--type", "postgres", "--url", postgresql_url]) == 0
    write(table, [("k4", 2, "b", "x")])
    rows.write_text("".join(f'{{"id": "{key}", "ts": 5, "part": "c", "v": "y"}}\n' for key in ("k1", "k4", "k5")))

    assert run([*words, "--engine", "spark"]) == 2
    assert "With an index in a database, only this process can write rows" in capfd.readouterr().err
    assert run(words) == 0
    there = {(row["id"], row["_hoodie_partition_path"], row["v"]) for row in read_rows(table)}
    assert there == {("k1", "a", "y"), ("k2", "a", "x"), ("k3", "b", "x"), ("k4", "b", "y"), ("k5", "c", "y")}


def test_what_cannot_be_built(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Other indexes are Hudi's or the files themselves, and a store in a file is none for an index."""
    assert run(["index", "build", str(table), "--type", "simple"]) == 2
    assert "The simple index is not built by Lakeward." in capfd.readouterr().err
    store = f"sqlite:///{tmp_path / 'store.db'}"
    assert run(["state", "migrate", "--url", store]) == 0
    for verb in ("build", "update", "rebuild"):
        assert run(["index", verb, str(table), "--type", "postgres", "--url", store]) == 2
        assert "needs a PostgreSQL database" in capfd.readouterr().err
