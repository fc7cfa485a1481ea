"""A table whose writers have every table service off: its two timelines and its files stay bounded all the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.timeline.instant import State, parse_instant
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_compaction import assert_verified
from tests.interop.test_metadata_services import data_files as metadata_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide, pytest.mark.timeout(1800)]

OFF = {
    "hoodie.metadata.enable": "true",
    "hoodie.table.services.enabled": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.clean.commits.retained": "2",
}
WRITES = 40


def completed(timeline: Path) -> int:
    found = [parse_instant(path.name, 2) for path in timeline.iterdir()]
    return sum(instant is not None and instant.state is State.COMPLETED for instant in found)


def test_writers_that_do_nothing_for_their_table(spark: SparkSession, tmp_path: Path) -> None:
    """Its timeline and its files are for Lakeward to bound; the metadata table's own timeline each Hudi write archives,
    as far as the table's lets it, whatever is switched off."""
    table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part", options=OFF))
    metadata = table.path / ".hoodie" / "metadata"
    instants, files, of_metadata = [], [], []
    numbers = ("--keep-min", "4", "--keep-max", "6", "--commits-retained", "2", "--delta-commits", "2")
    stopped = ("--writers", "stopped", "--timezone", "UTC")
    for ts in range(WRITES):
        rows = f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, 'v{ts}' AS v FROM range(6)"
        table.write(spark.sql(rows), "upsert")
        if ts % 5 == 4:
            assert lakeward("compact", str(table.path), *stopped)[0] == 0
            cleaning = ("--policy", "commits", "--retain", "2", "--reader-window", "0")
            assert lakeward("clean", str(table.path), *cleaning, *stopped)[0] == 0
            assert lakeward("archive", str(table.path), *numbers, *stopped)[0] == 0
            timelines = (table.path / ".hoodie" / "timeline", metadata / ".hoodie" / "timeline")
            instants.append((completed(timelines[0]), completed(timelines[1])))
            files.append(len(table.data_files()))
            of_metadata.append(len(metadata_files(table)))
    assert max(own for own, _ in instants) <= 25, instants
    assert max(hudis for _, hudis in instants) <= 50, instants
    half = len(files) // 2
    # Hudi's writers keep too few commits to clean any of them, and Lakeward's clean counts what they archived.
    assert max(of_metadata[half:]) <= max(of_metadata[:half]) + 4, of_metadata
    assert max(files[half:]) <= max(files[:half]) + 4, files
    assert len(table.snapshot()) == 6
    assert_verified(table)
    # It reads through the metadata table, and begins its own clean where Lakeward's ended.
    assert len(table.snapshot(**{"hoodie.metadata.enable": "true"})) == 6
    rows = "SELECT 'k0' AS id, 'p0' AS part, 99L AS ts, 'last' AS v"
    table.write(
        spark.sql(rows), "upsert", **{"hoodie.table.services.enabled": "true", "hoodie.clean.automatic": "true"}
    )
    assert {row["v"] for row in table.frame().select("v").collect()} == {"last", f"v{WRITES - 1}"}
    assert_verified(table)
