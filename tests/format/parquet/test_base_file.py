"""Parquet base files: what we write, and what we make of others' files."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import struct
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.metadata.base_file_stats import read_bloom_filter
from lakeward.format.parquet import base_file
from lakeward.format.parquet.base_file import (
    BaseFileShape,
    BaseFileStats,
    BaseFileWriter,
    open_base_file,
    read_required,
    read_shape,
)
from lakeward.format.parquet.key_summary import SEAL_KEY
from lakeward.format.parquet.stored_row_groups import read_stored_row_groups

COLUMNS = [
    pa.field("id", pa.string()),
    pa.field("price", pa.decimal128(12, 3)),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("local", pa.timestamp("us")),
    pa.field("day", pa.date32()),
    pa.field("tags", pa.list_(pa.field("element", pa.string()))),
    pa.field("where", pa.struct([("lat", pa.float32()), ("lon", pa.float64())])),
    pa.field("counts", pa.map_(pa.string(), pa.field("value", pa.int32()))),
]
SCHEMA = pa.schema([pa.field(name, pa.string()) for name in META_COLUMNS] + COLUMNS)


def row(key: str, **values: Any) -> dict[str, Any]:
    return {
        "_hoodie_commit_time": "20261121043703223",
        "_hoodie_commit_seqno": f"20261121043703223_0_{key}",
        "_hoodie_record_key": key,
        "_hoodie_partition_path": "p",
        "_hoodie_file_name": "a file id, as log records have it",
        "id": key,
        **values,
    }


def write(rows: list[dict[str, Any]], **options: Any) -> tuple[io.BytesIO, BaseFileStats]:
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, SCHEMA, file_name="me.parquet", **options)
    for start in range(0, len(rows), 3):
        writer.write(pa.RecordBatch.from_pylist(rows[start : start + 3], schema=SCHEMA))
    return sink, writer.close()


def test_columns_without_nulls_are_said_to_be() -> None:
    """Hudi 1.0 reads by the table's schema, and takes no file that lets in nulls where the table does not."""
    rows = [row("k1", price=decimal.Decimal("1.000")), row("k2", price=decimal.Decimal("2.000"))]
    sink, _ = write(rows, required={"id", "price"})
    assert read_required(sink, name="f") == {"id", "price"}
    (batch,) = open_base_file(sink, SCHEMA, name="f")
    assert batch.column("price").to_pylist() == [each["price"] for each in rows]


def test_a_null_where_none_may_be_is_no_file() -> None:
    """The error names the column and the file."""
    with pytest.raises(BrokenFile, match=r"Column price of me\.parquet would hold a null"):
        write([row("k1")], required={"price"})


FULL = row(
    "k1",
    price=decimal.Decimal("-12.345"),
    at=datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC),
    local=datetime.datetime(2026, 1, 1),
    day=datetime.date(1900, 1, 1),
    tags=["a", None, "ü"],
    where={"lat": 1.5, "lon": None},
    counts=[("a", 1), ("b", None)],
)


REPEATED = frozenset({"_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name"})


def test_rows_come_back_with_the_new_file_name():
    """What is written is read back, in order, save the file name, which is the file's own in every row."""
    rows = [FULL, *(row(f"k{i}") for i in range(2, 9))]

    sink, stats = write(rows)

    assert stats == BaseFileStats(rows=8, size_bytes=len(sink.getvalue()), min_key="k1", max_key="k8")
    found = pa.Table.from_batches(open_base_file(sink, SCHEMA, name="me.parquet"), schema=SCHEMA)
    renamed = [{**written, "_hoodie_file_name": "me.parquet"} for written in rows]
    assert found.equals(pa.Table.from_pylist(renamed, schema=SCHEMA))
    assert read_shape(sink, name="me.parquet") == BaseFileShape(8, is_sorted=False, repeated=REPEATED)


def test_physical_types_are_those_hudi_writes():
    """Decimals are fixed-length, timestamps INT64 micros with or without zone, lists have 3 levels, all is nullable."""
    sink, _ = write([FULL])
    schema = pq.ParquetFile(sink).schema
    columns = {schema.column(i).path: schema.column(i) for i in range(len(schema))}

    assert columns["price"].physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert columns["price"].length == 6
    assert columns["at"].physical_type == columns["local"].physical_type == "INT64"
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(columns["at"].logical_type)
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in str(columns["local"].logical_type)
    assert columns["day"].physical_type == "INT32"
    assert {"tags.list.element", "counts.key_value.key", "counts.key_value.value"} <= set(columns)
    assert all(column.max_definition_level >= 1 for column in columns.values())
    assert columns["id"].max_definition_level == 1


