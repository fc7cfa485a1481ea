"""Data frames of `lakeward.spark` against Hudi's own, on one session: the same schema, the same rows."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeward
from lakeward.base.errors import TryLater, UsageError
from lakeward.format.parquet import base_file
from lakeward.spark import table_frame
from lakeward.spark.slice_parts import slice_parts
from tests.deploy.tools import PROJECT
from tests.golden_tables import copy_golden
from tests.hudi.table import HudiTable, TableShape
from tests.interop.every_query import BEGIN, END, QUERY, as_text
from tests.interop.lakeward_cli import lakeward as lakeward_command
from tests.interop.test_changes import Captured
from tests.interop.test_changes import expected as changes_of
from tests.write.writing import new_table, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.interop

GOLDEN = {
    "evolved": "int_long > 4 and day > '1970-01-03'",
    "in_part": "v >= 'a'",
    "v6": "name like '%a%'",
    "v8": "truth and at > '1970-01-01T00:00:10'",
    "v9_metadata": "id in ('k1', 'k2')",
}
"""Tables that Hudi wrote, and a filter in words that both take. Logs of Avro, of rows in part, appended to each other;
columns that were widened, and of each type, at each level."""


def columns(frame: DataFrame) -> list[tuple[str, object, bool]]:
    """Names, types and what may be null, at every level; without Hudi's mark on its meta columns."""
    return [(each.name, each.dataType, each.nullable) for each in frame.schema]


WIDE = ("in_part", "v9_metadata")


@pytest.mark.parametrize("version", [pytest.param(v, marks=pytest.mark.wide) if v in WIDE else v for v in GOLDEN])
def test_rows_and_schema_are_hudis(version: str, spark: SparkSession, tmp_path: Path) -> None:
    """Keeps 1 of spark/row_types."""
    table = HudiTable(spark, copy_golden(version, tmp_path / "t"), TableShape())
    opened = lakeward.Table(str(table.path), timezone="UTC")
    lakewards, hudis = lakeward.spark.read(spark, opened, meta_columns=True), table.frame()
    assert columns(lakewards) == columns(hudis)
    assert table.formatted(lakewards) == table.formatted(hudis)
    chosen = lakeward.spark.read(spark, opened, where=GOLDEN[version])
    found = table.formatted(hudis.where(GOLDEN[version]), with_meta=False)
    assert found and table.formatted(chosen) == found


@pytest.mark.turns
def test_a_frame_is_of_one_moment(spark: SparkSession, tmp_path: Path) -> None:
    """A table of version 10 with native logs, which Hudi does not read: the frame goes on with what it was made of,
    and says so when files are gone. Keeps 1 of spark/table_frame; 2 of spark/task_frames."""
    base = new_table(tmp_path / "t", version=10, is_lsm_tree=True)
    write(base, [("k1", 1, "p", "a"), ("k2", 1, "q", "b"), ("k3", 1, "q", "c")])
    first = lakeward.Table(str(base)).instant
    write(base, [("k2", 2, "q", "x")])
    frame = lakeward.spark.read(spark, str(base), columns=["v", "id"])
    before = [("a", "k1"), ("c", "k3"), ("x", "k2")]
    assert sorted(tuple(row) for row in frame.collect()) == before
    with pytest.raises(UsageError, match="have no limit"):
        lakeward.spark.read(spark, lakeward.Table(str(base)).scan(limit=1))
    write(base, [("k1", 3, "p", "new")])
    assert sorted(tuple(row) for row in frame.collect()) == before
    past = lakeward.spark.read(spark, str(base), columns=["v", "id"], as_of=first)
    assert sorted(tuple(row) for row in past.collect()) == [("a", "k1"), ("b", "k2"), ("c", "k3")]
    for file in (base / "q").glob("*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="deleted while the query ran") as raised:
        frame.count()
    error = lakeward.spark.task_error(raised.value)
    assert isinstance(error, TryLater) and error.remedy.startswith("Run the query again")


@pytest.mark.turns(20)
def test_changes_and_windows_are_hudis(spark: SparkSession, tmp_path: Path) -> None:
    """What commits changed, and the rows that they wrote, by released Hudi and by tasks; a file that is gone ends the
    job by name. Keeps 1 and 3 of spark/table_frame; of spark/slice_work."""
    options = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE"}
    captured = Captured(spark, HudiTable(spark, tmp_path / "t", TableShape(partition_fields="part", options=options)))
    captured.write(*((f"k{number}", 10, "a") for number in range(9)), operation="insert")
    captured.write(("k1", 11, "b"), ("k7", 11, "c"), ("new", 11, "n"), ("k2", 5, "late"))
    captured.write(("k3", 11, ""), operation="delete")
    first, *_, last = captured.ends()
    path = str(captured.table.path)
    for since, until in ((None, None), (first, last), (first, captured.ends()[1])):
        frame = lakeward.spark.changes(spark, path, since=since, until=until)
        assert [each.dataType.simpleString() for each in frame.schema][:2] == ["string", "string"]
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        given = sorted(json.dumps((row["op"], row["ts_ms"], row["before"], row["after"])) for row in rows)
        assert given == changes_of(captured.table, since or "000", until or last)
        window = lakeward.spark.read(spark, path, since=since or "earliest", until=until)
        assert as_text(window) == as_text(
            captured.table.frame(**{QUERY: "incremental", BEGIN: since or "000", END: until or last})
        )
    opened = lakeward.Table(path)
    chosen = opened.changes(columns=["v"], where="op = 'u' and after.ts > 10")
    assert chosen.end == last and lakeward.spark.changes(spark, chosen).count() == 2
    with pytest.raises(UsageError, match="have no limit"):
        lakeward.spark.changes(spark, opened.changes(limit=1))
    frame = lakeward.spark.changes(spark, opened)
    for file in captured.table.path.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="deleted while the query ran") as raised:
        frame.count()
    assert isinstance(lakeward.spark.task_error(raised.value), TryLater)


