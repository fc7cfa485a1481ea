"""The bloom index finds what the simple index finds, and reads less for it."""

import logging
import pickle
from dataclasses import replace
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import BrokenFile
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE
from lakeward.format.metadata.record import BloomFilterRecord, ColumnStatsRecord
from lakeward.index.bloom.bloom_index import BloomIndex
from lakeward.index.index import record_locations
from lakeward.index.index_of_type import open_index
from lakeward.index.index_type import IndexType
from lakeward.index.simple import SimpleIndex
from lakeward.storage.local import LocalStorage
from lakeward.storage.metered import MeteredStorage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.new_table import NewIndexes
from lakeward.table.snapshot import take_snapshot
from lakeward.write.request import FileSizes
from tests.golden_tables import copy_golden
from tests.index.bloom.caches import cache_files, rebuilt, spoil_cache
from tests.runs import runs
from tests.write.writing import new_table, write

STORAGE = LocalStorage()
FOOTERS = ("whole", "no filter", "broken filter", "no range", "nothing", "no statistics")


def scan(path):
    return take_snapshot(STORAGE, str(path), clock=SystemClock())


def rows_of(index, keys, partitions=None, storage=STORAGE):
    found = record_locations(storage, index, keys, partitions)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def spoiling(lookup, chance):
    """Records of the metadata table as other writers may leave them."""

    def spoilt(record):
        if isinstance(record, ColumnStatsRecord):
            ways = [{"min_value": None}, {"null_count": 3, "max_value": "a"}, {"min_value": "\uffff", "max_value": "b"}]
        elif isinstance(record, BloomFilterRecord):
            ways = [{"bloom_filter": b""}, {"type_code": SIMPLE_TYPE_CODE}, {"bloom_filter": record.bloom_filter[8:]}]
        else:
            return record
        return replace(record, **chance.choice([*ways, {"is_deleted": True}, {}]))

    def looked_up(self, partition, keys, **options):
        found = lookup(self, partition, keys, **options)
        if partition not in ("column_stats", "bloom_filters"):
            return found
        if chance.random() < 0.1:
            raise BrokenFile("It is broken.", remedy="None.")
        return {key: spoilt(record) for key, record in found.items() if chance.random() < 0.8}

    return looked_up


def sets(batches):
    return {tuple(row.values()) for batch in batches for row in batch.to_pylist()}


def spoil(path, how):
    """The file with another footer, as another writer may leave it."""
    file = pq.ParquetFile(path)
    entries = {name: value for name, value in file.metadata.metadata.items() if name != b"ARROW:schema"}
    if how in ("no filter", "nothing"):
        del entries[b"org.apache.hudi.bloomfilter"]
    if how == "broken filter":
        entries[b"org.apache.hudi.bloomfilter"] = entries[b"org.apache.hudi.bloomfilter"][:-8]
    if how in ("no range", "nothing"):
        del entries[b"hoodie_min_record_key"], entries[b"hoodie_max_record_key"]
    rows = file.read().replace_schema_metadata(entries)
    pq.write_table(rows, path, row_group_size=7, write_statistics=how != "no statistics")


@pytest.mark.parametrize("seed", range(runs(3)))
@pytest.mark.parametrize("cache", ["none", "whole", "partial", "broken"])
def test_it_finds_what_the_simple_index_finds(tmp_path, monkeypatch, seed, cache):
    """Keeps of index/bloom/bloom_index: on tables with several files in a partition, in row groups of a few keys,
    whose footers lack or break what they may; for keys that are there, others beside them, all keys, and each
    partition; without a cache, with one that has all files, some, or is broken anywhere; with and without a metadata
    table of which records are missing, deleted, broken or of another kind."""
    print(f"seed {seed}")
    chance = Random(seed)
    letters = "abz\uffff\U00010000"
    keys = sorted({"".join(chance.choices(letters, k=chance.randrange(1, 7))) for _ in range(300)})
    indexes = NewIndexes(bloom_filters=chance.random() < 0.7)
    table = new_table(tmp_path / "table", table_type="COPY_ON_WRITE", indexes=indexes)
    monkeypatch.setattr(MetadataReader, "lookup", spoiling(MetadataReader.lookup, chance))
    for part in ("p", "q"):
        for _ in range(3):
            some = chance.sample(keys, 60)
            if chance.random() < 0.5:
                some = sorted(some)[:20]
            write(table, [(key, 1, part, "a") for key in some], "insert", sizes=FileSizes(small_file=0))
        if part == "p":
            early = scan(table)
    snapshot = scan(table)  # files of another size than their commits say would count as cut short
    for path in sorted(table.glob("?/*.parquet")):
        spoil(path, chance.choice(FOOTERS))
    if cache != "none":
        rebuilt(early if cache == "partial" else snapshot, file_bytes=chance.choice([1, 500, 10**6]))
    if cache == "broken":
        spoil_cache(table, chance)
    simple, bloom = SimpleIndex.of(snapshot), BloomIndex.of(STORAGE, snapshot, clock=SystemClock())

    assert rows_of(simple, pa.array(keys))
    for wanted in (keys, chance.sample(keys, 5), ["no such"], []):
        for partitions in (None, ["q"], ["no such"]):
            asked = pa.array(wanted, pa.string())
            assert rows_of(bloom, asked, partitions) == rows_of(simple, asked, partitions)
    travelled, few = pickle.loads(pickle.dumps(bloom)), pa.array(chance.sample(keys, 20))
    for mine, other in zip(pickle.loads(pickle.dumps(bloom.parts(None))), simple.parts(None), strict=True):
        assert [*bloom.look_up(STORAGE, mine, None)] == [*simple.look_up(STORAGE, other, None)]
        assert sets(travelled.look_up(STORAGE, mine, few)) == sets(simple.look_up(STORAGE, other, few))
    assert (bloom.is_global, replace(bloom, is_global=True).is_global) == (False, True)


