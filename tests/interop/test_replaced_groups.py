"""Compactions that Hudi planned, of file groups that its insert_overwrite has replaced since: Hudi merges these groups
once more, for no reader, and fails for good once its cleaner took their files; we end the plan without them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError

from tests.crash.metadata_compacting import check_agrees
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.made_once import made_once
from tests.interop.test_clean_plan import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHAPES = {
    "listed": TableShape(partition_fields="part"),
    # With statistics of columns Hudi 1.2.0 fails over the upsert, by a NullPointerException in its metadata table.
    "metadata table": TableShape(
        partition_fields="part",
        options={"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"},
    ),
}
OF_VERSIONS = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
}


@pytest.fixture(
    scope="module",
    params=[
        ("metadata table", "one of two"),
        pytest.param(("metadata table", "all"), marks=pytest.mark.wide),
        pytest.param(("listed", "all"), marks=pytest.mark.wide),
    ],
    ids=" ".join,
)
def overwritten(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> HudiTable:
    """Hudi's plan names a file group in p0 and one in p1, or that in p1 alone, which is replaced after it; a log lies
    on either."""
    shape, of_it = SHAPES[request.param[0]], request.param[1]

    def make(folder: Path) -> None:
        table = HudiTable(spark, folder / "table", shape)
        table.write(rows(spark, range(6), 1), "insert")
        table.write(rows(spark, (1, 3, 5) if of_it == "all" else range(6), 2), "upsert")
        table.schedule_compaction()
        table.write(rows(spark, range(4), 3), "upsert")
        table.write(rows(spark, (7, 9), 4), "insert_overwrite")

    name = f"overwritten {' '.join(request.param)}".replace(" ", "_")
    return HudiTable(spark, made_once(tmp_path_factory, name, make) / "table", shape)


def check(table: HudiTable, before: tuple[str, ...]) -> None:
    assert table.snapshot() == before
    if (table.path / ".hoodie/metadata").exists():
        assert table.snapshot(**{"hoodie.metadata.enable": "true"}) == before
        check_agrees(table.path)
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed


def new_files(table: HudiTable, before: HudiTable) -> set[str]:
    return {name.partition("/")[0] for name in table.data_files().keys() - before.data_files().keys()}


@pytest.mark.turns
def test_the_plan_ends_without_what_was_replaced(spark: SparkSession, overwritten: HudiTable, tmp_path: Path) -> None:
    """Hudi writes a base file into the replaced group, we do not; every reader sees the same rows by both, now and as
    of every commit before, and after Lakeward's Hudi upserts, compacts and cleans."""
    hudis, own = (overwritten.copy_to(tmp_path / name) for name in ("hudis", "own"))
    (instant,) = overwritten.pending_instants()
    before = overwritten.snapshot()
    commits = [requested for requested, _ in overwritten.completed_instants()]
    earlier = [overwritten.as_of(commit) for commit in commits]

    hudis.compact_pending(instant)
    printed = compact(own)

    (plan,) = [each for each in printed["compactions"] if each["instant"] == instant]
    assert [each["partition_path"] for each in plan["dropped"]] == ["p1"]
    assert "was replaced by" in plan["dropped"][0]["why"]
    assert "p1" in new_files(hudis, overwritten) and "p1" not in new_files(own, overwritten)
    assert instant not in own.pending_instants()
    for table in (hudis, own):
        check(table, before)
        assert [table.as_of(commit) for commit in commits] == earlier

    own.write(rows(spark, range(10), 5), "upsert")
    own.compact()
    own.write(rows(spark, range(10), 6), "upsert", **OF_VERSIONS)
    after = own.snapshot()
    assert len(after) == 10 and all('"v":"v6"' in row for row in after)
    check(own, after)


@pytest.mark.wide
def test_hudi_never_ends_a_plan_whose_files_its_cleaner_took(
    spark: SparkSession, overwritten: HudiTable, tmp_path: Path
) -> None:
    """Hudi cleans the replaced group, by versions, although its plan names it, and then cannot carry the plan out. We
    end it, and Hudi goes on."""
    table = overwritten.copy_to(tmp_path / "table")
    (instant,) = overwritten.pending_instants()
    table.write(rows(spark, (0, 7), 5), "upsert", **OF_VERSIONS)
    assert {name.partition("/")[0] for name in overwritten.data_files().keys() - table.data_files().keys()} == {"p1"}
    before = table.snapshot()
    with pytest.raises(Py4JJavaError):
        table.copy_to(tmp_path / "hudis").compact_pending(instant)

    compact(table)

    assert instant not in table.pending_instants()
    check(table, before)
    table.write(rows(spark, range(10), 6), "upsert")
    table.compact()
    assert len(table.snapshot()) == 10
