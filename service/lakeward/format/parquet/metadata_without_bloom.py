"""What the footer of a base file says, but for its bloom filter.

The footer's own module needs no Arrow: a process that only lists tables reads partition metadata by it.

Touches: the file it is given, by seeking and reading.
"""

from __future__ import annotations

import io
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.format.parquet.footer import FOOTER_BYTES_MAX, PLAIN, TAIL_BYTES, without_bloom

_FIRST_READ_BYTES = 64 * 1024
"""The library reads as much at first."""


def metadata_without_bloom(source: BinaryIO) -> pq.FileMetaData | None:
    """What the footer says but for its bloom filter, in as many reads as the library takes. None where the library is
    to say by itself what is wrong with the file."""
    size = source.seek(0, io.SEEK_END)
    start = max(0, size - _FIRST_READ_BYTES)
    source.seek(start)
    ending = source.read(size - start)
    length = int.from_bytes(ending[-TAIL_BYTES:-4], "little")
    if not ending.endswith(PLAIN) or not 0 < length <= min(FOOTER_BYTES_MAX, size - TAIL_BYTES):
        return None
    footer = ending[-TAIL_BYTES - length : -TAIL_BYTES]
    if length > len(footer):
        source.seek(size - TAIL_BYTES - length)
        footer = source.read(length)
    shorter = without_bloom(footer)
    return pq.read_metadata(pa.BufferReader(shorter + len(shorter).to_bytes(4, "little") + PLAIN))
