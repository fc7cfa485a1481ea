"""Bytes behind the counted records of a real log, where RFC-06 has its index: Hudi passes over them, and so do we."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.log.block import BlockType, read_content
from tests.hudi.table import HudiTable, TableShape
from tests.interop.test_hfile_logs import merged_rows
from tests.interop.test_log_operation import blocks_of
from tests.read.log_files import block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

TAIL = b"\xffLAKEWARD" + bytes(range(256)) * 40


def test_hudi_and_we_read_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Each data block and each delete block gets bytes at its end. Hudi's snapshot, Lakeward's rows, and the table
    after Hudi's next upsert and compaction have the rows as before."""
    table = HudiTable(spark, tmp_path / "table", TableShape())
    table.write(spark.sql("SELECT 'k' || id AS id, id AS ts FROM range(20)"), "insert")
    table.write(spark.sql("SELECT 'k' || id AS id, id + 100 AS ts FROM range(5)"), "upsert")
    table.write(spark.sql("SELECT 'k7' AS id, 200L AS ts"), "delete")
    before = table.snapshot()
    assert len(before) == 19

    assert add_tails(table) == {BlockType.AVRO_DATA: 1, BlockType.DELETE: 1}
    assert table.snapshot() == before
    assert our_rows(table) == {row["id"]: row["ts"] for row in map(json.loads, before)}

    table.write(spark.sql("SELECT 'k8' AS id, 300L AS ts"), "upsert")
    merged = our_rows(table)
    table.compact()
    assert {row["id"]: row["ts"] for row in map(json.loads, table.snapshot())} == merged


def add_tails(table: HudiTable) -> dict[BlockType, int]:
    """How many blocks of each kind have got bytes."""
    found: dict[BlockType, int] = {}
    for path in table.path.glob(".*.log.*[0-9]"):
        with path.open("rb") as file:
            blocks = [(each, read_content(file, each)) for each in blocks_of(table, path.name)]
        path.write_bytes(b"".join(block(each.type, each.headers, content + TAIL) for each, content in blocks))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        for each, _ in blocks:
            found[each.type] = found.get(each.type, 0) + 1
    return found


def our_rows(table: HudiTable) -> dict[str, int]:
    """The rows that the file slice has; a scan of the table refuses logs whose sizes their commits do not say."""
    return {row["id"]: row["ts"] for row in merged_rows(table.path)}
