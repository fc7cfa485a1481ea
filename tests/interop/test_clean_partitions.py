"""A partition of which a clean leaves nothing: Hudi takes it out of the metadata table and deletes its folder, we leave
it empty. Both read the same, and take rows again; Hudi deletes our folder when it looks there again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.table.listing_source import ListingSource
from tests.crash.metadata_compacting import check_agrees, snapshot_of
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once
from tests.interop.test_clean_plan import COW_WITH_METADATA, Story, hudi_cleans, partition_gone, rows
from tests.services.clean.run.cleaning import completed_cleans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

SHAPE = TableShape(partition_fields="part", options=COW_WITH_METADATA)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    def make(folder: Path) -> None:
        partition_gone(Story(spark, folder / "table", SHAPE))

    return HudiTable(spark, made_once(tmp_path_factory, "partition_gone", make) / "table", SHAPE)


def clean(table: HudiTable) -> None:
    exit_code, printed = lakeward(
        "clean", str(table.path), "--retain", "1", "--reader-window", "0", "--writers", "stopped"
    )
    assert exit_code == 0 and printed["cleans"], printed


def listed(table: HudiTable) -> tuple[str, ...]:
    """The partitions that the metadata table's record of all partitions names."""
    return snapshot_of(table.path, ListingSource.METADATA).partitions


def read(table: HudiTable) -> Rows:
    """The rows, which are the same by the metadata table and by listing."""
    found = table.snapshot(with_meta=False, **{"hoodie.metadata.enable": "true"})
    assert table.snapshot(with_meta=False, **{"hoodie.metadata.enable": "false"}) == found
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed
    return found


def test_it_reads_the_same_and_takes_rows_again(spark: SparkSession, made: HudiTable, tmp_path: Path) -> None:
    """The same files go; Lakeward's has an empty folder and an entry without files more. After Hudi's next write into
    the partition both tables have the same rows and partitions."""
    hudis, own = (made.copy_to(tmp_path / name) for name in ("hudis", "own"))
    hudi_cleans(spark, hudis, CleanPolicy(retain=1))
    clean(own)

    assert set(hudis.data_files()) == set(own.data_files()) < set(made.data_files())
    assert read(hudis) == read(own) == made.snapshot(with_meta=False)
    assert (listed(hudis), listed(own)) == (("p0",), ("p0", "p1"))
    assert not (hudis.path / "p1").exists()
    left = {file.name for file in (own.path / "p1").iterdir() if file.suffix != ".crc"}
    assert {name.partition(".parquet")[0] for name in left} == {".hoodie_partition_metadata"}

    for table in (hudis, own):
        check_agrees(table.path)
        table.write(rows(spark, [0, 1, 3], 50), "upsert")
        check_agrees(table.path)
    assert read(hudis) == read(own)
    assert listed(hudis) == listed(own) == ("p0", "p1")


def test_hudi_deletes_the_folder_when_it_looks_there(spark: SparkSession, made: HudiTable, tmp_path: Path) -> None:
    """Its next clean of everything, which has another file to delete, deletes the empty folder. It leaves the entry in
    the metadata table, as of a partition in which it has no file to delete; rows are read as before, and the next write
    brings the partition back."""
    table = made.copy_to(tmp_path / "table")
    clean(table)
    table.write(rows(spark, [0], 50), "upsert")
    before = read(table)
    hudi_cleans(spark, table, CleanPolicy(CleanPolicyKind.VERSIONS, 1))

    assert len(completed_cleans(table.path)) == 2
    assert listed(table) == ("p0", "p1") and not (table.path / "p1").exists()
    assert read(table) == before
    table.write(rows(spark, [1, 3], 51), "upsert")
    assert len(read(table)) == len(before) + 2
    check_agrees(table.path)
