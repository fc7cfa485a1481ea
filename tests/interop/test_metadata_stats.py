"""Statistics for the metadata table: what we make of a file is what Hudi made of it, field by field.

Of three columns it is not, since Hudi leaves values out of their ranges and queries then skip them: there Lakeward's
hold every value of the file, and Hudi's do not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeward.format.avro.schema import table_schema
from lakeward.format.metadata.base_file_stats import read_bloom_filter, read_column_stats
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.index_definitions import INDEX_DEFINITIONS_PATH, parse_index_definitions
from lakeward.format.metadata.key import bloom_filter_key, column_stats_key, files_key, partition_stats_key
from lakeward.format.metadata.log_file import MetadataBlock, metadata_blocks
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.metadata.partition_stats import partition_stats
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    MetadataRecord,
    PartitionStatsRecord,
    StatsRecord,
)
from lakeward.format.parquet.base_file import BaseFileWriter, open_base_file
from lakeward.format.stats.column_range import ColumnRangeAccumulator
from lakeward.format.stats.indexed_columns import indexed_columns
from lakeward.format.stats.stats_value import StatsValue, StatsVersion, ValueKind, ValueType
from lakeward.read.logs.log_run import LogMerge, LogRun, SliceLogs
from lakeward.read.table_rules import merge_rules
from lakeward.storage.local import LocalStorage
from tests.conftest import IN_CI
from tests.hudi.typed_table import (
    DELETED,
    KNOWN_BETTER,
    MISSING,
    PARTITIONS,
    compact,
    log_compact,
    rows,
    write_typed_table,
)
from tests.our_reader import scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

OLDER = "1.0.2"
"""Writes table version 8, whose statistics are of version 1."""


@dataclass(frozen=True)
class Written:
    """What Hudi wrote into one partition of the metadata table at one instant."""

    records: dict[str, MetadataRecord]
    deleted_keys: tuple[str, ...]


@dataclass(frozen=True)
class Served:
    """A table, and the instants at which Hudi serviced it."""

    path: Path
    instants: Mapping[str, str]
    version: StatsVersion

    def written(self, instant: str, partition: str) -> Written:
        records: dict[str, MetadataRecord] = {}
        deleted: list[str] = []
        for path in sorted((self.path / ".hoodie" / "metadata" / partition).glob(f".*_{instant}.log.*")):
            if path.suffix == ".crc":
                continue
            with path.open("rb") as file:
                for block in metadata_blocks(file, path.stat().st_size, path.name):
                    assert isinstance(block, MetadataBlock)
                    deleted += block.deleted_keys
                    if block.hfile is not None and block.schema_json is not None:
                        codec = metadata_codec(block.schema_json)
                        for key, value in block.hfile.entries():
                            records[key.decode()] = codec.decode(value, path.name)
        return Written(records, tuple(deleted))

    def column_stats(self, instant: str = "*") -> dict[str, ColumnStatsRecord]:
        found = self.written(instant, "column_stats").records
        return {key: record for key, record in found.items() if isinstance(record, ColumnStatsRecord)}

    def partition_stats(self, instant: str) -> dict[str, PartitionStatsRecord]:
        found = self.written(instant, "partition_stats").records
        return {key: record for key, record in found.items() if isinstance(record, PartitionStatsRecord)}

    @property
    def schema(self) -> str:
        snapshot = scan(self.path)
        assert snapshot.schema is not None
        return snapshot.schema

    @property
    def columns(self) -> dict[str, Any]:
        data = (self.path / INDEX_DEFINITIONS_PATH).read_bytes()
        definitions = parse_index_definitions(data, file="index.json")
        named = indexed_columns(self.schema, definitions.column_stats_columns, version=self.version)
        assert tuple(named) == definitions.column_stats_columns
        assert tuple(indexed_columns(self.schema, (), version=self.version)) == definitions.column_stats_columns
        return named

    def files(self, partition: str, *, before: str = "") -> list[str]:
        """Base and log files of a partition, those of instants after `before` left out."""
        names = [
            path.name for path in (self.path / partition).iterdir() if ".parquet" in path.name or ".log." in path.name
        ]
        names = [name for name in names if not name.endswith(".crc")]
        return [name for name in names if not before or instant_of(name) <= before]


def instant_of(name: str) -> str:
    return name.split(".")[1].rpartition("_")[2] if name.startswith(".") else name.removesuffix(".parquet")[-17:]


@pytest.fixture(scope="module")
def served(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """Logs are compacted, a compaction is planned, more is written, the compaction runs; all by Hudi 1.2.0."""
    table = write_typed_table(spark, tmp_path_factory.mktemp("typed") / "table")
    instants = {"log": log_compact(table, spark)}
    instants["plan"] = compact(table, spark, "op => 'schedule'")
    table.write(rows(spark, range(300, 310), ts=4), "upsert")
    instants["upsert"] = table.completed_instants()[-1][0]
    instants["full"] = instants["plan"]
    compact(table, spark, f"op => 'run', timestamp => {instants['plan']}")
    return Served(table.path, instants, StatsVersion.V2)


def test_column_statistics_of_a_base_file(served: Served):
    """They equal what Hudi's compaction wrote, for every type and over several row groups."""
    assert_base_files_equal(served)


