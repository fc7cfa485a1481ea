"""Places in the base file, beside the keys of log records, where a key is in several rows of it.

Writers that looked their keys up in the base file say in each block at which places they found them, and Hudi's readers
then merge by places: of rows with one key each meets the records that name its place. One block without places, or with
those of another base file, and they use keys, where the first of such rows meets all records.

Where no key is there twice both give the same rows, so everything is merged by keys here, until the logs
name several places for a key in one block. Then the place goes into the key on both sides, which makes keys that are
there once, and out of the rows that come out.

    base      place 1  k     place 3  k            log   k at 1, k at 3
    merged as          k\\01           k\\03               k\\01,   k\\03

Touches: nothing.
Keeps:   1. two records have one such key exactly when they have one key and one place;
         2. blocks are said to name places exactly where Hudi's reader uses them.
Source:  PositionBasedFileGroupRecordBuffer (Hudi 1.2.0), and tables of that release.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.file_name import parse_base_file, parse_native_log
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock
from lakeward.format.log.native_log.record_positions import decode_positions
from lakeward.format.log.position_bitmap import decode_position_bitmap
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD

_MARK = "\0"
_DIGITS = 19


class GoesByPlaces(Unsupported):
    """A key is in several rows of the base file, and the logs name places in it, but not each of them in each block."""


def names_places(blocks: Sequence[LogBlock], base_file: str | None) -> bool:
    """Whether every block names the places of its records in this base file."""
    if base_file is None or not blocks:
        return False
    name = parse_base_file(posixpath.basename(base_file))
    return name is not None and all(
        block.headers.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS) == name.instant
        and block.headers.get(HeaderKey.RECORD_POSITIONS)
        for block in blocks
    )


def can_go_by_places(blocks: Sequence[LogBlock]) -> bool:
    """False where the records of a block are in another order than their places: in HFiles that of their keys."""
    return all(block.type is not BlockType.HFILE_DATA for block in blocks)


class BlockPlaces:
    """The places of a block's records, handed out as the records are read."""

    def __init__(self, block: LogBlock) -> None:
        """Raises `BrokenFile`."""
        self._block = block
        decode = (
            decode_position_bitmap if parse_native_log(posixpath.basename(block.file)) is None else decode_positions
        )
        try:
            self._places = decode(block.headers[HeaderKey.RECORD_POSITIONS])
        except ValueError as error:
            raise _broken(block, f"They cannot be read: {error}.") from None
        self._at = 0

    def take(self, rows: int) -> npt.NDArray[np.int64]:
        """The places of the next records. Raises `BrokenFile`."""
        found = self._places[self._at : self._at + rows]
        self._at += rows
        if len(found) < rows:
            raise _broken(self._block, f"They are {len(self._places)}, and it has more records.")
        return found

    def finish(self) -> None:
        """There are no more records. Raises `BrokenFile`."""
        if self._at != len(self._places):
            raise _broken(self._block, f"They are {len(self._places)}, and it has {self._at} records.")


def keys_with_places(keys: pa.Array, places: npt.NDArray[np.int64]) -> pa.Array:
    """The keys with their places, by which equal ones are in the order of the base file."""
    return pc.binary_join_element_wise(keys, pc.utf8_lpad(pa.array(places).cast(pa.string()), _DIGITS, "0"), _MARK)


def with_places(batch: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows with their places in their keys."""
    keys = keys_with_places(batch.column(RECORD_KEY_FIELD), places)
    return batch.set_column(batch.schema.get_field_index(RECORD_KEY_FIELD), RECORD_KEY_FIELD, keys)


def without_places(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their own keys."""
    keys = pc.binary_slice(batch.column(RECORD_KEY_FIELD).cast(pa.binary()), 0, -_DIGITS - 1).cast(pa.string())
    return batch.set_column(batch.schema.get_field_index(RECORD_KEY_FIELD), RECORD_KEY_FIELD, keys)


def _broken(block: LogBlock, why: str) -> BrokenFile:
    return BrokenFile(
        f"The record positions of {block.where} are wrong.",
        why=why,
        remedy="Restore the file, or roll back the commit that wrote it.",
    )
