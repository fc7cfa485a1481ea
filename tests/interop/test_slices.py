"""File slices that real Hudi wrote: its answer is that of our reader, whatever the budget, and however rows are cut
into batches, and it is what a compaction of Lakeward leaves in the base file. Slices that are read in part have the
rows that it answers to the same condition.

A seed makes a slice: merge mode, the type of the ordering value, blocks of Avro or Parquet, a base file that is sorted
or not, rows of all types, updates that come late or tie, deletes with an ordering value and without. A failure names
its seed, and LAKEWARD_SEED takes it back.
"""

from __future__ import annotations

import json
import os
import random
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

from lakeward.format.log.data_block import read_data_block
from lakeward.format.parquet.base_file import open_base_file
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.read.file_slice import open_slice
from lakeward.read.query.predicate import Predicate
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_input import MergeCounts, SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.local import LocalStorage
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact
from tests.interop.story import ALL_TYPES, ORDERING_VALUES
from tests.our_reader import scan
from tests.read.conditions import Among, Between, wanted
from tests.runs import runs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


KEYS = ["a", "b", "ab", "ключ", "\ue000", "\U0001f600", "x" * 300, *(f"key-{number:04}" for number in range(140))]
TICKS = range(6, 14)
READS = 5
KEY = "_hoodie_record_key"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a slice is drawn to be."""

    by_event_time: bool
    ordering_type: str
    log_format: str
    soft_deletes: bool
    sorted_base: bool


def draw(chance: random.Random) -> Kind:
    """Without what Hudi 1.2.0 itself goes wrong with (`cases`)."""
    log_format = chance.choice(["avro", "parquet"])
    by_event_time = chance.random() < 0.75
    kinds = [kind for kind in ORDERING_VALUES if kind != "string" or log_format == "avro" or not by_event_time]
    kind = chance.choice(kinds)
    return Kind(by_event_time, kind, log_format, kind != "date" and chance.random() < 0.6, chance.random() < 0.5)


class Slice:
    """A table of one file group: a base file, and logs in which all that comes later is, new keys too."""

    def __init__(self, spark: SparkSession, path: Path, chance: random.Random) -> None:
        self._spark = spark
        self._chance = chance
        self.kind = draw(chance)
        self.table = HudiTable(
            spark,
            path,
            TableShape(
                merge_mode="EVENT_TIME_ORDERING" if self.kind.by_event_time else "COMMIT_TIME_ORDERING",
                ordering_fields="ts" if self.kind.by_event_time else "",
                log_format=self.kind.log_format,
                index="BUCKET",
                buckets=1,
                options={"hoodie.parquet.block.size": str(chance.choice([3_000, 120 * 1024 * 1024]))},
            ),
        )
        self._types = dict(chance.sample(sorted(ALL_TYPES.items()), 6))

    def write(self) -> None:
        self.table.write(self._rows(self._chance.randint(1, len(KEYS)), soft_deletes=False), "insert")
        if self.kind.sorted_base:
            self.table.write(self._rows(3, soft_deletes=False), "upsert")
            compact(self.table)
        for _ in range(self._chance.randint(1, 5)):
            count = int(len(KEYS) ** self._chance.random())
            operation = self._chance.choice(["upsert", "upsert", "upsert", "delete"])
            self.table.write(self._rows(count, soft_deletes=operation == "upsert"), operation)

    def _rows(self, count: int, *, soft_deletes: bool) -> DataFrame:
        columns = {"id": "string", "ts": self.kind.ordering_type} | {name: of for name, (of, _) in self._types.items()}
        if self.kind.soft_deletes:
            columns["_hoodie_is_deleted"] = "boolean"
        rows = []
        for key in self._chance.sample(KEYS, count):
            row: dict[str, Any] = {
                "id": key,
                "ts": ORDERING_VALUES[self.kind.ordering_type](self._chance.choice(TICKS)),
            }
            for name, (_, value) in self._types.items():
                row[name] = None if self._chance.random() < 0.15 else value(self._chance)
            row["_hoodie_is_deleted"] = soft_deletes and self._chance.random() < 0.2
            rows.append(tuple(row[name] for name in columns))
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        return self._spark.createDataFrame(rows, schema).coalesce(1)

    def input(self) -> SliceInput:
        snapshot = scan(self.table.path)
        (slice_,) = snapshot.latest_slices
        assert snapshot.schema is not None and slice_.base_file is not None
        return SliceInput(
            base_path=str(self.table.path),
            partition_path=slice_.partition_path,
            file_id=slice_.file_id,
            base_file=slice_.base_file.path,
            log_files=tuple(log.path for log in slice_.log_files),
            instant="99999999999999999",
            schema=snapshot.schema,
            rules=merge_rules(snapshot),
        )


def read(given: SliceInput, monkeypatch: pytest.MonkeyPatch, *, batch_rows: int) -> tuple[pa.Table, MergeCounts]:
    """The rows by their keys, read in batches of so many."""
    with monkeypatch.context() as patch:
        for reader in (open_base_file, read_data_block):
            patch.setitem(reader.__kwdefaults__, "batch_rows", batch_rows)
        with open_slice(LocalStorage(), given) as merged:
            found = pa.Table.from_batches(merged.batches(), schema=merged.schema)
            return found.sort_by(KEY), merged.counts


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.wide
@pytest.mark.parametrize("number", range(runs(8)))
def test_a_slice_by_chance(number: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets from a byte to a gigabyte and batches of 1 to 65,536 rows give the same rows, and these are Hudi's."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    chance = random.Random(seed)
    slice_ = Slice(spark, tmp_path / "table", chance)
    table = slice_.table
    try:
        slice_.write()
        expected = table.snapshot()
        given = slice_.input()
        rows, counts = read(given, monkeypatch, batch_rows=16_384)
        for _ in range(READS):
            memory_bytes, batch_rows = int(10 ** chance.uniform(0, 9)), int(2 ** chance.uniform(0, 16))
            again, others = read(replace(given, memory_bytes=memory_bytes), monkeypatch, batch_rows=batch_rows)
            assert repr(again.to_pylist()) == repr(rows.to_pylist()), (memory_bytes, batch_rows)
            assert replace(others, merged_by=counts.merged_by) == counts
        pq.write_table(rows, tmp_path / "rows.parquet")
        own = spark.read.parquet(str(tmp_path / "rows.parquet")).select(table.frame().columns)
        assert table.formatted(own) == expected
        compact(table)
        assert table.read_optimized() == table.snapshot() == expected
    except BaseException as error:
        error.add_note(f"LAKEWARD_SEED={seed} repeats this slice, {slice_.kind}")
        raise


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
        assert read_part(table, wanted(*conditions), meter) == expected, condition
    assert meter.bytes_read < meter.bytes_stored
    assert meter.row_groups_skipped > 0 or sorted_base  # of which Lakeward's have one for the whole table


def read_part(table: HudiTable, predicate: Predicate, meter: ReadMeter) -> list[str]:
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
