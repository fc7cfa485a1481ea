"""Pages without a wanted row are hidden from the library: rows come out as they are stored, and little is read."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.pages import BadPage
from lakeward.format.parquet.read_meter import ReadMeter

KEY = "_hoodie_record_key"
ROWS = 300


def table(rows: int = ROWS, *, keyless: frozenset[int] = frozenset()) -> pa.Table:
    """Columns of many types, values that are null among them, and all of them made from a row's number."""
    numbers = range(rows)
    columns: dict[str, pa.Array] = {
        KEY: pa.array([None if each in keyless else f"key-{each:05}" for each in numbers]),
        "commit": pa.array(["20260101000000000"] * rows),
        "number": pa.array(numbers, pa.int64()),
        "ratio": pa.array([each / 7 if each % 5 else None for each in numbers], pa.float64()),
        "is_even": pa.array([each % 2 == 0 for each in numbers]),
        "text": pa.array([f"text {each} " * (each % 40) if each % 11 else None for each in numbers]),
        "day": pa.array(numbers, pa.date32()),
        "seen": pa.array(numbers, pa.timestamp("us", tz="UTC")),
        "amount": pa.array([Decimal(each) / 100 for each in numbers], pa.decimal128(10, 2)),
        "tags": pa.array([[f"tag {one}" for one in range(each % 4)] for each in numbers]),
        "place": pa.array([{"city": f"city {each % 3}", "zip": each} if each % 13 else None for each in numbers]),
        "needed": pa.array([f"needed {each}" for each in numbers]),
    }
    schema = pa.schema([pa.field(name, each.type, nullable=name != "needed") for name, each in columns.items()])
    return pa.Table.from_arrays(list(columns.values()), schema=schema)


def written(rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        rows, sink, **{"max_rows_per_page": 50, "write_batch_size": 10, "use_dictionary": ["commit"]} | options
    )
    return sink.getvalue()


def read(stored: bytes, wanted: frozenset[str], columns: list[str] | None = None, **given: Any) -> pa.Table:
    file = ParquetBatches(io.BytesIO(stored), where="the file")
    among = pa.array(sorted(wanted), pa.string())
    found = list(file.read(columns or file.schema.names, wanted_keys=lambda keys: pc.is_in(keys, among), **given))
    return pa.Table.from_batches(found) if found else file.schema.empty_table()


def chosen(rows: pa.Table, wanted: frozenset[str]) -> pa.Table:
    is_wanted = pc.is_in(rows.column(KEY), pa.array(sorted(wanted), pa.string()))
    return rows.filter(pc.or_(is_wanted, pc.is_null(rows.column(KEY))))


@given(
    wanted=st.frozensets(st.integers(0, ROWS - 1), max_size=4),
    keyless=st.frozensets(st.integers(0, ROWS - 1), max_size=1),
    codec=st.sampled_from(["none", "snappy", "gzip", "zstd"]),
    page_rows=st.sampled_from([3, 20, 200]),
    group_rows=st.sampled_from([90, ROWS]),
    version=st.sampled_from(["1.0", "2.0"]),
    encoding=st.sampled_from([None, {"number": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"}]),
)
def test_the_rows_are_those_that_are_stored(
    wanted: frozenset[int],
    keyless: frozenset[int],
    codec: str,
    page_rows: int,
    group_rows: int,
    version: str,
    encoding: dict[str, str] | None,
) -> None:
    """Null pages, Keeps 1: whatever columns, codecs and pages a file has. A row without a key is never left out."""
    rows = table(keyless=keyless)
    stored = written(
        rows,
        compression=codec,
        max_rows_per_page=page_rows,
        row_group_size=group_rows,
        data_page_version=version,
        column_encoding=encoding,
    )
    keys = frozenset(f"key-{each:05}" for each in wanted)
    assert read(stored, keys, rows_max=100).equals(chosen(rows, keys))


def test_a_column_in_a_dictionary_comes_as_one() -> None:
    rows = table()
    keys = frozenset({"key-00220"})
    found = read(written(rows, use_dictionary=True), keys, dictionaries=["text", "commit"])
    assert pa.types.is_dictionary(found.schema.field("text").type)
    assert found.column("text").cast(pa.string()).equals(chosen(rows, keys).column("text"))


def test_of_hidden_pages_only_headers_are_read() -> None:
    """Null pages, Keeps 2: what is in them may be anything."""
    rows = table(20_000).drop_columns(["tags", "place", "needed"])
    stored = bytearray(written(rows, compression="none", max_rows_per_page=1000))
    number = rows.schema.names.index("number")
    chunk = pq.ParquetFile(io.BytesIO(bytes(stored))).metadata.row_group(0).column(number)
    values = stored.index((5_500).to_bytes(8, "little"), chunk.data_page_offset)
    stored[values : values + 8] = b"\xff" * 8
    meter = ReadMeter()
    assert read(bytes(stored), frozenset({"key-09999"}), meter=meter).equals(chosen(rows, frozenset({"key-09999"})))
    assert meter.bytes_read < meter.bytes_stored / 4
    assert meter.rows == 1
    broken = read(bytes(stored), frozenset({"key-05200"})).column("number").to_pylist()
    assert broken == [5_200]
    assert read(bytes(stored), frozenset({"key-05500"})).column("number").to_pylist() == [-1]


def test_where_no_row_is_wanted_only_keys_are_read() -> None:
    meter = ReadMeter()
    rows = table()
    assert read(written(rows), frozenset({"another"}), meter=meter).num_rows == 0
    assert 0 < meter.bytes_read < meter.bytes_stored / 4


def test_keys_are_not_read_twice_where_little_is_read_beside_them() -> None:
    rows = table()
    meter = ReadMeter()
    found = read(written(rows), frozenset({"key-00001"}), [KEY, "is_even"], meter=meter)
    assert found.num_rows == meter.rows == ROWS


def test_a_header_that_is_none_is_said() -> None:
    rows = table().select([KEY, "number", "ratio", "text", "seen"])
    stored = bytearray(written(rows))
    chunk = pq.ParquetFile(io.BytesIO(bytes(stored))).metadata.row_group(0).column(1)
    stored[chunk.data_page_offset : chunk.data_page_offset + 4] = b"\xff" * 4
    with pytest.raises(BadPage, match="page header of the column number"):
        read(bytes(stored), frozenset({"key-00001"}))


def test_rows_that_end_before_a_wanted_one_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library ends a row group early without a word where a column of it does."""
    attempt = ParquetBatches._attempt

    def cut(self: ParquetBatches, watch: Any, group: int, columns: list[str], *rest: Any) -> Any:
        batches = attempt(self, watch, group, columns, *rest)
        return batches if columns == [KEY] else (batch.slice(0, 150) for batch in batches)

    monkeypatch.setattr(ParquetBatches, "_attempt", cut)
    stored = written(table())
    assert read(stored, frozenset({"key-00100"})).num_rows == 1
    with pytest.raises(BadPage, match="row group 0 has 300 record keys and 150 rows"):
        read(stored, frozenset({"key-00200"}))
