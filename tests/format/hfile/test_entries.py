"""Entries of data blocks."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile, LakewardError, Unsupported
from lakeward.format.hfile.block import HFileBlock
from lakeward.format.hfile.entries import ENTRY_OVERHEAD, HFileEntries, decode_entries, encode_entry
from lakeward.format.hfile.range import HFileRange
from tests.format.hfile.hfile_files import key_value

SOURCE = HFileRange(io.BytesIO(b""), offset=0, length=0, name="x")


def decode(payload: bytes) -> HFileEntries:
    return decode_entries(SOURCE, HFileBlock(0, 0, payload))


@given(entries=st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=300)), max_size=20))
def test_entries_come_back(entries: list[tuple[bytes, bytes]]):
    """What is encoded is the published form, and is decoded to the same keys and values."""
    payload = b"".join(encode_entry(*entry) for entry in entries)

    assert payload == b"".join(key_value(*entry) for entry in entries)
    assert len(payload) == sum(len(key) + len(value) + ENTRY_OVERHEAD for key, value in entries)
    found = decode(payload)
    assert list(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)) == entries
    found.keys.validate(full=True)
    found.values.validate(full=True)


def test_a_column_family_is_passed_over():
    """Hudi writes none and reads past one."""
    plain = key_value(b"key", b"value")
    with_family = b"\0\0\0\x12" + plain[4:13] + b"\3fam" + plain[14:]

    assert decode(with_family).keys.to_pylist() == [b"key"]
    assert decode(with_family).values.to_pylist() == [b"value"]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (key_value(b"a", b"v", kind=8), Unsupported),
        (key_value(b"a", b"v", version=b"\1"), BrokenFile),
        (key_value(b"a", b"v")[:-1], BrokenFile),
        (key_value(b"a", b"v") + b"\0", BrokenFile),
        (b"\x7f\xff\xff\xff" * 2 + key_value(b"a", b"v")[8:], BrokenFile),
        (b"\xff\xff\xff\xff" * 2 + key_value(b"a", b"v")[8:], BrokenFile),
        (key_value(b"a", b"v").replace(b"\0\1a", b"\0\2a"), BrokenFile),
    ],
)
def test_entries_that_contradict_themselves_are_broken(payload: bytes, error: type[LakewardError]):
    """A block's entries fill it exactly, each a plain value with the version 0."""
    with pytest.raises(error):
        decode(payload)
    with pytest.raises(error):
        decode(key_value(b"before", b"it") + payload)


def test_every_cut_is_broken():
    """Wherever a block of entries ends early, but for the end of an entry, it is broken."""
    one, other = key_value(b"one", b"1"), key_value(b"other", b"2")
    payload = one + other
    for length in range(1, len(payload)):
        if length != len(one):
            with pytest.raises(BrokenFile):
                decode(payload[:length])