def test_footer_is_hudis():
    """Filter, its type and the key range are in the footer; nothing of Arrow's own is."""
    sink, _ = write([row("b"), row("a"), row("c")])
    footer = pq.ParquetFile(sink).metadata.metadata

    assert set(footer) == {
        b"org.apache.hudi.bloomfilter",
        b"hoodie_bloom_filter_type_code",
        b"hoodie_min_record_key",
        b"hoodie_max_record_key",
    }
    assert footer[b"hoodie_bloom_filter_type_code"] == b"DYNAMIC_V0"
    assert (footer[b"hoodie_min_record_key"], footer[b"hoodie_max_record_key"]) == (b"a", b"c")
    assert struct.unpack_from(">iii", base64.b64decode(footer[b"org.apache.hudi.bloomfilter"]), 13) == (3, 3, 1)


def test_a_simple_filter_has_no_type_beside_it():
    """Hudi writes it so, and reads it so."""
    for options in ({}, {"keys_expected": 1}):
        sink, _ = write([row("a")], bloom_type="SIMPLE", **options)
        assert b"hoodie_bloom_filter_type_code" not in pq.ParquetFile(sink).metadata.metadata
        assert read_bloom_filter(sink, file_name="me.parquet")[0] == "SIMPLE"


def test_expected_keys_size_the_filter():
    """With the number of keys known before, none of them is held, and the same keys give the same filter."""
    rows = [row("b"), row("a"), row("c")]

    assert write(rows, keys_expected=3)[0].getvalue() == write(rows)[0].getvalue()


def test_no_rows():
    """A merge that leaves no rows makes a file with columns, a filter and no key range."""
    sink, stats = write([])
    file = pq.ParquetFile(sink)

    assert stats == BaseFileStats(rows=0, size_bytes=len(sink.getvalue()), min_key=None, max_key=None)
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (0, 0)
    assert file.schema_arrow.names == SCHEMA.names
    assert b"org.apache.hudi.bloomfilter" in file.metadata.metadata
    assert b"hoodie_min_record_key" not in file.metadata.metadata
    assert list(open_base_file(sink, SCHEMA, name="me.parquet")) == []


def test_row_groups_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """A row group closes at its bound of rows and at its bound of bytes, a large batch is cut, and none is small.

    Keeps 3, 4 of format/parquet/base_file.
    """
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", 12)

    def sizes(*batches: int) -> list[int]:
        sink = io.BytesIO()
        writer = BaseFileWriter(sink, SCHEMA, file_name="me.parquet")
        for number, rows in enumerate(batches):
            writer.write(pa.RecordBatch.from_pylist([row(f"{number} {i:02}") for i in range(rows)], schema=SCHEMA))
        writer.close()
        metadata = pq.ParquetFile(sink).metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    assert sizes(25, 7) == [12, 12, 8]
    assert sizes(5, 7) == [12]
    assert sizes(1, 12) == [6, 7]
    assert sizes(12, 12, 1) == [12, 6, 7]
    assert sizes(*[1] * 40) == [12, 12, 12, 4]

    rows = [row(f"{i}", tags=["x" * 500]) for i in range(9)]
    metadata = pq.ParquetFile(write(rows, row_group_bytes=2_000)[0]).metadata
    assert metadata.num_row_groups > 1
    assert metadata.num_rows == 9


def test_only_repeating_columns_have_dictionaries():
    """Keys are written plain; what repeats is written as a dictionary."""
    sink, _ = write([row(f"k{i}", day=datetime.date(2026, 1, 1 + i % 3)) for i in range(1000)])
    group = pq.ParquetFile(sink).metadata.row_group(0)
    dictionaries = {
        group.column(i).path_in_schema for i in range(group.num_columns) if group.column(i).has_dictionary_page
    }

    assert {"_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name", "day"} <= dictionaries
    assert not {"_hoodie_commit_seqno", "_hoodie_record_key", "id"} & dictionaries


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip"])
def test_codecs(codec: str):
    """The codec is the one asked for."""
    sink, _ = write([FULL], codec=codec)

    assert pq.ParquetFile(sink).metadata.row_group(0).column(2).compression == codec.upper()


def test_the_range_of_keys_is_javas():
    """Java compares UTF-16 units: a key beyond U+FFFF lies below one at U+FFFD, though its bytes are greater."""
    _, stats = write([row("😀"), row("b"), row("\ufffd"), row("c")])
    assert (stats.min_key, stats.max_key) == ("b", "\ufffd")


