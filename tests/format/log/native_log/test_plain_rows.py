"""Files of deletes and changes: their row groups."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.format.log.native_log import plain_rows
from lakeward.format.log.native_log.plain_rows import ROW_GROUP_BYTES, PlainRowsWriter

SCHEMA = pa.schema([pa.field("k", pa.string(), nullable=False), ("v", pa.string())])


def write(*batches: pa.RecordBatch, row_group_bytes: int = ROW_GROUP_BYTES) -> pq.FileMetaData:
    sink = io.BytesIO()
    writer = PlainRowsWriter(sink, SCHEMA, codec="zstd", row_group_bytes=row_group_bytes)
    for batch in batches:
        writer.write(batch)
    assert writer.close({"a": "b"}) == len(sink.getvalue())
    metadata = pq.read_metadata(sink)
    assert metadata.metadata == {b"a": b"b"} and writer.rows == metadata.num_rows
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert pq.read_table(sink).to_pylist() == rows
    return metadata


def rows(count: int, v: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([f"k{n}" for n in range(count)]), pa.array([v] * count)], schema=SCHEMA)


def groups(metadata: pq.FileMetaData) -> list[int]:
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


def test_row_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and bytes both bound one; a larger row has its own. Keeps 1 of format/log/native_log/plain_rows."""
    monkeypatch.setattr(plain_rows, "ROW_GROUP_ROWS", 100)
    few = (rows(60, "x"), rows(60, "x"), rows(30, "x"), rows(250, "x"))
    assert groups(write(*few, row_group_bytes=10_000)) == [60, 90, 100, 100, 50]
    assert groups(write(rows(40, "x" * 500), row_group_bytes=10_000)) == [10, 10, 10, 10]
    assert groups(write(rows(2, "x" * 20_000), rows(3, "x"), row_group_bytes=10_000)) == [1, 1, 3]
    assert groups(write()) == []


def test_columns_that_repeat_have_a_dictionary() -> None:
    """The first rows say which. Keeps 2 of format/log/native_log/plain_rows."""
    group = write(rows(2_000, "x")).row_group(0)
    assert [group.column(at).has_dictionary_page for at in (0, 1)] == [False, True]
