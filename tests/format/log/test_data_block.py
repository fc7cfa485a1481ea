"""Data blocks of log files: what released Hudi wrote, promotions, and damage."""

from __future__ import annotations

import importlib.util
import io
import json
import struct
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.schema import table_schema
from lakeward.format.log import data_block
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.parquet.base_file import open_base_file

TYPES = Path(__file__).parent / "types"
EXPECTED: dict[str, list[dict[str, Any]]] = json.loads((TYPES / "expected.json").read_text())

_spec = importlib.util.spec_from_file_location("make_types", TYPES / "make.py")
assert _spec is not None and _spec.loader is not None
_make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_make)

SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "k", "type": "string"}, {"name": "n", "type": ["null", "long"]}],
}


def only_block(path: Path) -> LogBlock:
    with path.open("rb") as file:
        (found,) = scan_blocks(file, path.stat().st_size, name=path.name)
    assert isinstance(found, LogBlock)
    return found


def comparable(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Rows as the expectation has them: by ts and key, maps as objects; the file name differs by who reads."""
    rows = []
    for batch in batches:
        maps = [column.name for column in batch.schema if pa.types.is_map(column.type)]
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            rows.append(_make.as_text(row))
        assert set(maps) <= {"m", "ms"}
    rows.sort(key=lambda row: (row["ts"], row["id"].encode()))
    return [{name: value for name, value in row.items() if name != "_hoodie_file_name"} for row in rows]


def expected(name: str) -> list[dict[str, Any]]:
    return [{column: value for column, value in row.items() if column != "_hoodie_file_name"} for row in EXPECTED[name]]


@pytest.mark.parametrize("name", ["avro.log", "parquet.log"])
def test_all_spark_types_of_a_log(name: str):
    """Each value of each Spark type, null or not, is what Hudi's own reader says it is."""
    block = only_block(TYPES / name)
    with (TYPES / name).open("rb") as file:
        batches = list(read_data_block(file, block, batch_rows=5))

    assert [batch.num_rows for batch in batches] == [5, 5, 2]
    assert comparable(batches) == expected(name)


@pytest.mark.parametrize("name", ["row_writer.parquet", "avro_writer.parquet"])
def test_all_spark_types_of_a_base_file(name: str):
    """So in base files of both of Hudi's writers, with their 3-level and 2-level lists."""
    schema_json = only_block(TYPES / "avro.log").headers[HeaderKey.SCHEMA]
    with (TYPES / name).open("rb") as file:
        batches = list(open_base_file(file, table_schema(schema_json), name=name))

    assert comparable(batches) == expected(name)


def avro_block(
    rows: list[dict[str, Any]], *, count: int | None = None, version: int = 3, tail: bytes = b"", schema: Any = SCHEMA
) -> bytes:
    parsed = fastavro.parse_schema(schema)
    content = bytearray(struct.pack(">ii", version, len(rows) if count is None else count))
    for row in rows:
        record = io.BytesIO()
        fastavro.schemaless_writer(record, parsed, row)
        content += struct.pack(">i", len(record.getvalue())) + record.getvalue()
    return bytes(content) + tail


def read(
    content: bytes, *, block_type: BlockType = BlockType.AVRO_DATA, schema: Any = SCHEMA, **options: Any
) -> pa.Table:
    block = LogBlock(
        type=block_type,
        headers={HeaderKey.SCHEMA: json.dumps(schema)},
        content_offset=5,
        content_length=len(content),
        file="x.log",
        offset=0,
    )
    return pa.Table.from_batches(read_data_block(io.BytesIO(b"head " + content + b" tail"), block, **options))


def test_large_blocks_come_in_batches(monkeypatch: pytest.MonkeyPatch):
    """A block beyond one window of bytes, with a record beyond it too, comes whole and in order."""
    monkeypatch.setattr(data_block, "_WINDOW_BYTES", 4_000)
    rows = [{"k": f"k{i}" * 5, "n": i} for i in range(1_000)]
    rows[500]["k"] = "x" * 9_000

    table = read(avro_block(rows))

    assert table["n"].to_pylist() == list(range(1_000))
    assert table["k"].to_pylist() == [row["k"] for row in rows]
    assert len(table["n"].chunks) > 3


def test_a_record_that_is_too_large_is_refused_by_its_key():
    """It is larger than what may be read at once, or decoded; the error says which it is, and those before it come.

    Hudi's meta columns come first, so its key is known before it is read whole. Keeps 3 of format/log/data_block.
    """
    names = ("_hoodie_commit_time", "_hoodie_record_key", "n")
    schema = {"type": "record", "name": "row", "fields": [{"name": name, "type": ["null", "string"]} for name in names]}
    rows = [{"_hoodie_commit_time": None, "_hoodie_record_key": f"k{i}", "n": "x" * 10} for i in range(3)]
    rows[1]["n"] = "x" * 30_000
    content = avro_block(rows, schema=schema)
    block = LogBlock(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: json.dumps(schema)}, 0, len(content), "x.log", 0)
    for window in (20_000, 4_000_000):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(data_block, "_WINDOW_BYTES", window)
            batches = read_data_block(io.BytesIO(content), block, batch_rows=1, bytes_max=25_000)
            assert next(batches)["_hoodie_record_key"].to_pylist() == ["k0"]
            with pytest.raises(Unsupported, match=r"Record 1, with the key 'k1', of x\.log.* 24\.4 KiB are allowed"):
                next(batches)
    whole = read_data_block(io.BytesIO(content), block, bytes_max=100_000)
    assert [row["_hoodie_record_key"] for batch in whole for row in batch.to_pylist()] == ["k0", "k1", "k2"]