def test_bloom_filter_of_a_base_file(served: Served):
    """Type and text are those of the footer."""
    hudis = served.written(served.instants["full"], "bloom_filters").records
    assert len(hudis) == len(PARTITIONS)
    for path in base_files(served):
        with path.open("rb") as file:
            found = read_bloom_filter(file, file_name=path.name)
        assert found is not None
        own = BloomFilterRecord(type_code=found[0], timestamp=served.instants["full"], bloom_filter=found[1])
        assert hudis[bloom_filter_key(path.parent.name, path.name)] == own


def test_column_statistics_of_our_base_file(spark: SparkSession, served: Served, tmp_path: Path):
    """Hudi's own code says the same of a file that we wrote, but for the three columns."""
    source, own = base_files(served)[1], tmp_path / "own.parquet"
    schema = table_schema(served.schema)
    with source.open("rb") as file, own.open("wb") as sink:
        writer = BaseFileWriter(sink, schema, file_name=own.name)
        for batch in open_base_file(file, schema, name=source.name):
            writer.write(batch)
        writer.close()

    hudis = hudi_reads(spark, own, [*served.columns])
    for record in own_of(served, own):
        found = hudis.pop(str(record.column))
        assert found["sizes"] == (record.total_size, record.total_uncompressed_size)
        if record.column not in KNOWN_BETTER:
            ends = tuple(plain(value, record.value_type) for value in (record.min_value, record.max_value))
            assert (found["ends"], found["counts"]) == (ends, (record.value_count, record.null_count)), record.column
    assert not hudis


def test_where_we_know_better(served: Served):
    """NaN, texts that Parquet keeps no range of, bytes from 0x80: each value of the file lies within our range."""
    hudis = served.column_stats(served.instants["full"])
    for path in base_files(served):
        table = pq.read_table(path, columns=[*KNOWN_BETTER])
        own = {record.column: record for record in own_of(served, path)}
        for column in KNOWN_BETTER:
            values = table.column(column)
            assert own[column].null_count == values.null_count == 0
            is_nan = pc.is_nan(values) if column == "with_nan" else None
            if is_nan is not None:
                assert (own[column].max_value != own[column].max_value) == pc.any(is_nan).as_py()
                values = values.filter(pc.invert(is_nan))
            smallest, largest = pc.min(values).as_py(), pc.max(values).as_py()
            assert own[column].min_value <= smallest
            assert not own[column].max_value < largest
        hudi = hudis[column_stats_key("long_text", path.parent.name, path.name)]
        assert (hudi.null_count, hudi.value_count) == (table.num_rows, table.num_rows), "Hudi says: nothing but nulls"


