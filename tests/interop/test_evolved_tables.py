"""Tables whose schema changed, compacted by Hudi and by us: the same rows, and Hudi goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.hudi.evolved_table import SHAPE, WRITERS, compacted_rows, comparable
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import HUDI_VERSION, OLDEST_VERSION_OF_8
from tests.interop.lakeward_cli import lakeward


@pytest.mark.wide
@pytest.mark.parametrize("version", [HUDI_VERSION, OLDEST_VERSION_OF_8])
def test_compactions_of_evolved_tables_are_hudis_own(version: str, tmp_path: Path):
    """Both releases fill defaults in where they do, and widen types; we do the same, and their queries agree."""
    with OtherRelease(version, tmp_path / "hudi") as hudi:
        for name, write in WRITERS.items():
            table = hudi.table(tmp_path / name, SHAPE)
            write(table)
            twin = table.at(tmp_path / f"{name}_twin")
            shutil.copytree(table.path, twin.path)
            by_hudi = twin.compaction("op => 'scheduleAndExecute'")
            exit_code, printed = lakeward(
                "compact", str(table.path), "--type", "full", "--writers", "stopped", "--no-metadata-services"
            )
            assert exit_code == 0, printed

            ours = compacted_rows(table.path, newest_instant(table.path))
            assert comparable(ours) == comparable(compacted_rows(twin.path, by_hudi)), name
            assert ours, name
            if name != "defaulted":  # 1.2.0 reads no table with a column like its `maybe`
                assert table.snapshot() == twin.snapshot(), name
                assert table.read_optimized() == twin.read_optimized(), name


def newest_instant(path: Path) -> str:
    """The one in the names of the newest base files."""
    return max(file.stem.rpartition("_")[2] for file in path.glob("p*/*.parquet"))
