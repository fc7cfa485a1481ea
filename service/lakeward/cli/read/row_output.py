"""Rows of a query as files or a stream: JSON lines, CSV, Parquet, Arrow.

    batches -> the format -> standard output, or a file, which is there when it is whole

Touches: stdout, or the file, and one beside it by the name FILE.part until it is whole.
Keeps:   1. a file is not there before all rows are in it, and none is written over;
         2. of rows no more than a batch is in memory.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from lakeward.base.errors import UsageError


class OutputFormat(StrEnum):
    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"

    @property
    def is_text(self) -> bool:
        return self in (OutputFormat.TABLE, OutputFormat.JSONL, OutputFormat.CSV)


def format_of(path: Path) -> OutputFormat | None:
    """The format that a file's name asks for."""
    endings = {".arrows": OutputFormat.ARROW, ".ndjson": OutputFormat.JSONL, ".json": OutputFormat.JSONL}
    return endings.get(path.suffix) or next((each for each in OutputFormat if path.suffix == f".{each}"), None)


def write_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, wanted: OutputFormat, output: Path | None) -> int:
    """Write all rows. Returns how many there were. Raises what reading them does.

    Args:
        output: a file that is not there yet; None for standard output.
    """
    rows = 0
    with _sink(output) as sink, _WRITERS[wanted](sink, schema) as write:
        for batch in batches:
            write(batch)
            rows += batch.num_rows
    return rows


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes as base64, decimals as text, which loses no digit."""
    match value:
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return value


@contextmanager
def _sink(output: Path | None) -> Iterator[IO[bytes]]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if output.exists():
        raise UsageError(f"{output} is there already.", remedy="Name another file, or remove it.")
    part = output.with_name(f"{output.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        os.replace(part, output)
    finally:
        part.unlink(missing_ok=True)


_Write = Callable[[pa.RecordBatch], None]


@contextmanager
def _json_lines(sink: IO[bytes], schema: pa.Schema) -> Iterator[_Write]:
    def write(batch: pa.RecordBatch) -> None:
        lines = [orjson.dumps(row, default=plain, option=orjson.OPT_APPEND_NEWLINE) for row in batch.to_pylist()]
        sink.write(b"".join(lines))

    yield write


@contextmanager
def _csv(sink: IO[bytes], schema: pa.Schema) -> Iterator[_Write]:
    nested = next((each.name for each in schema if pa.types.is_nested(each.type)), None)
    if nested is not None:
        raise UsageError(
            f"The column {nested!r} has no place in CSV.",
            why=f"It is of type {schema.field(nested).type}.",
            remedy="Leave it out with --columns, or write --format jsonl, parquet or arrow.",
        )
    binary = [each.name for each in schema if pa.types.is_binary(each.type) or pa.types.is_fixed_size_binary(each.type)]
    texts = pa.schema([pa.field(each.name, pa.string()) if each.name in binary else each for each in schema])
    with pa.csv.CSVWriter(sink, texts) as writer:
        yield lambda batch: writer.write_batch(_with_texts(batch, binary, texts))


def _with_texts(batch: pa.RecordBatch, binary: list[str], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array([plain(value) for value in column.to_pylist()], pa.string()) if name in binary else column
        for name, column in zip(schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@contextmanager
def _parquet(sink: IO[bytes], schema: pa.Schema) -> Iterator[_Write]:
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        yield writer.write_batch


@contextmanager
def _arrow(sink: IO[bytes], schema: pa.Schema) -> Iterator[_Write]:
    with pa.ipc.new_stream(sink, schema) as writer:
        yield writer.write_batch


_WRITERS = {
    OutputFormat.JSONL: _json_lines,
    OutputFormat.CSV: _csv,
    OutputFormat.PARQUET: _parquet,
    OutputFormat.ARROW: _arrow,
}
