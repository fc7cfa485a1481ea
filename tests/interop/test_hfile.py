"""HFiles between us and Hudi: we read what released Hudi writes, its readers scan and seek what we write.

The native reader and writer are those of Hudi 1.2.0; HBase's, which Hudi used up to 1.0, are those of Hudi 1.0.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.format.hfile.reader import HFileReader
from lakeward.format.hfile.writer import BLOCK_BYTES
from tests.hudi.hfile_java import (
    FOUND,
    Entries,
    HFilePlace,
    hfiles_below,
    java_hfiles,
    read_answers,
    read_entries,
    write_entries,
)
from tests.interop.hfile_cases import ENTRY, HUDIS, OWN, probes, write_own
from tests.interop.made_once import BY_HBASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def assert_answers(answers: list[tuple[int, bytes]], entries: Entries) -> None:
    """Exactly the keys that are there were found, each with its value."""
    asked, there = probes(entries), dict(entries)
    assert len(answers) == len(asked)
    for key, (code, value) in zip(asked, answers, strict=True):
        assert (code == FOUND) == (key in there), key
        assert value == there.get(key, b""), key


def assert_read(file_path: Path, entries: Entries, *, offset: int = 0, length: int | None = None) -> None:
    """We scan these entries, find every key, and no key between them."""
    with file_path.open("rb") as file:
        size = file_path.stat().st_size if length is None else length
        reader = HFileReader(file, offset=offset, length=size, name=str(file_path))
        assert list(reader.entries()) == entries
        assert reader.lookup(probes(entries)) == dict(entries)
        assert list(reader.with_prefixes([b""])) == entries
        for key, value in entries[:: max(1, len(entries) // 20)]:
            assert reader.lookup([key]) == {key: value}
            assert (key, value) in list(reader.with_prefixes([key[:-1]]))


@pytest.fixture(scope="module")
def native(spark: SparkSession) -> Any:
    return java_hfiles(spark, "NativeHFiles")


@pytest.mark.turns
@pytest.mark.parametrize("name", OWN)
def test_hudi_scans_and_seeks_every_key_of_lakeward(native: Any, tmp_path: Path, name: str):
    """Hudi 1.2.0's own reader finds every entry that we wrote by a scan and by its key, and none that we did not."""
    entries, codec, block_bytes = OWN[name]
    hfile = tmp_path / "own.hfile"
    write_own(hfile, entries, codec, block_bytes)

    counted = native.scan(str(hfile), str(tmp_path / "scanned"))
    native.seek(
        str(hfile), write_entries(tmp_path / "keys", [(key, b"") for key in probes(entries)]), str(tmp_path / "answers")
    )

    assert counted == len(entries)
    assert read_entries(tmp_path / "scanned") == entries
    assert_answers(read_answers(tmp_path / "answers"), entries)
    assert native.info(str(hfile), "schema") == "{ключ}"
    assert native.metaBlock(str(hfile), "bloomFilter") == "AAAA"


@pytest.mark.parametrize("codec", ["GZIP", "NONE"])
@pytest.mark.parametrize(
    ("name", "block_bytes"),
    [
        ("empty", BLOCK_BYTES),
        ("one", BLOCK_BYTES),
        ("a block each", 1),
        ("exactly a block", 5 * ENTRY),
        ("rows that Hudi lost", BLOCK_BYTES),
        ("text", 1000),
        ("long keys", 1000),
    ],
)
def test_we_read_what_hudi_writes(native: Any, tmp_path: Path, name: str, block_bytes: int, codec: str):
    """Every entry of a file by Hudi 1.2.0's writer, also those that its own reader drops from the ends of blocks."""
    entries, _, _ = OWN[name]
    hfile = tmp_path / "hudis.hfile"

    native.write(write_entries(tmp_path / "entries", entries), str(hfile), block_bytes, codec)

    assert_read(hfile, entries)
    with hfile.open("rb") as file:
        reader = HFileReader(file, length=hfile.stat().st_size, name="hudis")
        assert reader.info["schema"] == b"{}"
        assert reader.meta_block("bloomFilter") == b"AAAA"