def test_the_seal_is_on_the_bytes_of_each_row_group(monkeypatch: pytest.MonkeyPatch):
    """Only of a file whose rows are said to be sorted. Keeps 5 of format/parquet/base_file."""
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", 4)
    sink, _ = write([row(f"k{i}") for i in range(12)])
    assert SEAL_KEY.encode() not in pq.read_metadata(sink).metadata
    writer = BaseFileWriter(sorted_sink := io.BytesIO(), SCHEMA, file_name="me.parquet")
    writer.write(pa.RecordBatch.from_pylist([row(f"k{i:02}") for i in range(12)], schema=SCHEMA))
    writer.close(is_sorted=True)
    stored = read_stored_row_groups(sorted_sink, name="me.parquet")
    assert stored.keys is not None
    assert len(stored.keys.checksums) == len(stored.groups) == 3
    for checksum, group in zip(stored.keys.checksums, stored.groups, strict=True):
        assert checksum == zlib.crc32(sorted_sink.getvalue()[group.extent.start : group.extent.end])


def test_missing_and_additional_columns():
    """A file from before a column was added has nulls in it; one that was dropped is not read."""
    sink, _ = write([FULL, row("k2")])
    target = pa.schema([pa.field("new", pa.list_(pa.int64())), pa.field("id", pa.string())])
    nothing = pa.schema([pa.field("new", pa.int32())])

    (batch,) = open_base_file(sink, target, name="x")
    assert batch.to_pylist() == [{"new": None, "id": "k1"}, {"new": None, "id": "k2"}]
    (batch,) = open_base_file(sink, nothing, name="x")
    assert batch.to_pylist() == [{"new": None}, {"new": None}]


def test_int96_timestamps_are_instants():
    """Old Spark writes INT96, which has no zone in its type and means UTC; at every level of nesting."""
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    sink = io.BytesIO()
    table = pa.table({"t": [moment, None], "l": [[moment], None]})
    pq.write_table(table, sink, use_deprecated_int96_timestamps=True)
    utc = pa.timestamp("us", "UTC")
    target = pa.schema([pa.field("t", utc), pa.field("l", pa.list_(pa.field("element", utc)))])

    (batch,) = open_base_file(sink, target, name="x")

    at = moment.replace(tzinfo=datetime.UTC)
    assert batch.to_pylist() == [{"t": at, "l": [at]}, {"t": None, "l": None}]


def test_local_timestamp_is_no_instant():
    """A timestamp without zone is not silently taken for one in UTC."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"t": pa.array([1], pa.timestamp("us"))}), sink)
    with pytest.raises(Unsupported, match="column t of the base file x"):
        list(open_base_file(sink, pa.schema([pa.field("t", pa.timestamp("us", "UTC"))]), name="x"))


def test_wide_rows_come_in_smaller_batches():
    """A batch is bounded by bytes as well as by rows."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": ["x" * 20_000] * 4_000}), sink, use_dictionary=False, compression="none")

    batches = list(open_base_file(sink, pa.schema([pa.field("id", pa.string())]), name="x"))

    assert sum(batch.num_rows for batch in batches) == 4_000
    assert max(batch.num_rows for batch in batches) == 838


@pytest.mark.parametrize(("narrow", "wide", "size"), [(0, 70, 300_000), (200, 70, 300_000)])
def test_pages_of_wide_rows_are_small(narrow: int, wide: int, size: int):
    """A page cannot be decoded in part, so what we write is what the next compaction can read with little memory."""
    keys = [f"{number:05}" for number in range(narrow + wide)]
    rows = [row(key, tags=["x" * (size if number >= narrow else 10)]) for number, key in enumerate(keys)]
    sink, stats = write(rows, codec="zstd", row_group_bytes=24 * 1024 * 1024)
    assert stats.size_bytes < 100_000

    batches = list(open_base_file(sink, SCHEMA, name="me.parquet", bytes_max=16 * 1024 * 1024))

    assert [key for batch in batches for key in batch.column(2).to_pylist()] == keys
    assert max(batch.nbytes for batch in batches) <= 16 * 1024 * 1024


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(50) + b"PAR1", b"x" * 1000])
def test_not_a_parquet_file(data: bytes):
    """A base file that cannot be read is named."""
    with pytest.raises(BrokenFile, match=r"me\.parquet"):
        list(open_base_file(io.BytesIO(data), SCHEMA, name="me.parquet"))
    with pytest.raises(BrokenFile, match=r"me\.parquet"):
        read_shape(io.BytesIO(data), name="me.parquet")


def test_damaged_page_is_broken():
    """A file whose pages are damaged gives an error, not other rows."""
    sink, _ = write([row(f"k{i}") for i in range(1000)])
    data = bytearray(sink.getvalue())
    for at in range(200, len(data) // 2):
        data[at] = 0
    with pytest.raises(BrokenFile, match=r"me\.parquet"):
        list(open_base_file(io.BytesIO(bytes(data)), SCHEMA, name="me.parquet"))
