"""Tables that went to version 10, were written to there, and came back: released Hudi reads them and goes on."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

from lakeward.base.clock import SystemClock
from lakeward.format.file_name import is_native_log
from lakeward.index.index_type import IndexType
from tests.crash.capturing import capture_changes
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward as command
from tests.interop.test_change_capture import Captured, changes
from tests.interop.test_our_writes import KINDS, Turns
from tests.write.writing import new_table, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]


AT_10 = ("--table-version", "10")
BIRTHS = {"9": (), "9, converted": (), "10": AT_10, "lsm_tree": (*AT_10, "--layout", "lsm_tree")}


@pytest.mark.parametrize("born", BIRTHS)
@pytest.mark.parametrize("name", ["mor-buckets", "mor-commit-time", "mor-record", "mor-listing-encoded", "cow"])
def test_hudi_goes_on_after_version_10(spark: SparkSession, tmp_path: Path, name: str, born: str) -> None:
    """A table that Hudi made, or that was made at version 10 in either layout: rows and deletes are written into native
    logs, and after the way down Hudi reads every row as of the downgrade and later, refuses to read as of before,
    writes on and keeps a metadata table. A table that Hudi made may have become one of the other layout in between."""
    kind = KINDS[name]
    p0, p1, p2 = kind.partitions
    turns = Turns(spark, HudiTable(spark, tmp_path / "t", kind.of_hudi), kind, {})
    first = {f"k{n}": (1, (p0, p1)[n % 2], "first") for n in range(8)}
    if not BIRTHS[born]:
        turns.hudis("upsert", first)
        turns.hudis("upsert", {"k0": (2, p0, "hudis"), "k1": (2, p1, "hudis")})
        turns.goes_to(10)
        if "converted" in born:
            words = ("--layout", "lsm_tree", "--writers", "stopped")
            exit_code, report = command("table", "convert", str(turns.table.path), *words)
            assert exit_code == 0, report
            assert report["steps"][0]["step"] == ("compaction" if kind.table_type == "MERGE_ON_READ" else "sorting")
    else:
        turns.create(*BIRTHS[born])
        turns.own("upsert", first)
    base = turns.table.path
    before = turns.table.completed_instants()[-1][0]
    turns.own("upsert", {"k1": (3, p1, "native"), "k2": (3, p0, "native"), "k30": (3, p2, "native")})
    turns.own("delete", {"k3": (3, p1, "")})
    is_mor = kind.table_type == "MERGE_ON_READ"
    assert any(is_native_log(path.name) for path in base.rglob("*")) == (is_mor or bool(kind.options))

    steps = [step["step"] for step in turns.goes_to(9)["steps"]]
    assert ("clean" in steps, "metadata-table" in steps) == (is_mor, bool(kind.options))
    assert not [path for path in base.rglob("*") if is_native_log(path.name)]
    turns.check()
    newest = turns.table.completed_instants()[-1][0]
    assert turns.table.as_of(newest) == turns.table.snapshot()
    if is_mor:
        with pytest.raises(IllegalArgumentException, match="Cleaner cleaned up the timestamp"):
            turns.table.as_of(before)
    else:
        assert turns.table.as_of(before)
    turns.hudis("upsert", {"k2": (5, p0, "after"), "k40": (5, p2, "after")})
    turns.hudis("delete", {"k4": (6, p0, "")})
    turns.check()
    exit_code, report = command("verify", str(base), "--all")
    assert exit_code == 0, report


def test_incremental_queries_over_commits_of_version_10(spark: SparkSession, tmp_path: Path) -> None:
    """The answers are those after any clean: of a range that ends behind the way down, and by default of others, the
    rows whose newest commit lies in it; asked not to scan the table instead, Hudi fails over the files that are
    gone."""
    kind = KINDS["mor-buckets"]
    p0, p1, _ = kind.partitions
    turns = Turns(spark, HudiTable(spark, tmp_path / "t", kind.of_hudi), kind, {})
    turns.hudis("upsert", {f"k{n}": (1, (p0, p1)[n % 2], "first") for n in range(4)})
    turns.goes_to(10)
    turns.own("upsert", {"k1": (2, p1, "native"), "k2": (2, p0, "native")})
    turns.own("delete", {"k3": (3, p1, "")})
    turns.own("upsert", {"k1": (4, p1, "newest")})
    commits = turns.table.completed_instants()
    turns.goes_to(9)
    ends = ["000", *(completed for _, completed in turns.table.completed_instants())]
    shown = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false",
    }
    for begin, (_, end), keys in zip(ends, commits, [{"k0"}, {"k2"}, set(), {"k1"}], strict=False):
        rows = [json.loads(row) for row in turns.table.incremental(begin, end)]
        assert {row["id"]: row["v"] for row in rows} == {key: turns.rows[key][2] for key in keys}
        window = {"hoodie.datasource.read.begin.instanttime": begin, "hoodie.datasource.read.end.instanttime": end}
        with pytest.raises(Py4JJavaError, match="does not exist"):
            turns.table.frame(**shown, **window).collect()
    for number, keys in enumerate([{"k0", "k1", "k2"}, {"k1", "k2"}, {"k1"}, {"k1"}, set()]):
        rows = [json.loads(row) for row in turns.table.incremental(ends[number], ends[-1])]
        assert {row["id"]: row["v"] for row in rows} == {key: turns.rows[key][2] for key in keys}


def test_changes_that_are_given_up(spark: SparkSession, tmp_path: Path) -> None:
    """A FULL at version 10 writes its changes in a native log, which is given up by name only: queries of changes on
    Spark, which leave compactions out, say what they said; one that reads compactions fails over it."""
    options = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER"}
    shape = TableShape(partition_fields="part", index="BUCKET", buckets=1, options=options)
    table = Captured(spark, HudiTable(spark, tmp_path / "t", shape))
    table.write(("a", 1, "first"), ("b", 1, "first"))
    table.write(("a", 2, "second"))
    shown = changes(table.table, "000", table.ends()[-1])
    words = (str(table.table.path), "--writers", "stopped")
    assert command("table", "upgrade", *words, "--to", "10")[0] == 0
    assert table.compact("--type", "full") == [("compaction", ["FULL"])]
    (log,) = table.table.path.rglob("*.cdc.parquet")
    assert command("table", "downgrade", *words, "--to", "9")[0] != 0 and log.exists()
    exit_code, printed = command("table", "downgrade", *words, "--to", "9", "--drop-changes")
    assert exit_code == 0, printed
    assert [step["step"] for step in printed["steps"]] == ["changes", "properties"]
    assert printed["steps"][0]["subjects"] == [f"{log.name.split('_')[2]}: p/{log.name}"] and not log.exists()
    assert changes(table.table, "000", table.ends()[-1]) == shown
    with pytest.raises(Py4JJavaError):
        changes(table.table, "000", table.ends()[-1], of_compactions=True)
    table.write(("b", 3, "after"))
    assert table.table.snapshot(with_meta=False)
    assert changes(table.table, *table.ends()[-2:])


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_changes_whose_files_are_gone(spark: SparkSession, tmp_path: Path, table_type: str) -> None:
    """Writes at version 10, whose native logs the way down takes: a query of changes over one of them fails, and never
    gives fewer; of what comes afterwards it says all."""
    base = new_table(tmp_path / "t", table_type=table_type, version=10)
    capture_changes(base)
    said: dict[str, Any] = {"index": IndexType.SIMPLE, "clock": SystemClock()}  # as the commands that follow have it
    write(base, [("k1", 1, "p", "a"), ("k2", 1, "p", "a")], **said)
    write(base, [("k1", 2, "p", "b")], **said)
    write(base, [("k2", 2, "p", "c")], "delete", **said)
    exit_code, printed = command("table", "downgrade", str(base), "--writers", "stopped", "--to", "9", "--drop-changes")
    assert exit_code == 0, printed
    shape = TableShape(
        partition_fields="part",
        options={"hoodie.table.cdc.enabled": "true", "hoodie.datasource.write.table.type": table_type},
    )
    table = Captured(spark, HudiTable(spark, base, shape))
    ends = table.ends()
    for begin, end in [("000", ends[-1]), *pairwise(ends[:3])]:
        with pytest.raises(Py4JJavaError):
            changes(table.table, begin, end)
    table.write(("k3", 3, "after"))
    assert [json.loads(change)[0] for change in changes(table.table, *table.ends()[-2:])] == ["i"]
