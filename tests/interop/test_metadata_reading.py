"""The metadata tables of real tables: we read what Hudi reads, record by record, list by them what is stored,
understand every key and value, and would have written the same.

Every state is one of a table by Hudi 1.2.0: as its writes left it; with the last compaction of its metadata table, or
the last write, rolled back to where it was pending; after more writes, a rollback, a compaction and a clean. Keys and
values are of that table, of version 9, and of one of version 8 by Hudi 1.0.2.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.format.file_name import HFILE, check_file_name, parse_base_file, parse_log_file
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.log.block import CorruptBlock, LogBlock, scan_blocks
from lakeward.format.metadata.codec import MetadataCodec, metadata_codec
from lakeward.format.metadata.index_definitions import INDEX_DEFINITIONS_PATH, parse_index_definitions
from lakeward.format.metadata.key import (
    ALL_PARTITIONS,
    bloom_filter_key,
    column_stats_key,
    file_group_index,
    file_group_indexes,
    files_key,
    partition_stats_key,
)
from lakeward.format.metadata.log_file import metadata_blocks, write_metadata_log
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    FilesRecord,
    MetadataRecord,
    PartitionStatsRecord,
    RecordIndexRecord,
    StatsRecord,
)
from lakeward.format.stats.stats_value import StatsVersion, ValueKind, Wrapper, stats_order, value_type_of
from lakeward.storage.local import LocalStorage
from lakeward.table.listing_source import ListingSource
from lakeward.table.metadata.metadata_listing import MetadataListing, compare_with_storage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.snapshot import take_snapshot
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import Timeline, load_timeline
from lakeward.table.watching.incremental_view import IncrementalView
from tests.clocks import SkippingClock
from tests.hudi.metadata_java import HudiMetadata
from tests.hudi.metadata_table import OPTIONS
from tests.hudi.table import HudiTable, TableShape
from tests.interop.made_once import BY_HBASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

# Hudi rolls nothing back that lies before the last compaction of the metadata table.
SHAPE = TableShape(partition_fields="part", options=OPTIONS | {"hoodie.metadata.compact.max.delta.commits": "5"})

Records = dict[str, dict[str, MetadataRecord]]


class Seen:
    """What we see of a table by its metadata table."""

    def __init__(self, path: Path) -> None:
        storage, clock = LocalStorage(), SkippingClock()
        self.path = path
        config = load_table_config(storage, str(path), clock=clock).config
        self.timeline: Timeline = load_timeline(storage, str(path), config)
        self.metadata = load_metadata_table(storage, str(path), config, self.timeline, clock=clock)
        self.reader = MetadataReader(storage, self.metadata)
        self.listing = MetadataListing(self.reader, str(path))

    def files(self) -> dict[str, dict[str, int]]:
        return {
            path: {status.name: status.size for status in self.listing.files(path)}
            for path in self.listing.partitions()
        }

    def records(self) -> Records:
        """All records by scan; for every key there is one record, whose lookup finds the same."""
        found = {}
        for partition in self.metadata.slices:
            entries = list(self.reader.scan(partition))
            found[partition] = dict(entries)
            assert len(found[partition]) == len(entries), partition
        return found


def assert_as_hudi_sees_it(spark: SparkSession, path: Path, scratch: Path) -> Seen:
    """The same files and records as Hudi's own reader, and in the storage nothing else that is committed."""
    seen, hudi = Seen(path), HudiMetadata(spark, path)
    assert seen.files() == hudi.files()
    for partition, records in seen.records().items():
        hudis = hudi.records(partition, scratch)
        assert records.keys() == hudis.keys(), partition
        assert encoded(records) == encoded(hudis), partition
    differences = compare_with_storage(
        LocalStorage(), str(path), seen.listing, seen.listing.partitions(), seen.timeline
    )
    assert differences == ()
    stored, listed = (
        take_snapshot(LocalStorage(), str(path), clock=SkippingClock(), listing=source) for source in ListingSource
    )
    assert listed == replace(stored, uncommitted_files=())
    return seen


def encoded(records: Mapping[str, MetadataRecord]) -> dict[str, object]:
    """NaN is not equal to itself, but formatted alike; the files of a partition are in no order."""
    return {key: record if isinstance(record, FilesRecord) else repr(record) for key, record in records.items()}


@pytest.fixture(scope="module")
def written(table_with_metadata: Path) -> Path:
    return table_with_metadata


