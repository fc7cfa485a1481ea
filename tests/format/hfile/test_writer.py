"""HFiles of Lakeward: their form to the byte, their bounds, and what reads them back."""

from __future__ import annotations

import io
import os
import random
import struct
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import Unsupported
from lakeward.format.hfile.block import HFileCodec
from lakeward.format.hfile.checksum import ChecksumType
from lakeward.format.hfile.writer import HFileWriter
from tests.format.hfile.hfile_files import SUFFIX, Entries, Form, hadoop_vint, hfile, own, reader

NONE = HFileCodec.NONE
SEED = int(os.environ.get("LAKEWARD_SEED", random.SystemRandom().randrange(2**32)))


@given(
    model=st.dictionaries(st.binary(max_size=20), st.binary(max_size=60), max_size=60),
    codec=st.sampled_from(HFileCodec),
    block_bytes=st.integers(1, 400),
)
def test_what_is_written_is_read(model: dict[bytes, bytes], codec: HFileCodec, block_bytes: int):
    """A file answers as the sorted dict that was written, whatever the size of its blocks."""
    entries = sorted(model.items())

    written = reader(own(entries, codec=codec, block_bytes=block_bytes))

    assert list(written.entries()) == entries
    assert written.lookup(model) == model
    assert list(written.with_prefixes([b""])) == entries


@given(
    model=st.dictionaries(st.binary(max_size=20), st.binary(max_size=60), max_size=60),
    codec=st.sampled_from(HFileCodec),
    checksum=st.sampled_from(ChecksumType),
    block_bytes=st.integers(1, 400),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    offset=st.integers(0, 3),
)
def test_columns_give_the_same_bytes(
    model: dict[bytes, bytes], codec: HFileCodec, checksum: ChecksumType, block_bytes: int, cuts: list[int], offset: int
):
    """Entries that are added as columns, in batches of any size, give the bytes that they give one by one."""
    entries = sorted(model.items())
    one_by_one, as_columns = io.BytesIO(), io.BytesIO()
    writer = HFileWriter(one_by_one, codec=codec, block_bytes=block_bytes, checksum=checksum)
    for key, value in entries:
        writer.add(key, value)
    expected = writer.finish()
    # In front of each column are values that do not belong to it.
    keys, values = (
        pa.array([b"before"] * offset + [entry[column] for entry in entries], pa.binary())[offset:] for column in (0, 1)
    )

    writer = HFileWriter(as_columns, codec=codec, block_bytes=block_bytes, checksum=checksum)
    for start, end in pairwise([0, *sorted(cuts), 61]):
        writer.add_batch(keys[start:end], values[start:end])

    assert writer.finish() == expected
    assert as_columns.getvalue() == one_by_one.getvalue()
    assert list(reader(as_columns.getvalue()).entries()) == entries


@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"], [b"abcdefgh1", b"abcdefgh0"], [b"ab", b"a"], [b"0"]])
def test_columns_must_ascend(keys: list[bytes]):
    """A column whose keys do not ascend, or go back behind what was written, is not written."""
    writer = HFileWriter(io.BytesIO())
    writer.add(b"0", b"")

    with pytest.raises(AssertionError, match="keys ascend"):
        writer.add_batch(pa.array(keys), pa.array([b""] * len(keys)))


def test_columns_have_bounds():
    """A key that no HFile holds is refused in a column too, by itself."""
    with pytest.raises(Unsupported, match="b'kkkk"):
        HFileWriter(io.BytesIO()).add_batch(pa.array([b"a", b"k" * 0x8000]), pa.array([b"", b""]))


