"""Delete blocks of versions 1 and 2 in a log of a real table: Hudi 1.2.0 still reads them, and says what they delete.

No release that can be had here writes them, so the content of a delete block that Hudi wrote is replaced.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.log.block import BlockType, HeaderKey
from tests.format.log.test_kryo_deletes import content
from tests.hudi.table import HudiTable, TableShape
from tests.interop.test_hfile_logs import merged_rows
from tests.interop.test_log_operation import blocks_of
from tests.read.log_files import block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

KEYS = {"k0": -3, "k1": 0, "k2": 0, "k3": 0, "k4": 2, "k5": 5, "k2ä": 7, "😀é": 7}
"""Each key and its ordering value. Fixtures delete k0 to k5 at -2 to 3, or some keys without such a value."""


@pytest.mark.parametrize(
    ("name", "version", "left"),
    [
        ("v1", 1, {"k0", "k2", "k3", "k4", "k5"}),
        ("v2int", 2, {"k0", "k2", "k3", "k4", "k5"}),
        ("v2Long", 2, {"k1", "k5", "k2ä", "😀é"}),
    ],
)
def test_hudi_deletes_what_we_delete(
    spark: SparkSession, tmp_path: Path, name: str, version: int, left: set[str]
) -> None:
    """Hudi deletes by key alone, and by ordering value, as we do."""
    table = HudiTable(spark, tmp_path / "table", TableShape())
    values = ", ".join(f"('{key}', {ts}L)" for key, ts in KEYS.items())
    table.write(spark.sql(f"SELECT * FROM VALUES {values} AS t(id, ts)"), "insert")
    table.write(spark.sql("SELECT 'k0' AS id, -3L AS ts"), "upsert")
    table.write(spark.sql("SELECT 'k3' AS id, 0L AS ts"), "delete")
    replace_deletes(table, content(name, version))

    assert {json.loads(row)["id"] for row in table.snapshot()} == left
    assert {row["id"] for row in merged_rows(table.path)} == left


def replace_deletes(table: HudiTable, new: bytes) -> None:
    """The one log with a delete block has this content then, and no record positions: they are of the old one."""
    for path in table.path.glob(".*.log.*[0-9]"):
        (found,) = blocks_of(table, path.name)
        if found.type is BlockType.DELETE:
            keep = {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}
            headers = {key: value for key, value in found.headers.items() if key in keep}
            path.write_bytes(block(BlockType.DELETE, headers, new))
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            return
    raise AssertionError("no log has a delete block")
