"""The log writer, read back block by block."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Unsupported
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock, read_content, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.delete_block import read_delete_block
from lakeward.format.log.log_writer import LogFileStats, LogFileWriter, log_block_schema
from tests.read.log_files import TABLE_SCHEMA, block, row

SCHEMA_JSON = json.dumps(TABLE_SCHEMA)
SCHEMA = table_schema(SCHEMA_JSON)
SOURCES = {HeaderKey.COMPACTED_BLOCK_TIMES: "100,200"}
DATA_TYPES = [BlockType.AVRO_DATA, BlockType.PARQUET_DATA]


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), SCHEMA)


def writer_to(sink: io.BytesIO, kind: BlockType = BlockType.AVRO_DATA, **more: Any) -> LogFileWriter:
    return LogFileWriter(
        sink,
        SCHEMA,
        instant="300",
        schema_json=log_block_schema(SCHEMA_JSON),
        block_type=kind,
        headers=SOURCES,
        **more,
    )


def blocks_of(sink: io.BytesIO, stats: LogFileStats) -> list[LogBlock]:
    assert stats.size_bytes == len(sink.getvalue())
    found = list(scan_blocks(sink, stats.size_bytes, name="x.log"))
    assert stats.blocks == len(found)
    assert all(isinstance(one, LogBlock) for one in found)
    return [one for one in found if isinstance(one, LogBlock)]


@pytest.mark.parametrize("kind", DATA_TYPES)
def test_rows_and_deletes_read_back(kind: BlockType):
    """Rows stand in a block of the wanted type, deletes behind them, and every block has all headers."""
    sink = io.BytesIO()
    writer = writer_to(sink, kind)
    rows = [row("a", 1, "x"), row("b", None, "ü" * 40), row("c", -5, "")]
    writer.write(batch(*rows[:2]))
    writer.write(batch(rows[2]))
    writer.write_deletes(pa.array(["d", "e"]), pa.array([7, None], pa.int64()), partition_path="p")
    stats = writer.close()

    data, default, ordered = blocks_of(sink, stats)
    assert (stats.rows, stats.deletes) == (3, 2)
    assert [each.type for each in (data, default, ordered)] == [kind, BlockType.DELETE, BlockType.DELETE]
    for each in (data, default, ordered):
        assert each.headers[HeaderKey.INSTANT_TIME] == "300"
        assert each.headers[HeaderKey.COMPACTED_BLOCK_TIMES] == "100,200"
        assert each.headers[HeaderKey.SCHEMA] == log_block_schema(SCHEMA_JSON)
    assert [one for part in read_data_block(sink, data) for one in part.to_pylist()] == rows
    assert [each.keys.to_pylist() for each in read_delete_block(sink, default)] == [["e"]]
    (deleted,) = read_delete_block(sink, ordered)
    assert (deleted.keys.to_pylist(), deleted.ordering and deleted.ordering.to_pylist()) == (["d"], [7])


def test_a_block_is_framed_as_hudi_frames_it():
    """The same headers and content laid out by hand are the same bytes."""
    sink = io.BytesIO()
    writer = writer_to(sink)
    writer.write_deletes(pa.array(["a"]), None, partition_path="")
    stats = writer.close()

    (found,) = blocks_of(sink, stats)
    assert sink.getvalue() == block(BlockType.DELETE, found.headers, read_content(sink, found))


@pytest.mark.parametrize("kind", DATA_TYPES)
def test_blocks_keep_their_size(kind: BlockType):
    """Many rows are many blocks, each near the limit and none empty; the rows come back in order."""
    sink = io.BytesIO()
    writer = writer_to(sink, kind, block_bytes=20_000)
    rows = [row(f"k{number}", number, "x" * (number % 90)) for number in range(2_000)]
    for start in range(0, len(rows), 300):
        writer.write(batch(*rows[start : start + 300]))
    writer.write_deletes(pa.array([f"d{number}" for number in range(5_000)]), None, partition_path="p")
    found = blocks_of(sink, writer.close())

    data = [each for each in found if each.type is kind]
    deletes = [each for each in found if each.type is BlockType.DELETE]
    assert len(data) > 5 and len(deletes) > 2
    # A Parquet file has a footer beside its rows, and they are counted before they are encoded.
    assert max(each.content_length for each in found) <= 20_000 + (5_000 if kind is BlockType.PARQUET_DATA else 20)
    assert [one for each in data for part in read_data_block(sink, each) for one in part.to_pylist()] == rows
    keys = [key for each in deletes for part in read_delete_block(sink, each) for key in part.keys.to_pylist()]
    assert keys == [f"d{number}" for number in range(5_000)]


def test_a_row_larger_than_a_block_has_one_of_its_own():
    """A limit never cuts a row."""
    for kind in DATA_TYPES:
        sink = io.BytesIO()
        writer = writer_to(sink, kind, block_bytes=100)
        rows = [row("a", 1, "x"), row("b", 2, "y" * 1000), row("c", 3, "z")]
        writer.write(batch(*rows))
        found = blocks_of(sink, writer.close())
        assert [one["id"] for each in found for part in read_data_block(sink, each) for one in part.to_pylist()] == [
            "a",
            "b",
            "c",
        ]
        assert len(found) == 3


def test_the_header_schema_has_the_meta_columns_in_front():
    """Each is nullable with Hudi's empty documentation; the rest of the schema is as the commits have it."""
    table = {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": [{"name": "ü", "type": "long"}]}
    text = log_block_schema(json.dumps(table))
    assert json.loads(text) == {
        **table,
        "fields": [
            *({"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS),
            *table["fields"],
        ],
    }
    assert log_block_schema(text) == text


def test_a_parquet_block_is_a_whole_parquet_file():
    """Any reader of Parquet can read it from its bytes alone; points in time are INT64, as Hudi's own."""
    sink = io.BytesIO()
    writer = writer_to(sink, BlockType.PARQUET_DATA)
    writer.write(batch(row("a", 1, "x")))
    (found,) = blocks_of(sink, writer.close())
    table = pq.read_table(pa.BufferReader(read_content(sink, found)))
    assert table.to_pylist() == [row("a", 1, "x")]
    assert table.schema.metadata is None


def test_a_row_that_the_schema_cannot_encode_is_named():
    """A null where the schema requires a value is refused with the row's key."""
    required = {**TABLE_SCHEMA, "fields": [{"name": "id", "type": "string"}, *TABLE_SCHEMA["fields"][1:]]}
    writer = LogFileWriter(
        io.BytesIO(),
        SCHEMA,
        instant="300",
        schema_json=log_block_schema(json.dumps(required)),
        block_type=BlockType.AVRO_DATA,
    )
    with pytest.raises(Unsupported, match="'b'"):
        writer.write(batch(row("a", 1, ""), {**row("b", 1, ""), "id": None}))
