"""Log files: heads of blocks, their rows and keys, and footers of native logs. Parquet is another library's to read."""

from __future__ import annotations

import contextlib
import io
import struct
from dataclasses import replace

import numpy as np

from lakeward.base.errors import LakewardError
from lakeward.format.log.block import BlockType, CorruptBlock, LogBlock, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.delete_block import read_delete_block
from lakeward.format.log.log_tail import read_log_tail
from lakeward.format.log.native_log.footer import FOOTER_KEY, RecordPositions, decode_footer, encode_footer
from tests.format.log.native_log.native_files import FOOTER, native_name
from tests.format.log.test_data_block import TYPES
from tests.format.log.test_kryo_deletes import content
from tests.format.log.test_log_tail import with_trailer
from tests.fuzz.golden import files
from tests.read.log_files import block

_FOOTER = b"\2"
"""A first byte that stands for the entry of a native log's footer."""
_TAIL = b"\4"
"""A first byte that stands for the directory of a log's tail, whose trailer is right."""
_FRAMED = 1
"""A first byte that is odd stands for a block whose frame is right: most of what chance makes would end there."""


def corpus() -> list[bytes]:
    logs = [*files("v9", "*/.*.log.*"), (TYPES / "hfile.log").read_bytes()]
    logs += [block(BlockType.DELETE, {}, content(name, int(name[1]))) for name in ("v1", "v2Same", "v2Decimal")]
    numbers = RecordPositions.of("1", np.array([0, 5, 300], dtype=np.int64))
    footers = [
        FOOTER,
        replace(FOOTER, is_partial=True, compacted_instants=("1", "2")),
        replace(FOOTER, positions=numbers),
    ]
    entries = [_FOOTER + encode_footer(footer)[FOOTER_KEY].encode() for footer in footers]
    directory = b'{"version":1,"own":{"low":"a","high":"b","keys":2},"cumulative":{"low":"a","high":"b","keys":2,'
    directory += b'"room":12,"logs":1},"covers":[["x.log",9,null]],"under":null,"parts":[[0,0],[3,1],[9,2]]}'
    entries.append(_TAIL + directory)
    return [b"\0" + log for log in logs] + [bytes([_FRAMED]) + log[14:-8] for log in logs] + entries


def one_input(data: bytes) -> None:
    if data[:1] == _FOOTER:
        with contextlib.suppress(LakewardError):
            text = data[1:].decode("utf-8", "replace")
            footer = decode_footer({FOOTER_KEY: text}, native_name(), where="x")
            again = decode_footer(encode_footer(footer), native_name(), where="x")
            assert again == footer
            if footer.positions is not None:
                assert len(footer.positions.numbers(3, where="x")) == 3
        return
    if data[:1] == _TAIL:
        log = with_trailer(bytes(30) + data[1:])
        tail = read_log_tail(io.BytesIO(log), len(log))
        for extent in () if tail is None else (tail.own.filter, tail.cumulative.filter, tail.key_list):
            assert extent is None or 0 <= extent.offset <= extent.offset + extent.length <= len(log)
        return
    log = _framed(data[1:]) if data[:1] and data[0] & _FRAMED else data[1:]
    with contextlib.suppress(LakewardError):
        end = 0
        for found in scan_blocks(io.BytesIO(log), len(log), name="x.log"):
            assert found.offset >= end, "blocks come in file order"
            if isinstance(found, CorruptBlock):
                end = found.offset + found.length
                continue
            end = found.content_offset + found.content_length
            with contextlib.suppress(LakewardError):
                _read(log, found)
        assert end <= len(log), "nothing is read behind the end"


def _read(log: bytes, found: LogBlock) -> None:
    if found.type in (BlockType.AVRO_DATA, BlockType.HFILE_DATA):
        for batch in read_data_block(io.BytesIO(log), found):
            batch.validate(full=True)
    elif found.type is BlockType.DELETE:
        for deleted in read_delete_block(io.BytesIO(log), found):
            assert len(deleted.is_default) == len(deleted.keys)


def _framed(body: bytes) -> bytes:
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)
