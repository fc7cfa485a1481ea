"""Records of an HFile data block (type 4), framed as those of an Avro data block are: block in, stretches of them out.

The content is a whole HFile with an entry for each record, in the order of keys: a key, and the row in Avro binary by
the schema of the block's header. The key is the record key. A text column of the name `key` is stored as an empty
string, and readers put the entry's key there, because Hudi's metadata tables have such a column and its writer makes no
difference. Hudi 1.0 has the entry by what that column held, 1.2.0 by the record key (`read/logs/log_scan` refuses the
loss). (Hudi: HoodieHFileDataBlock and HFileUtils write, HoodieAvroHFileReaderImplBase reads; real tables of both.)

Touches: the log file it is given, by seeking and reading.
Keeps:   1. memory is bounded by one data block of the HFile, which Hudi ends at 1 MiB, and its frames;
         2. as many records come out as the HFile's trailer counts, or an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.hfile.reader import HFileReader
from lakeward.format.log.block import KEY_COLUMN, BlockType, LogBlock

_FRAME = np.dtype(">i4")


@dataclass(frozen=True, slots=True)
class FramedRecords:
    """The records of one data block of the HFile."""

    keys: pa.BinaryArray
    data: npt.NDArray[np.uint8]
    """Each record led by its int32 length."""


def read_hfile_records(file: BinaryIO, block: LogBlock) -> Iterator[FramedRecords]:
    """All records of a block. Raises `BrokenFile` and `Unsupported`, naming the place."""
    assert block.type is BlockType.HFILE_DATA
    hfile = HFileReader(file, offset=block.content_offset, length=block.content_length, name=block.where)
    for entries in hfile.scan():
        yield FramedRecords(entries.keys, _framed(entries.values))


def with_key_column(batch: pa.RecordBatch, keys: pa.BinaryArray) -> pa.RecordBatch:
    """The rows of these entries, with what their column `key` held; unchanged where they have no text of that name."""
    place = batch.schema.get_field_index(KEY_COLUMN)
    if place < 0 or not pa.types.is_string(batch.schema.field(place).type):
        return batch
    stored = batch.column(place)
    # The column's own bytes: text that is not UTF-8 is found where all text is checked.
    held = pc.if_else(pc.equal(stored, ""), keys.view(pa.string()), stored)
    return batch.set_column(place, batch.schema.field(place), held)


def _framed(values: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[: len(values) + 1].astype(np.int64)
    heads = offsets[:-1] + _FRAME.itemsize * np.arange(len(values))
    framed = np.empty(int(offsets[-1]) + _FRAME.itemsize * len(values), dtype=np.uint8)
    is_head = np.zeros(len(framed), dtype=np.bool_)
    lengths = np.diff(offsets).astype(_FRAME).view(np.uint8).reshape(-1, _FRAME.itemsize)
    for index in range(_FRAME.itemsize):
        is_head[heads + index] = True
        framed[heads + index] = lengths[:, index]
    stored = values.buffers()[2]
    framed[~is_head] = np.frombuffer(stored, dtype=np.uint8)[: int(offsets[-1])] if len(values) else []
    return framed
