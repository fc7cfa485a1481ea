"""Rows out of an operator's files, as Arrow batches: Parquet, CSV and JSON lines.

Parquet says its types, and each file must have the same columns. Text has the types of the table where it has the
column; another one is of texts in CSV, and in JSON what the first rows have.

Touches: the files, or standard input.
Keeps:   1. rows come in the order of the files and of the rows in them, each once;
         2. no more than a batch of rows is in memory, whatever the files' size;
         3. an error names the file, the place in it, and a remedy.
"""

from __future__ import annotations

import errno
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.base.errors import BrokenFile, UsageError
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema_text import schema_text
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.columns import read_columns
from lakeward.format.parquet.footer import check_library_can_open, is_encrypted, read_ending
from lakeward.format.parquet.pages import BadPage
from lakeward.format.projection import project
from lakeward.write.input.csv_files import CsvFiles
from lakeward.write.input.json_lines import JsonLines

STANDARD_INPUT: Final = "-"

_UNREADABLE: Final = (OSError, pa.ArrowException, KeyError, UnicodeDecodeError, BadPage)
"""What the storage, the library and those who look at pages and names raise over a file of Parquet."""


class RowFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON_LINES = "jsonl"


_EXTENSIONS: Final = {
    ".parquet": RowFormat.PARQUET,
    ".csv": RowFormat.CSV,
    ".jsonl": RowFormat.JSON_LINES,
    ".ndjson": RowFormat.JSON_LINES,
    ".json": RowFormat.JSON_LINES,
}


class RowSource(Protocol):
    """Rows that can be read once."""

    @property
    def schema(self) -> pa.Schema:
        """That of every batch."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises `UsageError`."""


def open_rows(
    files: Sequence[str],
    *,
    row_format: RowFormat | None = None,
    table_columns: pa.Schema | None = None,
    all_columns: bool = False,
    standard_input: Callable[[], BinaryIO] = lambda: sys.stdin.buffer,
) -> RowSource:
    """The rows of files, one after the other.

    Raises `UsageError`.

    Args:
        files: paths on this machine; `-` alone stands for standard input, JSON lines where nothing else is said.
        row_format: of all of them; by their extensions where it is None.
        table_columns: those that the table has, with their types.
        all_columns: rows of JSON have all of these, null where no row has one.
    """
    if not files:
        raise UsageError("There is no input.", remedy="Name files with --input, or - for standard input.")
    if STANDARD_INPUT in files and len(files) > 1:
        raise UsageError("Standard input cannot be one input of several.", remedy="Give --input - alone, or files.")
    for file in files:
        _check_there(file)
    formats = {_format_of(file, row_format) for file in files}
    if len(formats) > 1:
        raise UsageError(
            f"The input files have several formats: {', '.join(sorted(formats))}.",
            remedy="Write the files of each format by themselves.",
        )
    if formats == {RowFormat.PARQUET}:
        for file in files:
            _check_footer(Path(file))
        return ParquetFiles(tuple(Path(file) for file in files))
    openers = [standard_input if file == STANDARD_INPUT else _opener(file) for file in files]
    names = ["standard input" if file == STANDARD_INPUT else file for file in files]
    contents = list(zip(names, openers, strict=True))
    if formats == {RowFormat.CSV}:
        return CsvFiles(contents, table_columns)
    return JsonLines(contents, table_columns, all_columns=all_columns)


def read_schema(file: Path) -> str:
    """The Avro JSON of a file, for a new table. Raises `UsageError`."""
    try:
        return json.dumps(json.loads(file.read_bytes()), separators=(",", ":"))
    except (OSError, ValueError) as error:
        raise _no_schema(file, error) from error


def schema_like(file: Path, table_name: str) -> str:
    """The Avro JSON of a new table with the columns of a Parquet file. Raises `UsageError`, and `Unsupported` for a
    type that no table has."""
    try:
        columns = read_columns(file)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _no_schema(file, error) from error
    return schema_text(pa.schema([field for field in columns if field.name not in META_COLUMNS]), table_name)


def _no_schema(file: Path, error: Exception) -> UsageError:
    return UsageError(
        f"{file} has no schema to read.",
        why=f"{error}.",
        remedy="Give a file of Avro JSON with --schema, or a Parquet file with --like.",
    )


def _format_of(file: str, given: RowFormat | None) -> RowFormat:
    if given is not None:
        if file == STANDARD_INPUT and given is RowFormat.PARQUET:
            raise UsageError(
                "Parquet cannot be read from standard input.",
                why="What is in such a file is said at its end.",
                remedy="Write it to a file and name that.",
            )
        return given
    if file == STANDARD_INPUT:
        return RowFormat.JSON_LINES
    found = _EXTENSIONS.get(Path(file).suffix.lower())
    if found is None:
        raise UsageError(
            f"The format of {file} is not known.",
            why=f"Its name does not end in one of {', '.join(_EXTENSIONS)}.",
            remedy="Give it the ending of what it holds, or pass JSON lines through standard input with --input -.",
        )
    return found


