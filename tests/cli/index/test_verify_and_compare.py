"""Is an index right, and which of two: by hand, on a table of Hudi's whose record index is damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.verify.metadata_damage import put_record, records

UTC = ("--timezone", "UTC")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_golden("v9_metadata", tmp_path / "table")


def test_a_sound_index(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Hudi's own: rows and entries agree, and nothing is written. The simple index keeps no entries."""
    before = everything(table)
    assert run(["index", "verify", str(table), *UTC]) == 0
    out = capfd.readouterr().out
    assert "4 of 4 rows were looked up in the index, 0 of them wrong: none is." in out
    assert "4 of 4 entries were looked for among the rows" in out
    assert run(["index", "verify", str(table), "--type", "simple", "--json", *UTC]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["ok"], document["entries"], document["complete"]) == (True, None, True)
    assert (document["rows"]["checked"], document["rows"]["of"]) == (6, 6)
    assert everything(table) == before


def test_a_wrong_index(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An entry without a row is named, exit 6; and of two indexes the one that has it is the wrong one."""
    put_record(table, "record_index", "zzz", replace(records(table, "record_index")["k1"]))
    assert run(["index", "verify", str(table), *UTC]) == 6
    out = capfd.readouterr().out
    assert "zzz: the index says that it is in p, 3beaf4e6" in out and "The metadata index is WRONG." in out
    assert run(["index", "verify", str(table), "--json", *UTC]) == 6
    (fault,) = json.loads(capfd.readouterr().out)["faults"]
    assert (fault["kind"], fault["key"]) == ("no-row", "zzz")

    keys = table.parent / "keys"
    keys.write_text("k1\nk5\nzzz\n")
    words = ["index", "compare", str(table), "--type", "simple", "--type", "metadata", "--keys-file", str(keys), *UTC]
    assert run(words) == 6
    out = capfd.readouterr().out
    assert "zzz: simple says nowhere, metadata says p, 3beaf4e6" in out and "its row is in nowhere" not in out
    assert run([*words, "--json"]) == 6
    document = json.loads(capfd.readouterr().out)
    assert [each["key"] for each in document["differences"]] == ["k5", "zzz"]
    assert [(each["name"], each["false_locations"]) for each in document["indexes"]] == [("simple", 1), ("metadata", 1)]


def test_equal_answers(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keys that are drawn from the table have one answer each; one type alone is no comparison."""
    assert run(["index", "compare", str(table), "--type", "metadata", "--type", "simple", *UTC]) == 0
    assert "8 keys, 4 of them made up: 8 answers are equal, 0 differ." in capfd.readouterr().out
    assert run(["index", "compare", str(table), "--type", "metadata"]) == 2
    assert "1 index named, and two are compared." in capfd.readouterr().err
