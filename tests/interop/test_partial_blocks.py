"""Tables with log blocks of some of the columns, as MERGE INTO writes them, by real Hudi: what it answers before FULL
it answers afterwards.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.test_compaction import hudi_compacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

COLUMNS = {"name": "string", "n": "int", "x": "double", "inner": "struct<a:int,b:string>"}
OPTIONS = {"hoodie.metadata.enable": "false", "hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"}


def merge_into(spark: SparkSession, names: list[str], chance: random.Random, tick: int) -> None:
    """Update some columns of some rows: values and nulls, early and late."""
    # In the table's order, as people write them.
    chosen = sorted(chance.sample(list(COLUMNS), chance.choice([1, 2])), key=list(COLUMNS).index)
    rows = []
    for key in chance.sample("abcdefghijklmnop", 8):
        values = {
            "name": f"'{key}{tick}'",
            "n": f"{tick}",
            "x": f"{tick}.5D",
            "inner": f"named_struct('a', {tick}, 'b', CAST(NULL AS string))",
        }
        of_row = [f"'{key}' AS id", f"{chance.choice([tick - 3, tick, tick + 2])}L AS ts"]
        of_row += [
            f"CAST({'NULL' if chance.random() < 0.3 else values[column]} AS {COLUMNS[column]}) AS {column}"
            for column in chosen
        ]
        rows.append(f"SELECT {', '.join(of_row)}")
    assigned = ", ".join(f"{column} = s.{column}" for column in ("ts", *chosen))
    for name in names:
        spark.sql(
            f"MERGE INTO {name} t USING ({' UNION ALL '.join(rows)}) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET {assigned}"
        )


@pytest.mark.parametrize("log_format", ["avro", "parquet"])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_hudi_reads_the_same_before_and_after(spark: SparkSession, tmp_path: Path, mode: str, log_format: str):
    """Partial rows over a base file, over one another, over and under full rows, under deletes; FULL twice, the second
    time over a base file of Lakeward, beside a copy that Hudi compacts."""
    chance = random.Random(f"{mode} {log_format}")
    own, hudis = (f"{each}_{mode[:5]}_{log_format}".lower() for each in ("own", "hudis"))
    spark.sql(f"SET hoodie.logfile.data.block.format={log_format}")
    spark.sql("SET hoodie.spark.sql.merge.into.partial.updates=true")
    # Where it writes a small base file again, 1.2.0 puts such rows into the places of whole ones, or fails.
    spark.sql("SET hoodie.parquet.small.file.limit=0")
    ordered = "preCombineField = 'ts', " if mode[0] == "E" else ""
    properties = f"type = 'mor', primaryKey = 'id', {ordered}'hoodie.record.merge.mode' = '{mode}', " + ", ".join(
        f"'{name}' = '{value}'" for name, value in OPTIONS.items()
    )
    columns = ", ".join(f"{name} {kind}" for name, kind in {"id": "string", "ts": "bigint", **COLUMNS}.items())
    shape = TableShape(ordering_fields="ts" if mode[0] == "E" else "", merge_mode=mode, log_format=log_format, name=own)
    table = HudiTable(spark, tmp_path / own, shape)
    try:
        spark.sql(f"CREATE TABLE {own} ({columns}) USING hudi TBLPROPERTIES ({properties}) LOCATION '{table.path}'")
        first = ", ".join(
            f"('{key}', 10, '{key}', 1, 1.0, named_struct('a', 1, 'b', '{key}'))" for key in "abcdefghijklmnop"
        )
        spark.sql(f"INSERT INTO {own} VALUES {first}")
        for tick in (11, 12):
            merge_into(spark, [own], chance, tick)
        spark.sql(f"UPDATE {own} SET name = 'whole', ts = 13 WHERE id IN ('c', 'd', 'e')")
        for tick in (14, 15):
            merge_into(spark, [own], chance, tick)
        spark.sql(f"DELETE FROM {own} WHERE id IN ('a', 'b', 'c')")
        before = table.snapshot()
        twin = table.copy_to(tmp_path / hudis)

        code, plan = lakeward("explain", str(table.path), "--type", "log")
        assert code == 0 and '"choice": "LOG"' not in str(plan).replace("'", '"'), plan
        compact(table)
        hudi_compacts(twin)

        assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
        spark.sql(f"CREATE TABLE {hudis} USING hudi LOCATION '{twin.path}'")
        for tick in (17, 18, 19):
            merge_into(spark, [own, hudis], chance, tick)
        before = table.snapshot()
        assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
        code, result = lakeward("verify", str(table.path))
        assert code == 0, result
        compact(table)
        assert table.snapshot() == table.read_optimized() == before
    finally:
        spark.sql("RESET hoodie.logfile.data.block.format")
        spark.sql("RESET hoodie.spark.sql.merge.into.partial.updates")
        spark.sql("RESET hoodie.parquet.small.file.limit")
        for name in (own, hudis):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
