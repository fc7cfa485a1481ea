"""Avro object container files of exactly one record, which is what Hudi keeps on its timeline.

    header: magic `Obj` 1, metadata map, sync marker | block: count 1, length, record, sync marker

Written without codec and with `avro.schema` as the only metadata, as Hudi does. The sync marker is a digest of the
record, so that equal records give equal files.

Touches: nothing.
Keeps:   1. a file that is cut short, or holds more or less than one record, is a `BrokenFile`, never half a record;
         2. a record takes no more memory than a file of that size justifies, whatever its codec and its schema make of
            a byte: what would take more is refused before it is made;
         3. the same for stack: a schema that is recursive or nested deeply is a `BrokenFile`.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.primitive import read_bytes, read_long
from lakeward.format.avro.record import decode_record

MAGIC = b"Obj\x01"

_MEMORY_MIN = 64 * 1024 * 1024
_MEMORY_OF_A_BYTE = 16
"""A record may take 64 MiB and 16 bytes more for each byte of its file; Hudi's own take 5 to 10."""

_SYNC_BYTES = 16
_SYNC = {"type": "fixed", "name": "Sync", "size": 16}
_HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(MAGIC)}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": _SYNC},
    ],
}
_BLOCK = {
    "type": "record",
    "name": "Block",
    "fields": [
        {"name": "count", "type": "long"},
        {"name": "records", "type": "bytes"},
        {"name": "sync", "type": _SYNC},
    ],
}


def read_record(data: bytes, *, file: str) -> dict[str, Any]:
    """The one record of the container `data`; `file` names it in errors. Raises `BrokenFile`."""
    try:
        schema, record, memory_max = open_container(data)
        return decode_record(schema, record, memory_max=memory_max)
    except IndexError:
        raise _broken(file, "It is cut short.") from None
    except (ValueError, zlib.error) as error:
        raise _broken(file, f"{str(error).rstrip('.')}.") from error


def open_container(data: bytes) -> tuple[bytes, bytes, int]:
    """(schema, the bytes of the one record, the memory that it may take once it is decoded).

    Raises `ValueError`, `IndexError` where it is cut short, and `zlib.error`.
    """
    memory_max = _MEMORY_MIN + _MEMORY_OF_A_BYTE * len(data)
    metadata, at = _read_metadata(data)
    sync, at = _take(data, at, _SYNC_BYTES)
    if at == len(data):
        raise ValueError("It holds no record instead of one.")
    count, at = read_long(data, at)
    if count != 1:
        raise ValueError(f"It holds {count} records instead of one.")
    block, at = read_bytes(data, at)
    marker, at = _take(data, at, _SYNC_BYTES)
    if marker != sync:
        raise ValueError("Its record does not end with the sync marker of its header.")
    if at != len(data):
        raise ValueError("It holds more than one record instead of one.")
    record = _uncompressed(block, metadata.get(b"avro.codec", b"null"), size_max=memory_max)
    return metadata.get(b"avro.schema", b""), record, memory_max


def write_record(schema: dict[str, Any], record: Mapping[str, Any]) -> bytes:
    """A container of `record`, which has every field of `schema` and no other."""
    body = _encode(schema, record)
    sync = blake2b(body, digest_size=16).digest()
    header = _encode(_HEADER, {"magic": MAGIC, "meta": {"avro.schema": orjson.dumps(schema)}, "sync": sync})
    return header + _encode(_BLOCK, {"count": 1, "records": body, "sync": sync})


def _encode(schema: dict[str, Any], record: Mapping[str, Any]) -> bytes:
    import fastavro  # a container is read without it

    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record, strict=True)
    return out.getvalue()


def _read_metadata(data: bytes) -> tuple[dict[bytes, bytes], int]:
    """(the entries of the header, where they end)"""
    magic, at = _take(data, 0, len(MAGIC))
    if magic != MAGIC:
        raise ValueError("It does not start with the magic of an Avro file.")
    entries: dict[bytes, bytes] = {}
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return entries, at
        if count < 0:
            # A negative count is followed by the run's bytes, which only serve skipping.
            count = -count
            _, at = read_long(data, at)
        for _ in range(count):  # ends with the bytes, since an entry takes two of them at least
            key, at = read_bytes(data, at)
            entries[key], at = read_bytes(data, at)


def _take(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    end = at + length
    if end > len(data):
        raise IndexError
    return data[at:end], end


def _uncompressed(block: bytes, codec: bytes, *, size_max: int) -> bytes:
    if codec == b"null":
        return block
    if codec != b"deflate":
        raise ValueError(f"Its codec is {codec[:80].decode('utf-8', 'replace')!r}.")
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    inflated = inflater.decompress(block, size_max)
    if inflater.unconsumed_tail or not (inflater.eof or len(inflated) < size_max):
        raise ValueError(f"Inflated, it has more than {size_max} bytes.")
    if not inflater.eof:  # what may follow is not read: fastavro leaves a part of a checksum there
        raise ValueError("What it holds is not deflated as its codec says.")
    return inflated


def _broken(file: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"{file} is not the Avro file that its name promises.",
        why=why,
        remedy="Its writer died over it or it was damaged; restore it, or roll back the instant it belongs to.",
    )
