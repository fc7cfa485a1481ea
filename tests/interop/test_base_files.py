"""Base files of which a part was carried over as bytes, or that are sorted, and whose footers say so: released Hudi and
hudi-rs read them, write over them, and compact them.

File groups that begin with logs have a sorted base file after their first compaction, and every later one is merged by
order. In CI the matrix of `test_compaction` has such a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.local import LocalDispatcher
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationSpec
from lakeward.format.avro.schema import table_schema
from lakeward.format.parquet import base_file
from lakeward.format.parquet.base_file import SORTED_BY_KEY, BaseFileWriter, open_base_file
from lakeward.format.parquet.key_summary import SealedKeys
from lakeward.format.parquet.stored_row_groups import RowGroupCopies
from lakeward.merge import copy_through
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.local import LocalStorage
from tests.engine.task.test_copied_row_groups import filters_taken_over
from tests.golden_tables import copy_golden
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.spark import OLDEST_VERSION_OF_8
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact
from tests.our_reader import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


HERE = ("--writers", "stopped", "--engine", "local")
INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.datasource.write.precombine.field": "ts",  # what 1.0.2 calls ordering fields
}
SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Row groups of four rows, in this process; the rows of those that are copied."""
    rows: list[int] = []
    for module in (base_file, copy_through):
        monkeypatch.setattr(module, "ROW_GROUP_ROWS", 4)

    class Counted(RowGroupCopies):
        def copy(self, source: BinaryIO, group: Any, *args: Any, **options: Any) -> None:
            rows.append(group.rows)
            super().copy(source, group, *args, **options)

    monkeypatch.setattr(base_file, "RowGroupCopies", Counted)
    monkeypatch.setattr(LocalDispatcher, "run", lambda _, *args, **options: InProcessDispatcher().run(*args, **options))
    yield rows


@pytest.fixture
def taken_over(monkeypatch: pytest.MonkeyPatch) -> list[SealedKeys]:
    return filters_taken_over(monkeypatch)


def test_hudi_rs_reads_them(tmp_path: Path, copied: list[int]) -> None:
    """The rows are those that it merged before. No Spark is needed."""
    base = copy_golden("v9", tmp_path / "table")
    snapshot = scan(base)
    (slice_,) = snapshot.latest_slices
    assert slice_.base_file is not None and snapshot.schema is not None
    # Hudi's base file, sorted, with more rows than the logs change: as it is after a compaction of Lakeward.
    path = base / slice_.base_file.path
    schema = table_schema(snapshot.schema)
    with path.open("rb") as source:
        (rows,) = open_base_file(source, schema, name=path.name)
    with path.open("wb") as sink:
        writer = BaseFileWriter(sink, schema, file_name=path.name)
        writer.write(rows.sort_by("_hoodie_record_key"))
        for number in range(40):
            columns = rows.slice(0, 1).to_pydict() | {"_hoodie_record_key": [f"z{number:02}"]}
            writer.write(rows.from_pydict(columns, schema=schema))
        writer.close(is_sorted=True)
    table = HudiTable(None, base, TableShape())  # type: ignore[arg-type]  # for hudi-rs alone
    before = table.read_by_hudi_rs()
    slice_input = SliceInput(
        partition_path="p",
        file_id=slice_.file_id,
        base_file=slice_.base_file.path,
        log_files=tuple(log.path for log in slice_.log_files),
        base_path=str(base),
        instant="20261121050000000",
        schema=snapshot.schema,
        rules=merge_rules(snapshot),
    )
    spec = OperationSpec(0, slice_input, attempt=1, attempt_folder=str(tmp_path), input_bytes=1)
    result = run_operation(LocalStorage(), spec, 0)
    assert len(copied) == result.counts.row_groups_copied > 5
    (tmp_path / result.file_name).replace(path)
    for log in slice_.log_files:
        (base / log.path).unlink()
    assert table.read_by_hudi_rs() == before
    assert len(before) > 40


def rows_of(first: int, last: int, ts: int) -> str:
    return (
        f"SELECT concat('kéy-', lpad(cast(id AS STRING), 4, '0')) AS id, CAST({ts} AS BIGINT) AS ts, "
        f"id * {ts} AS v, id / 7.0D AS d, array(cast(id AS STRING), NULL) AS tags, "
        f"CAST(id AS DECIMAL(20, 3)) AS price FROM range({first}, {last})"
    )


