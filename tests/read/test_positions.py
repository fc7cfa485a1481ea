"""Slices whose logs name places in a base file that has a key in several rows. Hudi is their judge in
`tests/interop/test_kinds_of_rows.py`; here are what it cannot write, and what is refused."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.engine.task.verification import OutputSample, check_sample
from lakeward.read.file_slice import open_slice
from lakeward.read.positions import GoesByPlaces
from lakeward.read.query.slice_query import SliceQuery
from lakeward.storage.local import LocalStorage
from tests.read.log_files import data_block, delete_block, row
from tests.read.test_file_slice import BASE, make, rows_of, slice_input

ROWS = [row("a", 1, "a"), row("k", 5, "k5"), row("k", 3, "k3"), row("k", 9, "k9")]
INSTANT = BASE.removesuffix(".parquet").rpartition("_")[2]


def named(*places: int, instant: str = INSTANT) -> dict[str, str]:
    """The headers of a block whose records were found at these places."""
    bitmap = struct.pack("<II", 12346, 1) + struct.pack("<HH", 0, len(places) - 1) + b"\0" * 4
    data = struct.pack("<qi", 1, 0) + bitmap + struct.pack(f"<{len(places)}H", *places)
    return {
        "RECORD_POSITIONS": base64.b64encode(data).decode(),
        "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS": instant,
    }


def upsert(ts: int, *places: int, **more: str) -> bytes:
    headers = named(*places, **more)
    return data_block("200", [row("k", ts, f"at {place}") for place in places], **headers)


def test_each_row_meets_the_records_that_name_it(tmp_path: Path):
    """So it is where every block names places; a row that none names stays. The slow twin gives the same."""
    merged = make(
        tmp_path,
        ROWS,
        upsert(6, 1, 2, 3),
        delete_block("201", [("k", None)], **named(3)),
        query=SliceQuery(takes_sample=True),
    )
    output = OutputSample(merged.sample)
    found = []
    for batch in merged.batches():
        output.update(batch)
        found += [(each["id"], each["ts"], each["v"]) for each in batch.to_pylist()]
    assert found == [("a", 1, "a"), ("k", 6, "at 1"), ("k", 6, "at 2")]
    assert not merged.is_sorted
    check_sample(merged.sample.keys, output.rows, rules=merged.rules, schema=merged.schema)


@pytest.mark.parametrize("other", [data_block("201", [row("a", 2, "new")]), upsert(4, 1, 2, instant="1")])
def test_one_block_without_places_sends_the_slice_by_keys(tmp_path: Path, other: bytes):
    """Then the first row of the key meets all records. Keeps 2 of read/positions."""
    found = rows_of(make(tmp_path, ROWS, upsert(6, 1, 2, 3), other))
    assert [each for each in found if each[0] == "k"] == [("k", 6, "at 3"), ("k", 3, "k3"), ("k", 9, "k9")]


def test_a_block_that_names_one_of_the_rows(tmp_path: Path):
    """It shows when the rows come: a query is refused by name, and a merge by places reaches that row alone."""
    log = upsert(20, 2)
    with pytest.raises(GoesByPlaces, match="holds the record key 'k' more than once"):
        rows_of(make(tmp_path, ROWS, log))
    given = slice_input(tmp_path, BASE, (".fg_200.log.1_0-0-0",))
    with open_slice(LocalStorage(), given, by_places=True) as merged:
        assert rows_of(merged) == [("a", 1, "a"), ("k", 5, "k5"), ("k", 20, "at 2"), ("k", 9, "k9")]


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (upsert(6, 0, 1), "where other record keys are"),
        (data_block("200", [row("k", 6, "")] * 3, **named(1, 2)), "has more records"),
        (data_block("200", [row("k", 6, "")] * 2, **named(1, 2, 3)), "and it has 2 records"),
    ],
)
def test_places_that_are_wrong(tmp_path: Path, log: bytes, why: str):
    """They are an error by name, never other rows."""
    with pytest.raises(BrokenFile, match=why):
        rows_of(make(tmp_path, ROWS, log))
