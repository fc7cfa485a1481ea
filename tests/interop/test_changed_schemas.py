"""Tables whose schema changed, compacted by Hudi and by us: the same rows, and Hudi goes on. With schema on read,
changed by SQL, its queries by id and by name read the same rows before and after FULL and LOG of Lakeward, and after a
change that comes behind them.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.evolved_table import NOT_IN_1_0, NOT_INDEXED, SHAPE, WRITERS, compacted_rows, comparable, write_evolved
from tests.hudi.metadata_table import INDEXES, assert_same_records
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import HUDI_VERSION, OLDEST_VERSION_OF_8
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.test_compaction import hudi_compacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.interop
@pytest.mark.wide
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", [HUDI_VERSION, OLDEST_VERSION_OF_8])
def test_compactions_of_evolved_tables_are_hudis_own(version: str, tmp_path: Path):
    """Both releases fill defaults in where they do, and widen types; we do the same, and their queries agree."""
    with OtherRelease(version, tmp_path / "hudi") as hudi:
        for name in WRITERS:
            table = hudi.table(tmp_path / name, SHAPE)
            if version == OLDEST_VERSION_OF_8 and name == "evolved":
                write_evolved(table, but=NOT_IN_1_0)
            else:
                WRITERS[name](table)
            twin = table.at(tmp_path / f"{name}_twin")
            shutil.copytree(table.path, twin.path)
            by_hudi = twin.compaction("op => 'scheduleAndExecute'")
            compact_fully(table.path)

            own = compacted_rows(table.path, newest_instant(table.path))
            assert comparable(own) == comparable(compacted_rows(twin.path, by_hudi)), name
            assert own, name
            if name != "defaulted":  # 1.2.0 reads no table with a column like its `maybe`
                assert table.snapshot() == twin.snapshot(), name
                assert table.read_optimized() == twin.read_optimized(), name


@pytest.mark.interop
@pytest.mark.wide
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["evolved", "dropped"])
def test_what_is_indexed_of_evolved_tables_is_hudis_own(name: str, tmp_path: Path, spark: SparkSession):
    """Statistics of columns and partitions, bloom filters, record index: both compactions write the same records."""
    shape = replace(SHAPE, options={**SHAPE.options, **INDEXES})
    with OtherRelease(HUDI_VERSION, tmp_path / "hudi") as hudi:
        table = hudi.table(tmp_path / "table", shape)
        if name == "evolved":
            write_evolved(table, but=NOT_INDEXED)
        else:
            WRITERS[name](table)
        twin = table.at(tmp_path / "twin")
        shutil.copytree(table.path, twin.path)
        twin.compaction("op => 'scheduleAndExecute'")
        compact_fully(table.path)
        assert_same_records(HudiTable(spark, table.path, shape), HudiTable(spark, twin.path, shape))
        assert table.snapshot() == twin.snapshot()


@pytest.mark.interop
@pytest.mark.wide
@pytest.mark.timeout(1200)
def test_a_log_compaction_of_an_evolved_table_changes_no_row(tmp_path: Path):
    """LOG writes by the table's schema, enums and fixed among its types; Hudi reads the rows that it read before."""
    with OtherRelease(HUDI_VERSION, tmp_path / "hudi") as hudi:
        table = hudi.table(tmp_path / "table", SHAPE)
        write_evolved(table)
        before = table.snapshot()
        exit_code, printed = lakeward(
            "compact", str(table.path), "--type", "log", "--writers", "stopped", "--no-metadata-services"
        )
        assert exit_code == 0, printed
        outputs = [
            log for log in table.path.glob("p*/.*.log.*") if newest_instant(table.path, "p*/.*.log.*") in log.name
        ]
        assert len(outputs) == 2, printed
        assert table.snapshot() == before
        table.compaction("op => 'scheduleAndExecute'")
        assert table.snapshot() == before


def compact_fully(path: Path) -> None:
    exit_code, printed = lakeward(
        "compact", str(path), "--type", "full", "--writers", "stopped", "--no-metadata-services"
    )
    assert exit_code == 0, printed


def newest_instant(path: Path, pattern: str = "p*/*.parquet") -> str:
    """The one in the names of the newest files."""
    return max(re.findall(r"_(\d{17})", file.name)[-1] for file in path.glob(pattern))


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


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.wide
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
