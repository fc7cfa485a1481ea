"""Hash byte strings and words to 64 bits: what the key index, the sample and the hashes of rows are made of.

A word-at-a-time multiply-rotate hash, finished by an avalanche. It guards against accidents, not against an
adversary who chooses the keys. Files of the record index have it in their filters, and where its buckets are chosen by
it (`index/record/bucket_hash`), so a change of it is another version of those.

Touches: nothing.
Keeps:   1. equal bytes give equal hashes, whatever lies before, behind or around them in a buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import load_u64
from lakeward.base.kernel import U8_IN, kernel, types

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_R31 = np.uint64(31)
_R33 = np.uint64(33)
_R29 = np.uint64(29)
_R32 = np.uint64(32)

_NO_BYTES = np.zeros(0, dtype=np.uint8)


@kernel(types.uint64(types.uint64))
def avalanche(h: np.uint64) -> np.uint64:
    """Spread every input bit over the whole word."""
    h = (h ^ (h >> _R33)) * _P2
    h = (h ^ (h >> _R29)) * _P3
    return h ^ (h >> _R32)


@kernel(types.uint64(types.uint64, types.uint64))
def mix(h: np.uint64, word: np.uint64) -> np.uint64:
    """Fold one more word into a hash; the order of words counts."""
    h = h ^ (word * _P2)
    h = (h << _R31) | (h >> _R33)
    return h * _P1 + _P3


@kernel(types.uint64(U8_IN, types.int64))
def _load8(data: npt.NDArray[np.uint8], i: int) -> np.uint64:
    """Eight bytes as a word, the first one lowest."""
    word: np.uint64 = load_u64(data.ctypes.data + i)
    return word


@kernel(types.uint64(U8_IN, types.int64, types.int64))
def _load_rest(data: npt.NDArray[np.uint8], i: int, end: int) -> np.uint64:
    """The last bytes, fewer than eight, as a word."""
    word = np.uint64(0)
    shift = np.uint64(0)
    while i < end:
        word |= np.uint64(data[i]) << shift
        shift += np.uint64(8)
        i += 1
    return word


@kernel(types.uint64(U8_IN, types.int64, types.int64, types.uint64))
def hash_bytes(data: npt.NDArray[np.uint8], start: int, end: int, seed: np.uint64) -> np.uint64:
    """The hash of `data[start:end]`. Invariant: 0 <= start <= end <= len(data)."""
    h = mix(seed, np.uint64(end - start))
    i = start
    while i + 8 <= end:
        h = mix(h, _load8(data, i))
        i += 8
    if i < end:
        h = mix(h, _load_rest(data, i, end))
    return avalanche(h)


def byte_buffers(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """(offsets, bytes) of a string or binary array: value i is `bytes[offsets[i]:offsets[i + 1]]`, slices included."""
    offsets, data = stored_buffers(array)
    return offsets.astype(np.int64), data


def stored_buffers(array: pa.Array) -> tuple[npt.NDArray[np.signedinteger[Any]], npt.NDArray[np.uint8]]:
    """The same, not copied: offsets are as wide as the array has them."""
    if len(array) == 0:
        return np.zeros(1, dtype=np.int64), _NO_BYTES
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    assert wide or pa.types.is_string(array.type) or pa.types.is_binary(array.type), array.type
    _, offset_buffer, data_buffer = array.buffers()
    width: type[np.signedinteger[Any]] = np.int64 if wide else np.int32
    offsets = np.frombuffer(offset_buffer, dtype=width)
    offsets = offsets[array.offset : array.offset + len(array) + 1]
    has_bytes = data_buffer is not None and data_buffer.size > 0
    data = np.frombuffer(data_buffer, dtype=np.uint8) if has_bytes else _NO_BYTES
    return offsets, data
