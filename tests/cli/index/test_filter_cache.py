"""The cache of filters of a table, by hand: built, listed, asked, brought up to date, verified, made again, dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.cli.main import run
from tests.crash.compacting import everything
from tests.index.bloom.caches import cache_files, mislead_cache
from tests.write.writing import new_table, write

Call = Any


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "table")
    write(table, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k3", 1, "b", "x")])
    return table


@pytest.fixture
def call(table: Path, capfd: pytest.CaptureFixture[str]) -> Call:
    def called(verb: str, *arguments: str, code: int = 0) -> Any:
        assert run(["index", verb, str(table), *arguments, "--json"]) == code
        return json.loads(capfd.readouterr().out or "null")

    return called


def bloom(call: Call) -> Any:
    return next(each for each in call("list")["indexes"] if each["type"] == "bloom")


def test_a_life(table: Path, call: Call, capfd: pytest.CaptureFixture[str]) -> None:
    """Lookups answer alike with a cache and without; `list` says how much it covers and how far it is behind; rows and
    timeline are never written; dropped, nothing is left."""
    others = [path for path in everything(table) if ".lakeward" not in path]
    words, kind = ("lookup", "k1", "k3", "no"), ("--type", "bloom")
    before = call(*words, *kind)
    assert call("update", *kind, code=2) is None
    built = call("build", *kind)
    assert (built["covered"], built["read"], built["files"], built["broken"]) == (2, 2, 1, [])
    assert call("build", *kind, code=2) is call("build", *kind, "--by-partition", code=2) is None
    assert call(*words, *kind) == before
    listed = bloom(call)
    assert (listed["covered"], listed["of"], listed["behind_commits"], listed["bytes"]) == (2, 2, 0, built["bytes"])
    assert [path for path in everything(table) if ".lakeward" not in path] == others

    write(table, [("k9", 1, "c", "x")])
    listed = bloom(call)
    assert (listed["covered"], listed["of"], listed["behind_commits"]) == (2, 3, 1)
    assert "what it lacks is read from the files" in listed["note"] and listed["behind_bytes"] > 0
    assert [each["key"] for each in call("lookup", "k9", "k1", *kind)["locations"]] == ["k1", "k9"]
    assert (call("update", *kind)["read"], bloom(call)["behind_commits"]) == (1, 0)

    assert call("rebuild", *kind, "--dry-run")["read"] == 3
    assert call("rebuild", *kind)["read"] == 3
    assert run(["index", "update", str(table), *kind]) == 0
    assert "of 3 of the table" in capfd.readouterr().out
    assert call("drop", *kind, "--dry-run")["is_there"] and cache_files(table)
    assert call("drop", *kind)["is_there"]
    call("drop", *kind, code=2)
    assert cache_files(table) == [] and "footers were opened" in bloom(call)["note"]


def test_one_that_is_wrong(
    table: Path, call: Call, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Keeps of services/indexing/judge/filter_cache_check: an entry with another range or filter than its footer is
    found, named, and the cache is out of use until it is made again; what is broken is said, and rules nothing out."""
    kind = ("--type", "bloom")
    call("build", *kind)
    whole = call("verify", *kind, "--all")
    assert whole["ok"] and whole["cache"] == {"checked": 2, "of": 2, "wrong": [], "broken": []}

    for how in ("range", "filter"):
        mislead_cache(table, how)
        call("lookup", "k1", *kind)
        assert call("verify", *kind, "--report-only", code=6)["changed"] == ""
        found = call("verify", *kind, "--seed", "3", code=6)
        (wrong,) = found["cache"]["wrong"]
        assert how in wrong["what"] or "its keys are" in wrong["what"]
        assert found["changed"] == "out of use" and "it is out of use" in bloom(call)["note"]
        assert call("lookup", "k1", "k3", *kind)["not_found"] == []
        assert "is out of use, footers are read instead" in caplog.text
        call("rebuild", *kind)
        assert "out of use" not in bloom(call)["note"]
        assert run(["index", "verify", str(table), *kind, "--all"]) == 0
        assert "2 of 2 entries of the cache of filters were compared with their files, 0" in capfd.readouterr().out

    for path in cache_files(table):
        if path.suffix == ".keys":
            path.write_bytes(b"x" * path.stat().st_size)
    found = call("verify", *kind, "--all")
    assert found["ok"] and "is broken" in found["cache"]["broken"][0] and "are broken" in bloom(call)["note"]
    newest = max(path for path in cache_files(table) if path.suffix == ".json")
    newest.write_text("no manifest")
    assert "is broken" in call("verify", *kind)["cache"]["broken"][0] and "is broken" in bloom(call)["note"]
    assert call("lookup", "k1", *kind)["not_found"] == []
    assert "is broken" in call("update", *kind)["broken"][0]
    assert call("verify", *kind, "--all")["cache"]["checked"] == 2


