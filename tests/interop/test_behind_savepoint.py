"""A file of no commit whose time lies behind a savepoint: Hudi does not read it, and neither do we."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import SystemClock
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_timeline_starts_with_the_savepoint(spark: SparkSession, tmp_path: Path, table_type: str) -> None:
    """Before it whatever has a file counts as archived, for Hudi's readers as for Lakeward's; after it nothing does."""
    shape = TableShape(options={"hoodie.datasource.write.table.type": table_type})
    table = HudiTable(spark, tmp_path / "table", shape)
    table.write(spark.sql("SELECT 'a' AS id, 1L AS ts"), "insert")
    (first,) = (path.name.split("_")[0] for path in (table.path / ".hoodie" / "timeline").glob("*_*commit"))
    spark.sql(f"CALL create_savepoint(path => '{table.path}', commit_time => '{first}')").collect()
    table.write(spark.sql("SELECT 'b' AS id, 2L AS ts"), "insert")
    (base,) = table.path.glob(f"*_{first}.parquet")
    for instant, is_read in ((int(first) + 1, False), (int(first) - 1, True)):
        stray = table.path / f"stray-0_0-9-9_{instant}.parquet"
        shutil.copy(base, stray)
        snapshot = take_snapshot(LocalStorage(), str(table.path), timezone="UTC", clock=SystemClock())
        own = [group.file_id for group in snapshot.file_groups]
        assert ("stray-0" in own, len(own)) == (is_read, 3 if is_read else 2)
        assert table.frame().count() == len(own)
        stray.unlink()
