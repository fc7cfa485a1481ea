"""Our bloom filters, asked by Hudi's own classes; Hudi's bloom index on files of Lakeward, and Lakeward's beside Hudi's
on files of Hudi's.
"""

from __future__ import annotations

import base64
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.clock import SystemClock
from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, TYPE_CODE, BloomRows
from lakeward.format.parquet import base_file
from lakeward.index.base_files import BaseFiles
from lakeward.index.bloom.bloom_index import BloomIndex, MetadataFilters
from lakeward.index.bloom.file_keys import KeyRange
from lakeward.index.index import record_locations
from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY
from lakeward.protocol.index.filter_cache_writer import drop_filter_cache
from lakeward.services.indexing.run.filter_cache_update import rebuild_filter_cache
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from tests.hudi.table import HudiTable, TableShape
from tests.hudi.tagging_java import HudiTagging, Places
from tests.interop.lakeward_cli import lakeward as command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

LETTERS = "ab\uffff\U00010000"
METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.bloom.filter.enable": "true"}
MANY = 300_000


@pytest.mark.slow
@pytest.mark.wide
def test_hudi_finds_keys_by_filters_of_more_than_a_megabyte(spark: SparkSession, tmp_path: Path) -> None:
    """In the footer, and in the metadata table: an upsert by its bloom index updates what is there, and adds the one
    that is not."""
    table = HudiTable(spark, tmp_path / "t", TableShape(partition_fields="part"))
    rows = tmp_path / "rows.parquet"
    columns = {"id": [f"k{n:07}" for n in range(MANY)], "ts": [1] * MANY, "part": ["p"] * MANY, "v": ["first"] * MANY}
    pq.write_table(pa.table(columns), rows)
    words = ("--record-key", "id", "--partition", "part", "--ordering", "ts", "--type", "cow", "--name", "t")
    words += ("--index", "bloom-filters", "--like", str(rows))
    assert command("table", "create", str(table.path), *words)[0] == 0
    assert command("write", str(table.path), "--input", str(rows), "--writers", "stopped")[0] == 0
    (base,) = table.path.glob("p/*.parquet")
    assert len(pq.read_metadata(base).metadata[b"org.apache.hudi.bloomfilter"]) > 2_000_000
    for turn, by_metadata in enumerate(("false", "true")):
        options = {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": by_metadata, **METADATA}
        came = [(f"k{n:07}", 2 + turn, "p", f"hudi {turn}") for n in (0, 7, MANY - 1)] + [(f"new{turn}", 2, "p", "n")]
        frame = spark.createDataFrame(came, "id string, ts bigint, part string, v string")
        table.write(frame, "upsert", **{"hoodie.datasource.write.table.type": "COPY_ON_WRITE", **options})
        read = spark.read.format("hudi").load(str(table.path))
        assert read.count() == MANY + 1 + turn
        assert read.where(f"v = 'hudi {turn}'").count() == 3
        if (
            by_metadata == "false"
        ):  # Hudi has written the file again, with its own filter: Lakeward's again, for the next turn
            again = tmp_path / "again.parquet"
            pq.write_table(pa.table({"id": ["k0000009"], "ts": [9], "part": ["p"], "v": ["own"]}), again)
            assert command("write", str(table.path), "--input", str(again), "--writers", "stopped")[0] == 0


@pytest.mark.slow
@pytest.mark.turns
def test_hudi_finds_long_keys_by_ranges_that_it_joins(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two row groups, one with a key and a value of more than 4 KiB: Hudi builds `column_stats` again from the footer.
    Then its queries skip no file that has the row, its bloom index finds every key by the metadata table, and so does
    Lakeward's."""
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", 4)
    table = HudiTable(spark, tmp_path / "t", TableShape(partition_fields="part"))
    rows = tmp_path / "rows.parquet"
    keys = [f"k{n}" for n in range(7)] + ["z" * 5000]
    values = ["v"] * 6 + ["w" * 5000, "x"]
    pq.write_table(pa.table({"id": keys, "ts": [1] * 8, "part": ["p"] * 8, "v": values}), rows)
    words = ("--record-key", "id", "--partition", "part", "--ordering", "ts", "--type", "cow", "--name", "t")
    words += ("--no-metadata-table", "--like", str(rows))
    assert command("table", "create", str(table.path), *words)[0] == 0
    assert command("write", str(table.path), "--input", str(rows), "--writers", "stopped")[0] == 0
    (base,) = table.path.glob("p/*.parquet")
    assert pq.read_metadata(base).num_row_groups == 2
    by_metadata = {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true", **METADATA}
    options = {**by_metadata, "hoodie.metadata.index.column.stats.enable": "true"}
    options |= {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", "hoodie.parquet.small.file.limit": "0"}
    # A file of its own, so that the one of Lakeward's stays: with it Hudi builds the metadata table, from footers.
    schema = "id string, ts bigint, part string, v string"
    table.write(spark.createDataFrame([("new", 1, "q", "v")], schema), "upsert", **options)
    storage, clock = LocalStorage(), SystemClock()
    snapshot = take_snapshot(storage, str(table.path), clock=clock)
    filters = MetadataFilters.of(storage, snapshot, clock=clock)
    assert filters is not None
    (of_base,) = filters.ranges(storage, list(BaseFiles.of(snapshot).within(["p"])))
    assert of_base == KeyRange("k0", "z" * 255 + "{")
    found = record_locations(storage, BloomIndex.of(storage, snapshot, clock=clock), pa.array(keys), ["p"])
    assert sorted(found.column(RECORD_KEY).to_pylist()) == keys
    skipping = {**METADATA, "hoodie.enable.data.skipping": "true"}
    read = spark.read.format("hudi").options(**skipping).load(str(table.path))
    for column, asked in (("id", ["k0", keys[-1]]), ("v", ["v", "w" * 5000, "x"])):
        for value in asked:
            expected = sorted(key for key, v in zip(keys, values, strict=True) if value in (key, v))
            got = read.where(f"part = 'p' AND {column} = '{value}'").select("id").collect()
            assert sorted(row.id for row in got) == expected, (column, value[:9])
    came = [(key, 2, "p", "hudis") for key in keys]
    table.write(spark.createDataFrame(came, schema), "upsert", **options)
    read = spark.read.format("hudi").load(str(table.path)).where("part = 'p'")
    assert (read.count(), read.where("v = 'hudis'").count()) == (len(keys), len(keys))


@pytest.mark.slow
def test_answers_are_those_of_hudis_tagging(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hudi writes files with keys in the order of Java's strings and others, and keys that two partitions have; asked
    for the same keys, half of them in no file, its BLOOM and its GLOBAL_BLOOM say what Lakeward's says: by footers, by
    the metadata table, and by the cache. What each takes is printed."""
    chance = random.Random(19)
    table = HudiTable(spark, tmp_path / "t", TableShape(partition_fields="part", index="BLOOM"))
    keys = sorted({"".join(chance.choices(LETTERS, k=chance.randrange(1, 9))) for _ in range(900)})
    options = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", "hoodie.parquet.small.file.limit": "0"}
    there: dict[str, list[str]] = {part: [] for part in "pqr"}
    for turn in range(2):
        rows = []
        for part, some in there.items():
            new = [key for key in chance.sample(keys, 60) if key not in some]
            some += new
            rows += [(key, 1, part, f"v{turn}") for key in new]
        frame = spark.createDataFrame(rows, "id string, ts bigint, part string, v string").repartition(2)
        table.write(frame, "insert", **options, **METADATA, **{"hoodie.metadata.index.column.stats.enable": "true"})
    tagging, storage, clock = HudiTagging(spark, tmp_path), LocalStorage(), SystemClock()
    snapshot = take_snapshot(storage, str(table.path), clock=clock)
    assert len(BaseFiles.of(snapshot).within(None)) >= 6
    once = [key for key in keys if sum(key in some for some in there.values()) < 2]
    shown = []

    def own(asked: dict[str, str], what: str, *, is_global: bool) -> Places:
        began = time.perf_counter()
        index = BloomIndex.of(storage, snapshot, clock=clock, is_global=is_global)
        found = record_locations(
            storage, index, pa.array(list(asked)), None if is_global else sorted(there)
        ).to_pylist()
        shown.append(f"{what}: {time.perf_counter() - began:.2f} s")
        rows = ((row[RECORD_KEY], (row[PARTITION_PATH], row[FILE_ID])) for row in found)
        return {key: place for key, place in rows if is_global or asked[key] == place[0]}

    for is_global in (False, True):
        chosen = once if is_global else keys
        asked = {key: chance.choice("pqr") for key in chosen}
        tagging.read(asked.items())
        kind = "GLOBAL_BLOOM" if is_global else "BLOOM"
        by_index = {"hoodie.index.type": kind, "hoodie.bloom.index.update.partition.path": "false"}
        seconds, hudis = tagging.tag(table.path, by_index)
        shown.append(f"Hudi's {kind}: {seconds:.2f} s")
        assert 0 < len(hudis) < len(asked)
        assert own(asked, f"own as {kind} by the metadata table", is_global=is_global) == hudis
        rebuild_filter_cache(storage, snapshot, on_file=lambda done, of: None)
        assert own(asked, f"own as {kind} by the cache", is_global=is_global) == hudis
        drop_filter_cache(storage, str(table.path))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(MetadataFilters, "of", lambda *given, **options: None)
            assert own(asked, f"own as {kind} by footers", is_global=is_global) == hudis
    with capsys.disabled():
        print("", *shown, sep="\n")


PREFIXES = ("k", "ключ-", "ü", "鍵", "😀x", "id:7,part:")


@pytest.mark.parametrize(
    ("count", "kind"),
    [(1, TYPE_CODE), (1000, TYPE_CODE), (70_000, TYPE_CODE), (1000, SIMPLE_TYPE_CODE), (400_000, TYPE_CODE)],
)
def test_hudi_finds_our_keys(spark: SparkSession, count: int, kind: str):
    """Hudi reads the filter and finds the keys in it, ASCII or not, and hardly any others."""
    keys = [PREFIXES[i % len(PREFIXES)] + str(i) for i in range(count)]
    bloom = BloomFilter(count, kind)
    bloom.add(pa.array(keys))
    # Each question is a call into the JVM: of many keys ask a sample that holds every prefix and every tail length.
    asked = keys[:: max(1, count // 997)]
    jvm = spark._jvm
    assert jvm is not None

    found = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.fromString(bloom.to_base64(), kind)

    assert found.getBloomFilterTypeCode().toString() == kind
    assert all(found.mightContain(key) for key in asked)
    assert sum(found.mightContain(f"absent-{i}-é") for i in range(500)) <= 1
    assert base64.b64decode(found.serializeToString()) == bloom.to_bytes()


@pytest.mark.parametrize(
    ("entries", "rate", "bound", "kind", "keys"),
    [
        (60_000, 1e-9, 100_000, TYPE_CODE, 3),  # Hudi's defaults
        (100, 1e-9, 300, TYPE_CODE, 250),  # three rows
        (100, 1e-4, 300, TYPE_CODE, 900),  # three rows that are filled up
        (50, 1e-2, 50, TYPE_CODE, 400),
        (500, 1e-9, 500, SIMPLE_TYPE_CODE, 500),
        (10, 1e-3, 10, SIMPLE_TYPE_CODE, 300),
    ],
)
def test_our_answers_about_their_filters_are_hudis(
    spark: SparkSession, entries: int, rate: float, bound: int, kind: str, keys: int
):
    """Filters of either kind, of several rows, and overfull: for keys that are there and others."""
    jvm = spark._jvm
    assert jvm is not None
    hudis = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.createBloomFilter(entries, rate, bound, kind)
    there = [PREFIXES[i % len(PREFIXES)] + str(i) for i in range(keys)]
    for key in there:
        hudis.add(key)
    asked = [*there[:300], *(f"absent-{i}-é" for i in range(300))]

    rows = BloomRows.of_base64(hudis.serializeToString().encode(), kind)

    assert rows.lookup(pa.array(there)).all()
    assert rows.lookup(pa.array(asked)).tolist() == [hudis.mightContain(key) for key in asked]
    if keys in (250, 900):
        assert rows.count == 3


def test_a_filter_of_the_other_kind_does_not_have_its_keys(spark: SparkSession):
    """Which is why a file gets the kind that the table's writers are set to: they would insert its keys again."""
    keys = [f"k{i}" for i in range(100)]
    bloom = BloomFilter(100)
    bloom.add(pa.array(keys))
    jvm = spark._jvm
    assert jvm is not None

    taken_for_simple = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.fromString(
        bloom.to_base64(), SIMPLE_TYPE_CODE
    )

    assert not any(taken_for_simple.mightContain(key) for key in keys)


def test_a_filter_made_by_hudi_has_the_same_row(spark: SparkSession):
    """For the same number of keys Hudi sets exactly the same bits."""
    keys = [PREFIXES[i % len(PREFIXES)] + str(i) for i in range(1000)]
    bloom = BloomFilter(1000)
    bloom.add(pa.array(keys))
    jvm = spark._jvm
    assert jvm is not None

    hudis = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.createBloomFilter(1000, 1e-9, 1000, TYPE_CODE)
    for key in keys:
        hudis.add(key)

    assert base64.b64decode(hudis.serializeToString()) == bloom.to_bytes()