def test_we_find_what_hudi_sorts_as_java_does(native: Any, tmp_path: Path):
    """Hudi sorts keys by their UTF-16 units and its writer takes them so; we find every key nevertheless."""
    keys = [text + str(n) for text in ("😀", "！", "a", "é", "鍵", "𐀀", "\ue000") for n in range(20)]
    entries = [(key.encode(), b"v") for key in sorted(keys, key=lambda key: key.encode("utf-16-be"))]
    assert entries != sorted(entries)
    for block_bytes in (1, 100, 1000, BLOCK_BYTES):
        hfile = tmp_path / f"{block_bytes}.hfile"
        native.write(write_entries(tmp_path / "entries", entries), str(hfile), block_bytes, "GZIP")
        assert_read(hfile, entries)


def test_we_read_every_key_of_a_metadata_table(table_with_metadata: Path, native: Any, tmp_path: Path):
    """Base files and log blocks of every partition of Hudi 1.2.0's metadata table hold for us what Hudi finds."""
    places = list(hfiles_below(table_with_metadata / ".hoodie" / "metadata"))

    assert_partitions(places)
    for place in places:
        alone = tmp_path / "alone.hfile"
        alone.write_bytes(place.read())
        native.scan(str(alone), str(tmp_path / "scanned"))
        assert_read(place.path, read_entries(tmp_path / "scanned"), offset=place.offset, length=place.length)


def assert_partitions(places: list[HFilePlace]) -> None:
    for partition in ("files", "column_stats", "partition_stats", "bloom_filters", "record_index"):
        of_partition = [place for place in places if place.path.parent.name == partition]
        assert any(place.offset == 0 for place in of_partition), partition
        assert any(place.offset > 0 for place in of_partition), partition


@BY_HBASE
@pytest.mark.parametrize("name", OWN)
def test_hbase_scans_and_seeks_every_key_of_lakeward(by_hbase: Path, name: str):
    """The reader of Hudi 0.14 to 1.0 does so, too."""
    entries, _, _ = OWN[name]
    own = by_hbase / "own" / f"{name}.hfile"

    assert read_entries(own.with_suffix(".scanned")) == entries
    assert_answers(read_answers(own.with_suffix(".answers")), entries)


@BY_HBASE
@pytest.mark.parametrize("name", HUDIS)
def test_we_read_what_hbase_writes(by_hbase: Path, name: str):
    """It writes leaf and intermediate indexes, made-up keys in them, and all kinds of checksums."""
    hfile = by_hbase / "hudis" / f"{name}.hfile"

    assert_read(hfile, HUDIS[name])
    with hfile.open("rb") as file:
        reader = HFileReader(file, length=hfile.stat().st_size, name=name)
        assert reader.info["schema"] == b"{}"
        assert reader.meta_block("bloomFilter") == b"\0\0\0\4AAAA"  # written as a length and bytes


@BY_HBASE
def test_the_indexes_are_as_deep_as_they_are_called(by_hbase: Path):
    """The tests above would prove less than they say with shallower ones."""
    content = {name.partition(",")[0]: (by_hbase / "hudis" / f"{name}.hfile").read_bytes() for name in HUDIS}

    assert b"IDXLEAF2" in content["leaf indexes"] and b"IDXINTE2" not in content["leaf indexes"]
    assert b"IDXINTE2" in content["intermediate indexes"]


@BY_HBASE
def test_we_read_every_key_of_an_older_metadata_table(by_hbase: Path):
    """Hudi 1.0.2's metadata table, whose files are HBase's, holds for us what it holds for HBase's reader."""
    places = list(hfiles_below(by_hbase / "table" / ".hoodie" / "metadata"))

    assert_partitions(places)
    for number, place in enumerate(places):
        scanned = read_entries(by_hbase / "metadata" / f"{number}.scanned")
        assert_read(place.path, scanned, offset=place.offset, length=place.length)
