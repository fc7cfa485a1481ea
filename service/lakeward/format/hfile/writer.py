"""Write an HFile: entries in the order of their keys in, bytes out. `format/hfile/reader.py` has the layout.

The form is one that Hudi's readers (native and HBase's) take whole: a root index of one level, keys in it with their
ten bytes behind, no checksums and one stretch for them (`format/hfile/block.py` says why), the same comparator.

Touches: the sink it is given, by appending; it is never read or closed.
Keeps:   1. keys are strictly ascending by their bytes, because a lookup in an unsorted file misses silently;
         2. memory is bounded by one data block, and an index entry for each block that is written;
         3. equal entries and infos give equal bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.base.named_key import named_key
from lakeward.format.hfile.block import HEADER_BYTES, NO_PREVIOUS_BLOCK, HFileBlockType, HFileCodec, encode_block
from lakeward.format.hfile.checksum import ChecksumType
from lakeward.format.hfile.entries import ENTRY_OVERHEAD, EntryColumns, encode_entry
from lakeward.format.hfile.index import KEY_BYTES_MAX, IndexEntry, encode_key, encode_root_index
from lakeward.format.hfile.info import (
    AVERAGE_KEY_BYTES,
    AVERAGE_VALUE_BYTES,
    KEY_VALUE_VERSION,
    LAST_KEY,
    VERSION_MAX,
    WRITER_KEYS,
    encode_file_info,
)
from lakeward.format.hfile.trailer import HFileTrailer, encode_trailer

BLOCK_BYTES = 1024 * 1024
"""Bytes of a data block before compression, the same as Hudi's; a single entry may be larger."""

_VALUE_BYTES_MAX = 0x7FFFFFFF - KEY_BYTES_MAX - ENTRY_OVERHEAD
"""A block's length is an int32."""


@dataclass(frozen=True, slots=True)
class HFileStats:
    """What was written."""

    entries: int
    blocks: int
    """The number of data blocks."""
    size_bytes: int


