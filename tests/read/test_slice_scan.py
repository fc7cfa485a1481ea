"""Rows of one file slice: where its base file is not in the order that its footer says, and by keys."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward
from lakeward.base.errors import BrokenFile
from lakeward.format.bloom_lookup import MURMUR, ROW_HEAD, SIMPLE_TYPE_CODE, VERSION
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.key_summary import BLOOM_KEY, BLOOM_TYPE_KEY
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read import slice_scan
from lakeward.read.file_slice import MergedSlice, open_slice
from lakeward.read.newest_slice import TableReading
from lakeward.read.query.predicate import keys_among
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_keys import slice_keys
from lakeward.read.slice_scan import slice_rows
from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import BaseFile, FileSlice
from tests.write.writing import new_table, write


@pytest.fixture
def table(tmp_path: Path) -> lakeward.Table:
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "p", "a"), ("k2", 1, "p", "b")])
    write(base, [("k2", 2, "p", "c")])
    return lakeward.Table(str(base))


def out_of_order(monkeypatch: pytest.MonkeyPatch, *, after: int) -> list[bool]:
    """Slices that are read by the order of their base file fail after so many batches. Returns how each was read."""
    ways: list[bool] = []
    batches = MergedSlice.batches

    def opened(*given: Any, by_order: bool = True, **named: Any) -> MergedSlice:
        ways.append(by_order)
        return open_slice(*given, by_order=by_order, **named)

    def failing(merged: MergedSlice) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches(merged)):
            if ways[-1] and number == after:
                break
            yield batch
        if ways[-1]:
            raise NotSorted("It is out of order.")

    monkeypatch.setattr(slice_scan, "open_slice", opened)
    monkeypatch.setattr(MergedSlice, "batches", failing)
    return ways


def test_found_before_a_row_went_out_it_is_read_again(table: lakeward.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows come, each once, without relying on the order."""
    expected = table.scan().to_arrow().sort_by("id")
    ways = out_of_order(monkeypatch, after=0)
    assert table.scan().to_arrow().sort_by("id") == expected
    assert ways == [True, False]


def test_found_after_rows_went_out_it_ends_the_scan(table: lakeward.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of read/slice_scan: no row comes twice, and none is left out in silence."""
    ways = out_of_order(monkeypatch, after=1)
    with pytest.raises(NotSorted):
        table.scan().to_arrow()
    assert ways == [True]


STORAGE = LocalStorage()
SCHEMA = json.dumps({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})
SLICE = FileSlice("", "f", "1", BaseFile("f", "1", "f.parquet", "", 1, "0-1-0"), ())
WANTED = SliceQuery(("id",), keys_among(frozenset({"1", "3"})))


def reading_of(folder: Path, columns: dict[str, pa.Array], *key_fields: str) -> TableReading:
    """A base file with these columns, one row in each row group."""
    pq.write_table(pa.table(columns), folder / "f.parquet", row_group_size=1)
    return TableReading(str(folder), SCHEMA, None, "", key_fields, None)


def test_keys_that_are_made_are_looked_for(tmp_path: Path) -> None:
    """The column of the key holds nulls, and so its statistics say; the keys are those of the field."""
    reading = reading_of(tmp_path, {"_hoodie_record_key": pa.nulls(3, pa.string()), "id": pa.array([1, 2, 3])}, "id")
    rows = pa.Table.from_batches(slice_rows(STORAGE, reading, SLICE, WANTED))
    assert rows.column("id").to_pylist() == [1, 3]
    assert [key for keys in slice_keys(STORAGE, reading, SLICE) for key in keys.to_pylist()] == ["1", "2", "3"]


@pytest.mark.parametrize("keys", [pa.array(["1", None], pa.string()), None], ids=["a null", "no column"])
def test_a_file_without_keys_is_not_passed_over(keys: pa.Array | None, tmp_path: Path) -> None:
    """Keeps 4 of read/slice_scan, whether its statistics are asked or not; who looks for no keys has the rows."""
    columns = {"id": pa.array([1, 2])}
    reading = reading_of(tmp_path, columns if keys is None else {"_hoodie_record_key": keys, **columns})
    for query in (WANTED, SliceQuery(WANTED.columns, WANTED.predicate, by_statistics=False)):
        with pytest.raises(BrokenFile, match=re.escape("A record of f.parquet has no record key.")):
            list(slice_rows(STORAGE, reading, SLICE, query))
    with pytest.raises(BrokenFile, match="A record of file group f has no record key"):
        list(slice_keys(STORAGE, reading, SLICE))
    assert pa.Table.from_batches(slice_rows(STORAGE, reading, SLICE, SliceQuery(("id",)))).num_rows == 2


@pytest.mark.parametrize(
    ("version", "kind", "type_code", "may_have"),
    [
        pytest.param(VERSION, MURMUR, SIMPLE_TYPE_CODE, False, id="known"),
        pytest.param(VERSION - 1, MURMUR, SIMPLE_TYPE_CODE, True, id="other version"),
        pytest.param(VERSION, MURMUR - 1, SIMPLE_TYPE_CODE, True, id="other hash"),
        pytest.param(VERSION, MURMUR, "DYNAMIC_V1", True, id="other type"),
    ],
)
def test_a_bloom_filter_of_an_unknown_kind_rules_no_file_out(
    version: int, kind: int, type_code: str, may_have: bool
) -> None:
    """Its bits are all 0: by a known hash it has no key."""
    filter_ = base64.b64encode(struct.pack(ROW_HEAD, version, 1, kind, 64) + bytes(8))
    entries = {BLOOM_KEY.encode(): filter_, BLOOM_TYPE_KEY.encode(): type_code.encode()}
    file = SimpleNamespace(metadata=SimpleNamespace(metadata=entries))
    found = slice_scan._with_keys(cast(ParquetBatches, file), keys_among(frozenset({"k"})), [0])
    assert found == ([0] if may_have else [])


def test_slices_have_one_reader() -> None:
    """Beside it slices are opened by what writes them, by the check of a merge, and where a slice has logs that are not
    published yet."""
    others = {
        "read/file_slice.py",
        "read/slice_scan.py",
        "engine/task/operation.py",
        "engine/task/slice_check.py",
        "format/parquet/base_file.py",
        "protocol/metadata/secondary_pairs.py",
        "services/clustering/run/slice_rows.py",
        "write/handles/base_file_output.py",
        "write/handles/merge.py",
    }
    code = Path(lakeward.__file__).parent
    openers = {
        str(path.relative_to(code))
        for path in code.rglob("*.py")
        if re.search(r"\b(open_slice|open_base_file)\(", path.read_text())
    }
    assert openers == others
