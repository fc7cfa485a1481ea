"""What a table has of indexes, and where they say that keys are, by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden

GROUP = "3beaf4e6-44dc-4248-840b-a9876117aee8-0"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_golden("v9_metadata", tmp_path / "table")


def test_every_index_is_listed(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Base files, their filters, and each partition of the metadata table but its files; what Hudi was still building
    is said to be built."""
    properties = table / ".hoodie/hoodie.properties"
    text = properties.read_text()
    assert ",record_index" in text
    properties.write_text(
        text.replace(",record_index", "") + "\nhoodie.table.metadata.partitions.inflight=record_index\n"
    )

    assert run(["index", "list", str(table), "--json", "--timezone", "UTC"]) == 0
    listed = json.loads(capfd.readouterr().out)["indexes"]
    assert [(each["type"], each["name"]) for each in listed] == [
        ("simple", ""),
        ("bloom", ""),
        *(("metadata", name) for name in ("bloom_filters", "column_stats", "partition_stats", "record_index")),
    ]
    assert [each["state"] for each in listed] == ["in use"] * 5 + ["being built"]
    assert [each["name"] or each["type"] for each in listed if each["locates"]] == ["simple", "bloom", "record_index"]
    assert (listed[1]["covered"], listed[1]["of"], listed[0]["bytes"]) == (1, 1, 0) and listed[1]["bytes"] > 0

    assert run(["index", "list", str(table), "--timezone", "UTC"]) == 0
    assert "1 of 1 footers were opened, 1 of them with a filter." in capfd.readouterr().out


def test_keys_are_looked_up(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each key has a place or the word that it has none: k5 is in the base file and deleted in a log, which
    the record index knows and the simple index does not. Nothing is written."""
    before = everything(table)
    keys = tmp_path / "keys"
    keys.write_text("k1\n\nk5\nk1\n")

    assert run(["index", "lookup", str(table), "no such", "--keys-file", str(keys), "--timezone", "UTC"]) == 0
    out = capfd.readouterr().out
    assert f"k1  p         {GROUP}" in out
    assert "k5: not found by the metadata index.\n" in out and "1 of 3 keys found." in out

    words = ["index", "lookup", str(table), "no such", "--type", "simple", "--json", "--timezone", "UTC"]
    assert run([*words, "--keys-file", str(keys)]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [(each["key"], each["file_id"], each["found_by"]) for each in found["locations"]] == [
        ("k1", GROUP, "simple"),
        ("k5", GROUP, "simple"),
    ]
    assert (found["keys"], found["not_found"]) == (3, ["no such"])
    assert run([*words, "--partition", "q", "k1"]) == 0
    assert json.loads(capfd.readouterr().out)["not_found"] == ["no such", "k1"]
    assert everything(table) == before


def test_keys_from_standard_input(
    table: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`-` stands for it; without any key the command says where they go."""
    monkeypatch.setattr("sys.stdin", io.StringIO("k1\n"))
    assert run(["index", "lookup", str(table), "--keys-file", "-", "--timezone", "UTC"]) == 0
    assert "1 of 1 key found." in capfd.readouterr().out
    assert run(["index", "lookup", str(table)]) == 2
    assert "No record key is given." in capfd.readouterr().err
    assert run(["index", "lookup", str(table), "--keys-file", "/no/such"]) == 2
    assert "/no/such cannot be read." in capfd.readouterr().err


def test_an_index_that_is_not_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A table without a record index is refused the lookup by it, with the remedy, and served by what it has."""
    table = copy_golden("v9", tmp_path / "table")
    assert run(["index", "lookup", str(table), "k1", "--type", "metadata", "--timezone", "UTC"]) == 2
    assert "The table has no record index." in capfd.readouterr().err
