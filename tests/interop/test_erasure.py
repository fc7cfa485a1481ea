"""A key that Hudi deletes, compacts and cleans away: at each step `erase-status` names the files that hold it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.metadata_table import COLUMNS, INDEXES
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_clean import run_hudis_clean, write
from tests.services.together.erasure.canary import files_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.turns(30)]

CANARY = "canary-7f3a9c51-0042"
SHAPE = TableShape(partition_fields="part", options={**INDEXES, "hoodie.metadata.compact.max.delta.commits": "100"})


def test_a_key_that_hudi_deletes(spark: SparkSession, tmp_path: Path) -> None:
    """Hudi 1.2.0 writes it with every index of the metadata table, updates, deletes, compacts and cleans."""
    table = HudiTable(spark, tmp_path / "t", SHAPE)
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{CANARY}\n")

    def held() -> set[str]:
        code, document = lakeward("erase-status", str(table.path), "--keys", str(keys))
        assert document["unread"] == []
        found = {file["path"] for file in document["files"]}
        assert found == files_with(table.path, CANARY) and code == (7 if found else 0)
        states.append(next(state for state, count in document["counts"].items() if count))
        return found

    def canary(version: int) -> DataFrame:
        return spark.sql(
            f"SELECT '{CANARY}' AS id, 'p0' AS part, {version}L AS ts, 'v' AS v, {COLUMNS} FROM range(0, 1)"
        )

    states: list[str] = []
    write(spark, table, 0)
    table.write(canary(1), "upsert")
    table.write(canary(2), "upsert")
    assert {path.split("/")[2] for path in held() if path.startswith(".hoodie/metadata/")} >= {"record_index"}
    table.write(canary(3), "delete")
    logs = {path for path in held() if path.startswith("p0/.")}
    assert len(logs) >= 2
    table.compact()
    write(spark, table, 4)
    assert logs <= held()
    for number in (5, 6):
        write(spark, table, number)
        table.compact()
    run_hudis_clean(spark, table)
    assert not {path for path in held() if path.startswith("p0/")}
    assert states == ["live", "held", "held", "held"]