def test_column_statistics_of_a_log_file(served: Served):
    """We say of the rows that a log compaction leaves what Hudi says of its own.

    But for the commit time: Hudi's log compaction gives its rows the time of its own instant, Lakeward's keeps what
    they have. And Hudi keeps a text of 5,000 characters whole where we cut it.
    """
    hudis = served.column_stats(served.instants["log"])
    own = {
        column_stats_key(str(record.column), partition, str(record.file_name)): record
        for partition in PARTITIONS
        for record in log_stats_of(served, partition)
    }
    assert_equal(own, hudis, but=("_hoodie_commit_time", "high_bytes", "long_text"))
    for key, hudi in hudis.items():
        if hudi.column == "high_bytes":
            assert hudi.min_value > own[key].min_value and hudi.max_value < own[key].max_value, "Hudi: 0x80 < 0x7f"
    assert {(record.total_size, record.total_uncompressed_size) for record in hudis.values()} == {(0, 0)}


def test_a_log_of_deletes_alone(served: Served):
    """It has records without type, range and rows."""
    (_, _, deletes) = sorted({instant_of(name) for name in served.files("p0")})[:3]
    hudis = served.column_stats(deletes)
    own = {}
    for partition in PARTITIONS:
        (name,) = [name for name in served.files(partition) if instant_of(name) == deletes]
        for record in log_column_stats(name, {}, columns=served.columns, version=served.version):
            own[column_stats_key(str(record.column), partition, name)] = record
    assert_equal(own, hudis)


def test_a_log_compaction_in_the_other_partitions(served: Served):
    """Hudi's own writes the new log files into `files`, no bloom filters, and into the record index a deletion of
    every key whose delete it kept. (`format/metadata/log_stats.py` says why we leave the last out.)"""
    written = {
        name: served.written(served.instants["log"], name) for name in ("files", "bloom_filters", "record_index")
    }

    assert written["bloom_filters"] == Written({}, ())
    assert written["record_index"].records == {}
    assert sorted(written["record_index"].deleted_keys) == [f"k{number:05}" for number in DELETED]
    assert sorted(written["files"].records) == ["__all_partitions__", *map(files_key, PARTITIONS)]


@pytest.mark.parametrize("service", ["log", "upsert", "full"])
def test_partition_statistics(served: Served, service: str):
    """Equal to Hudi's, from the files that count: with a log compaction its sources beside its output; with a write
    into a file group whose compaction is pending all that was there before; with the compaction the new base file and
    the logs since."""
    instant = served.instants[service]
    hudis = served.partition_stats(instant)
    own = {}
    for partition in PARTITIONS:
        files = served.files(partition, before=served.instants["upsert"])
        if service == "log":
            files = [name for name in files if instant_of(name) <= instant]
        elif service == "upsert":
            files = [name for name in files if instant_of(name) != served.instants["plan"]]
        else:
            files = [name for name in files if instant_of(name) >= served.instants["plan"]]
        assert len(files) == {"log": 5, "upsert": 6, "full": 2}[service]
        for record in partition_stats(
            partition, files, served.column_stats().values(), columns=served.columns, version=served.version
        ):
            own[partition_stats_key(str(record.column), partition)] = record
    assert_equal(own, hudis, but=("high_bytes",))
    assert {record.is_tight for record in hudis.values()} == {True}


