"""Is an index right, and which of two: by hand, on a table of Hudi's whose record index is damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.services.verification.metadata_damage import put_record, records

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
    assert run(["index", "verify", str(table), "--report-only", *UTC]) == 6
    out = capfd.readouterr().out
    assert "zzz: the index says that it is in p, 3beaf4e6" in out and out.endswith("The metadata index is WRONG.\n")
    assert run(["index", "verify", str(table), "--report-only", "--json", *UTC]) == 6
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


def test_a_wrong_index_is_out_of_use(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps of cli/index/verify_command: lookups and writes refuse to use it, with what was found and the remedy. A
    sample that finds nothing does not put it back, a look at everything does."""
    right = records(table, "record_index")["k1"]
    put_record(table, "record_index", "k1", replace(right, file_id="11111111-1111-1111-1111-111111111111-0"))
    assert run(["index", "verify", str(table), *UTC]) == 6
    assert "The metadata index is out of use from now on." in capfd.readouterr().out
    assert run(["index", "verify", str(table), *UTC]) == 6
    assert "from now on" not in capfd.readouterr().out

    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "k1", "ts": 9, "part": "p", "name": "new"}\n')
    write = [
        "write",
        str(table),
        "--input",
        str(rows),
        "--engine",
        "local",
        "--writers",
        "stopped",
        "--fill-missing",
        *UTC,
    ]
    for refused in (["index", "lookup", str(table), "k1", *UTC], write):
        assert run(refused) == 2
        shown = capfd.readouterr().err
        assert "The metadata index of the table is out of use." in shown and "such as k1: " in shown
        assert "lakeward index drop TABLE --type metadata" in shown
    assert run(["index", "list", str(table), *UTC]) == 0
    assert "out of use" in capfd.readouterr().out

    put_record(table, "record_index", "k1", right)
    assert run(["index", "verify", str(table), "--error-rate", "0.4", "--confidence", "0.5", *UTC]) == 0
    assert run(["index", "lookup", str(table), "k1", *UTC]) == 2
    assert run(["index", "verify", str(table), "--all", *UTC]) == 0
    assert "The metadata index is in use from now on." in capfd.readouterr().out
    assert run(["index", "lookup", str(table), "k1", *UTC]) == run(write) == 0


def test_an_index_that_is_removed_is_no_more_out_of_use(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps of cli/index/rebuild_command: a dry run, and a command without a word about the writers, write nothing;
    `index drop` takes the wrong one away, and with it what was said of it."""
    put_record(table, "record_index", "zzz", replace(records(table, "record_index")["k1"]))
    assert run(["index", "verify", str(table), *UTC]) == 6
    marker = table / ".hoodie/.lakeward/index/metadata.out-of-use"
    assert "0 of 4 rows and 1 of 5 entries were found wrong, such as zzz: " in marker.read_text()
    before = everything(table)
    drop = ["index", "drop", str(table), "--type", "metadata"]
    assert (run([*drop, "--dry-run"]), run(drop)) == (0, 2)
    assert run(["index", "drop", str(table), "--type", "simple", "--writers", "stopped"]) == 2
    assert everything(table) == before
    assert run([*drop, "--writers", "stopped"]) == 0
    assert not marker.exists()
    assert run(["index", "lookup", str(table), "k1", "--type", "metadata", *UTC]) == 2
    assert "The table has no record index." in capfd.readouterr().err


def test_equal_answers(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keys that are drawn from the table have one answer each; one type alone is no comparison."""
    assert run(["index", "compare", str(table), "--type", "metadata", "--type", "simple", *UTC]) == 0
    assert "8 keys, 4 of them of no row: 8 answers are equal, 0 differ." in capfd.readouterr().out
    assert run(["index", "compare", str(table), "--type", "metadata"]) == 2
    assert "1 index named, and two are compared." in capfd.readouterr().err
