"""Native logs of rows: written, opened and read again, by our reader of blocks and by the second one."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.log_writer import log_block_schema
from lakeward.format.log.native_log.data_file import NativeDataWriter
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.format.log.native_log.native_log_file import NativeLog, open_native_log
from tests import native_log_judge as judge
from tests.format.log.native_log.native_files import (
    FILE_ID,
    FOOTER,
    INSTANT,
    SCHEMA,
    TABLE,
    data_file,
    native_name,
    row,
)


def opened(data: bytes, **more: Any) -> NativeLog:
    return open_native_log(io.BytesIO(data), len(data), native_name(**more), where="p/x.log.parquet")


def read(data: bytes, **more: Any) -> list[dict[str, Any]]:
    batches = read_data_block(io.BytesIO(data), opened(data).block, **more)
    return [each for batch in batches for each in batch.to_pylist()]


ROWS = [row("a", 1, "x"), row("b", None, "ü" * 40), row("c", -5), row("d"), row("\uffff"), row("\U0001f600")]


def test_rows_read_back_with_the_files_id() -> None:
    """Lakeward's by the block of the whole file, the second reader's by pyarrow alone: keys ascend by their UTF-8
    bytes."""
    data = data_file(ROWS)
    log = opened(data)
    due = [{**each, "_hoodie_file_name": FILE_ID} for each in ROWS]
    assert read(data) == due
    assert (log.rows, log.footer, log.block.type) == (len(ROWS), FOOTER, BlockType.PARQUET_DATA)
    assert pq.read_table(io.BytesIO(data)).to_pylist() == due
    assert [each["id"] for each in read(data, columns=["id"])] == [each["id"] for each in ROWS]
    values = judge.footer(data)
    assert json.loads(values.pop("SCHEMA")) == json.loads(log_block_schema(json.dumps(TABLE)))
    assert values == {"VERSION": "2", "INSTANT_TIME": INSTANT}


def test_the_file_is_what_a_base_file_would_be() -> None:
    """Meta columns first, required where the table says so, zstd; nothing of keys, of which no index asks a log."""
    metadata = pq.read_metadata(io.BytesIO(data_file(ROWS)))
    schema = metadata.schema.to_arrow_schema()
    assert tuple(schema.names[:5]) == META_COLUMNS
    assert [column.name for column in schema if not column.nullable] == ["id"]
    assert metadata.row_group(0).column(2).compression == "ZSTD"
    assert list(metadata.metadata) == [b"hudi.log.format.metadata"]


def test_a_file_without_rows_says_what_it_is() -> None:
    """Such a file begins an empty file group of a metadata table."""
    assert read(data_file([])) == []


@pytest.mark.parametrize("keys", [["b", "a"], ["a", "a"], ["a", "b", "d", "c"], ["\U0001f600", "\uffff"]])
def test_rows_out_of_order_stop_the_writer(keys: list[str]) -> None:
    """Within a batch and across two; by bytes, not as Java orders. Keeps 1 of format/log/native_log/data_file."""
    with pytest.raises(AssertionError, match=r"come after|ascend"):
        data_file([row(key) for key in keys])


def test_a_row_without_a_key_stops_the_writer() -> None:
    """It could be merged with nothing."""
    with pytest.raises(AssertionError, match="without a key"):
        data_file([{**row("a"), "_hoodie_record_key": None}])


def test_positions_are_shown_if_all_are_known() -> None:
    """One row that is not in the base file takes them away. Keeps 2 of format/log/native_log/data_file."""
    shown = opened(data_file(ROWS, positions=[5, 0, 3, 3, 900, 2], positions_in="7")).footer.positions
    assert shown is not None and (shown.base_instant, shown.numbers(6, where="x").tolist()) == (
        "7",
        [5, 0, 3, 3, 900, 2],
    )
    assert "RECORD_POSITIONS" not in judge.footer(data_file(ROWS, positions=[5, 0, 3, 3, -1, 2], positions_in="7"))
    assert judge.footer(data_file(ROWS, positions_in="7")) == judge.footer(data_file(ROWS))
    assert judge.footer(data_file(ROWS, positions=[0] * 6)) == judge.footer(data_file(ROWS))


def test_a_log_compactions_output_says_what_it_stands_for() -> None:
    """Readers of blocks find it among the headers."""
    data = data_file(ROWS, replace(FOOTER, compacted_instants=("1", "2")))
    assert judge.footer(data)["COMPACTED_BLOCK_TIMES"] == "1,2"
    assert opened(data).footer.compacted_instants == ("1", "2")


def test_a_partial_file_has_some_columns() -> None:
    """Its schema is that of the columns that it has."""
    partial = {**TABLE, "fields": [field for field in TABLE["fields"] if field["name"] in ("id", "ts")]}
    footer = NativeLogFooter(INSTANT, log_block_schema(json.dumps(partial)), is_partial=True)
    schema = table_schema(json.dumps(partial))
    sink = io.BytesIO()
    with NativeDataWriter(sink, schema, file_id=FILE_ID, footer=footer) as writer:
        writer.write(pa.RecordBatch.from_pylist([row("a", 4)], schema))
        writer.close()
    assert opened(sink.getvalue()).block.is_partial
    assert [(each["id"], each["ts"], "v" in each) for each in read(sink.getvalue())] == [("a", 4, False)]


def test_strings_may_come_in_dictionaries() -> None:
    """Rows of a merge do."""
    batch = pa.RecordBatch.from_pylist(ROWS[:2], SCHEMA)
    at = SCHEMA.get_field_index("v")
    batch = batch.set_column(at, "v", batch.column(at).dictionary_encode())
    sink = io.BytesIO()
    with NativeDataWriter(sink, SCHEMA, file_id=FILE_ID, footer=FOOTER, dictionaries=["v"]) as writer:
        writer.write(batch)
        writer.close()
    assert [each["v"] for each in read(sink.getvalue())] == ["x", "ü" * 40]


@pytest.mark.parametrize("word", ["lance", "orc", "vortex"])
def test_a_format_that_is_not_read_is_refused_by_its_name(word: str) -> None:
    """Nothing of the file is read. Keeps 1 of format/log/native_log/native_log_file."""
    with pytest.raises(Unsupported, match=f"of the format {word}"):
        open_native_log(io.BytesIO(), 0, native_name(format=word), where="x")


@pytest.mark.parametrize("cut", [0, 3, 7, 8, 40])
def test_a_torn_file_is_an_error(cut: int) -> None:
    """A native log is whole or broken: no part of it is skipped, as a torn block of an inline log is."""
    with pytest.raises(BrokenFile, match=r"p/x\.log\.parquet"):
        opened(data_file(ROWS)[:cut])


def test_an_older_row_group_is_not_read_on_opening() -> None:
    """Only the end of the file is. Keeps 2 of format/log/native_log/native_log_file."""
    data = bytearray(data_file([row(f"k{number:05}", number, "v" * 50) for number in range(3_000)]))
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    assert opened(bytes(data)).rows == 3_000
