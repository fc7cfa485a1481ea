"""The key list of a log's tail: keys in sorted runs, front-coded and compressed.

    start    `KEYLIST1`
    a run    int32 big-endian keys, bytes compressed, bytes before that; then compressed by zstd:
             for each key the length of what it does not share with the key before it (uint32, little-endian), for each
             how many bytes it shares with that, 255 at most (uint8), then what they do not share

Touches: nothing.
Keeps:   1. what is read are the keys that were written, in runs;
         2. no number in a list is used before it is known to lie inside of it; a list that is broken is a `ValueError`.
Memory:  the keys of one run, and what is compressed.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.byte_order import ascend
from lakeward.base.kernel import I32_IN, U8, U8_IN, U32, U32_IN, kernel, types
from lakeward.format.murmur import key_buffers

_START: Final = b"KEYLIST1"
_HEAD: Final = struct.Struct(">III")
_KEY_BYTES: Final = 4 + 1
_SHARED_MAX: Final = 255
_OFFSET_MAX: Final = 2**31 - 1
_ZSTD: Final = pa.Codec("zstd", compression_level=1)


class KeyListWriter:
    """Collects the runs of one list."""

    def __init__(self) -> None:
        self._parts = [_START]

    def add(self, run: pa.StringArray, *, is_sorted: bool) -> None:
        """Add keys, none of which is null.

        Args:
            is_sorted: they come in the order of their bytes.
        """
        if not is_sorted:
            run = run.take(pc.sort_indices(run))
        offsets, data = key_buffers(run)
        before = len(run) * _KEY_BYTES
        raw = np.empty(before + int(offsets[-1] - offsets[0]), dtype=np.uint8)
        lengths, shared = raw[: len(run) * 4].view(np.uint32), raw[len(run) * 4 : before]
        raw = raw[: before + _encode(offsets, data, lengths, shared, raw[before:])]
        if sys.byteorder == "big":
            lengths.byteswap(inplace=True)
        compressed = _ZSTD.compress(raw, asbytes=True)
        self._parts += [_HEAD.pack(len(run), len(compressed), len(raw)), compressed]

    def close(self) -> bytes:
        return b"".join(self._parts)


def are_sorted(keys: pa.StringArray) -> bool:
    """The keys, none of which is null, come in the order of their bytes."""
    offsets, data = key_buffers(keys)
    return bool(ascend(data, offsets.astype(np.int64)))


def read_key_list(data: bytes) -> Iterator[pa.StringArray]:
    """The runs of a list. Raises `ValueError`."""
    if not data.startswith(_START):
        raise ValueError("it does not begin as a key list does")
    at = len(_START)
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise ValueError("it ends within the head of a run")
        keys, compressed, raw = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if compressed > len(data) - at or raw < keys * _KEY_BYTES or raw > _OFFSET_MAX:
            raise ValueError("a run is longer than it can be")
        try:
            found = _ZSTD.decompress(data[at : at + compressed], decompressed_size=raw, asbytes=True)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"a run cannot be decompressed: {error}") from error
        yield _decoded(found, keys)
        at += compressed


def _decoded(raw: bytes, keys: int) -> pa.StringArray:
    lengths = np.frombuffer(raw, dtype="<u4", count=keys).astype(np.uint32, copy=False)
    shared = np.frombuffer(raw, dtype=np.uint8, count=keys, offset=keys * 4)
    rest = np.frombuffer(raw, dtype=np.uint8, offset=keys * _KEY_BYTES)
    whole = lengths.astype(np.int64) + shared
    if int(lengths.sum(dtype=np.int64)) != len(rest) or int(whole.sum()) > _OFFSET_MAX:
        raise ValueError("the lengths of its keys are not those of their bytes")
    if keys and (shared[0] or (shared[1:] > whole[:-1]).any()):
        raise ValueError("a key shares more than the key before it has")
    offsets = np.zeros(keys + 1, dtype=np.int32)
    np.cumsum(whole, out=offsets[1:])
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    _decode(lengths, shared, rest, offsets, data)
    found = pa.StringArray.from_buffers(keys, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError("a key is not UTF-8 text") from error
    return found


@kernel(types.int64(I32_IN, U8_IN, U32, U8, U8))
def _encode(offsets: Any, data: Any, lengths: Any, shared: Any, rest: Any) -> Any:
    """
    Args:
        offsets: ascending and inside of `data`.
        lengths: one for each key.
        shared: one for each key.
        rest: as long as the keys.

    Returns how many bytes of `rest` were written.
    """
    # Unsigned, since Numba looks whether a signed index is negative, which takes six times the time.
    to, before, start = np.uint64(0), np.uint64(0), np.uint64(offsets[0])
    for key in range(len(lengths)):
        end = np.uint64(offsets[key + 1])
        same = np.uint64(0)
        if key > 0:
            most = min(end - start, start - before, np.uint64(_SHARED_MAX))
            while same < most and data[before + same] == data[start + same]:
                same += np.uint64(1)
        shared[key] = np.uint8(same)
        first = start + same
        more = end - first
        lengths[key] = np.uint32(more)
        for at in range(more):
            rest[to + at] = data[first + at]
        to += more
        before, start = start, end
    return to


@kernel(types.void(U32_IN, U8_IN, U8_IN, I32_IN, U8))
def _decode(lengths: Any, shared: Any, rest: Any, offsets: Any, data: Any) -> None:
    """
    Args:
        lengths: together as long as `rest`.
        shared: none is longer than the key before it.
        offsets: the place of each key in `data`, and its end.
    """
    at = 0
    for key in range(len(lengths)):
        start = np.int64(offsets[key])
        for byte in range(np.int64(shared[key])):
            data[start + byte] = data[np.int64(offsets[key - 1]) + byte]
        start += np.int64(shared[key])
        for byte in range(np.int64(lengths[key])):
            data[start + byte] = rest[at]
            at += 1
