"""Tables whose payload class became a merge mode and merge properties in version 9, by real Hudi: what it answers
before LOG and FULL it answers afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.errors import Unsupported
from tests.hudi.log_compacting import log_compact
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact
from tests.interop.test_compaction import hudi_compacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

PAYLOAD = "hoodie.datasource.write.payload.class"
PACKAGE = "org.apache.hudi.common.model."
DMS = TableShape(ordering_fields="", merge_mode="", options={PAYLOAD: f"{PACKAGE}AWSDmsAvroPayload"})
DEBEZIUM = TableShape(
    ordering_fields="_event_bin_file,_event_pos",
    merge_mode="",
    options={PAYLOAD: f"{PACKAGE}debezium.MySqlDebeziumAvroPayload"},
)
DMS_COLUMNS = "id, Op, v"
DEBEZIUM_COLUMNS = "id, _change_operation_type, _event_bin_file, _event_pos, v"

STORIES = {
    "dms": (
        DMS,
        DMS_COLUMNS,
        ("('a', 'I', 1), ('b', 'I', 1), ('c', 'I', 1), ('d', 'I', 1)"),
        ("('a', 'D', 2), ('b', 'U', 2), ('x', 'D', 2)"),
        ("('a', 'I', 3), ('b', 'D', 3)"),
        ("('c', 'D', 4), ('a', 'U', 4), ('y', 'I', 4)"),
        {"a": 4, "d": 1, "y": 4},
    ),
    "debezium": (
        DEBEZIUM,
        DEBEZIUM_COLUMNS,
        ", ".join(f"('{key}', 'c', 'bin.01', 10L, 1)" for key in "abcdef"),
        ("('a', 'd', 'bin.01', 11L, 2), ('b', 'd', 'bin.01', 9L, 2), ('c', 'u', 'bin.02', 1L, 2)"),
        ("('d', 'u', 'bin.00', 99L, 3), ('c', 'd', 'bin.01', 99L, 3), ('a', 'c', 'bin.01', 10L, 3)"),
        ("('e', 'd', 'bin.02', 0L, 4), ('f', 'u', 'bin.01', 10L, 4), ('a', 'c', 'bin.01', 12L, 4)"),
        {"a": 4, "b": 1, "c": 2, "d": 1, "f": 4},
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_hudi_reads_the_same_before_and_after(spark: SparkSession, tmp_path: Path, story: str):
    """Rows that a column marks as deleted, as the payload class would have it, by writers that set it and by such that
    follow the table's properties."""
    shape, columns, first, second, third, fourth, expected = STORIES[story]
    table = HudiTable(spark, tmp_path / "table", shape)
    bare = table.reshaped(options={})
    for rows, writer in ((first, table), (second, table), (third, bare)):
        frame = spark.sql(f"SELECT * FROM VALUES {rows} AS t({columns})")
        writer.write(frame, "insert" if rows is first else "upsert")
    before = table.snapshot()
    log_compact(table.path)
    assert table.snapshot() == before
    bare.write(spark.sql(f"SELECT * FROM VALUES {fourth} AS t({columns})"), "upsert")
    before = table.snapshot()
    assert {row["id"]: row["v"] for row in table.frame().collect()} == expected
    twin = table.copy_to(tmp_path / "twin")

    compact(table)
    hudi_compacts(twin)

    assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
    bare.write(spark.sql(f"SELECT * FROM VALUES {fourth.replace(', 4)', ', 5)')} AS t({columns})"), "upsert")
    after = table.snapshot()
    table.compact()
    assert table.snapshot() == table.read_optimized() == after


def test_marked_rows_that_are_no_deletes(spark: SparkSession, tmp_path: Path):
    """Hudi returns marked rows of logs that are older than the mark, and compacts them as rows. What the table says of
    them and what readers make of them differ, so they are left to Hudi."""
    table = HudiTable(spark, tmp_path / "table", TableShape())
    for operation, rows in (
        ("insert", "('a', 1L, 'I'), ('b', 1L, 'I')"),
        ("upsert", "('a', 2L, 'D')"),
        ("upsert", "('b', 2L, 'I')"),
    ):
        table.write(spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, ts, op)"), operation)
    properties = table.path / ".hoodie" / "hoodie.properties"
    prefix = "hoodie.record.merge.property.hoodie.payload.delete."
    properties.write_text(properties.read_text() + f"{prefix}field=op\n{prefix}marker=D\n")
    properties.with_name(".hoodie.properties.crc").unlink()
    before = table.snapshot()
    assert len(before) == 2

    with pytest.raises(Unsupported, match="mark of deletion"):
        log_compact(table.path)

    table.compact()
    assert len(table.snapshot()) == 2
