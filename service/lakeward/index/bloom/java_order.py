"""Record keys as bytes whose order is that of Java's strings, in which Hudi keeps the ranges of keys.

Java compares UTF-16 units, by which U+E000 to U+FFFF come after what lies beyond U+FFFF. In UTF-8 the former begin with
0xEE and 0xEF and the latter with 0xF0 to 0xF4, and none of these stands anywhere else. So with 0xEE and 0xEF made 0xFE
and 0xFF, which UTF-8 does not have, the bytes of a text are in Java's order.

Touches: nothing.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeward.format.murmur import key_buffers

_DIFFERS_FROM = 0xEE
_BEHIND = np.arange(256, dtype=np.uint8)
_BEHIND[[0xEE, 0xEF]] = 0xFE, 0xFF


def java_order(keys: pa.StringArray) -> pa.BinaryArray:
    """Bytes of each key, none of which is null, to be compared."""
    if not len(keys):
        return keys.cast(pa.binary())
    offsets, data = key_buffers(keys)
    start, end = int(offsets[0]), int(offsets[-1])
    text = data[start:end]
    if not len(text) or int(text.max()) < _DIFFERS_FROM:
        return keys.cast(pa.binary())
    moved = pa.py_buffer((offsets - start).astype(np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), len(keys), [None, moved, pa.py_buffer(_BEHIND[text])])
