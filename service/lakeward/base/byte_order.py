"""Byte strings compared by kernels: unsigned, and a string before a longer one that begins with it. So UTF-8 has the
order of its code points, which keys of sorted files have.

Touches: nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakeward.base.addresses import load_u64
from lakeward.base.kernel import I64_IN, U8_IN, kernel, types

_ODD = np.uint64(0x00FF00FF00FF00FF)
_ODD_PAIRS = np.uint64(0x0000FFFF0000FFFF)


@kernel(types.int64(U8_IN, types.int64, types.int64, types.int64, types.int64))
def compare_bytes(data: npt.NDArray[np.uint8], start: int, end: int, other_start: int, other_end: int) -> int:
    """Negative, 0 or positive as `data[start:end]` comes before, is or comes after `data[other_start:other_end]`."""
    common = min(end - start, other_end - other_start)
    for i in range(common):
        if data[start + i] != data[other_start + i]:
            return int(data[start + i]) - int(data[other_start + i])
    return (end - start) - (other_end - other_start)


@kernel(types.uint64(U8_IN, types.int64, types.int64))
def prefix_of(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint64:
    """The first eight bytes of `data[start:end]` as a number that compares as they do; what is missing counts as 0."""
    if start + 8 <= end:
        word = load_u64(data.ctypes.data + start)
        # The first byte is the lowest, and must be the highest.
        word = ((word & _ODD) << np.uint64(8)) | ((word >> np.uint64(8)) & _ODD)
        word = ((word & _ODD_PAIRS) << np.uint64(16)) | ((word >> np.uint64(16)) & _ODD_PAIRS)
        return np.uint64((word << np.uint64(32)) | (word >> np.uint64(32)))
    prefix = np.uint64(0)
    shift = np.uint64(56)
    for i in range(start, end):
        prefix |= np.uint64(data[i]) << shift
        shift -= np.uint64(8)
    return prefix


@kernel(types.boolean(U8_IN, I64_IN))
def ascend(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> bool:
    """No key is smaller than the one before it."""
    for i in range(1, len(offsets) - 1):
        start, middle, end = offsets[i - 1], offsets[i], offsets[i + 1]
        common = min(middle - start, end - middle)
        at = 0
        while at + 8 <= common and prefix_of(data, start + at, middle) == prefix_of(data, middle + at, end):
            at += 8
        if compare_bytes(data, start + at, middle, middle + at, end) > 0:
            return False
    return True