def test_a_plan(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--explain` says which files would be asked, by ranges of the cache, and whether these separate; no file is
    opened. By another type it is an error."""
    table = new_table(tmp_path / "table", table_type="COPY_ON_WRITE", has_metadata_table=False)
    for part in "abc":
        write(table, [(f"{part}{number}", 1, part, "x") for number in range(3)])
    words = ["index", "lookup", str(table), "a1", "b1", "z", "--explain", "--type"]

    def explained(*more: str) -> Any:
        assert run([*words, "bloom", *more, "--json"]) == 0
        shown = json.loads(capfd.readouterr().out)
        names = ("keys", "files", "ranges_known", "separates", "files_left", "pairs", "pairs_of")
        return [shown[name] for name in names]

    assert explained() == [3, 3, 0, False, 3, 9, 9]
    assert run([*words, "bloom"]) == 0
    assert "rule out less than 10% of the pairs" in capfd.readouterr().out
    assert run(["index", "build", str(table), "--type", "bloom"]) == 0
    capfd.readouterr()
    assert explained() == [3, 3, 3, True, 2, 2, 9]
    assert explained("--partition", "c") == [3, 1, 1, True, 0, 0, 3]
    for path in table.rglob("*.parquet"):
        path.write_bytes(bytes(path.stat().st_size))
    assert run([*words, "bloom"]) == 0
    assert "They leave 2 of 9 pairs of a file and a key, in 2 files" in capfd.readouterr().out
    assert run([*words, "simple"]) == 2


def test_logs(table: Path, call: Call) -> None:
    """Keys that are in logs, and rows that a log deleted, are reported with --with-logs; the cache has logs where it
    was built so, and updates go on so. Other indexes have logs anyway."""
    write(table, [("k1", 5, "a", "y")])
    write(table, [("k2", 5, "a", None)], "delete")
    kind, logs = ("--type", "bloom"), ("--type", "bloom", "--with-logs")
    keys = ("lookup", "k1", "k2", "k3", "k4")
    assert call(*keys, *kind)["not_found"] == ["k4"]
    assert call(*keys, *logs)["not_found"] == ["k2", "k4"]
    assert call("build", *logs)["read"] == 4 and "it has 2 of 2 logs, too" in bloom(call)["note"]
    assert call(*keys, *logs)["not_found"] == ["k2", "k4"]
    write(table, [("k3", 7, "b", "z")])
    assert "it has 2 of 3 logs, too" in bloom(call)["note"]
    assert (call("update", *kind)["read"], call("rebuild", *kind)["read"]) == (1, 5)
    checked = call("verify", *logs, "--all")
    assert (checked["rows"]["checked"], checked["entries"], checked["cache"]["checked"]) == (2, None, 5)
    assert call("compare", *logs, "--type", "record", code=2) is None
    assert call("compare", *logs, "--type", "simple")["differing"] == 0
    assert call("build", "--type", "record", "--with-logs", code=2) is None
