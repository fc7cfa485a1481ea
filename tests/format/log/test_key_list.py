"""Key lists, written and read back; and bytes that are no list."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.log.key_list import KeyListWriter, are_sorted, read_key_list

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
KEYS = st.one_of(TEXT, st.tuples(st.sampled_from(["", "a", "é" * 150]), TEXT).map("".join))
HEAD = 8


def listed(*runs: list[str]) -> bytes:
    writer = KeyListWriter()
    for run in runs:
        keys = pa.array(["before", *run, "behind"], pa.string()).slice(1, len(run))
        writer.add(keys, is_sorted=sorted(run, key=str.encode) == run)
    return writer.close()


def read(data: bytes) -> list[list[str]]:
    return [run.to_pylist() for run in read_key_list(data)]


@given(st.lists(st.lists(KEYS, min_size=1), max_size=3))
def test_what_is_read_are_the_keys_in_their_order(runs: list[list[str]]) -> None:
    """Keeps 1 of format/log/key_list, of any keys: empty ones, long ones, and equal ones."""
    assert read(listed(*runs)) == [sorted(run, key=str.encode) for run in runs]


@given(st.lists(KEYS))
def test_whether_keys_come_in_the_order_of_their_bytes_is_known(keys: list[str]) -> None:
    """Any keys, also a part of an array; and keys in their order."""
    for some in (keys, sorted(keys, key=str.encode)):
        array = pa.array(["z", *some, "a"], pa.string()).slice(1, len(some))
        assert are_sorted(array) == (sorted(some, key=str.encode) == some)


def made(lengths: list[int], shared: list[int], rest: bytes, *, keys: int | None = None, more: int = 0) -> bytes:
    """A list of one run whose numbers may be wrong."""
    raw = struct.pack(f"<{len(lengths)}I{len(shared)}B", *lengths, *shared) + rest
    compressed = pa.Codec("zstd").compress(raw, asbytes=True)
    head = struct.pack(">III", len(lengths) if keys is None else keys, len(compressed), len(raw) + more)
    return listed()[:HEAD] + head + compressed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1....PAR1",
        listed(["a", "b"])[:-1],
        listed(["a", "b"])[: HEAD + 5],
        made([1, 1], [0, 0], b"abc"),
        made([1, 1], [0, 0], b"a"),
        made([1, 1], [1, 0], b"ab"),
        made([1, 1], [0, 2], b"ab"),
        made([2**32 - 1, 1], [0, 0], b""),
        made([1], [0], b"a", keys=2),
        made([1], [0], b"a", keys=2**31),
        made([1], [0], b"a", more=1),
        made([1], [0], b"a", more=2**31),
        made([1], [0], b"\xff"),
    ],
)
def test_what_is_broken_is_an_error(data: bytes) -> None:
    """Keeps 2 of format/log/key_list."""
    with pytest.raises(ValueError):
        read(data)


def test_it_is_small() -> None:
    """Neighbours share what they begin with: 18 characters of a key take less than 10 bytes."""
    keys = sorted(f"{number * 2654435761 % 2**32:08x}-{number * 40503 % 2**16:04x}-4aaa" for number in range(5_000))
    assert len(listed(keys)) < 10 * len(keys) and read(listed(keys)) == [keys]