def test_a_table_of_hudis(tmp_path):
    """k5 is in the base file and deleted in a log, of which the base file does not know."""
    snapshot = scan(copy_golden("v9_metadata", tmp_path / "table"))
    index = open_index(STORAGE, snapshot, IndexType.BLOOM, clock=SystemClock())

    found = rows_of(index, pa.array(["k1", "k5", "k9"]))

    assert isinstance(index, BloomIndex)
    assert [row[0] for row in found] == ["k1", "k5"]
    assert found == rows_of(SimpleIndex.of(snapshot), pa.array(["k1", "k5", "k9"]))


def test_keys_are_read_where_they_may_be(tmp_path):
    """The footer alone is read where range or filter rules all keys out, else the row groups whose statistics do
    not."""
    table = new_table(tmp_path / "table", table_type="COPY_ON_WRITE", has_metadata_table=False)
    keys = [f"{number:06}{'-' * 100}" for number in range(0, 40_000, 2)]
    write(table, [(key, 1, "p", "a") for key in keys])
    index = BloomIndex.of(STORAGE, scan(table), clock=SystemClock())
    (path,) = table.glob("p/*.parquet")
    rows = pq.ParquetFile(path).read()
    pq.write_table(rows, path, row_group_size=2000, compression="none", use_dictionary=False)
    column = sum(
        pq.ParquetFile(path).metadata.row_group(at).column(2).total_compressed_size
        for at in range(pq.ParquetFile(path).num_row_groups)
    )

    def bytes_for(*wanted):
        meter = MeteredStorage(STORAGE)
        found = rows_of(index, pa.array(wanted), storage=meter)
        return len(found), meter.bytes_read

    nothing = bytes_for("x")
    assert nothing == bytes_for(keys[7].replace("-", "~")) and nothing[0] == 0
    found, read = bytes_for(keys[7])
    assert found == 1 and 0 < read - nothing[1] < column / 5


@pytest.mark.parametrize("by", ["cache", "metadata table"])
def test_footers_are_spared(tmp_path, caplog, by):
    """A lookup opens base files that have one of the keys, and no others, by the cache or the metadata table, where
    ranges separate and where they do not; filters of files that the ranges rule out are not read. A cache that is
    broken is reported in the log, and footers are read of what the ranges of the metadata table leave."""
    indexes = NewIndexes(bloom_filters=by != "cache")
    table = new_table(tmp_path / "table", table_type="COPY_ON_WRITE", indexes=indexes)
    for start in range(4):
        keys = [f"{number:04}" for number in range(start * 1000, start * 1000 + 400, 2)]
        write(table, [(key, 1, "p", "a") for key in keys], "insert", sizes=FileSizes(small_file=0))
    keys = [f"{number:04}" for number in range(1, 4000, 8)]
    write(table, [(key, 1, "p", "a") for key in keys], "insert", sizes=FileSizes(small_file=0))
    snapshot = scan(table)
    if by == "cache":
        rebuilt(snapshot)
    index = BloomIndex.of(STORAGE, snapshot, clock=SystemClock())

    def opened(*wanted):
        calls = CountingStorage()
        found = rows_of(index, pa.array(wanted), storage=calls)
        names = [path.rpartition("/")[2] for path in calls.opened]
        bases, filters = (sum(name.endswith(end) for name in names) for end in (".parquet", ".keys"))
        return len(found), bases, filters if by == "cache" else None

    def expected(found, bases, filters):
        return found, bases, filters if by == "cache" else None

    assert opened("0002") == expected(1, 1, 2), "one of two files whose ranges it lies within"
    assert opened("2003", "2") == expected(0, 0, 2)
    assert opened("5") == expected(0, 0, 0)
    assert opened("0002", "1002", "2002", "3002") == expected(4, 4, 5)
    if by != "cache":
        return

    for path in cache_files(table):
        if path.suffix == ".keys":
            path.write_bytes(b"x" * path.stat().st_size)
    with caplog.at_level(logging.WARNING):
        assert opened("0002") == (1, 2, 2) and "is broken" in caplog.text
        caplog.clear()
        index = BloomIndex.of(STORAGE, snapshot, clock=SystemClock())
        assert opened("0002") == (1, 2, 0) and "lakeward index rebuild TABLE --type bloom" in caplog.text


def test_ranges_in_the_order_of_utf_8(tmp_path, monkeypatch):
    """Parquet's statistics have the range from U+FFFF to U+10000, as Hudi puts it into the metadata table, which ends
    before it begins in Java's order: it is not taken, and the footer's is."""
    table = new_table(tmp_path / "table", table_type="COPY_ON_WRITE")
    keys = ["\uffff", "\uffff1", "\U00010000"]
    write(table, [(key, 1, "p", "a") for key in keys])
    snapshot = scan(table)
    lookup = MetadataReader.lookup

    def as_hudi_has_it(self, partition, wanted):
        found = lookup(self, partition, wanted)
        return {key: replace(record, min_value="\uffff", max_value="\U00010000") for key, record in found.items()}

    monkeypatch.setattr(MetadataReader, "lookup", as_hudi_has_it)
    index = BloomIndex.of(STORAGE, snapshot, clock=SystemClock())
    assert index.plan(STORAGE, index.parts(None), pa.array(keys)).ranges == 0
    assert [row[0] for row in rows_of(index, pa.array(keys))] == keys


class CountingStorage(LocalStorage):
    def __init__(self):
        super().__init__()
        self.opened = []

    def open_input(self, path):
        self.opened.append(path)
        return super().open_input(path)
