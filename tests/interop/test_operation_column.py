"""Tables with `_hoodie_operation`, which Flink's changelog mode writes: no Flink runs here, so Hudi's write client
writes them from Avro records with their kind of change. What Hudi's queries answer before FULL they answer afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError

from tests.hudi.client import hudi_client, write_records
from tests.hudi.evolved_table import maybe, schema
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.test_compaction import hudi_compacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

CHANGELOG = {"hoodie.allow.operation.metadata.field": "true", "hoodie.combine.before.upsert": "false"}
SCHEMA = schema(maybe("name", "string"))


def changes(*given: tuple[str, str, int, str], part: str = "") -> list[dict[str, object]]:
    return [
        {"id": key, "part": part, "ts": ts, "name": name, "operation": operation} for operation, key, ts, name in given
    ]


@pytest.mark.parametrize("log_format", ["avro", "parquet"])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_hudi_reads_the_same_before_and_after(spark: SparkSession, tmp_path: Path, mode: str, log_format: str):
    """Updates, deletes and what was before an update, in time and late, over a base file of another writer; FULL twice,
    the second time over a base file of Lakeward. A writer that keeps the column compacts a copy to the same."""
    ordering = "ts" if mode[0] == "E" else ""
    shape = TableShape(ordering_fields=ordering, merge_mode=mode, log_format=log_format, options=CHANGELOG)
    table = HudiTable(spark, tmp_path / "table", shape)
    table.write(
        spark.sql("SELECT id, '' part, 10L ts, id name FROM VALUES ('a'), ('b'), ('c'), ('d') AS t(id)"), "bulk_insert"
    )
    first = changes(("U", "a", 11, "A1"), ("D", "b", 11, "B1"), ("-U", "c", 11, "C1"), ("D", "d", 9, "late"))
    second = changes(("-U", "a", 11, "A1"), ("U", "a", 12, "A2"), ("I", "b", 8, "again"), ("I", "e", 1, "new"))
    for rows in (first, second):
        write_records(spark, table, SCHEMA, rows, "upsert")
    before = table.snapshot()
    assert '"_hoodie_operation":"U"' in "".join(before)
    twin = table.copy_to(tmp_path / "twin")
    with hudi_client(spark, twin, SCHEMA, **{"hoodie.compact.inline.max.delta.commits": "1"}) as client:
        instant = client.scheduleCompaction(spark._jvm.org.apache.hudi.common.util.Option.empty()).get()  # type: ignore[union-attr]
        client.compact(instant, True)

    code, plan = lakeward("explain", str(table.path), "--type", "log")
    assert code == 0 and '"choice": "LOG"' not in str(plan).replace("'", '"'), plan
    compact(table)

    assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
    for each in (table, twin):
        write_records(spark, each, SCHEMA, changes(("D", "a", 13, "A3"), ("U", "e", 2, "newer")), "upsert")
    before = table.snapshot()
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    code, result = lakeward("verify", str(table.path))
    assert code == 0, result
    compact(table)
    assert table.snapshot() == table.read_optimized() == before


def test_the_newest_file_says_what_queries_heed(spark: SparkSession, tmp_path: Path):
    """After an update without the column queries show what is marked as deleted in other file groups: FULL takes that
    of the update alone, and they still do. After marks over another such update they fail on it: FULL takes the others,
    and behind one more update without the column what was marked stays deleted, also when Hudi compacts."""
    table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part"))
    for part in "pqr":
        table.write(spark.sql(f"SELECT '{part}1' id, '{part}' part, 10L ts, 'first' name"), "bulk_insert")

    def write(operation: str, part: str, ts: int, **options: str) -> None:
        rows = changes((operation, f"{part}1", ts, f"{operation}{ts}"), part=part)
        write_records(spark, table, SCHEMA, rows, "upsert", **options)

    def left_out() -> list[str]:
        return [each["partition"] for each in compact(table)["decisions"] if each["reason"] == "unsupported-logs"]

    write("D", "r", 11, **CHANGELOG)
    write("U", "p", 11, **CHANGELOG)
    assert len(table.snapshot()) == 2
    write("U", "q", 11)
    before = table.snapshot()
    assert len(before) == 3
    assert left_out() == ["p", "r"]
    assert table.snapshot() == before

    write("U", "q", 12)
    write("U", "p", 12, **CHANGELOG)
    with pytest.raises(Py4JError, match="NullPointerException"):
        table.snapshot()
    assert left_out() == ["q"]
    write("U", "q", 13)
    before = table.snapshot()
    assert sorted(row["name"] for row in table.frame().collect()) == ["U12", "U13"]
    hudi_compacts(table)
    assert table.snapshot() == before
