"""Thrift structures that are read and written back: the bytes stay, but for what was changed."""

from __future__ import annotations

import io
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.format.parquet.thrift_tree import I32, Struct, Values, read_struct, write_struct

# 1: 3 (i32), 2: -300 (i64), 3: a double, 5: {1: 7, a string, a list of two bools}, 6: true, 40: a set of 16 bytes
STRUCTURE = bytes([
    0x15, 6, 0x16, 0xD7, 0x04, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x2C, 0x15, 14, 0x18, 2, 65, 66, 0x19, 0x21, 1, 2, 0,
    0x11, 0x0A, 80, 0xF3, 16, *range(16), 0,
])  # fmt: skip


def test_all_of_it_is_read_and_written_back():
    """Each type that Parquet's footers may have, known fields or not. Keeps 1 of format/parquet/thrift_tree."""
    tree, end = read_struct(b"head" + STRUCTURE + b"tail", 4)
    assert end == 4 + len(STRUCTURE)
    assert [tree.get(number) for number in (1, 2, 6, 7)] == [3, -300, True, None]
    assert (tree.get(5).get(2), tree.get(5).get(3), tree.get(40).values) == (b"AB", Values(1, [1, 2]), [*range(16)])
    assert write_struct(tree) == STRUCTURE


@pytest.fixture
def a_footer() -> bytes:
    """That of a library, with nested columns and statistics."""
    sink = io.BytesIO()
    rows = [{"a": f"{i}", "b": [i, None], "c": {"d": i / 7}, "e": i % 2 == 0} for i in range(40)]
    pq.write_table(
        pa.Table.from_pylist(rows), sink, row_group_size=2, write_page_index=True, store_decimal_as_integer=True
    )
    data = sink.getvalue()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def test_footers_come_back_byte_by_byte(a_footer: bytes):
    """Keeps 1 of format/parquet/thrift_tree."""
    assert write_struct(read_struct(a_footer)[0]) == a_footer


def test_only_what_is_changed_changes():
    """Fields keep their types and their order, and others their bytes."""
    tree, _ = read_struct(STRUCTURE)
    assert write_struct(tree.replace({1: 4})) == b"\x15\x08" + STRUCTURE[2:]
    assert write_struct(tree.replace({1: 4})) != write_struct(tree) == STRUCTURE
    assert write_struct(Struct({5: (I32, 1)}).without({5})) == b"\0"


@pytest.mark.parametrize(
    "data",
    [
        *(STRUCTURE[:length] for length in range(len(STRUCTURE))),  # cut
        bytes([0x15, 0x86, 0x00, 0]),  # a number in two bytes that fits one
        bytes([0x05, 2, 6, 0]),  # a field number in full that could be a step
        bytes([0x15, 6, 0x05, 2, 6, 0]),  # a field twice
        bytes([0x1B, 0, 0]),  # a map
        bytes([0x1C]) * 1000,
        bytes([0x19]) + bytes([0x19]) * 1000,
        bytes([0x19, 0xF6, 0xFF, 0xFF, 0xFF, 0x7F]),  # a list of 268 million numbers
    ],
)
def test_what_would_be_written_in_another_way(data: bytes):
    """It is refused, and so is what ends too early or is nested deeply. Keeps 1, 2 of format/parquet/thrift_tree."""
    with pytest.raises(ValueError, match=r"\w"):
        read_struct(data)


def test_a_tree_takes_what_it_may(a_footer: bytes):
    """A limit that is half as much again as what it takes lets it pass, and what it takes does not. Keeps 2 of
    format/parquet/thrift_tree."""
    first = read_struct(a_footer)  # what Python keeps of memory that was freed is used up
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tree, _ = read_struct(a_footer)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert write_struct(tree) == write_struct(first[0]) == a_footer
    read_struct(a_footer, bytes_max=taken * 3 // 2)
    with pytest.raises(ValueError, match="more memory"):
        read_struct(a_footer, bytes_max=taken)
