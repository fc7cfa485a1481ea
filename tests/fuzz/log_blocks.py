"""Log files: heads of blocks, and the rows and keys in them. Parquet inside of blocks is another library's to read."""

from __future__ import annotations

import contextlib
import io
import struct

from lakeward.errors import LakewardError
from lakeward.format.log.block import BlockType, CorruptBlock, LogBlock, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.delete_block import read_delete_block
from tests.format.log.test_data_block import TYPES
from tests.fuzz.golden import files

_FRAMED = 1
"""A first byte that is odd stands for a block whose frame is right: most of what chance makes would end there."""


def corpus() -> list[bytes]:
    logs = [*files("v9", "*/.*.log.*"), (TYPES / "hfile.log").read_bytes()]
    return [b"\0" + log for log in logs] + [bytes([_FRAMED]) + log[14:-8] for log in logs]


def one_input(data: bytes) -> None:
    log = _framed(data[1:]) if data[:1] and data[0] & _FRAMED else data[1:]
    with contextlib.suppress(LakewardError):
        end = 0
        for block in scan_blocks(io.BytesIO(log), len(log), name="x.log"):
            assert block.offset >= end, "blocks come in file order"
            if isinstance(block, CorruptBlock):
                end = block.offset + block.length
                continue
            end = block.content_offset + block.content_length
            with contextlib.suppress(LakewardError):
                _read(log, block)
        assert end <= len(log), "nothing is read behind the end"


def _read(log: bytes, block: LogBlock) -> None:
    if block.type in (BlockType.AVRO_DATA, BlockType.HFILE_DATA):
        for batch in read_data_block(io.BytesIO(log), block):
            batch.validate(full=True)
    elif block.type is BlockType.DELETE:
        deleted = read_delete_block(io.BytesIO(log), block)
        assert len(deleted.is_default) == len(deleted.keys)


def _framed(body: bytes) -> bytes:
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)
