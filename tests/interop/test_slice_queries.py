"""File slices that are read in part, against what real Hudi answers to the same condition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.read.file_slice import open_slice
from lakeward.read.query.predicate import Predicate
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.local import LocalStorage
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact
from tests.our_reader import scan
from tests.read.conditions import Among, Between, wanted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = "_hoodie_record_key"
COLUMNS = (KEY, "_hoodie_commit_time", "ts", "v")
QUERIES = {
    "id IN ('k0007', 'k0120', 'k0450', 'k0999', 'none')": (
        Among(KEY, frozenset({"k0007", "k0120", "k0450", "k0999", "none"})),
    ),
    "id BETWEEN 'k0195' AND 'k0215'": (Between(KEY, "k0195", "k0215"),),
    "v = 'late'": (Among("v", frozenset({"late"})),),
    "v IN ('new', 'late') AND id < 'k0300'": (Among("v", frozenset({"new", "late"})), Between(KEY, None, "k02999")),
    "v = 'v7'": (Among("v", frozenset({"v7"})),),
    "ts >= 15": (Between("ts", 15),),
    "ts <= 5": (Between("ts", None, 5),),
    "v = 'nothing'": (Among("v", frozenset({"nothing"})),),
}


def rows(spark: SparkSession, first: int, last: int, ts: int, value: str | None = None) -> DataFrame:
    """Without a value it is one of ten that lie together in the order of the keys."""
    found = spark.range(first, last)
    of_place = f.concat(f.lit("v"), (f.col("id") / 100).cast("int"))
    return found.select(
        f.format_string("k%04d", "id").alias("id"),
        f.lit(ts).alias("ts"),
        (of_place if value is None else f.lit(value)).alias("v"),
    )


@pytest.mark.interop
@pytest.mark.wide
@pytest.mark.parametrize("log_format", ["avro", "parquet"])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
@pytest.mark.parametrize("sorted_base", [False, True])
def test_a_part_of_a_slice_is_what_hudi_answers(
    spark: SparkSession, tmp_path: Path, mode: str, log_format: str, sorted_base: bool
) -> None:
    """Base rows that beat late log records, log records that beat base rows, and deletes; base files of either."""
    shape = TableShape(
        merge_mode=mode,
        ordering_fields="ts" if mode == "EVENT_TIME_ORDERING" else "",
        log_format=log_format,
        index="INMEMORY" if sorted_base else "SIMPLE",
        options={"hoodie.parquet.block.size": "1000"},
    )
    table = HudiTable(spark, tmp_path / "table", shape)
    table.write(rows(spark, 0, 1000, 10).coalesce(1), "upsert")
    if sorted_base:
        compact(table)
    table.write(rows(spark, 180, 220, 5, "late"), "upsert")
    table.write(rows(spark, 440, 460, 20, "new"), "upsert")
    table.write(rows(spark, 455, 470, 30), "delete")
    table.write(rows(spark, 995, 1010, 3, "late"), "upsert")
    meter = ReadMeter()
    for condition, conditions in QUERIES.items():
        answer = table.frame().where(condition).select(*COLUMNS).collect()
        expected = sorted(json.dumps(row.asDict()) for row in answer)
        assert read(table, wanted(*conditions), meter) == expected, condition
    assert meter.bytes_read < meter.bytes_stored
    assert meter.row_groups_skipped > 0 or sorted_base  # of which Lakeward's have one for the whole table


def read(table: HudiTable, predicate: Predicate, meter: ReadMeter) -> list[str]:
    snapshot = scan(table.path)
    assert snapshot.schema is not None
    found = []
    for slice_ in snapshot.latest_slices:
        reading = SliceInput(
            base_path=str(table.path),
            partition_path=slice_.partition_path,
            file_id=slice_.file_id,
            base_file=slice_.base_file.path if slice_.base_file else None,
            log_files=tuple(log.path for log in slice_.log_files),
            instant="99999999999999999",
            schema=snapshot.schema,
            rules=merge_rules(snapshot),
        )
        with open_slice(LocalStorage(), reading, query=SliceQuery(COLUMNS, predicate)) as merged:
            found += [
                json.dumps({name: row[name] for name in COLUMNS}) for b in merged.batches() for row in b.to_pylist()
            ]
        meter.add(merged.meter)
    return sorted(found)