@pytest.mark.wide
def test_statistics_of_version_1(tmp_path: Path):
    """They are the same on a table of version 8, by Hudi 1.0.2."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.hudi.typed_table", str(tmp_path), str(scratch), OLDER],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    if done.returncode == MISSING:
        (pytest.fail if IN_CI else pytest.skip)(done.stderr[-1000:])
    assert done.returncode == 0, done.stderr[-5000:]
    served = Served(tmp_path / "table", {"full": (tmp_path / "instant").read_text()}, StatsVersion.V1)

    assert_base_files_equal(served)
    hudis = served.partition_stats(served.instants["full"])
    own = {}
    for path in base_files(served):
        stats = served.column_stats(served.instants["full"]).values()
        columns = served.columns
        for record in partition_stats(path.parent.name, [path.name], stats, columns=columns, version=served.version):
            own[partition_stats_key(str(record.column), path.parent.name)] = record
    assert_equal(own, hudis)


def assert_base_files_equal(served: Served) -> None:
    hudis = served.column_stats(served.instants["full"])
    own = {}
    for path in base_files(served):
        assert pq.read_metadata(path).num_row_groups > 1
        for record in own_of(served, path):
            own[column_stats_key(str(record.column), path.parent.name, path.name)] = record
    assert_equal(own, hudis, but=KNOWN_BETTER)
    for key in own:
        assert own[key].total_size == hudis[key].total_size
        assert own[key].value_count == hudis[key].value_count


def assert_equal(
    own: Mapping[str, StatsRecord], hudis: Mapping[str, StatsRecord], *, but: tuple[str, ...] = ()
) -> None:
    """The same keys, and under each the same in every field; of the columns `but` their ranges are not compared."""
    assert own.keys() == hudis.keys()
    for key, record in hudis.items():
        if record.column not in but:
            assert comparable(own[key]) == comparable(record)


def comparable(record: StatsRecord) -> StatsRecord:
    """With NaN, which is not equal to itself, as text."""
    smallest, largest = ("NaN" if value != value else value for value in (record.min_value, record.max_value))
    return replace(record, min_value=smallest, max_value=largest)


def base_files(served: Served) -> list[Path]:
    found = sorted(served.path.glob(f"*/*_{served.instants['full']}.parquet"))
    assert [path.parent.name for path in found] == [*PARTITIONS]
    return found


def own_of(served: Served, path: Path) -> list[ColumnStatsRecord]:
    with path.open("rb") as file:
        return read_column_stats(file, served.columns, file_name=path.name, version=served.version)


def hudi_reads(spark: SparkSession, path: Path, columns: list[str]) -> dict[str, dict[str, Any]]:
    """What Hudi finds in the footer of a file, by column."""
    jvm: Any = spark._jvm
    hudi = jvm.org.apache.hudi
    location = hudi.storage.StoragePath(str(path))
    configuration = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())  # type: ignore[union-attr]
    storage = hudi.storage.HoodieStorageUtils.getStorage(location, configuration)
    names = jvm.java.util.ArrayList()
    for column in columns:
        names.add(column)
    version = hudi.metadata.HoodieIndexVersion.V2
    found = hudi.common.util.ParquetUtils().readColumnStatsFromMetadata(storage, location, names, version)
    return {
        each.getColumnName(): {
            "ends": (unwrapped(each.getMinValueWrapped()), unwrapped(each.getMaxValueWrapped())),
            "counts": (each.getValueCount(), each.getNullCount()),
            "sizes": (each.getTotalSize(), each.getTotalUncompressedSize()),
        }
        for each in found
    }


def unwrapped(value: Any) -> Any:
    if value is None:
        return None
    found = json.loads(value.toString())["value"]
    return float(found) if found in ("Infinity", "-Infinity", "NaN") else found


def plain(value: StatsValue | None, kind: ValueType | None) -> Any:
    """The value in the form of `unwrapped`."""
    assert kind is not None
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(kind.scale or 0))
        value = unscaled.to_bytes((8 + (unscaled + (unscaled < 0)).bit_length()) // 8, "big", signed=True)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return float(str(np.float32(value))) if kind.kind is ValueKind.FLOAT else value


def log_stats_of(served: Served, partition: str) -> list[ColumnStatsRecord]:
    """Statistics of the rows that our log compaction would write in place of Hudi's."""
    instant, schema = served.instants["log"], served.schema
    sources = [name for name in served.files(partition) if ".log." in name and instant_of(name) < instant]
    (name,) = [name for name in served.files(partition) if instant_of(name) == instant]
    arrow_schema = table_schema(schema)
    accumulator = ColumnRangeAccumulator(served.columns, arrow_schema)
    run = LogRun(
        LocalStorage(),
        SliceLogs(
            str(served.path),
            tuple(f"{partition}/{source}" for source in sorted(sources, key=instant_of)),
            instant,
        ),
        LogMerge(merge_rules(scan(served.path))),
        schema=arrow_schema,
    )
    with closing(run):
        run.read()
        for part in run.folded():
            if isinstance(part, pa.RecordBatch):
                accumulator.add(part)
    return log_column_stats(name, accumulator.ranges, columns=served.columns, version=served.version)
