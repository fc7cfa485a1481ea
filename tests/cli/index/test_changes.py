"""What commits did to the places of keys, by hand, and against the rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from lakeward.services.indexing.judge.key_change_list import changes_between
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import everything
from tests.index.following import truth
from tests.our_reader import scan
from tests.write.writing import new_table, write


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two rows come; one goes; another comes elsewhere."""
    table = new_table(tmp_path / "table")
    write(table, [("k1", 1, "a", "x"), ("k2", 1, "a", "x")])
    write(table, [("k2", 2, "a", None)], "delete")
    write(table, [("k3", 3, "b", "x")])
    return table


def test_commits_are_shown_in_order(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each with what came and what went, and of some commits only those; nothing is written."""
    before = everything(table)
    assert run(["index", "changes", str(table), "--json"]) == 0
    commits = json.loads(capfd.readouterr().out)["commits"]
    shown = [[(each["key"], each["partition_path"], each["is_there"]) for each in of["changes"]] for of in commits]
    assert shown == [[("k1", "a", True), ("k2", "a", True)], [("k2", "a", False)], [("k3", "b", True)]]
    assert [(of["there"], of["gone"], of["read_again"]) for of in commits] == [(2, 0, 0), (0, 1, 0), (1, 0, 0)]

    first, second, third = (of["instant"] for of in commits)
    assert run(["index", "changes", str(table), "--from", first, "--to", second]) == 0
    out = capfd.readouterr().out
    assert "k2" in out and "no more in" in out and f"deltacommit {second}: 0 keys in, 1 gone." in out
    assert first not in out and third not in out
    assert run(["index", "changes", str(table), "--from", third]) == 0
    assert capfd.readouterr().out == "No commit in between.\n"
    assert everything(table) == before


def test_all_are_counted_and_some_are_listed(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps of services/indexing/judge/key_change_list. What is reported of all commits leads to where the rows are."""
    assert run(["index", "changes", str(table), "--limit", "1"]) == 0
    assert "… and 3 more; --limit lists them." in capfd.readouterr().out

    places = {}
    for commit in changes_between(LocalStorage(), scan(table), after=None, until=None, kept=100):
        for change in commit.changes:
            places.pop(change.key, None)
            if change.is_there:
                places[change.key] = (change.partition_path, change.file_id)
    assert sorted(places.items()) == truth(table)
