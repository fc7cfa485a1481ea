"""The footer of native logs: what is written, what is read, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.file_name import NativeLogKind
from lakeward.format.log.block import HeaderKey
from lakeward.format.log.native_log.footer import (
    FOOTER_KEY,
    NativeLogFooter,
    RecordPositions,
    decode_footer,
    encode_footer,
)
from tests.format.log.native_log.native_files import INSTANT, native_name

instants = st.text("0123456789", min_size=1, max_size=17)
footers = st.builds(
    NativeLogFooter,
    instants,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    st.booleans(),
    st.lists(instants, max_size=3).map(tuple),
)


def decode(values: dict[str, Any] | str, **more: Any) -> NativeLogFooter:
    text = values if isinstance(values, str) else json.dumps(values)
    return decode_footer({FOOTER_KEY: text}, native_name(**more), where="p/x.log.parquet")


def test_the_smallest_footer_is_to_the_letter() -> None:
    """One entry of text, VERSION first, and nothing that was not said."""
    assert encode_footer(NativeLogFooter("20261122003000000", '{"type":"record"}')) == {
        "hudi.log.format.metadata": (
            '{"VERSION":"2","INSTANT_TIME":"20261122003000000","SCHEMA":"{\\"type\\":\\"record\\"}"}'
        )
    }


def test_the_largest_footer_is_to_the_letter() -> None:
    """Every name that Hudi writes into native logs, all values text."""
    footer = NativeLogFooter(
        "3", "{}", True, ("1", "2"), RecordPositions.of("0", np.array([0, 5, 300], dtype=np.int64))
    )
    assert json.loads(encode_footer(footer)[FOOTER_KEY]) == {
        "VERSION": "2",
        "INSTANT_TIME": "3",
        "SCHEMA": "{}",
        "IS_PARTIAL": "true",
        "COMPACTED_BLOCK_TIMES": "1,2",
        "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS": "0",
        "RECORD_POSITIONS": "AAAAAwAFrAI=",
    }


@given(footers, st.none() | st.lists(st.integers(0, 2**63 - 1), max_size=5))
def test_a_footer_reads_back(footer: NativeLogFooter, numbers: list[int] | None) -> None:
    """Whatever its schema says. Keeps 3 of format/log/native_log/footer."""
    if numbers is not None:
        positions = RecordPositions.of("7", np.array(numbers, dtype=np.int64))
        footer = NativeLogFooter(
            footer.instant, footer.schema_json, footer.is_partial, footer.compacted_instants, positions
        )
    found = decode_footer(encode_footer(footer), native_name(), where="x")
    assert found == footer
    if numbers is not None:
        assert found.positions is not None
        assert found.positions.numbers(len(numbers), where="x").tolist() == numbers


def test_a_footer_is_the_headers_of_a_block() -> None:
    """Readers of blocks find there what they look for; positions have another form in blocks and are not given."""
    footer = NativeLogFooter("3", "{}", True, ("1", "2"), RecordPositions.of("0", np.zeros(0, dtype=np.int64)))
    assert footer.headers == {
        HeaderKey.INSTANT_TIME: "3",
        HeaderKey.SCHEMA: "{}",
        HeaderKey.IS_PARTIAL: "true",
        HeaderKey.COMPACTED_BLOCK_TIMES: "1,2",
    }


def test_what_is_not_known_is_passed_over() -> None:
    """New names, names of inline logs that say nothing here, nulls, and the kind, which the name says.

    Keeps 1 of format/log/native_log/footer.
    """
    values = {"SCHEMA": "{}", "IS_SORTED": "true", "BLOCK_IDENTIFIER": "x", "COMPACTED_BLOCK_TIMES": None}
    entries = {FOOTER_KEY: json.dumps(values), "hudi.log.block_type": "delete", "parquet.avro.schema": "y"}
    assert decode_footer(entries, native_name(), where="x") == NativeLogFooter(INSTANT, "{}")


@pytest.mark.parametrize("version", ["2", " 1 ", "+2", "-3", None])
def test_versions_up_to_two_are_read(version: str | None) -> None:
    """Numbers are read as Java reads them; one that is missing is none that is newer."""
    assert decode({"SCHEMA": "{}", "VERSION": version}).schema_json == "{}"


@pytest.mark.parametrize("values", [{"INSTANT_TIME": "5"}, {}])
def test_the_instant_is_in_the_name_if_nowhere_else(values: dict[str, str]) -> None:
    """What the footer says goes before: a log may have the name of a pending clustering's instant."""
    assert decode({"SCHEMA": "{}", **values}).instant == values.get("INSTANT_TIME", INSTANT)


