"""Keys of rows that carry none, as Hudi's key generators make them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.merge.rules.records import record_keys
from lakeward.read.made_keys import check_keys_can_be_made, made_keys, with_made_keys, without_made_keys


def rows(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"_hoodie_record_key": pa.nulls(len(columns["a"]), pa.string()), **columns})


def test_keys_are_the_text_of_their_fields():
    """Keeps 1 of read/made_keys: one field as it is, several with their names; what 1.2.0 writes into delete blocks."""
    batch = rows(a=["x", "é:,"], n=[-7, 2**40])

    assert made_keys(batch, ["a"]).to_pylist() == ["x", "é:,"]
    assert made_keys(batch, ["n"]).to_pylist() == ["-7", "1099511627776"]
    assert made_keys(batch, ["n", "a"]).to_pylist() == ["n:-7,a:x", "n:1099511627776,a:é:,"]


def test_fields_that_hold_nothing():
    """Keeps 2 of read/made_keys: an empty or missing part has a word of its own; with nothing else there is no key."""
    batch = rows(a=["", None, "x", ""], n=[1, 2, None, None])

    assert made_keys(batch, ["a", "n"]).to_pylist() == [
        "a:__empty__,n:1",
        "a:__null__,n:2",
        "a:x,n:__null__",
        None,
    ]
    with pytest.raises(BrokenFile, match="no record key"):
        record_keys(with_made_keys(batch, ["a"]), source="the base file x")


def test_rows_are_written_as_they_came():
    """Without their keys again; rows that carry keys are left alone both ways."""
    batch = rows(a=["x", "y"])
    keyed = with_made_keys(batch, ["a"])

    assert keyed.column("_hoodie_record_key").to_pylist() == ["x", "y"]
    assert without_made_keys(keyed, ["a"]).equals(batch)
    assert with_made_keys(keyed, []) is keyed and without_made_keys(keyed, []) is keyed


def test_hfile_blocks_are_refused():
    """They blank a column that is the key."""
    block = LogBlock(BlockType.HFILE_DATA, {}, 0, 0, file="log", offset=0)
    with pytest.raises(Unsupported, match="log, block at byte 0 is an HFile block"):
        check_keys_can_be_made([block], ["a"])
    check_keys_can_be_made([block], [])
