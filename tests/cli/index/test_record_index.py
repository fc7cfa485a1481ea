"""The record index of a table, by hand: built, asked, brought up to date, verified, rebuilt and dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Refused
from lakeward.cli.configured_table import open_table
from lakeward.cli.index.own_index import indexes_of
from lakeward.cli.main import run
from lakeward.index.record.created_with import DEFAULT_HASH, SECOND_HASH, KeyScope
from lakeward.index.record.index_growth import ScalingWay
from lakeward.index.record.record_manifest import find_manifest
from lakeward.index.record.record_options import RECORD_OPTIONS, RecordOptions
from lakeward.services.indexing.run.index_build import build_index
from lakeward.services.indexing.table_indexes import RecordPlace
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import everything
from tests.faults import Killed
from tests.index.builds import in_process
from tests.index.following import places
from tests.our_reader import read_rows, scan
from tests.write.own_record_index import plant
from tests.write.writing import new_table, write


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "table")
    write(table, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k3", 1, "b", "x")])
    return table


def rows_and_timeline(table: Path) -> list[Any]:
    return [each for each in everything(table) if ".lakeward" not in str(each)]


def dying(*given: object) -> None:
    raise Killed("the rebuild")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["below the table", "elsewhere"])
def test_an_index_of_a_table(
    table: Path, tmp_path: Path, place: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers as the rows are, before and after it is brought up to date, and rebuilt; a rebuild that is stopped
    leaves the old one; dropped, nothing is left. Rows and timeline of the table are not written, and nothing below the
    table where a location is configured."""
    settings: list[str] = []
    if place == "elsewhere":
        config = tmp_path / "lakeward.toml"
        config.write_text(f'[defaults.index.record]\nlocation = "{tmp_path / "indexes"}"\n')
        settings = ["--config", str(config)]

    def call(verb: str, *arguments: str, code: int = 0) -> Any:
        words = ["index", verb, str(table), *arguments, "--type", "record", *settings]
        assert run([*words, "--json"]) == code
        return json.loads(capfd.readouterr().out or "null")

    def found(*arguments: str) -> list[tuple[str, str]]:
        shown = call("lookup", "k1", "k2", "k3", "k4", *arguments)
        return [(each["key"], each["partition_path"]) for each in shown["locations"]]

    before = rows_and_timeline(table)
    call("lookup", "k1", code=2)
    built = call("build")
    assert (built["entries"], built["commits"]) == (3, [])
    assert found() == [("k1", "a"), ("k2", "a"), ("k3", "b")]
    call("build", code=2)
    assert (everything(table) if settings else rows_and_timeline(table)) == before

    write(table, [("k2", 2, "a", None)], "delete")
    write(table, [("k4", 3, "b", "x")])
    before = rows_and_timeline(table)
    now = [("k1", "a"), ("k3", "b"), ("k4", "b")]
    assert found() == now, "what it does not have yet is covered"
    assert run(["index", "list", str(table), *settings, "--json"]) == 0
    listed = next(each for each in json.loads(capfd.readouterr().out)["indexes"] if each["type"] == "record")
    assert (listed["scope"], listed["behind_commits"], listed["state"]) == ("table", 2, "in use")
    assert listed["bytes"] > 0 and listed["behind_bytes"] > 0
    assert len(call("update")["commits"]) == 2
    assert call("update")["commits"] == []
    assert found() == now
    assert call("verify", "--all")["faults"] == []
    compared = call("compare", "--type", "bloom")
    assert (compared["keys"], compared["differing"]) == (6, 0)
    assert rows_and_timeline(table) == before

    with monkeypatch.context() as patched:
        patched.setattr("lakeward.services.indexing.run.index_build.update_and_tidy", dying)
        with pytest.raises(Killed):
            call("rebuild")
    assert found() == now
    assert call("rebuild", "--dry-run")["dry_run"]
    for _ in range(3):
        rebuilt = call("rebuild")
        assert (rebuilt["file_groups"] > 0, rebuilt["entries"]) == (True, 3) and found() == now
    assert call("verify", "--all")["faults"] == []

    assert call("drop", "--dry-run")["is_there"] and found() == now
    assert call("drop")["is_there"]
    call("drop", code=2)
    call("lookup", "k1", code=2)
    left = [
        path for path in tmp_path.rglob("*") if path.name.startswith(("manifest-", "built-")) or path.suffix == ".hfile"
    ]
    assert [path for path in left if "metadata" not in path.parts] == []
    assert not settings or not list((tmp_path / "indexes").iterdir())


