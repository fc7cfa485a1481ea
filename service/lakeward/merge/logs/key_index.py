"""Record keys <-> small dense integers: every other part of the merge works with the integers.

An open-addressing hash table with linear probing over a copy of the keys' bytes. Keys are numbered 0, 1, 2, … in the
order of their first appearance. The same file watches over the base file's keys, of which it keeps 64-bit hashes only.

Tables double when half full: slots take 16 to 32 bytes a key, the index's hashes and offsets 8 to 16 each, and key
bytes are copied into a buffer that doubles, too.

Touches: nothing.
Keeps:   1. two keys have one id exactly when their bytes are equal: a hash only says where to look;
         2. an id never changes;
         3. the table is at most half full, so every probe ends at a free slot.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import I64, I64_IN, U8, U8_IN, U64, U64_IN, kernel, types
from lakeward.merge.rows.byte_hash import byte_buffers, hash_bytes
from lakeward.merge.runs.sort_key import order_of

_SEED = np.uint64(0x1B873593CC9E2D51)
_FREE = -1
_T = TypeVar("_T", bound=np.generic)


@kernel(types.void(U8_IN, I64_IN, U64))
def _hash_all(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], out: npt.NDArray[np.uint64]) -> None:
    for i in range(len(out)):
        out[i] = hash_bytes(data, offsets[i], offsets[i + 1], _SEED)


@kernel(types.boolean(U8_IN, types.int64, types.int64, U8_IN, types.int64, types.int64))
def _equal(
    left: npt.NDArray[np.uint8], left_start: int, left_end: int, right: npt.NDArray[np.uint8], start: int, end: int
) -> bool:
    if left_end - left_start != end - start:
        return False
    for i in range(end - start):  # noqa: SIM110 - compiled, where a loop is faster than a generator
        if left[left_start + i] != right[start + i]:
            return False
    return True


@kernel(types.int64(U8_IN, I64_IN, U64_IN, I64, U64, I64, U8, types.int64, I64))
def _intern(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.uint64],
    slots: npt.NDArray[np.int64],
    key_hashes: npt.NDArray[np.uint64],
    key_offsets: npt.NDArray[np.int64],
    key_bytes: npt.NDArray[np.uint8],
    count: int,
    out: npt.NDArray[np.int64],
) -> int:
    """The new number of keys. The caller has made room for all keys of the batch being new."""
    mask = np.uint64(len(slots) - 1)
    for i in range(len(out)):
        slot = np.int64(hashes[i] & mask)
        while True:
            found = slots[slot]
            if found == _FREE:
                start = key_offsets[count]
                for j in range(offsets[i + 1] - offsets[i]):
                    key_bytes[start + j] = data[offsets[i] + j]
                key_offsets[count + 1] = start + offsets[i + 1] - offsets[i]
                key_hashes[count] = hashes[i]
                slots[slot] = count
                out[i] = count
                count += 1
                break
            if key_hashes[found] == hashes[i] and _equal(
                key_bytes, key_offsets[found], key_offsets[found + 1], data, offsets[i], offsets[i + 1]
            ):
                out[i] = found
                break
            slot = np.int64((np.uint64(slot) + np.uint64(1)) & mask)
    return count


@kernel(types.void(U8_IN, I64_IN, U64_IN, I64_IN, U64_IN, I64_IN, U8_IN, I64))
def _find(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.uint64],
    slots: npt.NDArray[np.int64],
    key_hashes: npt.NDArray[np.uint64],
    key_offsets: npt.NDArray[np.int64],
    key_bytes: npt.NDArray[np.uint8],
    out: npt.NDArray[np.int64],
) -> None:
    mask = np.uint64(len(slots) - 1)
    for i in range(len(out)):
        slot = np.int64(hashes[i] & mask)
        out[i] = -1
        while True:
            found = slots[slot]
            if found == _FREE:
                break
            if key_hashes[found] == hashes[i] and _equal(
                key_bytes, key_offsets[found], key_offsets[found + 1], data, offsets[i], offsets[i + 1]
            ):
                out[i] = found
                break
            slot = np.int64((np.uint64(slot) + np.uint64(1)) & mask)


@kernel(types.void(U64_IN, types.int64, I64))
def _place_all(key_hashes: npt.NDArray[np.uint64], count: int, slots: npt.NDArray[np.int64]) -> None:
    """Fill an empty table with keys that are known to differ."""
    mask = np.uint64(len(slots) - 1)
    for key in range(count):
        slot = np.int64(key_hashes[key] & mask)
        while slots[slot] != _FREE:
            slot = np.int64((np.uint64(slot) + np.uint64(1)) & mask)
        slots[slot] = key


def hash_keys(keys: pa.Array) -> npt.NDArray[np.uint64]:
    """The 64-bit hash of each key, the same wherever the key is met."""
    offsets, data = byte_buffers(keys)
    out = np.empty(len(keys), dtype=np.uint64)
    with np.errstate(over="ignore"):  # unsigned arithmetic wraps by intent; only uncompiled kernels warn
        _hash_all(data, offsets, out)
    return out


class KeyIndex:
    """Gives each record key an id. Keys must not be null: check before."""

    def __init__(self) -> None:
        self._count = 0
        self._slots = np.full(1024, _FREE, dtype=np.int64)
        self._hashes = np.empty(512, dtype=np.uint64)
        self._offsets = np.zeros(513, dtype=np.int64)
        self._bytes = np.empty(16 * 1024, dtype=np.uint8)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._hashes.nbytes + self._offsets.nbytes + self._bytes.nbytes

    def intern(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """The id of each key; keys not met before get the next ids."""
        assert keys.null_count == 0
        offsets, data = byte_buffers(keys)
        hashes = hash_keys(keys)
        self._reserve(len(keys), int(offsets[-1] - offsets[0]))
        out = np.empty(len(keys), dtype=np.int64)
        with np.errstate(over="ignore"):
            self._count = int(
                _intern(data, offsets, hashes, self._slots, self._hashes, self._offsets, self._bytes, self._count, out)
            )
        return out

    def find(self, keys: pa.Array, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The id of each key, -1 for keys never interned. `hashes` are those of `hash_keys`."""
        assert keys.null_count == 0 and len(hashes) == len(keys)
        offsets, data = byte_buffers(keys)
        out = np.empty(len(keys), dtype=np.int64)
        with np.errstate(over="ignore"):
            _find(data, offsets, hashes, self._slots, self._hashes, self._offsets, self._bytes, out)
        return out

    def key(self, key_id: int) -> str:
        assert 0 <= key_id < self._count
        return bytes(self._bytes[self._offsets[key_id] : self._offsets[key_id + 1]]).decode(errors="replace")

    def ids_by_key(self) -> npt.NDArray[np.int64]:
        """All ids, in the order of the keys' bytes."""
        return order_of(self._bytes, self._offsets[: self._count + 1])

    def keys(self, key_ids: npt.NDArray[np.int64]) -> pa.Array:
        """The keys with these ids, as strings."""
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._bytes)]
        everything = pa.Array.from_buffers(pa.large_string(), self._count, buffers)
        return everything.take(pa.array(key_ids)).cast(pa.string())

    def _reserve(self, keys: int, key_bytes: int) -> None:
        wanted = self._count + keys
        if wanted > len(self._hashes):
            room = max(wanted, 2 * len(self._hashes))
            self._hashes = _grown(self._hashes, room)
            self._offsets = _grown(self._offsets, room + 1)
        used = int(self._offsets[self._count])
        if used + key_bytes > len(self._bytes):
            self._bytes = _grown(self._bytes, max(used + key_bytes, 2 * len(self._bytes)))
        if 2 * wanted > len(self._slots):
            self._slots = np.full(_power_of_two(2 * wanted), _FREE, dtype=np.int64)
            with np.errstate(over="ignore"):
                _place_all(self._hashes, self._count, self._slots)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _grown(array: npt.NDArray[_T], room: int) -> npt.NDArray[_T]:
    larger = np.empty(room, dtype=array.dtype)
    larger[: len(array)] = array
    return larger