def _check_there(file: str) -> None:
    """Raises `UsageError`, before anything asks for its size or writes rows of the files before it."""
    if file == STANDARD_INPUT or Path(file).is_file():
        return
    if Path(file).is_dir():
        raise UsageError(
            f"The input {file} is a folder.",
            remedy="Name the files in it with --input, each once.",
        )
    if not Path(file).exists():
        raise UsageError(
            f"The input {file} does not exist.",
            why=f"A path that does not begin with / is looked for below {Path.cwd()}." if file[:1] != "/" else "",
            remedy="Name a file of this machine with --input. Nothing was written.",
        )


def _opener(file: str) -> Callable[[], BinaryIO]:
    def opened() -> BinaryIO:
        try:
            return open(file, "rb")
        except OSError as error:
            raise _cannot_read(file, error) from error

    return opened


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """`RowSource` of Parquet files with the same columns, in any order."""

    files: tuple[Path, ...]

    @property
    def schema(self) -> pa.Schema:
        first, *others = [self._columns(file) for file in self.files]
        for file, columns in zip(self.files[1:], others, strict=True):
            _check_same(first, columns, file=file, first_file=self.files[0])
        return first

    def batches(self) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for file in self.files:
            yield from ParquetPart(file, schema).batches()

    def parts(self, part_bytes: int) -> Sequence[ParquetPart]:
        """The files in pieces that can be read apart, in order: row groups of one file, of so many bytes at least."""
        schema = self.schema
        found = []
        for file in self.files:
            start = size = 0
            stored = self._stored(file)
            for group, group_bytes in enumerate(stored):
                size += group_bytes
                if size >= part_bytes or group == len(stored) - 1:
                    found.append(ParquetPart(file, schema, range(start, group + 1)))
                    start, size = group + 1, 0
        return found

    def _stored(self, file: Path) -> list[int]:
        try:
            metadata = pq.read_metadata(file)
        except _UNREADABLE as error:
            raise _cannot_read(file, error) from error
        return [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]

    def _columns(self, file: Path) -> pa.Schema:
        try:
            return read_columns(file)
        except _UNREADABLE as error:
            raise _cannot_read(file, error) from error


@dataclass(frozen=True, slots=True)
class ParquetPart:
    """Row groups of one file; all of them where none are named. Picklable."""

    file: Path
    schema: pa.Schema
    groups: range | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        options: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
        try:
            with open(self.file, "rb") as content:
                parquet = ParquetBatches(content, where=str(self.file), **options)
                for batch in parquet.read(parquet.schema.names, groups=self.groups):
                    yield project(batch, self.schema, where=str(self.file), naive_is_utc=True)
        except _UNREADABLE as error:
            raise _cannot_read(self.file, error) from error


def _check_footer(file: Path) -> None:
    """Raises `UsageError` where the library would end the process."""
    try:
        with open(file, "rb") as content:
            tail, footer = read_ending(content, content.seek(0, io.SEEK_END), file=str(file))
        if is_encrypted(tail, footer, file=str(file)):
            raise UsageError(
                f"The input {file} is encrypted.",
                why="Lakeward has no keys for Parquet files.",
                remedy="Write it without encryption, for one with the program that has the keys.",
            )
        check_library_can_open(footer)
    except (OSError, BrokenFile, ValueError) as error:
        raise _cannot_read(file, error) from error


def _check_same(first: pa.Schema, other: pa.Schema, *, file: Path, first_file: Path) -> None:
    if sorted(first.names) != sorted(other.names):
        differing = ", ".join(sorted({*first.names} ^ {*other.names}))
        raise UsageError(
            f"{file} has other columns than {first_file}.",
            why=f"Only one of the two has {differing}.",
            remedy="Write the files of each set of columns by themselves.",
        )
    for field in other:
        expected = first.field(field.name).type
        if field.type != expected:
            raise UsageError(
                f"The column {field.name} of {file} is {field.type}, and that of {first_file} is {expected}.",
                remedy="Write the files of each type by themselves, or convert the column.",
            )


def _cannot_read(file: str | Path, error: Exception) -> UsageError:
    # A footer that names a place before the file's start has it sought there.
    is_damaged = not isinstance(error, OSError) or error.errno in (None, errno.EINVAL)
    return UsageError(
        f"The input {file} cannot be read.",
        why=f"It is not a whole Parquet file: {_reason(error)}." if is_damaged else f"{error}.",
        remedy="Name a file of which another program reads every row."
        if is_damaged
        else "Name a file that this process may read.",
    )


def _reason(error: Exception) -> str:
    return (error.why or error.what if isinstance(error, BrokenFile) else f"{error}").rstrip(".")