@pytest.mark.wide
def test_a_large_slice_is_several_tasks(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice that began with logs, and that Lakeward compacted, with logs behind: a task for each range of keys, and
    Hudi's rows."""
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", 500)
    table = HudiTable(spark, tmp_path / "t", TableShape(index="INMEMORY"))
    rows = spark.range(0, 9000).selectExpr("concat('k', id) AS id", "10L AS ts", "uuid() AS v").coalesce(1)
    table.write(rows, "upsert")
    table.write(rows.limit(30).selectExpr("id", "11L AS ts", "v"), "upsert")
    code, printed = lakeward_command(
        "compact", str(table.path), "--type", "full", "--engine", "local", "--writers", "stopped"
    )
    assert code == 0, printed
    table.write(rows.limit(20).selectExpr("id", "IF(id > 'k3', 12L, 9L) AS ts", "'new' AS v"), "upsert")
    opened = lakeward.Table(str(table.path), timezone="UTC")
    frame = lakeward.spark.read(spark, opened, meta_columns=True)
    monkeypatch.setattr(table_frame, "slice_parts", partial(slice_parts, task_bytes=20_000))
    cut = lakeward.spark.read(spark, opened, meta_columns=True)
    assert frame.rdd.getNumPartitions() == 1 < cut.rdd.getNumPartitions()
    expected = table.snapshot()
    assert table.formatted(cut) == table.formatted(frame) == expected


@pytest.mark.turns(15)
def test_locations_of_keys(table_with_metadata: Path, spark: SparkSession) -> None:
    """Locations are those of the rows that Hudi finds. Rows of the frame stay, repeated ones and null too; what
    Hudi's record index forgot, since a delete came that lost, is found in the rows. Keeps 1 and 2 of
    spark/location_frame."""
    table = HudiTable(spark, table_with_metadata, TableShape())
    opened = lakeward.Table(str(table.path), timezone="UTC")
    frame = spark.range(0, 4000, 7).selectExpr("id AS n", "concat('k', id) AS key")
    frame = frame.union(frame.limit(3)).union(spark.sql("SELECT -1L AS n, CAST(NULL AS STRING) AS key"))
    names = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time")
    rows = {row[0]: (row[1], row[2]) for row in table.frame().select(*names).collect()}
    groups = {(group.partition_path, group.file_id) for group in opened.snapshot.file_groups}
    files = {}
    for index in (None, "metadata"):
        found = lakeward.spark.record_locations(frame, opened, column="key", index=index).collect()
        assert len(found) == 572 + 3 + 1
        forgotten = {"k0"} if index else set()
        there = {row["key"]: (row["partition"], row["instant"]) for row in found if row["file_id"]}
        expected = {row["key"]: rows[row["key"]] for row in found if row["key"] in rows.keys() - forgotten}
        assert {key: at[0] for key, at in there.items()} == {key: at[0] for key, at in expected.items()}
        assert index or there == expected
        files[index] = {(row["partition"], row["file_id"]) for row in found if row["file_id"]}
        assert files[index] <= groups
    assert files[None] == files["metadata"]


def test_examples_of_the_docs_run(spark: SparkSession, tmp_path: Path) -> None:
    """On a table that has their columns; what they find there."""
    table = HudiTable(spark, tmp_path / "orders", TableShape(partition_fields="city"))
    orders = spark.range(0, 30).selectExpr("string(id) AS id", "1L AS ts", "IF(id % 3 = 0, 'lima', 'rome') AS city")
    table.write(orders.selectExpr("*", "int(id) * 10 AS fare"), "insert")
    names: dict[str, Any] = {"spark": spark}
    text = (PROJECT / "docs" / "read" / "spark.md").read_text().replace("/data/orders", str(table.path))
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(example, names)
    counts = {name: names[name].count() for name in ("frame", "orders", "large", "two", "past", "located")}
    assert counts == {"frame": 28, "orders": 30, "large": 19, "two": 2, "past": 30, "located": 19}