def metadata_timeline(path: Path) -> list[Path]:
    return sorted((path / ".hoodie" / "metadata" / ".hoodie" / "timeline").iterdir())


def test_every_record_is_hudis(spark: SparkSession, written: Path, tmp_path: Path):
    """The records of every partition are compared, from base files and logs."""
    seen = assert_as_hudi_sees_it(spark, written, tmp_path)

    partitions = {"files", "column_stats", "partition_stats", "bloom_filters", "record_index"}
    assert set(seen.metadata.slices) == partitions
    for partition in ("files", "column_stats", "partition_stats", "record_index"):
        slices = seen.metadata.slices[partition]
        assert any(s.base_file for s in slices) and any(s.log_files for s in slices), partition


def test_every_key_is_found(written: Path):
    """A lookup finds what a scan finds, and one by the start of a key what a scan finds that starts so."""
    seen = Seen(written)
    for partition, records in seen.records().items():
        assert seen.reader.lookup(partition, [*records, "not there"]) == records
        starts = {key[:length] for key in list(records)[::50] for length in (1, 12, 30)}
        for start in starts:
            found = list(seen.reader.with_prefixes(partition, [start]))
            assert len(dict(found)) == len(found)
            assert dict(found) == {key: record for key, record in records.items() if key.startswith(start)}


def test_a_pending_compaction_of_the_metadata_table_hides_nothing(spark: SparkSession, written: Path, tmp_path: Path):
    """Its slices have no base file yet; what was there before it is read together with what came after it."""
    path = tmp_path / "table"
    shutil.copytree(written, path)
    completed = [file for file in metadata_timeline(path) if file.name.endswith(".commit")][-1]
    completed.unlink()
    instant = completed.name.partition("_")[0]
    for base in (path / ".hoodie" / "metadata").glob(f"*/*_{instant}.hfile"):
        if base.parent.name != "files":  # there it is what an attempt that is at work, or died, has written so far
            base.unlink()

    seen = assert_as_hudi_sees_it(spark, path, tmp_path)
    before = Seen(written).records()
    assert {of: encoded(r) for of, r in seen.records().items()} == {of: encoded(r) for of, r in before.items()}
    assert all(s.base_instant != instant for slices in seen.metadata.slices.values() for s in slices)


def test_a_write_that_is_pending_is_not_seen(spark: SparkSession, written: Path, tmp_path: Path):
    """Although it is complete in the metadata table, which is always the first of the two."""
    path = tmp_path / "table"
    shutil.copytree(written, path)
    timeline = path / ".hoodie" / "timeline"
    last = sorted(timeline.glob("*_*.deltacommit"))[-1]
    last.unlink()
    instant = last.name.partition("_")[0]
    assert (timeline / f"{instant}.deltacommit.inflight").exists()

    seen = assert_as_hudi_sees_it(spark, path, tmp_path)
    names = {name for names in seen.files().values() for name in names}
    before = {name for names in Seen(written).files().values() for name in names}
    assert names == {name for name in before if instant not in name} < before


@pytest.mark.wide
def test_a_table_goes_on(spark: SparkSession, written: Path, tmp_path: Path):
    """Deletes, a rollback, a compaction and a clean leave the two equal."""
    path = tmp_path / "table"
    shutil.copytree(written, path)
    table = HudiTable(spark, path, SHAPE)
    view = IncrementalView(LocalStorage(), str(path), clock=SkippingClock(), listing=ListingSource.METADATA)
    view.refresh()

    table.write(table.frame().where("id IN ('k20', 'k21')"), "delete")
    seen = assert_as_hudi_sees_it(spark, path, tmp_path)
    assert seen.reader.lookup("record_index", ["k20", "k21", "k22"]).keys() == {"k22"}

    instant = table.completed_instants()[-1][0]
    roll_back(spark, path, instant)
    assert [i.action for i in Seen(path).timeline.completed][-1] == "rollback"
    assert_as_hudi_sees_it(spark, path, tmp_path)

    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    cleaned = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
    table.write(table.frame().where("id IN ('k30', 'k31')"), "upsert", **inline, **cleaned)
    table.write(table.frame().where("id IN ('k30', 'k32')"), "upsert", **inline, **cleaned)
    seen = assert_as_hudi_sees_it(spark, path, tmp_path)
    assert {"clean", "commit"} <= {i.action for i in seen.timeline.completed}
    view.refresh()
    assert view.snapshot() == take_snapshot(LocalStorage(), str(path), clock=SkippingClock())


