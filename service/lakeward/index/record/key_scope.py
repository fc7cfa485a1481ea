"""What a key of the index is: a record key in all of the table, or in its partition.

    global       the entry's key is the record key
    partition    record key, 0x00, partition path

So the partitions of a record key are neighbours in the file, and are found by what they begin with. No partition path
holds a 0x00; a record key may, and then the last 0x00 is the one that separates.

Touches: nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.kernel import I64, I64_IN, U8, U8_IN, kernel, types
from lakeward.index.record.created_with import KeyScope
from lakeward.merge.rows.byte_hash import byte_buffers

SEPARATOR = b"\0"
AFTER_SEPARATOR = b"\1"
"""A key followed by this comes right after all that begin with the key and a separator."""


def entry_keys(keys: pa.Array, partitions: pa.Array | None) -> pa.Array:
    """The keys of entries, in binary, of record keys and, for the scope `partition`, their partition paths."""
    keys = keys.cast(pa.binary())
    if partitions is None:
        return keys
    return pc.binary_join_element_wise(keys, partitions.cast(pa.binary()), SEPARATOR)


def with_ending(keys: pa.Array, ending: bytes) -> pa.Array:
    """Each record key with these bytes behind it, in binary."""
    return pc.binary_join_element_wise(keys.cast(pa.binary()), b"", ending)


def record_key_ends(entry_keys: pa.Array, scope: KeyScope) -> npt.NDArray[np.int64]:
    """The end of the record key in each entry's key: the number of its bytes."""
    offsets, data = byte_buffers(entry_keys)
    if scope is KeyScope.GLOBAL:
        return np.diff(offsets)
    ends = np.empty(len(entry_keys), dtype=np.int64)
    _last_separators(offsets, data, ends)
    return ends


def split_entry_keys(entry_keys: pa.Array, scope: KeyScope) -> tuple[pa.Array, pa.Array | None]:
    """(record keys, partition paths), as text; no paths where a key is one in all of the table."""
    if scope is KeyScope.GLOBAL:
        return entry_keys.cast(pa.binary()).view(pa.string()), None
    offsets, data = byte_buffers(entry_keys)
    middles = offsets[:-1] + record_key_ends(entry_keys, scope)
    starts = np.minimum(middles + len(SEPARATOR), offsets[1:])
    return _texts(data, offsets[:-1], middles), _texts(data, starts, offsets[1:])


def _texts(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> pa.Array:
    """The texts from each start to each end."""
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(ends - starts, out=offsets[1:])
    out = np.empty(int(offsets[-1]), dtype=np.uint8)
    if len(out):
        _copy(data, starts, offsets, out)
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(starts), buffers)


@kernel(types.void(U8_IN, I64_IN, I64_IN, U8))
def _copy(data: Any, starts: Any, offsets: Any, out: Any) -> None:
    """Text i of `out` is what `data` has from `starts[i]` on."""
    for text in range(len(starts)):
        shift = starts[text] - offsets[text]
        for at in range(offsets[text], offsets[text + 1]):
            out[at] = data[at + shift]


@kernel(types.void(I64_IN, U8_IN, I64))
def _last_separators(offsets: Any, data: Any, ends: Any) -> None:
    """The place of the last 0x00 in each key; of one without, its length."""
    for key in range(len(ends)):
        at = offsets[key + 1] - 1
        while at >= offsets[key] and data[at] != 0:
            at -= 1
        ends[key] = (at if at >= offsets[key] else offsets[key + 1]) - offsets[key]
