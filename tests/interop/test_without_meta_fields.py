"""Tables whose rows carry no keys (`hoodie.populate.meta.fields=false`), by real Hudi: it reads the same rows before
and after FULL and LOG, finds its keys in our files, and goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.test_compaction import hudi_compacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

WITHOUT_KEYS = {"hoodie.populate.meta.fields": "false"}
WITH_METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}

SHAPES = {
    "non-partitioned": TableShape(options=WITHOUT_KEYS),
    "simple, by commit time, with a metadata table": TableShape(
        partition_fields="part",
        ordering_fields="",
        merge_mode="COMMIT_TIME_ORDERING",
        options=WITHOUT_KEYS | WITH_METADATA,
    ),
    "complex": TableShape(partition_fields="part", key_fields="id,n", log_format="parquet", options=WITHOUT_KEYS),
    "numbers as keys, in buckets": TableShape(key_fields="n", index="BUCKET", options=WITHOUT_KEYS),
}


def rows(spark: SparkSession, *values: tuple[str, str, int, str, int]) -> DataFrame:
    return spark.sql(
        "SELECT id, part, CAST(ts AS bigint) ts, name, CAST(n AS int) n FROM VALUES "
        + ", ".join(map(str, values))
        + " AS t(id, part, ts, name, n)"
    )


@pytest.mark.parametrize("name", SHAPES)
def test_hudi_reads_the_same_before_and_after(spark: SparkSession, tmp_path: Path, name: str):
    """Upserts and deletes over files of Spark's row writer and of the Avro writer; FULL, then LOG over our base file,
    and FULL over both. Hudi's own compaction of a copy gives the same, and its upserts find every key."""
    table = HudiTable(spark, tmp_path / "table", SHAPES[name])
    bulk = SHAPES[name].index != "BUCKET"
    first = [(key, "pq"[number % 2], 10, f"first {key}", number) for number, key in enumerate("abcdefgh")]
    table.write(rows(spark, *first), "bulk_insert" if bulk else "insert")
    table.write(rows(spark, ("a", "p", 11, "later", 0), ("x", "p", 10, "new", 20), ("b", "q", 9, "late", 1)), "upsert")
    table.write(rows(spark, ("c", "p", 12, "", 2)), "delete")
    before = table.snapshot()
    twin = table.copy_to(tmp_path / "twin")

    compact(table)
    hudi_compacts(twin)

    assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
    for file in table.path.rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            assert set(pq.read_table(file).column("_hoodie_record_key").to_pylist()) <= {None, ""}
    for tick in (13, 14):
        for each in (table, twin):
            each.write(rows(spark, ("a", "p", tick, "again", 0), ("d", "q", tick, "again", 3)), "upsert")
            each.write(rows(spark, ("e", "p", tick, "", 4)), "delete")
    before = table.snapshot()
    assert before == twin.snapshot()
    assert len([row for row in before if '"id":"a"' in row]) == 1

    code, result = lakeward("compact", str(table.path), "--type", "log", "--writers", "stopped")
    assert code == 0, result
    assert table.snapshot() == before
    table.write(rows(spark, ("a", "p", 15, "behind", 0)), "upsert")
    before = table.snapshot()
    compact(table)
    assert table.snapshot() == table.read_optimized() == before
    code, result = lakeward("verify", str(table.path))
    assert code == 0, result
    table.write(rows(spark, ("a", "p", 16, "at last", 0)), "upsert")
    before = table.snapshot()
    table.compact()
    assert table.snapshot() == before