def roll_back(spark: SparkSession, path: Path, instant: str) -> None:
    client: Any = spark._jvm.org.apache.hudi  # type: ignore[union-attr]
    builder = client.config.HoodieWriteConfig.newBuilder().withPath(str(path)).withProps(dict(SHAPE.write_options()))
    context = client.client.common.HoodieSparkEngineContext(spark._jsc)
    writer = client.client.SparkRDDWriteClient(context, builder.build())
    assert writer.rollback(instant)
    writer.close()


UNUSUAL = {
    "unpartitioned": TableShape(options=OPTIONS),
    "record index by partition": TableShape(
        partition_fields="part",
        options={k: v for k, v in OPTIONS.items() if "metadata.record.index" not in k}
        | {
            # With partition stats beside such an index, Hudi 1.2.0's second write fails in its own reader.
            "hoodie.metadata.index.column.stats.enable": "false",
            "hoodie.metadata.record.level.index.enable": "true",
            "hoodie.metadata.record.level.index.min.filegroup.count": "2",
            "hoodie.metadata.record.level.index.max.filegroup.count": "2",
        },
    ),
    "version 8": TableShape(partition_fields="part", options=OPTIONS | {"hoodie.write.table.version": "8"}),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", UNUSUAL)
def test_tables_of_other_shapes(spark: SparkSession, tmp_path: Path, name: str):
    """Their metadata tables are read as Hudi reads them, too."""
    table = HudiTable(spark, tmp_path / "table", UNUSUAL[name])
    for first, last in ((0, 60), (40, 80), (0, 5)):
        rows = spark.sql(
            f"SELECT concat('k', id) AS id, concat('a-b_c=', id % 3) AS part, {last}L AS ts FROM range({first}, {last})"
        )
        table.write(rows, "upsert")

    seen = assert_as_hudi_sees_it(spark, table.path, tmp_path)
    records = seen.records()
    assert any(isinstance(record, BloomFilterRecord) for record in records["bloom_filters"].values())
    for path in seen.listing.partitions() if name == "record index by partition" else ():
        own = {k: r for k, r in records["record_index"].items() if getattr(r, "partition", None) == path}
        assert own and seen.reader.lookup("record_index", records["record_index"], data_partition=path) == own


PARTITIONS = {"files", "column_stats", "partition_stats", "bloom_filters", "record_index"}


@dataclass(frozen=True)
class Entry:
    """A key and its value, and where it stands."""

    file: Path
    file_id: str
    in_log: bool
    key: str
    value: bytes
    codec: MetadataCodec

    @property
    def partition(self) -> str:
        return self.file.parent.name

    @property
    def record(self) -> MetadataRecord:
        return self.codec.decode(self.value, str(self.file))


@dataclass(frozen=True)
class Table:
    """All that its metadata table holds."""

    path: Path
    entries: list[Entry]
    deleted: list[tuple[Path, str, str]]
    """File, file id and key."""

    def of(self, partition: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.partition == partition]

    def file_ids(self, partition: str) -> list[str]:
        names = (self.path / ".hoodie" / "metadata" / partition).iterdir()
        return sorted({parsed.file_id for name in names if (parsed := parse_log_file(name.name))})


def load(path: Path) -> Table:
    table = Table(path, [], [])
    for file_path in sorted((path / ".hoodie" / "metadata").glob("[!.]*/*")):
        if file_path.name.endswith(".crc") or file_path.name == ".hoodie_partition_metadata":
            continue
        check_file_name(file_path.name, extension=HFILE)
        base, log = parse_base_file(file_path.name, extension=HFILE), parse_log_file(file_path.name)
        size = file_path.stat().st_size
        with file_path.open("rb") as file:
            if base is not None:
                reader = HFileReader(file, length=size, name=str(file_path))
                codec = metadata_codec(reader.info["schema"].decode())
                table.entries.extend(entries_of(file_path, base.file_id, reader, codec, in_log=False))
                continue
            assert log is not None
            for block in metadata_blocks(file, size, str(file_path)):
                assert not isinstance(block, CorruptBlock) and block.instant == log.instant
                table.deleted.extend((file_path, log.file_id, key) for key in block.deleted_keys)
                if block.hfile is not None:
                    assert block.schema_json == block.hfile.info["schema"].decode()
                    codec = metadata_codec(block.schema_json)
                    table.entries.extend(entries_of(file_path, log.file_id, block.hfile, codec, in_log=True))
    return table


def entries_of(file: Path, file_id: str, reader: HFileReader, codec: MetadataCodec, *, in_log: bool) -> Iterator[Entry]:
    for key, value in reader.entries():
        yield Entry(file, file_id, in_log, key.decode(), value, codec)


@pytest.fixture(scope="module")
def table(table_with_metadata: Path) -> Table:
    return load(table_with_metadata)


@pytest.fixture(scope="module")
def older_table(by_hbase: Path) -> Table:
    return load(by_hbase / "table")


@pytest.fixture(params=["table", pytest.param("older_table", marks=BY_HBASE)])
def any_table(request: pytest.FixtureRequest) -> Table:
    found: Table = request.getfixturevalue(request.param)
    return found


def test_every_record_is_understood_and_written_alike(any_table: Table):
    """It is, byte for byte, in log files; base files have their own name in front of each record, which we leave
    out."""
    seen = Counter((entry.partition, entry.in_log) for entry in any_table.entries)
    assert seen.keys() == {(partition, in_log) for partition in PARTITIONS for in_log in (True, False)}
    for entry in any_table.entries:
        again = entry.codec.encode(entry.record)
        if entry.in_log:
            assert again == entry.value, (entry.file, entry.key)
        else:
            # No meta column, then those that a base file leaves empty: what follows them must agree.
            assert entry.value == again or entry.value.endswith(again[5:]), (entry.file, entry.key)
            assert entry.codec.decode(again, "own") == entry.record


def head_of(log: Path) -> tuple[object, ...]:
    """The head of a log's HFile block; the order of the headers is one that Java's hash of the day has chosen."""
    with log.open("rb") as file:
        block = next(scan_blocks(file, log.stat().st_size, name=log.name))
    assert isinstance(block, LogBlock)
    return block.type, block.headers, block.content_offset, block.offset


def test_a_log_file_of_lakeward_is_hudis(any_table: Table, tmp_path: Path):
    """The same entries with the same schema and instant give the same block but for the HFile's own choices."""
    for log in sorted({entry.file for entry in any_table.entries if entry.in_log}):
        entries = [entry for entry in any_table.entries if entry.file == log]
        instant = log.name.split("_")[1].partition(".")[0]
        own = tmp_path / log.name
        with own.open("wb") as sink:
            pairs = ((entry.key, entry.codec.encode(entry.record)) for entry in entries)
            stats = write_metadata_log(sink, instant=instant, schema_json=entries[0].codec.schema_json, entries=pairs)
        assert (stats.entries, stats.size_bytes) == (len(entries), own.stat().st_size)
        assert head_of(own) == head_of(log)
        with own.open("rb") as file:
            (block,) = metadata_blocks(file, stats.size_bytes, "own")
            assert not isinstance(block, CorruptBlock) and block.hfile is not None
            assert list(block.hfile.entries()) == [(entry.key.encode(), entry.value) for entry in entries]


def test_every_key_lives_where_its_hash_says(any_table: Table):
    """Deleted ones do, too."""
    for partition in PARTITIONS:
        ids = any_table.file_ids(partition)
        found = [(entry.key, entry.file_id) for entry in any_table.of(partition)]
        found += [(key, file_id) for file, file_id, key in any_table.deleted if file.parent.name == partition]
        indexes = file_group_indexes([key for key, _ in found], len(ids))
        assert [ids[index] for index in indexes] == [file_id for _, file_id in found], partition
        assert all(file_group_index(key, len(ids)) == index for (key, _), index in zip(found, indexes, strict=True))
        assert len(ids) == {"column_stats": 2, "bloom_filters": 4, "record_index": 2}.get(partition, 1)


def partitions_of_files(table: Table) -> dict[str, str]:
    """The partition of each data file, by the listing in `files`."""
    found = {}
    for entry in table.of("files"):
        if isinstance(entry.record, FilesRecord) and not entry.record.is_all_partitions:
            found |= dict.fromkeys(entry.record.entries, entry.key)
    return found


def test_keys_are_what_we_make_of_names(any_table: Table):
    """Every key but the record index's, which is the record key itself."""
    partition_of = partitions_of_files(any_table)
    for entry in any_table.entries:
        match entry.record:
            case FilesRecord(is_all_partitions=True) as record:
                # The first one is of a table without partitions yet.
                assert entry.key == ALL_PARTITIONS and set(record.entries) in (set(), {"p0", "p1", "p2"})
            case FilesRecord():
                assert entry.key == files_key(entry.key) and entry.key in ("p0", "p1", "p2")
            case ColumnStatsRecord(file_name=str(name), column=str(column)):
                assert entry.key == column_stats_key(column, partition_of[name], name)
            case PartitionStatsRecord(file_name=str(name), column=str(column)):
                assert entry.key == partition_stats_key(column, name)
            case BloomFilterRecord():
                names = [name for name in partition_of if bloom_filter_key(partition_of[name], name) == entry.key]
                (name,) = names
                base = parse_base_file(name)
                assert base is not None and entry.record.timestamp == base.instant
            case RecordIndexRecord(partition=str(partition), file_id=file_id):
                assert entry.key.startswith("k") and partition in ("p0", "p1", "p2")
                assert any(name.startswith((f"{file_id}_", f".{file_id}_")) for name in partition_of)
            case other:
                pytest.fail(f"{entry.key}: {other}")


def test_files_are_listed_with_their_sizes(any_table: Table):
    """Each size is that of the file in storage."""
    for entry in any_table.of("files"):
        if isinstance(entry.record, FilesRecord) and not entry.record.is_all_partitions:
            for name, of_file in entry.record.entries.items():
                assert of_file.size == (any_table.path / entry.key / name).stat().st_size and not of_file.is_deleted


def test_deletes_of_the_record_index_are_keys(any_table: Table):
    """The keys are those of the five rows that were deleted."""
    assert sorted(key for _, _, key in any_table.deleted) == [f"k{n}" for n in range(5)]
    assert {file.parent.name for file, _, _ in any_table.deleted} == {"record_index"}


COLUMNS = {
    "truth": ("boolean", Wrapper.BOOLEAN, bool),
    "small": ("int", Wrapper.INT, int),
    "half": ("float", Wrapper.FLOAT, float),
    "real": ("double", Wrapper.DOUBLE, float),
    "raw": ("bytes", Wrapper.BYTES, bytes),
    "v": ("string", Wrapper.STRING, str),
    "ts": ("long", Wrapper.LONG, int),
    "price": ({"type": "bytes", "logicalType": "decimal", "precision": 15, "scale": 6}, Wrapper.DECIMAL, Decimal),
    "day": ({"type": "int", "logicalType": "date"}, Wrapper.DATE, int),
    "at": ({"type": "long", "logicalType": "timestamp-micros"}, Wrapper.LONG, int),
}


def stats_of(table: Table) -> list[StatsRecord]:
    return [entry.record for entry in table.entries if isinstance(entry.record, StatsRecord)]


@BY_HBASE
def test_types_of_values(table: Table, older_table: Table):
    """A value has the type of its column in version 2, and its wrapper in version 1, both as we take them from its Avro
    type."""
    for of_table, version in ((table, StatsVersion.V2), (older_table, StatsVersion.V1)):
        seen = set()
        for record in stats_of(of_table):
            assert record.version is version or record.column == "nothing" or record.min_value is None
            if record.min_value is None or record.column not in COLUMNS:
                continue
            assert record.max_value is not None
            avro, wrapper, python = COLUMNS[record.column]
            expected = value_type_of(["null", avro], where="c")
            assert (record.value_type, record.wrapper) == (
                (expected, None) if version is StatsVersion.V2 else (None, wrapper)
            )
            assert expected.v1_wrapper is wrapper
            assert type(record.min_value) is type(record.max_value) is python
            assert stats_order(record.min_value) <= stats_order(record.max_value)
            seen.add((type(record), record.column))
        assert seen == {(kind, column) for kind in (ColumnStatsRecord, PartitionStatsRecord) for column in COLUMNS}


def test_a_column_of_nulls(any_table: Table):
    """Has a count and no range."""
    for record in stats_of(any_table):
        if record.column == "nothing":
            assert record.min_value is record.max_value is record.wrapper is None
            assert record.null_count == record.value_count
            assert record.value_type is None or record.value_type.kind in (ValueKind.STRING, ValueKind.NULL)


@BY_HBASE
def test_index_definitions(table: Table, older_table: Table):
    """They name the columns of the statistics and their version."""
    for of_table, typed, expected in ((table, True, StatsVersion.V2), (older_table, False, StatsVersion.V1)):
        path = of_table.path / INDEX_DEFINITIONS_PATH
        definitions = parse_index_definitions(path.read_bytes(), file=str(path))
        assert definitions.stats_version(has_typed_stats=typed) is expected
        assert not definitions.is_partitioned_record_index
        covered = {record.column for record in stats_of(of_table)}
        assert covered <= set(definitions.column_stats_columns) and set(COLUMNS) <= covered
