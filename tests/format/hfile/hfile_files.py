"""HFiles laid out by hand, in every form that a writer may give them, independent of our own writer.

Slow and obvious on purpose."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakeward.format.hfile.block import HFileCodec
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.hfile.writer import BLOCK_BYTES, HFileWriter

Entries = list[tuple[bytes, bytes]]
SUFFIX = bytes.fromhex("00 7fffffffffffffff 04")
FAKE_SUFFIX = bytes.fromhex("00 7fffffffffffffff ff")


@dataclass(frozen=True)
class Form:
    """How a writer lays a file out."""

    block_entries: int = 3
    fanout: int | None = None
    """Entries of each index block; more than one level where there are more blocks. None: one level."""
    codec: HFileCodec = HFileCodec.GZIP
    checksum: int = 0
    bytes_per_checksum: int = 16384
    suffix: bytes = SUFFIX
    fake_keys: bool = False
    varint: Callable[[int], bytes] | None = None
    """How index keys encode their lengths; None: Hadoop's."""


NATIVE = Form(suffix=b"")
HBASE = Form(fanout=2, checksum=1, bytes_per_checksum=64, fake_keys=True)


def own(
    entries: Iterable[tuple[bytes, bytes]],
    *,
    codec: HFileCodec = HFileCodec.GZIP,
    block_bytes: int = BLOCK_BYTES,
    info: Mapping[str, bytes] | None = None,
    meta_blocks: Mapping[str, bytes] | None = None,
) -> bytes:
    """A file by our own writer."""
    out = io.BytesIO()
    writer = HFileWriter(out, codec=codec, block_bytes=block_bytes)
    for key, value in entries:
        writer.add(key, value)
    stats = writer.finish(info, meta_blocks=meta_blocks)
    assert stats.size_bytes == len(out.getvalue())
    return out.getvalue()


def reader(data: bytes, *, offset: int = 0, length: int | None = None) -> HFileReader:
    return HFileReader(
        io.BytesIO(data), offset=offset, length=len(data) - offset if length is None else length, name="x.hfile"
    )


def block(magic: bytes, payload: bytes, form: Form, previous: int = -1) -> bytes:
    stored = {
        HFileCodec.NONE: lambda: payload,
        HFileCodec.GZIP: lambda: gzip.compress(payload, mtime=0),
        HFileCodec.ZSTD: lambda: pa.compress(payload, "zstd", asbytes=True),
    }[form.codec]()
    with_header = 33 + len(stored)
    count = -(-with_header // form.bytes_per_checksum) if form.bytes_per_checksum else 0
    head = struct.pack(
        ">8siiqBii",
        magic,
        len(stored) + 4 * count,
        len(payload),
        previous,
        form.checksum,
        form.bytes_per_checksum,
        with_header,
    )
    data = head + stored
    sums = bytes(4 * count)
    if form.checksum:
        step = form.bytes_per_checksum
        sum_of = zlib.crc32 if form.checksum == 1 else slow_crc32c
        sums = b"".join(struct.pack(">I", sum_of(data[at : at + step])) for at in range(0, len(data), step))
    return data + sums


def slow_crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def key_value(key: bytes, value: bytes, *, kind: int = 4, version: bytes = b"\0") -> bytes:
    encoded = struct.pack(">H", len(key)) + key + SUFFIX[:-1] + bytes([kind])
    return struct.pack(">ii", len(encoded), len(value)) + encoded + value + version


def hadoop_vint(value: int) -> bytes:
    if value < 128:
        return bytes([value])
    width = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - width]) + value.to_bytes(width, "big")


def protobuf_varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + protobuf_varint(value >> 7)


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return protobuf_varint(number << 3) + protobuf_varint(value % 2**64)
    return protobuf_varint(number << 3 | 2) + protobuf_varint(len(value)) + value


def file_info(info: Mapping[bytes, bytes]) -> bytes:
    message = b"".join(field(1, field(1, name) + field(2, value)) for name, value in info.items())
    return b"PBUF" + protobuf_varint(len(message)) + message


def trailer(fields: Mapping[int, int | bytes], *, major: int = 3) -> bytes:
    message = b"".join(field(number, value) for number, value in fields.items())
    head = b'TRABLK"$' + protobuf_varint(len(message)) + message
    return head + bytes(4092 - len(head)) + bytes([3]) + major.to_bytes(3, "big")


def hfile(
    entries: Entries,
    form: Form = NATIVE,
    *,
    info: Mapping[bytes, bytes] | None = None,
    meta_blocks: Mapping[bytes, bytes] | None = None,
    changed: Mapping[int, int | bytes | None] | None = None,
    major: int = 3,
) -> bytes:
    """A whole file. `changed` replaces fields of the trailer, or takes them away."""
    out = b""
    places: list[tuple[int, int, bytes]] = []  # offset, size and encoded key of each block of the level
    last = b""
    for start in range(0, len(entries), form.block_entries):
        part = entries[start : start + form.block_entries]
        data = block(b"DATABLK*", b"".join(key_value(*entry) for entry in part), form)
        first, suffix = part[0][0], form.suffix
        if form.fake_keys and start:
            first, suffix = between(last, first), FAKE_SUFFIX
        places.append((len(out), len(data), struct.pack(">H", len(first)) + first + suffix))
        out += data
        last = part[-1][0]
    levels = 1
    while form.fanout is not None and len(places) > form.fanout:
        magic = b"IDXLEAF2" if levels == 1 else b"IDXINTE2"
        above = []
        for start in range(0, len(places), form.fanout):
            children = places[start : start + form.fanout]
            encoded = [struct.pack(">qi", offset, size) + key for offset, size, key in children]
            offsets = [sum(map(len, encoded[:n])) for n in range(len(encoded) + 1)]
            payload = struct.pack(f">{len(offsets) + 1}i", len(encoded), *offsets) + b"".join(encoded)
            data = block(magic, payload, form)
            above.append((len(out), len(data), children[0][2]))
            out += data
        places = above
        levels += 1
    metas = []
    for name, payload in (meta_blocks or {}).items():
        data = block(b"METABLKc", payload, form)
        metas.append((len(out), len(data), name))
        out += data
    encode = form.varint or hadoop_vint
    load_on_open = len(out)
    root = b"".join(struct.pack(">qi", offset, size) + encode(len(key)) + key for offset, size, key in places)
    if levels > 1:
        root += struct.pack(">qii", *places[0][:2], 0)
    out += block(b"IDXROOT2", root, form)
    meta_root = b"".join(struct.pack(">qi", offset, size) + encode(len(name)) + name for offset, size, name in metas)
    out += block(b"IDXROOT2", meta_root, form)
    info_offset = len(out)
    out += block(b"FILEINF2", file_info(info or {}), form)
    fields: dict[int, int | bytes | None] = {
        1: info_offset,
        2: load_on_open,
        5: len(places),
        6: len(metas),
        7: len(entries),
        8: levels,
        12: int(form.codec),
        **(changed or {}),
    }
    return out + trailer({number: value for number, value in fields.items() if value is not None}, major=major)


def between(left: bytes, right: bytes) -> bytes:
    """A short key greater than `left` and not greater than `right`."""
    for length in range(1, len(right) + 1):
        if right[:length] > left:
            return right[:length]
    return right
