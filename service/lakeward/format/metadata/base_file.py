"""Base files of the metadata table: an HFile of records, with what Hudi's readers expect beside them.

| where | name | value |
|---|---|---|
| file info | `schema` | by which the records were written, Avro JSON |
| file info | `minRecordKey`, `maxRecordKey` | first and last key; not there in an empty file |
| file info | `bloomFilterTypeCode` | `DYNAMIC_V0` |
| meta block | `bloomFilter` | of all keys, in base64; asked where `hoodie.metadata.bloom.filter.enable` is set |

Touches: the sink it is given, by appending; it is never closed.
Keeps:   1. what is written is read back as the same keys and payloads, which `read_digest` shows;
         2. memory is bounded by one data block, an index entry for each block that is written, and the filter's row.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from lakeward.base.errors import BrokenFile, VerificationFailed
from lakeward.base.named_key import named_key
from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.bloom_lookup import TYPE_CODE
from lakeward.format.hfile.reader import Entry, HFileReader
from lakeward.format.hfile.writer import HFileWriter

_SCHEMA = "schema"
_FILTER = "bloomFilter"
_FILTER_BYTES_MAX = 1024 * 1024
"""Few readers ask it, and a record index has tens of millions of keys in a file."""
_KEYS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class MetadataBaseFileStats:
    entries: int
    size_bytes: int
    digest: int
    """Digest of all keys and payloads in their order."""


def write_metadata_base_file(
    sink: BinaryIO, *, schema_json: str, entries: Iterable[Entry], keys_expected: int
) -> MetadataBaseFileStats:
    """
    Args:
        entries: keys, strictly ascending by their bytes, and records by the schema.
        keys_expected: how many there are at most; with more the filter is only less sharp.
    """
    writer = HFileWriter(sink)
    keys = BloomFilter(keys_expected, bytes_max=_FILTER_BYTES_MAX)
    unfiltered: list[bytes] = []
    first: bytes | None = None
    last = b""
    digest = 0
    for key, payload in entries:
        writer.add(key, payload)
        digest = _digest(digest, key, payload)
        first, last = key if first is None else first, key
        unfiltered.append(key)
        if len(unfiltered) == _KEYS_AT_ONCE:
            keys.add(_texts(unfiltered))
            unfiltered.clear()
    keys.add(_texts(unfiltered))
    info = {_SCHEMA: schema_json.encode(), "bloomFilterTypeCode": TYPE_CODE.encode()}
    if first is not None:
        info |= {"minRecordKey": first, "maxRecordKey": last}
    written = writer.finish(info, meta_blocks={_FILTER: keys.to_base64().encode()})
    return MetadataBaseFileStats(entries=written.entries, size_bytes=written.size_bytes, digest=digest)


def read_digest(file: BinaryIO, size: int, name: str) -> int:
    """The digest of what the file holds. Raises `BrokenFile`."""
    reader = HFileReader(file, length=size, name=name)
    digest = 0
    for key, payload in _ascending(reader, name):
        digest = _digest(digest, key, payload)
    return digest


def check_written(file: BinaryIO, written: MetadataBaseFileStats, name: str, *, file_group: tuple[str, str]) -> None:
    """Read back what was written. Raises `VerificationFailed` where the file holds something else, and `BrokenFile`."""
    if read_digest(file, written.size_bytes, name) != written.digest:
        raise VerificationFailed(
            f"{name} does not hold what was written to it.",
            why="Read back, its keys or records are others.",
            remedy="Look at the storage and the memory of this machine; nothing was published.",
            file_group=file_group,
        )


def _ascending(reader: HFileReader, name: str) -> Iterator[Entry]:
    last: bytes | None = None
    for key, payload in reader.entries():
        if last is not None and key <= last:
            raise BrokenFile(f"{name} cannot be read.", why=f"Keys are out of order at {named_key(key)}.")
        last = key
        yield key, payload


def _digest(digest: int, key: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(key, digest) ^ len(key))


def _texts(keys: list[bytes]) -> pa.StringArray:
    # The filter hashes bytes; that they are UTF-8 is for a reader of the keys to ask.
    return pa.array(keys, type=pa.binary()).view(pa.string())
