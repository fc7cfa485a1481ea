"""The deletes of a block that the scan found: those of a delete block, or of the native log that the block is.

Touches: the log file it is given, by seeking and reading.
Keeps:   deletes come out as a delete block has them, whichever file they are in.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from lakeward.format.file_name import parse_native_log
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.delete_block import DeletedKeys, read_delete_block
from lakeward.format.log.native_log.delete_file import read_native_deletes
from lakeward.format.log.native_log.native_log_file import open_native_log
from lakeward.format.parquet.batches import BATCH_BYTES_MAX


def read_deletes(
    file: BinaryIO, block: LogBlock, ordering: pa.Schema, *, bytes_max: int | None = None
) -> Iterator[DeletedKeys]:
    """All deletes of a block, batch by batch. Raises `BrokenFile` and `Unsupported`.

    Args:
        block: as the scan found it, with the path of its file.
        ordering: the table's ordering columns; none where rows are merged by commit time.
        bytes_max: what a batch may take when it is decoded; a delete that takes more is `Unsupported`. None: what the
            reader of its kind holds at once.
    """
    assert block.type is BlockType.DELETE
    name = parse_native_log(posixpath.basename(block.file))
    if name is None:
        yield from read_delete_block(file, block, bytes_max=bytes_max)
        return

    log = open_native_log(file, block.content_length, name, where=block.file)
    yield from read_native_deletes(file, log, ordering, bytes_max=BATCH_BYTES_MAX if bytes_max is None else bytes_max)