def test_positions_without_their_base_file_are_none() -> None:
    """One of the two names alone places no row."""
    assert decode({"SCHEMA": "{}", "RECORD_POSITIONS": "AAAAAA=="}).positions is None
    assert decode({"SCHEMA": "{}", "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS": "1"}).positions is None


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "no JSON object"),
        ({}, "has no SCHEMA"),
        ({"SCHEMA": ""}, "has no SCHEMA"),
        ({"SCHEMA": {"type": "record"}}, "SCHEMA in .* is not text"),
        ({"SCHEMA": "{}", "VERSION": 2}, "VERSION in .* is not text"),
        ({"SCHEMA": "{}", "VERSION": "two"}, "'two', which is no number"),
        ({"SCHEMA": "{}", "INSTANT_TIME": "soon"}, "'soon' in INSTANT_TIME is no instant"),
        ({"SCHEMA": "{}", "COMPACTED_BLOCK_TIMES": "1, 2"}, "' 2' in COMPACTED_BLOCK_TIMES is no instant"),
        (
            {"SCHEMA": "{}", "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS": "1", "RECORD_POSITIONS": "!"},
            "positions cannot be read",
        ),
        (
            {"SCHEMA": "{}", "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS": "1", "RECORD_POSITIONS": "AAAAAwAFrAI="},
            "3 record positions for 2 rows",
        ),
    ],
)
def test_broken_footers_are_refused(values: Any, why: str) -> None:
    """With the file, the entry, and what to do. Keeps 2 of format/log/native_log/footer."""
    with pytest.raises(BrokenFile, match=why) as refused:
        found = decode(values)
        assert found.positions is not None
        found.positions.numbers(2, where="p/x.log.parquet")
    assert "p/x.log.parquet is broken in its footer" in refused.value.what
    assert "Restore the file" in refused.value.remedy


def test_a_newer_version_is_refused() -> None:
    """What it means for the rows is not known."""
    with pytest.raises(Unsupported, match=r"of version 3"):
        decode({"SCHEMA": "{}", "VERSION": "3"})


def test_one_entry_for_each_name_is_read() -> None:
    """A form that was proposed and not merged; beside the other form it must say the same."""
    alone = {"hudi.log.format.VERSION": "2", "hudi.log.format.SCHEMA": "{}", "hudi.log.format.IS_PARTIAL": "true"}
    found = decode_footer(alone, native_name(), where="x")
    assert found == NativeLogFooter(INSTANT, "{}", is_partial=True)
    both = alone | {FOOTER_KEY: '{"SCHEMA":"{}"}'}
    assert decode_footer(both, native_name(), where="x").schema_json == "{}"
    with pytest.raises(BrokenFile, match="SCHEMA is one thing"):
        decode_footer(alone | {FOOTER_KEY: '{"SCHEMA":"[]"}'}, native_name(), where="x")
    with pytest.raises(BrokenFile, match=r"has no entry hudi\.log\.format\.metadata"):
        decode_footer({"hudi.log.block_type": "delete"}, native_name(), where="x")


@pytest.mark.parametrize(
    ("said", "kind", "is_read"),
    [
        ("parquet_data", NativeLogKind.DATA, True),
        ("delete", NativeLogKind.DELETES, True),
        ("delete", NativeLogKind.DATA, False),
        ("parquet_data", NativeLogKind.DELETES, False),
        ("cdc", NativeLogKind.DATA, False),
        ("command", NativeLogKind.DATA, False),
    ],
)
def test_files_of_the_first_names_hold_what_their_footer_says(said: str, kind: NativeLogKind, is_read: bool) -> None:
    """A file that may be one of deletes is never read as one of rows."""
    entries = {FOOTER_KEY: '{"SCHEMA":"{}"}', "hudi.log.block_type": said}
    name = native_name(kind, is_early=True)
    if is_read:
        assert decode_footer(entries, name, where="x").schema_json == "{}"
    else:
        with pytest.raises(BrokenFile, match=f"block_type is '{said}'"):
            decode_footer(entries, name, where="x")