def test_as_of(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A lookup says where keys were when a commit had completed; of an instant that is none, and by another type, it
    is an error. Keeps of index/record/as_of."""

    def call(*arguments: str, code: int = 0, kind: str = "record") -> Any:
        assert run(["index", *arguments, "--type", kind, "--json"]) == code
        return json.loads(capfd.readouterr().out or "null")

    def found(instant: str, code: int = 0) -> list[str]:
        shown = call("lookup", str(table), "k1", "k2", "k4", "--as-of", instant, code=code)
        return [] if shown is None else [each["key"] for each in shown["locations"]]

    built = call("build", str(table))["instant"]
    write(table, [("k2", 2, "a", None)], "delete")
    (deleted,) = call("update", str(table))["commits"]
    write(table, [("k4", 3, "b", "x")])
    (written,) = call("update", str(table))["commits"]

    assert found(written) == ["k1", "k4"]
    call("lookup", str(table), "k1", "--as-of", written, kind="bloom", code=2)
    found("20200101000000000", code=2)
    assert found(deleted) == ["k1"] and found(built) == ["k1", "k2"]


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_write_goes_by_it(table: Path, tmp_path: Path, engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A row for another partition goes to the one that has its key, also where the index has not taken that in yet, and
    whichever engine sorts the rows; and the index has the commit with it."""
    rows = tmp_path / "rows.jsonl"
    assert run(["index", "build", str(table), "--type", "record"]) == 0
    write(table, [("k4", 2, "b", "x")])
    rows.write_text("".join(f'{{"id": "{key}", "ts": 5, "part": "c", "v": "y"}}\n' for key in ("k1", "k4", "k5")))

    words = ["write", str(table), "--input", str(rows), "--writers", "stopped", "--index", "record"]
    assert run([*words, "--engine", engine]) == 0
    there = {(row["id"], row["_hoodie_partition_path"], row["v"]) for row in read_rows(table)}
    assert there == {("k1", "a", "y"), ("k2", "a", "x"), ("k3", "b", "x"), ("k4", "b", "y"), ("k5", "c", "y")}
    capfd.readouterr()
    assert run(["index", "list", str(table), "--json"]) == 0
    listed = next(each for each in json.loads(capfd.readouterr().out)["indexes"] if each["type"] == "record")
    assert listed["behind_commits"] == 1
    assert run(["index", "verify", str(table), "--type", "record", "--all"]) == 0


def test_two_that_build_it_again_at_once(table: Path) -> None:
    """The first of two finds that its folder went, and changes nothing; the second's takes the place, and stays whole
    when a third one begins."""
    assert run(["index", "build", str(table), "--type", "record"]) == 0
    opened = open_table(str(table), None)
    place = RecordPlace(indexes_of(opened, None))
    snapshot = opened.snapshot()
    first = place.beside()
    first.create(is_global=True)
    second = place.beside()
    second.create(is_global=True)
    build_index(opened.storage, second.open, lambda: snapshot, in_process(table))

    with pytest.raises(Refused, match="cannot be moved"):
        first.take_place()
    second.take_place()
    place.beside()
    assert len(places(place.open(snapshot), ["k1", "k2", "k3"])) == 3


@pytest.mark.parametrize("place", ["below the table", "elsewhere"])
def test_one_that_is_wrong(table: Path, tmp_path: Path, place: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It is out of use once a check found it wrong: nothing uses it, `list` says so, and a build that is refused
    changes nothing of that. Built again it is in use; dropped, the mark goes with it."""
    config = tmp_path / "lakeward.toml"
    options = RecordOptions(str(tmp_path / "indexes") if place == "elsewhere" else None)
    config.write_text(f'[defaults.index.record]\nlocation = "{options.location}"\n' if options.location else "")

    def call(verb: str, *words: str, code: int = 0) -> str:
        assert run(["index", verb, str(table), *words, "--config", str(config)]) == code
        captured = capfd.readouterr()
        return captured.out + captured.err

    call("build", "--type", "record")
    plant(table, "k1", options)
    assert "The record index is out of use from now on" in call("verify", "--type", "record", code=6)
    said = call("lookup", "k2", "--type", "record", code=2)
    assert "of 3 rows" in said and "lakeward index rebuild TABLE --type record" in said
    written = scan(table).timeline.completed_writes[-1].time
    assert "is out of use" in call("lookup", "k2", "--type", "record", "--as-of", written, code=2)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "k1", "ts": 5, "part": "c", "v": "y"}\n')
    words = ["write", str(table), "--input", str(rows), "--writers", "stopped", "--index", "record"]
    assert run([*words, "--engine", "local", "--config", str(config)]) == 2
    assert "is out of use" in capfd.readouterr().err
    assert "out of use" in call("list")
    call("build", "--type", "record", code=2)
    assert "is out of use" in call("lookup", "k2", "--type", "record", code=2)
    assert (options.location is None) == (table / ".hoodie/.lakeward/index/record.out-of-use").exists()

    call("rebuild", "--type", "record")
    assert "k1" in call("lookup", "k1", "--type", "record") and "out of use" not in call("list")
    plant(table, "k1", options)
    call("verify", "--type", "record", code=6)
    call("drop", "--type", "record")
    call("build", "--type", "record")
    call("verify", "--type", "record")
    call("lookup", "k1", "--type", "record")
    assert not list(tmp_path.rglob("*out-of-use"))


def test_one_whose_manifest_is_broken(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Lookups and `rebuild` say what helps, and that helps; `list` shows it beside the others."""

    def call(verb: str, *words: str, code: int = 0) -> str:
        assert run(["index", verb, str(table), *words]) == code
        captured = capfd.readouterr()
        return captured.out + captured.err

    call("build", "--type", "record")
    folder = table / ".hoodie/.lakeward/index/record"
    newest = max(folder.glob("manifest-*"))
    newest.write_text(newest.read_text()[:-20])
    remedy = "`lakeward index drop TABLE --type record` and `lakeward index build TABLE --type record`"
    for words in (["lookup", "k1"], ["rebuild"]):
        assert remedy in " ".join(call(*words, "--type", "record", code=1).split())
    listed = call("list")
    assert "simple" in listed and "unreadable" in listed

    call("drop", "--type", "record")
    assert not folder.exists()
    call("build", "--type", "record")
    assert "k1" in call("lookup", "k1", "--type", "record")


def test_an_index_has_the_shape_that_was_asked_for(
    table: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a build that was interrupted with another shape or scope, and after a rebuild that asks for no other
    one; by default it is as ever. Other indexes have none."""

    def shape() -> tuple[int, ScalingWay, int, str]:
        _, manifest = find_manifest(LocalStorage(), RECORD_OPTIONS.folder(str(table))) or pytest.fail("no index")
        scaling, (group,) = manifest.scaling, manifest.groups
        return group.buckets, scaling.way, scaling.entries_max, manifest.hash_name

    record = [str(table), "--type", "record"]
    asked = ["--buckets", "3", "--bucket-entries", "50", "--scaling", "seal", "--hash", SECOND_HASH]
    with monkeypatch.context() as interrupted:
        interrupted.setattr("lakeward.services.indexing.run.index_build.build_index", dying)
        with pytest.raises(Killed):
            run(["index", "build", *record, "--buckets", "7", "--bucket-entries", "40", "--by-partition"])
        assert shape()[0] == 7
        with pytest.raises(Killed):
            run(["index", "build", *record])
        assert shape()[0] == 7, "the one that was begun goes on"
    assert run(["index", "build", *record, *asked]) == 0
    assert shape() == (3, ScalingWay.SEAL, 50, SECOND_HASH)
    assert find_manifest(LocalStorage(), RECORD_OPTIONS.folder(str(table)))[1].scope is KeyScope.GLOBAL
    assert run(["index", "rebuild", *record, "--bucket-entries", "60"]) == 0
    assert shape()[1:] == (ScalingWay.SEAL, 60, SECOND_HASH)
    assert run(["index", "drop", *record]) == 0
    assert run(["index", "build", *record]) == 0
    assert shape()[1:] == (ScalingWay.GROUP, 1_000_000, DEFAULT_HASH)
    capfd.readouterr()
    assert run(["index", "build", str(table), "--type", "bloom", "--buckets", "3"]) == 2
    assert "The bloom index has no buckets." in capfd.readouterr().err
    assert run(["index", "build", *record, "--hash", "lakeward64"]) == 2
    assert "Did you mean lakeward-64?" in capfd.readouterr().err
