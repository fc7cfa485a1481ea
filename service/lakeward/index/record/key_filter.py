"""A filter of record keys: whether a file may have a key, from one cache line of it.

A split block bloom filter, as Parquet has them: blocks of 256 bits, eight words of 32. The upper half of a key's 64-bit
hash chooses the block, the lower half a bit of each word by eight odd factors. With 10 bits a key some 1 % of the keys
that are not there pass; Hudi's filter has 1e-9 for 43 bits, which a lookup that reads the block anyway has no use for.

The hash is that of `merge/rows/byte_hash`, of the record key alone, so that the filter serves with a partition and
without; the keys of one lookup are hashed once for all files.

Touches: nothing.
Source:  the split block bloom filter of Apache Parquet's format
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import BOOL, I64_IN, U8_IN, U32, U32_IN, U64, U64_IN, kernel, types
from lakeward.merge.rows.byte_hash import byte_buffers, hash_bytes

Hashes = npt.NDArray[np.uint64]

KEY_BITS: Final = 10
_BLOCK_WORDS: Final = 8
_BLOCK_BITS: Final = 32 * _BLOCK_WORDS
_FACTORS: Final = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], dtype=np.uint32
)
_WORD = np.dtype("<u4")


def key_hashes(keys: pa.Array, ends: npt.NDArray[np.int64] | None = None) -> Hashes:
    """The hash of each record key.

    Args:
        ends: how many bytes of each entry are the record key; None: all.
    """
    offsets, data = byte_buffers(keys)
    out = np.empty(len(keys), dtype=np.uint64)
    _hash_keys(offsets, data, np.diff(offsets) if ends is None else ends, out)
    return out


class KeyFilter:
    def __init__(self, words: npt.NDArray[np.uint32]) -> None:
        self._words = words

    @classmethod
    def of(cls, hashes: Sequence[Hashes]) -> KeyFilter:
        count = sum(map(len, hashes))
        words = np.zeros(max(1, -(-count * KEY_BITS // _BLOCK_BITS)) * _BLOCK_WORDS, dtype=np.uint32)
        for each in hashes:
            _add(each, _FACTORS, words)
        return cls(words)

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyFilter:
        """Raises `ValueError` where these are not whole blocks."""
        if not data or len(data) % (_BLOCK_BITS // 8):
            raise ValueError(f"a filter of {len(data)} bytes")
        return cls(np.frombuffer(data, dtype=_WORD).astype(np.uint32, copy=False))

    @property
    def nbytes(self) -> int:
        return self._words.nbytes

    def to_bytes(self) -> bytes:
        return self._words.astype(_WORD, copy=False).tobytes()

    def may_have(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        out = np.empty(len(hashes), dtype=np.bool_)
        _check(hashes, _FACTORS, self._words, out)
        return out


@kernel(types.void(I64_IN, U8_IN, I64_IN, U64))
def _hash_keys(offsets: Any, data: Any, lengths: Any, out: Any) -> None:
    for key in range(len(out)):
        out[key] = hash_bytes(data, offsets[key], offsets[key] + lengths[key], np.uint64(0))


@kernel(types.int64(types.uint64, types.int64))
def _block_of(value: Any, words: Any) -> Any:
    """The first word of the hash's block."""
    blocks = np.uint64(words // _BLOCK_WORDS)
    return np.int64(((value >> np.uint64(32)) * blocks) >> np.uint64(32)) * _BLOCK_WORDS


@kernel(types.void(U64_IN, U32_IN, U32))
def _add(hashes: Any, factors: Any, words: Any) -> None:
    for key in range(len(hashes)):
        first = _block_of(hashes[key], len(words))
        low = np.uint32(hashes[key] & np.uint64(0xFFFFFFFF))
        for word in range(_BLOCK_WORDS):
            words[first + word] |= np.uint32(1) << (np.uint32(low * factors[word]) >> np.uint32(27))


@kernel(types.void(U64_IN, U32_IN, U32_IN, BOOL))
def _check(hashes: Any, factors: Any, words: Any, out: Any) -> None:
    for key in range(len(hashes)):
        first = _block_of(hashes[key], len(words))
        low = np.uint32(hashes[key] & np.uint64(0xFFFFFFFF))
        missing = np.uint32(0)
        for word in range(_BLOCK_WORDS):
            bit = np.uint32(1) << (np.uint32(low * factors[word]) >> np.uint32(27))
            missing |= bit & ~words[first + word]
        out[key] = missing == 0
