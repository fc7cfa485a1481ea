"""The form of a bucket file beside its entries: what its file info and its meta blocks say.

    file info    lakeward.index.version      int32, 1
                 lakeward.index.scope        `global` or `partition`
                 lakeward.index.entries      int64: entries of the file, beside the count of the trailer
                 lakeward.index.tombstones   int64: how many of them say that their key is gone
    meta blocks  lakeward.places             text columns: partition paths, file ids
                 lakeward.instants           a text column: instants; files of one commit have no such block
                 lakeward.filter             `key_filter`; an empty file has none

A text column is a uint32 count n, n + 1 int32 offsets, and the bytes, little-endian.

Touches: nothing.
See:     docs/formats/record-index.md, docs/decisions/0072-files-of-the-record-index.md
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakeward.index.record.created_with import KeyScope

FORM_VERSION: Final = 1
PLACES: Final = "lakeward.places"
INSTANTS: Final = "lakeward.instants"
FILTER: Final = "lakeward.filter"

_VERSION: Final = "lakeward.index.version"
_SCOPE: Final = "lakeward.index.scope"
_ENTRIES: Final = "lakeward.index.entries"
_TOMBSTONES: Final = "lakeward.index.tombstones"

_COUNT = struct.Struct("<I")
_OFFSET = np.dtype("<i4")


@dataclass(frozen=True, slots=True)
class FileHead:
    scope: KeyScope
    entries: int
    tombstones: int

    def to_info(self) -> dict[str, bytes]:
        return {
            _VERSION: struct.pack(">i", FORM_VERSION),
            _SCOPE: self.scope.value.encode(),
            _ENTRIES: struct.pack(">q", self.entries),
            _TOMBSTONES: struct.pack(">q", self.tombstones),
        }

    @classmethod
    def from_info(cls, info: Mapping[str, bytes]) -> FileHead:
        """Raises `ValueError`, which says what is wrong."""
        version = info.get(_VERSION)
        if version is None:
            raise ValueError("it is no file of a record index of Lakeward")
        if version != struct.pack(">i", FORM_VERSION):
            raise ValueError(f"it has version {int.from_bytes(version, 'big')}, and this release reads {FORM_VERSION}")
        numbers = [info.get(name, b"") for name in (_ENTRIES, _TOMBSTONES)]
        if any(len(each) != struct.calcsize(">q") for each in numbers):
            raise ValueError("its file info lacks a count")
        entries, tombstones = (int(struct.unpack(">q", each)[0]) for each in numbers)
        return cls(KeyScope(info.get(_SCOPE, b"").decode("utf-8", "replace")), entries, tombstones)


def encode_texts(column: pa.Array) -> bytes:
    """A column of text without nulls."""
    assert column.offset == 0 and column.null_count == 0
    if len(column) == 0:
        return _COUNT.pack(0) + bytes(_OFFSET.itemsize)
    _, offsets, data = column.buffers()
    stored = np.frombuffer(offsets, dtype=np.int32)[: len(column) + 1].astype(_OFFSET, copy=False)
    text = b"" if data is None else data.to_pybytes()[: int(stored[-1])]
    return _COUNT.pack(len(column)) + stored.tobytes() + text


def decode_texts(data: bytes, at: int = 0) -> tuple[pa.Array, int]:
    """(the column, where it ends). Raises `ValueError` where these bytes hold none."""
    try:
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        offsets = np.frombuffer(data, dtype=_OFFSET, count=count + 1, offset=at).astype(np.int32)
    except (struct.error, ValueError):
        raise ValueError("a column of text is cut short") from None
    at += _OFFSET.itemsize * (count + 1)
    end = at + int(offsets[-1])
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or end > len(data):
        raise ValueError("the offsets of a column of text contradict each other")
    column = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data[at:end])])
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"a column of text cannot be read: {error}") from None
    return column, end