def blocks(data: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """(offset, the header's numbers) of every data block of a file that is not compressed."""
    found = []
    at = 0
    while data.startswith(b"DATABLK*", at):
        header = struct.unpack_from(">iiqBii", data, at + 8)
        found.append((at, header))
        at += 33 + header[0]
    return found


def test_headers_are_those_that_lose_nothing():
    """They have no checksum type, one stretch for the whole block, and the way to the data block before, which is what
    readers up to Hudi 1.2.0 take without dropping entries."""
    entries = [(b"%d" % n, b"v" * 50) for n in range(10, 16)]
    size = 2 + 50 + 21

    found = blocks(own(entries, codec=NONE, block_bytes=2 * size))

    on_disk = 2 * size + 4
    assert [offset for offset, _ in found] == [0, 33 + on_disk, 2 * (33 + on_disk)]
    assert [header for _, header in found] == [
        (on_disk, 2 * size, previous, 0, 0x7FFFFFFF, 33 + 2 * size) for previous in (-1, 0, 33 + on_disk)
    ]


def test_blocks_are_cut_at_their_size():
    """An entry that would make a block too large starts the next one; a larger entry has a block for itself."""
    entry = 2 + 50 + 21
    entries = [(b"%d" % n, b"v" * 50) for n in range(10, 30)]
    for block_bytes, sizes in (
        (3 * entry - 1, [2 * entry] * 10),
        (3 * entry, [3 * entry] * 6 + [2 * entry]),
        (3 * entry + 1, [3 * entry] * 6 + [2 * entry]),
        (1, [entry] * 20),
    ):
        assert [header[1] for _, header in blocks(own(entries, codec=NONE, block_bytes=block_bytes))] == sizes


def test_index_keys_have_their_ten_bytes():
    """HBase's reader cannot seek by an index or a last key without; a long key's length is encoded as Hadoop does."""
    for length in (1, 115, 116, 300, 32_767):
        data = own([(b"k" * length, b"v")], codec=NONE)
        encoded = struct.pack(">H", length) + b"k" * length + SUFFIX
        root = data.index(b"IDXROOT2")
        assert data[root + 33 + 12 :].startswith(hadoop_vint(length + 12) + encoded)
        assert reader(data).info["hfile.LASTKEY"] == encoded


def test_the_trailer_says_what_the_facts_want():
    """Version 3.3, no encryption key, and every field that some reader takes."""
    data = own([(b"a", b"1"), (b"b", b"2")], codec=NONE, block_bytes=1, meta_blocks={"bloomFilter": b"AAAA"})
    root, info = data.index(b"IDXROOT2"), data.index(b"FILEINF2")

    assert data[-4:] == bytes.fromhex("03 000003")
    last = blocks(data)[1][0]
    comparator = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
    expected = hfile(
        [(b"a", b"1"), (b"b", b"2")],
        Form(codec=NONE),
        changed={
            1: info,
            2: root,
            3: 2 * (8 + 4 + 1 + 13),
            4: 2 * (33 + 23) + 33 + 4 + 33 + 52 + 33 + 12 + 1 + 11 + 33 + len(reader_payload(data, info)),
            5: 2,
            6: 1,
            7: 2,
            8: 1,
            9: 0,
            10: last,
            11: comparator,
            12: 2,
        },
    )[-4096:]
    in_order = dict(sorted(trailer_fields(expected).items()))
    assert trailer_fields(data[-4096:]) == in_order


def reader_payload(data: bytes, at: int) -> bytes:
    (length,) = struct.unpack_from(">i", data, at + 12)
    return data[at + 33 : at + 33 + length]


def trailer_fields(data: bytes) -> dict[int, int | bytes]:
    fields: dict[int, int | bytes] = {}
    length, at = varint(data, 8)
    end = at + length
    while at < end:
        tag, at = varint(data, at)
        number, at = varint(data, at)
        if tag & 7 == 2:
            fields[tag >> 3], at = data[at : at + number], at + number
        else:
            fields[tag >> 3] = number
    return fields


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def test_an_empty_file_is_a_file():
    """Without entries there is no block and no last key, and readers find an empty file."""
    written = reader(own([], info={"schema": b"{}"}))

    assert list(written.entries()) == [] and written.entry_count == 0
    assert written.lookup([b"a"]) == {} and list(written.with_prefixes([b""])) == []
    assert "hfile.LASTKEY" not in written.info
    assert written.info["schema"] == b"{}"


def test_infos_and_meta_blocks_come_back():
    """What a caller gives is kept beside what the format wants."""
    written = reader(own([(b"key", b"value")], info={"schema": b"x" * 100_000}, meta_blocks={"bloomFilter": b"AAAA"}))

    assert written.info["schema"] == b"x" * 100_000
    assert written.meta_block("bloomFilter") == b"AAAA"
    assert {name: value for name, value in written.info.items() if name != "schema"} == {
        "hfile.LASTKEY": b"\0\3key" + SUFFIX,
        "hfile.AVG_KEY_LEN": struct.pack(">i", 3),
        "hfile.AVG_VALUE_LEN": struct.pack(">i", 5),
        "KEY_VALUE_VERSION": struct.pack(">i", 1),
        "MAX_MEMSTORE_TS_KEY": struct.pack(">q", 0),
    }


def test_keys_must_ascend():
    """A lookup in an unsorted file misses in silence, so such a file is never written; nor is a key twice."""
    for first, second in ((b"b", b"a"), (b"a", b"a"), (b"ab", b"a"), ("！".encode(), b"z")):
        writer = HFileWriter(io.BytesIO())
        writer.add(first, b"")
        with pytest.raises(AssertionError, match="keys ascend"):
            writer.add(second, b"")
    with pytest.raises(AssertionError):
        HFileWriter(io.BytesIO()).finish({"hfile.LASTKEY": b""})


def test_a_key_that_is_too_long_is_refused():
    """A key's length is a signed short on disk; one more byte is a typed error, and nothing of it is written."""
    out = io.BytesIO()
    writer = HFileWriter(out, codec=NONE)
    writer.add(b"a" * 32_767, b"v")

    with pytest.raises(Unsupported, match="32768"):
        writer.add(b"b" * 32_768, b"v")

    writer.finish()
    assert list(reader(out.getvalue()).entries()) == [(b"a" * 32_767, b"v")]


def test_blocks_leave_as_they_fill():
    """Memory holds one block: what came before it is in the sink already."""
    out = io.BytesIO()
    writer = HFileWriter(out, codec=NONE, block_bytes=10_000)
    for n in range(1000):
        writer.add(b"%06d" % n, bytes(500))
        assert (n + 1) * 527 - out.tell() <= 10_000


def test_equal_entries_give_equal_bytes():
    """No time and no order of a hash table gets into a file."""
    generator = random.Random(SEED)
    print(f"LAKEWARD_SEED={SEED}")
    entries: Entries = sorted({generator.randbytes(8): generator.randbytes(20) for _ in range(100)}.items())
    names = [("b", b"1"), ("a", b"2"), ("c", b"3")]

    first = own(entries, info=dict(names), meta_blocks=dict(names))

    assert first == own(entries, info=dict(reversed(names)), meta_blocks=dict(reversed(names)))