def test_parquet_blocks_are_bounded_by_decoded_bytes():
    """A value that a block stores once and names in each row does not inflate it all at once."""
    bytes_max = 16 * 1024 * 1024
    value = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), pa.array(["x" * 50_000]))
    sink = io.BytesIO()
    pq.write_table(pa.table({"k": value, "n": range(2_000)}), sink, store_schema=False, compression="zstd")
    content = sink.getvalue()
    assert len(content) < 20_000
    headers = {HeaderKey.SCHEMA: json.dumps(SCHEMA)}
    block = LogBlock(BlockType.PARQUET_DATA, headers, 0, len(content), "x.log", 0)

    rows = 0
    for batch in read_data_block(io.BytesIO(content), block, bytes_max=bytes_max):
        assert batch.nbytes <= bytes_max
        rows += batch.num_rows
    assert rows == 2_000


def test_no_records():
    """A block may be empty."""
    content = avro_block([])
    block = LogBlock(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: json.dumps(SCHEMA)}, 0, len(content), "x.log", 0)

    assert list(read_data_block(io.BytesIO(content), block)) == []


def test_counts_must_agree():
    """The block has the number of records that it says, or an error names file and block: a short read would lose
    rows."""
    rows = [{"k": "a", "n": 1}, {"k": "b", "n": None}]
    for content in (
        avro_block(rows, count=3),
        avro_block(rows, count=1),
        avro_block(rows, count=-1),
        avro_block(rows, count=2**31 - 1),
        avro_block(rows)[:-1],
        avro_block(rows)[:7],
    ):
        with pytest.raises(BrokenFile, match=r"x\.log.*byte 0"):
            read(content)


@pytest.mark.parametrize("tail", [b"\x00", b"\x00\x00\x00\x00", b"\x00\x00\x00\x09LKWTAIL..", b"\xff" * 5_000])
def test_bytes_behind_the_records_are_passed_over(tail: bytes):
    """Hudi reads the records that the block counts, and nothing behind them; RFC-06 has an index there."""
    rows = [{"k": "a", "n": 1}, {"k": "b", "n": None}]
    assert read(avro_block(rows, tail=tail)).to_pylist() == rows
    assert read(avro_block(rows[:1], tail=tail)).to_pylist() == rows[:1]


def test_a_record_behind_the_counted_ones_is_an_error():
    """Keeps 2 of format/log/data_block: the count is wrong then, also where bytes follow the record, and where it is
    too large to be decoded."""
    rows = [{"k": "a", "n": 1}, {"k": "b" * 500, "n": 2}, {"k": "c", "n": 3}]
    for content in (avro_block(rows, count=1, tail=b"tail"), avro_block(rows[:1], count=0)):
        with pytest.raises(BrokenFile, match=r"A record follows the [01] that it counts"):
            read(content)
    with pytest.raises(BrokenFile, match="A record follows the 1 that it counts"):
        read(avro_block(rows, count=1), bytes_max=100)


def test_text_must_be_utf8():
    """Bytes that are no text are found as they are read, not by a reader of our output."""
    content = avro_block([{"k": "abcd", "n": 1}]).replace(b"abcd", b"ab\xff\xfe")
    with pytest.raises(BrokenFile, match="UTF8"):
        read(content)


def test_other_versions_and_types_are_refused():
    """A data block of a version or type that this release does not know is not guessed at."""
    with pytest.raises(Unsupported, match="version 4"):
        read(avro_block([], version=4))
    with pytest.raises(Unsupported, match="DELETE"):
        read(avro_block([]), block_type=BlockType.DELETE)


def test_parquet_block_that_is_none():
    """A Parquet block that cannot be read is a broken file."""
    for content in (b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"):
        with pytest.raises(BrokenFile, match=r"x\.log"):
            read(content, block_type=BlockType.PARQUET_DATA)


def test_parquet_block_reads_only_its_range():
    """The file in the block is read where it lies, and nothing before or behind it."""
    out = io.BytesIO()
    pq.write_table(pa.table({"k": ["a", "b"], "n": pa.array([1, None], pa.int64())}), out)

    assert read(out.getvalue(), block_type=BlockType.PARQUET_DATA).to_pylist() == [
        {"k": "a", "n": 1},
        {"k": "b", "n": None},
    ]


def test_entries_of_a_parquet_footer_that_are_not_known_are_passed_over():
    """A later release may say there which keys the block has (RFC-06)."""
    out = io.BytesIO()
    known = {"org.apache.hudi.bloomfilter": "AAAA", "hoodie_min_record_key": "a", "log.keys": "x" * 5_000}
    pq.write_table(pa.table({"k": ["a"], "n": pa.array([1], pa.int64())}).replace_schema_metadata(known), out)

    assert read(out.getvalue(), block_type=BlockType.PARQUET_DATA).to_pylist() == [{"k": "a", "n": 1}]


def test_text_of_parquet_blocks_can_stay_in_dictionaries():
    """Columns that are asked for as dictionaries come as such, where they are text."""
    out = io.BytesIO()
    pq.write_table(pa.table({"k": ["a", "b", "a"], "n": pa.array([1, None, 1], pa.int64())}), out)

    table = read(out.getvalue(), block_type=BlockType.PARQUET_DATA, dictionaries=["k", "n"])

    assert table.schema.types == [pa.dictionary(pa.int32(), pa.string()), pa.int64()]
    assert table.column("k").to_pylist() == ["a", "b", "a"]
