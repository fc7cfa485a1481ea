"""The chain of hashes by which Hudi's bloom filters place a key, of several keys of one length side by side.

    h(0) = 0    h(i+1) = murmur2 of the key with seed h(i)

Touches: nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import U8_IN, U32, kernel, types

LANES = 8
"""Keys that are hashed side by side."""


class ByLength:
    """Keys as the kernels take them: their bytes, their numbers by length, and room for hashing."""

    def __init__(self, keys: pa.StringArray) -> None:
        """
        Args:
            keys: one at least, and none of them is null.
        """
        assert keys.null_count == 0
        self.offsets, self.data = key_buffers(keys)
        lengths = np.diff(self.offsets)
        self.order = np.argsort(lengths, kind="stable")
        self.words = np.zeros((int(lengths.max()) // 4 + 1) * LANES, dtype=np.uint32)
        """`LANES` times the words of the longest key and one more."""
        self.values = np.zeros(LANES, dtype=np.uint32)


def key_buffers(keys: pa.StringArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """(offsets, bytes) of a string array without copying; key i is `bytes[offsets[i]:offsets[i + 1]]`."""
    _, offsets, data = keys.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    text = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(0, dtype=np.uint8)
    return starts, text


@kernel(types.uint32(types.uint8))
def _signed(byte: Any) -> Any:
    """A byte widened to 32 bits with its sign."""
    if byte >= 128:
        return np.uint32(0xFFFFFF00) | np.uint32(byte)
    return np.uint32(byte)


@kernel(types.uint32(types.uint32))
def _times(value: Any) -> Any:
    """The value times murmur2's factor, wrapping at 32 bits."""
    return np.uint32((np.uint64(value) * np.uint64(0x5BD1E995)) & np.uint64(0xFFFFFFFF))


@kernel(types.void(U8_IN, types.int64, types.int64, U32, types.int64))
def mix_key(data: Any, start: Any, end: Any, words: Any, lane: Any) -> None:
    """What murmur2 makes of `data[start:end]` without the seed, into `words[lane::LANES]`; the rest comes last."""
    # Unsigned, since Numba looks whether a signed index is negative, which takes twice the time.
    at, to = np.uint64(start), np.uint64(lane)
    for _ in range((end - start) // 4):
        word = (
            np.uint32(data[at])
            | (np.uint32(data[at + np.uint64(1)]) << np.uint32(8))
            | (np.uint32(data[at + np.uint64(2)]) << np.uint32(16))
            | (np.uint32(data[at + np.uint64(3)]) << np.uint32(24))
        )
        word = _times(np.uint32(word))
        words[to] = _times(word ^ (word >> np.uint32(24)))
        at += np.uint64(4)
        to += np.uint64(LANES)
    left = (end - start) % 4
    if left > 0:
        # Unlike the murmur2 of others, the last byte counts lowest. Java's bytes are signed, and Hudi widens them with
        # their sign, which matters for keys beyond ASCII.
        rest = _signed(data[end - 1])
        if left >= 2:
            rest ^= np.uint32(_signed(data[end - 2]) << np.uint32(8))
        if left >= 3:
            rest ^= np.uint32(_signed(data[end - 3]) << np.uint32(16))
        words[to] = rest


@kernel(types.void(U32, U32, types.int64))
def hash_lanes(words: Any, values: Any, length: Any) -> None:
    """Murmur2 of each lane's key, all of which have this length; `values` are the seeds, then the hashes."""
    for lane in range(LANES):
        values[lane] ^= np.uint32(length)
    whole = length // 4
    for word in range(whole):
        for lane in range(LANES):
            values[lane] = _times(values[lane]) ^ words[word * LANES + lane]
    if length % 4:
        for lane in range(LANES):
            values[lane] = _times(values[lane] ^ words[whole * LANES + lane])
    for lane in range(LANES):
        value = values[lane]
        value = _times(value ^ (value >> np.uint32(13)))
        values[lane] = value ^ (value >> np.uint32(15))


@kernel(types.uint32(types.uint32, types.int64))
def bit_of(value: Any, bits: Any) -> Any:
    """The bit that a hash stands for. Java: Math.abs(h % bits), where the remainder takes the sign of h."""
    return np.uint32(abs(np.int64(np.int32(value)))) % np.uint32(bits)