class HFileWriter:
    """Writes one HFile, from where the sink stands. Finish it, or what is written is no HFile."""

    def __init__(
        self,
        sink: BinaryIO,
        *,
        codec: HFileCodec = HFileCodec.GZIP,
        block_bytes: int = BLOCK_BYTES,
        checksum: ChecksumType = ChecksumType.NULL,
    ) -> None:
        """
        Args:
            checksum: another one than NULL only for files that Hudi does not read (`format/hfile/block.py`).
        """
        assert block_bytes > 0
        self._sink = sink
        self._codec = codec
        self._checksum = checksum
        self._block_bytes = block_bytes
        self._index: list[IndexEntry] = []
        self._pending = bytearray()
        self._first_pending_key = b""
        self._last_key: bytes | None = None
        self._entries = 0
        self._key_bytes = 0
        self._value_bytes = 0
        self._uncompressed = 0
        self._size = 0

    def add(self, key: bytes, value: bytes) -> None:
        """Append an entry. Raises `Unsupported` for one that the format cannot hold."""
        assert self._last_key is None or key > self._last_key, "keys ascend"
        _check_lengths(key, len(value))
        if self._pending and len(self._pending) + len(key) + len(value) + ENTRY_OVERHEAD > self._block_bytes:
            self._flush()
        if not self._pending:
            self._first_pending_key = key
        self._pending += encode_entry(key, value)
        self._last_key = key
        self._entries += 1
        self._key_bytes += len(key)
        self._value_bytes += len(value)

    def add_batch(self, keys: pa.Array, values: pa.Array) -> None:
        """Append entries as `add` does one by one, from columns of bytes (or text) without nulls."""
        if len(keys) == 0:
            return
        entries = EntryColumns(keys, values)
        wrong = entries.first_not_ascending()
        if self._last_key is not None and entries.key(0) <= self._last_key:
            wrong = 0
        assert wrong < 0, "keys ascend"
        _check_lengths(entries.longest_key, entries.value_bytes_max)
        first = 0
        while first < len(entries):
            least = 0 if self._pending else 1
            end, size = entries.fitting(first, self._block_bytes - len(self._pending), least=least)
            if end == first:
                self._flush()
                continue
            if not self._pending:
                self._first_pending_key = entries.key(first)
            self._pending += entries.encode(first, end, size).data
            first = end
        self._last_key = entries.key(len(entries) - 1)
        self._entries += len(entries)
        self._key_bytes += entries.key_bytes
        self._value_bytes += entries.value_bytes

    def finish(
        self, info: Mapping[str, bytes] | None = None, *, meta_blocks: Mapping[str, bytes] | None = None
    ) -> HFileStats:
        """Write what is left, and what readers open the file by. The sink stays open, since it is the caller's.

        Args:
            info: beside what the format itself wants, such as `schema`.
            meta_blocks: by name.
        """
        assert WRITER_KEYS.isdisjoint(info or {})
        self._flush()
        metas = []
        for name, payload in sorted((meta_blocks or {}).items()):
            offset = self._size
            metas.append(IndexEntry(offset, self._write(HFileBlockType.META, payload), name.encode("utf-8")))
        load_on_open = self._size
        index = encode_root_index(self._index, of_data=True)
        self._write(HFileBlockType.ROOT_INDEX, index)
        self._write(HFileBlockType.ROOT_INDEX, encode_root_index(metas, of_data=False))
        info_offset = self._size
        self._write(HFileBlockType.FILE_INFO, encode_file_info({**(info or {}), **self._own_info()}))
        self._append(
            encode_trailer(
                HFileTrailer(
                    file_info_offset=info_offset,
                    load_on_open_offset=load_on_open,
                    index_bytes=len(index),
                    uncompressed_bytes=self._uncompressed,
                    index_count=len(self._index),
                    meta_count=len(metas),
                    entry_count=self._entries,
                    levels=1,
                    first_data_block_offset=self._index[0].offset if self._index else -1,
                    last_data_block_offset=self._index[-1].offset if self._index else 0,
                    codec=self._codec,
                )
            )
        )
        return HFileStats(entries=self._entries, blocks=len(self._index), size_bytes=self._size)

    def _flush(self) -> None:
        if not self._pending:
            return
        offset = self._size
        previous = self._index[-1].offset if self._index else NO_PREVIOUS_BLOCK
        size = self._write(HFileBlockType.DATA, bytes(self._pending), previous)
        self._index.append(IndexEntry(offset, size, self._first_pending_key))
        self._pending.clear()

    def _write(self, kind: HFileBlockType, payload: bytes, previous: int = NO_PREVIOUS_BLOCK) -> int:
        """How many bytes the block takes."""
        block = encode_block(kind, payload, self._codec, previous=previous, checksum=self._checksum)
        self._append(block)
        self._uncompressed += HEADER_BYTES + len(payload)
        return len(block)

    def _append(self, data: bytes) -> None:
        self._sink.write(data)
        self._size += len(data)

    def _own_info(self) -> dict[str, bytes]:
        count = max(1, self._entries)
        own = {
            AVERAGE_KEY_BYTES: struct.pack(">i", self._key_bytes // count),
            AVERAGE_VALUE_BYTES: struct.pack(">i", self._value_bytes // count),
            KEY_VALUE_VERSION: struct.pack(">i", 1),
            VERSION_MAX: struct.pack(">q", 0),
        }
        return own if self._last_key is None else {**own, LAST_KEY: encode_key(self._last_key)}


def _check_lengths(key: bytes, value_bytes: int) -> None:
    """Raises `Unsupported`."""
    if len(key) > KEY_BYTES_MAX or value_bytes > _VALUE_BYTES_MAX:
        raise Unsupported(
            f"The key {named_key(key[:64])}… with a value of {value_bytes} bytes cannot be written to an HFile.",
            why=f"A key has {KEY_BYTES_MAX} bytes at most (this one {len(key)}), a value {_VALUE_BYTES_MAX}.",
            remedy="Shorten the record key, or leave this index off.",
        )
