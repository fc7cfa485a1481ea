"""An index on trial beside another one: begun, compared, cut over to, gone back from, ended; and writes meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakeward.cli.configured_table import open_table
from lakeward.cli.index.own_index import indexes_of
from lakeward.cli.main import run
from lakeward.index.location import LOCATIONS
from lakeward.services.indexing.table_indexes import RecordPlace
from tests.our_reader import scan
from tests.write.writing import Row, new_table, rows_of, write


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "table", table_type="COPY_ON_WRITE")
    write(table, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k3", 1, "b", "x")])
    assert run(["index", "build", str(table), "--type", "record", "--by-partition"]) == 0
    return table


@pytest.fixture
def call(table: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    def call(verb: str, *arguments: str, code: int = 0) -> Any:
        capfd.readouterr()
        assert run(["index", verb, str(table), *arguments, "--json"]) == code
        said = capfd.readouterr()
        return json.loads(said.out) if said.out else said.err

    return call


def put(table: Path, rows: list[Row], *options: str, code: int = 0) -> None:
    """A write by the command, which says nothing of an index."""
    path = table.parent / "rows.parquet"
    parquet.write_table(pa.Table.from_batches([rows_of(rows)]), path)
    words = ["write", str(table), "--input", str(path), "--writers", "stopped", "--engine", "local", *options]
    assert run(words) == code


def behind(call: Any) -> int:
    listed = call("list")["indexes"]
    return next(each["behind_commits"] for each in listed if each["type"] == "record")


def lose(table: Path, key: str, partition: str) -> None:
    """The index forgets where a key is."""
    snapshot = scan(table)
    index = RecordPlace(indexes_of(open_table(str(table), None), None)).open(snapshot)
    gone = [dict(zip(LOCATIONS.names, (key, partition, None, None), strict=True))]
    index.update(snapshot.timeline.completed[-1].time, [pa.RecordBatch.from_pylist(gone, LOCATIONS)], completed=None)


@pytest.mark.slow
def test_an_index_on_trial(table: Path, call: Any) -> None:
    """From the beginning on writes use the primary and the shadow has them; what another writer commits is compared,
    too. A shadow that is wrong is named, and is not cut over to; rebuilt and clean it is, and writes use it; back
    it goes at once. Keeps 2 of cli/index/tee_command."""
    assert call("tee")["primary"] is None and call("list")["tee"] is None
    begun = call("tee", "--primary", "simple", "--shadow", "record")
    assert (begun["primary"], begun["shadow"], begun["clean_in_a_row"]) == ("simple", "record", 0)
    call("cut-over", "--after-clean", "1", code=2)

    roles = {each["type"]: each["role"] for each in call("list")["indexes"] if each["role"]}
    assert roles == {"simple": "primary", "record": "shadow"}
    put(table, [("k1", 2, "a", "y"), ("k4", 2, "b", "y")])
    assert behind(call) == 0, "the shadow was informed"
    write(table, [("k5", 3, "a", "z")])
    assert behind(call) == 1
    assert "would fail without it" in call("drop", "--type", "record", code=2)
    found = call("tee")
    assert [each["shadow_wrong"] for each in found["now"]] == [0, 0]
    assert (found["clean_in_a_row"], found["commits_left"]) == (2, 0)
    assert call("tee")["now"] == []
    listed = call("list")["tee"]
    assert (listed["primary"], listed["shadow"]) == ("simple", "record")
    assert (listed["keys_compared"], listed["keys_wrong"], listed["commits_left"]) == (found["keys_compared"], 0, 0)
    assert found["keys_compared"] == sum(each["keys"] for each in found["now"]) > 0

    call("update", "--type", "record")
    lose(table, "k4", "b")
    put(table, [("k4", 4, "b", "w"), ("k6", 4, "b", "w")])
    wrong = call("tee", code=6)
    assert (wrong["commits_wrong"], wrong["clean_in_a_row"], wrong["keys_wrong"]) == (1, 0, 1)
    assert [each["key"] for each in wrong["differences"]] == ["k4"]
    assert "index rebuild TABLE --type record" in call("cut-over", "--after-clean", "2", code=2)

    call("rebuild", "--type", "record")
    put(table, [("k1", 5, "a", "v")])
    put(table, [("k7", 5, "a", "v")])
    over = call("cut-over", "--after-clean", "2")
    assert (over["primary"], over["shadow"], over["is_cut_over"]) == ("record", "simple", True)
    put(table, [("k7", 6, "a", "u"), ("k8", 6, "b", "u")])
    assert behind(call) == 0, "writes use it, and it learns of them"
    put(table, [("k7", 6, "a", "u")], "--index", "simple", code=2)
    assert all(each["shadow_wrong"] == 0 for each in call("tee")["now"])

    back = call("cut-over", "--back")
    assert (back["primary"], back["shadow"], back["is_cut_over"]) == ("simple", "record", False)
    call("cut-over", "--back", code=2)
    ended = call("tee", "--end")
    assert (ended["primary"], ended["shadow"]) == ("simple", None)
    assert call("tee", "--forget")["primary"] is None
    call("tee", "--end", code=2)
    call("drop", "--type", "record")


def test_what_does_not_go_together(table: Path, call: Any) -> None:
    """Keeps 1 of cli/index/tee_command: an index that is not there, one by which a key is one in something else, the
    same one twice, or half of what is to be said, chooses nothing."""
    for options, said in (
        (("--primary", "simple", "--shadow", "metadata"), "record index"),
        (("--primary", "simple", "--shadow", "simple"), "are the same"),
        (("--primary", "simple"), "--primary without --shadow"),
        (("--forget", "--end"), "exclude each other"),
    ):
        assert said in call("tee", *options, code=2)
    call("drop", "--type", "record")
    call("build", "--type", "record")
    assert "by-partition" in call("tee", "--primary", "simple", "--shadow", "record", code=2)
    assert not (table / ".hoodie/.lakeward/index/tee").exists()
    assert "Neither or both of" in call("cut-over", code=2)
    assert "No tee was begun" in call("cut-over", "--back", code=2)


def test_an_index_that_the_table_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Hudi's writers hold to `hoodie.index.type`, so that another primary is refused."""
    table = new_table(tmp_path / "said", table_type="COPY_ON_WRITE")
    write(table, [("k1", 1, "a", "x")])
    with (table / ".hoodie/hoodie.properties").open("a") as properties:
        properties.write("hoodie.index.type=BLOOM\n")
    assert run(["index", "build", str(table), "--type", "record", "--by-partition"]) == 0
    words = ["index", "tee", str(table), "--primary", "simple", "--shadow", "record"]
    assert run(words) == 2
    assert "requires bloom" in capfd.readouterr().err
    assert run(["index", "tee", str(table), "--primary", "bloom", "--shadow", "record"]) == 0
    assert "the record index is on trial" in capfd.readouterr().out
    put(table, [("k2", 2, "a", "y")])
    assert run(["index", "tee", str(table)]) == 0
    shown = "Compared 1 commits (2 keys): the shadow was wrong in 0 commits, 0 locations; 1 clean in a row."
    assert shown in capfd.readouterr().out
    write(table, [("k3", 3, "a", "y")])
    assert run(["index", "list", str(table)]) == 0
    listed = " ".join(capfd.readouterr().out.split())
    assert f"Writes use the bloom index; the record index is on trial. {shown} 1 are still to be" in listed