@pytest.mark.interop
@pytest.mark.wide
@pytest.mark.parametrize("release", ["1.2.0", OLDEST_VERSION_OF_8])
def test_hudi_lives_on_with_them(
    spark: SparkSession, tmp_path: Path, copied: list[int], taken_over: list[SealedKeys], release: str
) -> None:
    """It reads them, with statistics and without, finds their keys by bloom filters, writes over them, and compacts."""
    shape = TableShape(index="INMEMORY", options=INDEXED)
    with ExitStack() as stack:
        table: HudiTable | OtherTable
        if release == "1.2.0":
            table = HudiTable(spark, tmp_path / "table", shape)
        else:
            older = stack.enter_context(OtherRelease(release, tmp_path / "older"))
            table = older.table(tmp_path / "table", shape)

        def write(query: str, operation: str, **options: str) -> None:
            rows: Any = spark.sql(query) if isinstance(table, HudiTable) else query
            table.write(rows, operation, **options)

        here = HudiTable(spark, table.path, shape)
        write(rows_of(0, 200, 1), "upsert")
        compact(here, *HERE)
        assert copied == []
        for ts, (first, last) in enumerate([(40, 47), (100, 101), (198, 230)], start=2):
            write(rows_of(first, last, ts), "upsert")
            write(rows_of(first + 1, first + 2, ts), "delete")
            before = table.snapshot()
            copied.clear()
            compact(here, *HERE)
            assert len(copied) > 20
            assert table.snapshot() == table.read_optimized() == before == table.snapshot(**SKIPPING)
            check_files(here)
        if isinstance(table, HudiTable):
            whole = table.frame().select("id", "v", "d").collect()
            for row in whole[::20]:
                by_key = table.frame(**SKIPPING).where(f"id = '{row.id}'").select("id", "v", "d").collect()
                by_value = table.frame(**SKIPPING).where(f"v = {row.v}").select("id", "v", "d").collect()
                assert by_key == [row]
                assert sorted(by_value) == sorted(each for each in whole if each.v == row.v)
        # Each of these files went on with the filter of the one before.
        assert len(taken_over) == 3
        # Keys of rows that were copied twice: found by the filters in the footers, and by those in the metadata table;
        # and that other keys are new.
        for ts, metadata in ((7, "false"), (8, "true")):
            options = {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": metadata}
            new = f"SELECT id, ts, v, d, array(id), price FROM ({rows_of(300 + ts, 301 + ts, ts)})"
            write(f"{rows_of(0, 40, ts)} UNION ALL {new}", "upsert", **options)
            found = table.snapshot()
            assert len(found) == len(before) + ts - 6
            assert sum(f'"ts":{ts},' in row for row in found) == 41
        before = table.snapshot()
        if isinstance(table, HudiTable):
            table.compact()
        else:
            table.compaction("op => 'scheduleAndExecute'")
        assert table.snapshot() == table.read_optimized() == before == table.snapshot(**SKIPPING)


def check_files(table: HudiTable) -> None:
    """The library reads the newest base files, by all of their columns and by the places of their row groups."""
    newest = max(path.name.rpartition("_")[2] for path in table.path.glob("*.parquet"))
    for path in table.path.glob(f"*_{newest}"):
        rows = pq.read_table(path)
        assert rows.column("_hoodie_file_name").unique().to_pylist() == [path.name]
        keys = rows.column("_hoodie_record_key").to_pylist()
        assert keys == sorted(keys, key=str.encode)
        for key in keys[::7]:
            (found,) = pq.read_table(path, filters=[("_hoodie_record_key", "=", key)]).to_pylist()
            assert found["_hoodie_record_key"] == key


def rows(spark: SparkSession, first: int, last: int, ts: int) -> DataFrame:
    """Keys of different lengths, not in their order."""
    numbers = spark.range(first, last).orderBy(f.rand(7))
    return numbers.select(
        f.concat(f.lit("kéy-"), f.col("id")).alias("id"), f.lit(ts).alias("ts"), (f.col("id") * ts).alias("v")
    )


def sorted_files(table: HudiTable) -> set[bool]:
    """What the base files of the newest compaction say of being sorted; those that say it must be."""
    newest = max(path.name.rpartition("_")[2] for path in table.path.glob("*.parquet"))
    says = set()
    for path in table.path.glob(f"*_{newest}"):
        metadata = pq.read_metadata(path).metadata or {}
        is_said = SORTED_BY_KEY.encode() in metadata
        says.add(is_said)
        keys = [key.encode() for key in pq.read_table(path).column("_hoodie_record_key").to_pylist()]
        assert not is_said or keys == sorted(keys)
    return says


@pytest.mark.interop
@pytest.mark.wide
def test_hudi_lives_on_with_sorted_base_files(spark: SparkSession, tmp_path: Path) -> None:
    """Lakeward's files are sorted from the first one on, and what they say stays true over base files of Hudi's in
    between."""
    table = HudiTable(spark, tmp_path / "table", TableShape(index="INMEMORY"))
    table.write(rows(spark, 0, 400, 1), "upsert")
    for ts, (first, last) in enumerate([(100, 500), (390, 620)], start=2):
        table.write(rows(spark, first, last, ts), "upsert")
        before = table.snapshot()
        compact(table)
        assert table.snapshot() == table.read_optimized() == before
        assert sorted_files(table) == {True}
    table.write(rows(spark, 0, 50, 4), "delete")
    table.compact()
    table.write(rows(spark, 40, 60, 5), "upsert")
    before = table.snapshot()
    compact(table)
    assert table.snapshot() == table.read_optimized() == before
    assert len(before) == 580
    sorted_files(table)
