"""Tables with schema on read, changed by SQL, by real Hudi: its queries by id and by name read the same rows before and
after FULL and LOG of Lakeward, and after a change that comes behind them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.test_compaction import hudi_compacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

SETTINGS = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}
BY_ID = {"hoodie.schema.on.read.enable": "true"}
OPTIONS = {"hoodie.metadata.enable": "false", "hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"}


def reads(table: HudiTable) -> Rows:
    """The snapshot by id, which is also that of a query that knows nothing of ids."""
    rows = table.snapshot(**BY_ID)
    assert table.snapshot() == rows
    return rows


@pytest.mark.parametrize("log_format", ["avro", "parquet"])
def test_hudi_reads_the_same_before_and_after(
    spark: SparkSession, tmp_path: Path, log_format: str, capsys: pytest.CaptureFixture[str]
):
    """Columns added, also within a struct, moved and dropped, and an int that became a bigint; then a column that is
    renamed makes the table one that is refused, and Hudi goes on with our files."""
    name = f"by_id_{log_format}"
    table = HudiTable(spark, tmp_path / name, TableShape(name=name, log_format=log_format))
    for key, value in {**SETTINGS, "hoodie.logfile.data.block.format": log_format}.items():
        spark.sql(f"SET {key}={value}")
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in OPTIONS.items())
    try:
        spark.sql(
            f"CREATE TABLE {name} (id string, ts bigint, name string, n int, x double, inner struct<a:int>) USING hudi "
            f"TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts', {properties}) "
            f"LOCATION '{table.path}'"
        )
        first = ", ".join(f"('{key}', 10, '{key}', 1, 1.5, named_struct('a', 1))" for key in "abcdef")
        spark.sql(f"INSERT INTO {name} VALUES {first}")
        spark.sql(f"UPDATE {name} SET n = 2, ts = 11 WHERE id = 'a'")
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS (extra string)")
        spark.sql(f"UPDATE {name} SET extra = 'e', ts = 12 WHERE id = 'b'")
        spark.sql(f"ALTER TABLE {name} ALTER COLUMN n TYPE bigint")
        spark.sql(f"UPDATE {name} SET n = 5000000000, ts = 13 WHERE id = 'c'")
        spark.sql(f"ALTER TABLE {name} DROP COLUMN x")
        spark.sql(f"UPDATE {name} SET n = 7, ts = 14 WHERE id = 'd'")
        before = reads(table)
        twin = table.copy_to(tmp_path / "twin")

        code, result = lakeward("compact", str(table.path), "--type", "log", "--writers", "stopped")
        assert code == 0, result
        assert reads(table) == before
        compact(table)
        hudi_compacts(twin)

        assert reads(table) == reads(twin) == table.read_optimized(**BY_ID) == before
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS (later int)")
        spark.sql(f"UPDATE {name} SET later = 1, ts = 15 WHERE id = 'a'")
        before = reads(table)
        compact(table)
        assert reads(table) == before
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN name TO title")
        spark.sql(f"UPDATE {name} SET title = 'renamed', ts = 16 WHERE id = 'b'")
        before = table.snapshot(**BY_ID)
        assert [row for row in before if '"title":"a"' in row]
        code, _ = lakeward("compact", str(table.path), "--type", "full", "--writers", "stopped")
        assert code != 0 and "name was renamed to title" in capsys.readouterr().err
        hudi_compacts(table)
        assert table.snapshot(**BY_ID) == before
    finally:
        for key in (*SETTINGS, "hoodie.logfile.data.block.format"):
            spark.sql(f"RESET {key}")
        spark.sql(f"DROP TABLE IF EXISTS {name}")
