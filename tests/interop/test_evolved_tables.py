"""Tables whose schema changed, compacted by Hudi and by us: the same rows, and Hudi goes on."""

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
from tests.hudi.table import HudiTable
from tests.interop.lakeward_cli import lakeward

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
