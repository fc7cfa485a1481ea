"""Blocks of inline log files, from bytes laid out here by hand."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.log import block as block_module
from lakeward.format.log.block import BlockType, CorruptBlock, HeaderKey, LogBlock, read_content, scan_blocks


def block(
    content: bytes = b"content",
    *,
    block_type: int = 1,
    headers: dict[int, str] | None = None,
    version: int = 1,
    content_length: int | None = None,
) -> bytes:
    body = struct.pack(">ii", version, block_type)
    entries = {0: "20261121043703223"} if headers is None else headers
    body += struct.pack(">i", len(entries))
    for key, value in entries.items():
        body += struct.pack(">ii", key, len(value.encode())) + value.encode()
    body += struct.pack(">q", len(content) if content_length is None else content_length) + content
    body += struct.pack(">i", 0)
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def scan(data: bytes) -> list[LogBlock | CorruptBlock]:
    return list(scan_blocks(io.BytesIO(data), len(data), name="x.log"))


def test_blocks_come_in_file_order_with_headers_and_content():
    """Every block of a file is found, with its type, its headers and the place of its content."""
    schema = "ü" * 40_000  # longer than one read of a head
    data = block(b"one", headers={2: schema, 0: "1"}) + block(b"", block_type=0) + block(b"three", block_type=3)

    blocks = scan(data)

    assert [found.type for found in blocks if isinstance(found, LogBlock)] == [
        BlockType.DELETE,
        BlockType.COMMAND,
        BlockType.AVRO_DATA,
    ]
    assert isinstance(blocks[0], LogBlock)
    assert blocks[0].headers == {HeaderKey.SCHEMA: schema, HeaderKey.INSTANT_TIME: "1"}
    contents = [read_content(io.BytesIO(data), found) for found in blocks if isinstance(found, LogBlock)]
    assert contents == [b"one", b"", b"three"]


def test_no_more_than_sixteen_megabytes_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch):
    """A block larger than that is read in several pieces, which come out as one."""
    assert block_module._READ_BYTES_MAX == 16 * 1024 * 1024
    monkeypatch.setattr(block_module, "_READ_BYTES_MAX", 1_000)
    asked: list[int] = []

    class Asked(io.BytesIO):
        def read(self, size: Any = -1) -> bytes:
            asked.append(size)
            return super().read(size)

    content = bytes(range(250)) * 10
    data = block(content)
    (found,) = scan(data)
    assert isinstance(found, LogBlock)
    assert read_content(Asked(data), found) == content
    assert asked == [1_000, 1_000, 500]


def test_only_heads_are_read():
    """The content of a block is skipped, so a scan of large blocks costs a few reads of some kilobytes."""

    class Counting(io.BytesIO):
        taken = 0

        def read(self, size: Any = -1) -> bytes:
            data = super().read(size)
            self.taken += len(data)
            return data

    data = block(bytes(1_000_000)) + block(bytes(1_000_000))
    file = Counting(data)

    assert len(list(scan_blocks(file, len(data), name="x.log"))) == 2
    assert file.taken < 50_000


def test_torn_block_is_corrupt_up_to_the_next_magic():
    """A block that was cut short is one gap up to the block appended behind it, which still counts."""
    whole = block(b"kept")
    for length in range(6, len(whole)):
        blocks = scan(whole + whole[:length] + whole)

        assert [type(found) for found in blocks] == [LogBlock, CorruptBlock, LogBlock], length
        assert blocks[1] == CorruptBlock(file="x.log", offset=len(whole), length=length)


def test_torn_last_block_is_corrupt():
    """A file cut short at any byte has its whole blocks and at most one corrupt one, which reaches to its end."""
    whole = block(b"kept")
    for length in range(1, len(whole)):
        found, corrupt = scan(whole + whole[:length])

        assert isinstance(found, LogBlock)
        assert corrupt == CorruptBlock(file="x.log", offset=len(whole), length=length)


def test_magic_across_the_search_chunks_is_found():
    """The next magic is found wherever it lies."""
    for gap in (1024 * 1024 - 9, 1024 * 1024 - 6, 1024 * 1024 - 3, 1024 * 1024, 3 * 1024 * 1024 + 1):
        blocks = scan(b"#HUDI#" + bytes(gap) + block())

        assert blocks[0] == CorruptBlock(file="x.log", offset=0, length=6 + gap)
        assert isinstance(blocks[1], LogBlock)


@pytest.mark.parametrize("size", [-1, 0, 31, 2**31, 2**62, -(2**63)])
def test_absurd_size_is_corrupt(size: int):
    """A size that is negative, too small for a block or beyond the file makes a corrupt block, and is never used."""
    data = block()

    assert scan(data[:6] + struct.pack(">q", size) + data[14:]) == [
        CorruptBlock(file="x.log", offset=0, length=len(data))
    ]


def test_wrong_reverse_pointer_is_corrupt():
    """The last eight bytes of a block repeat its size."""
    data = block()

    assert isinstance(scan(data[:-1] + bytes([data[-1] ^ 1]))[0], CorruptBlock)


def test_empty_file_has_no_blocks():
    """A writer that died before its first byte leaves nothing to merge."""
    assert scan(b"") == []


def test_file_of_something_else_is_broken():
    """A file that does not start with a magic is no log file."""
    with pytest.raises(BrokenFile, match=r"x\.log.*byte 0"):
        scan(b"PAR1" + bytes(100))


def test_broken_inside_of_a_sound_frame_is_an_error():
    """Lengths within a block that is framed well must lie inside of it; skipping such a block would lose rows."""
    for bad in (
        block(content_length=2**40),
        block(content_length=-1),
        block(content_length=8),
        block(content_length=6),
        block()[:-12] + struct.pack(">i", 1) + block()[-8:],
        block(headers={}).replace(struct.pack(">iii", 1, 1, 0), struct.pack(">iii", 1, 1, 2**30)),
        block(headers={}).replace(struct.pack(">iii", 1, 1, 0), struct.pack(">iii", 1, 1, -5)),
    ):
        with pytest.raises(BrokenFile, match=r"x\.log.*byte 0"):
            scan(bad)
    entry = struct.pack(">ii", 0, 17)
    for length in (-1, 2**31 - 1, 1000):
        with pytest.raises(BrokenFile, match="lies outside of the block"):
            scan(block().replace(entry, struct.pack(">ii", 0, length)))


def test_unknown_numbers_are_refused_not_skipped():
    """An unknown block type, header or format version comes from a newer Hudi and is named."""
    with pytest.raises(Unsupported, match=r"x\.log.*block type 7"):
        scan(block(block_type=7))
    with pytest.raises(Unsupported, match=r"x\.log.*header key 9"):
        scan(block(headers={9: "?"}))
    with pytest.raises(Unsupported, match=r"x\.log.*version 2"):
        scan(block(version=2))


@given(st.data())
def test_damage_never_crashes(data: st.DataObject):
    """Whatever bytes are damaged, the answer is blocks, corrupt blocks or one of our errors, and it covers the file."""
    whole = bytearray(block(b"a" * 20) + block(b"b" * 20))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        blocks = scan(cut)
    except (BrokenFile, Unsupported):
        return
    assert [found.offset for found in blocks] == sorted(found.offset for found in blocks)
