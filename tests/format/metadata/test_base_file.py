"""Base files of the metadata table: what is written is read back, with what readers want beside it."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.metadata.base_file import MetadataBaseFileStats, read_digest, write_metadata_base_file
from tests.format.hfile.hfile_files import hfile

SCHEMA = '{"type": "record"}'


def written(
    entries: list[tuple[bytes, bytes]], keys_expected: int | None = None
) -> tuple[bytes, MetadataBaseFileStats]:
    sink = io.BytesIO()
    expected = len(entries) if keys_expected is None else keys_expected
    stats = write_metadata_base_file(sink, schema_json=SCHEMA, entries=entries, keys_expected=expected)
    return sink.getvalue(), stats


def opened(content: bytes) -> HFileReader:
    return HFileReader(io.BytesIO(content), length=len(content), name="f")


def digest(content: bytes) -> int:
    return read_digest(io.BytesIO(content), len(content), "f")


@pytest.mark.parametrize("count", [1, 2, 5000, 20_000])
def test_what_is_written_is_read_back(count: int):
    """So are its schema, the first and last key, and a filter that knows every key."""
    entries = [(f"ключ-{n:08}".encode(), bytes([n % 251]) * (n % 90)) for n in range(count)]
    content, stats = written(entries)
    reader = opened(content)

    assert list(reader.entries()) == entries
    assert (stats.entries, stats.size_bytes, stats.digest) == (count, len(content), digest(content))
    assert reader.info["schema"] == SCHEMA.encode()
    assert (reader.info["minRecordKey"], reader.info["maxRecordKey"]) == (entries[0][0], entries[-1][0])
    expected = BloomFilter(count)
    expected.add(pa.array([key.decode() for key, _ in entries]))
    assert reader.meta_block("bloomFilter") == expected.to_base64().encode()
    assert reader.info["bloomFilterTypeCode"] == b"DYNAMIC_V0"


def test_a_file_may_be_empty():
    """All of its records were deleted."""
    content, stats = written([])
    assert list(opened(content).entries()) == []
    assert stats.entries == 0
    assert digest(content) == stats.digest
    assert "minRecordKey" not in opened(content).info


def test_keys_are_ascending():
    """A lookup in another order misses silently."""
    with pytest.raises(AssertionError):
        written([(b"b", b""), (b"a", b"")])


@pytest.mark.parametrize(
    "others",
    [
        [(b"a", b"1"), (b"b", b"3")],
        [(b"a", b"1"), (b"c", b"2")],
        [(b"a", b"1")],
        [(b"a", b""), (b"b", b"12")],
        [(b"a", b"1b"), (b"b", b"2")],
    ],
)
def test_other_records_have_another_digest(others: list[tuple[bytes, bytes]]):
    """Whichever of key, payload and number is another one."""
    assert written([(b"a", b"1"), (b"b", b"2")])[1].digest != written(others)[1].digest


def test_a_key_before_its_place_is_broken():
    """A file with such a key is refused when it is read back."""
    content = hfile([(b"b", b"1"), (b"a", b"2")], info={b"schema": SCHEMA.encode()})
    with pytest.raises(BrokenFile, match="Keys are out of order"):
        digest(content)
