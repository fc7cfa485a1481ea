"""Rows of CSV files: the first line names the columns, which have the table's types.

    text            as it is, digits too; quotes around it where it has a comma, a quote or a line's end
    nothing         null; "" between the commas is the empty text
    numbers         1, -2.5, 1e3; decimals with no more digits than the column has
    boolean         true, false
    date            2024-03-04
    timestamp       2024-03-04T05:06:07.123456Z, with an offset or Z where the column is one in UTC, without where it is
                    local; a blank may be for T

A column that the table does not have is one of texts: nothing in the file says more. Structs, lists, maps and bytes
are not in CSV.

Touches: the files, each once.
Keeps:   1. rows come in the order of the files and their lines, each once; empty lines are none;
         2. some blocks of a file are in memory, and no row is larger than one;
         3. an error names the file, the row, of which the first names the columns, and the column where it is one of a
            value.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from pyarrow import types

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_size
from lakeward.format.parquet.batches import BATCH_ROWS

_BLOCK_BYTES: Final = 8 * 1024 * 1024
_HEAD_BYTES: Final = 64 * 1024
_HEAD_BYTES_MAX: Final = 1024 * 1024
_COLUMN: Final = re.compile(r"In CSV column #(\d+): ")
_QUOTE: Final = b'"'


class CsvFiles:
    """`RowSource` of CSV, which can be read once."""

    def __init__(self, files: Sequence[tuple[str, Callable[[], BinaryIO]]], table_columns: pa.Schema | None) -> None:
        """
        Args:
            files: a name for errors, and what opens it; at least one.
            table_columns: the types of columns that are known.
        """
        self._known = table_columns if table_columns is not None else pa.schema([])
        self._first, *self._others = [_CsvFile(name, opener) for name, opener in files]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, self._type(name)) for name in self._first.names])

    def batches(self) -> Iterator[pa.RecordBatch]:
        for file in (self._first, *self._others):
            if sorted(file.names) != sorted(self.schema.names):
                raise UsageError(
                    f"{file.name} has other columns than {self._first.name}.",
                    why=f"Only one of the two has {', '.join(sorted({*file.names} ^ {*self.schema.names}))}.",
                    remedy="Write the files of each set of columns by themselves.",
                )
            for batch in file.batches(self.schema):
                yield batch.select(self.schema.names)

    def _type(self, name: str) -> pa.DataType:
        index = self._known.get_field_index(name)
        of = pa.string() if index < 0 else self._known.field(index).type
        if types.is_nested(of) or types.is_binary(of):
            raise UsageError(
                f"The column {name} cannot be given as CSV.",
                why=f"Its type is {of}.",
                remedy="Give the rows as JSON lines or Parquet.",
            )
        return of


class _CsvFile:
    def __init__(self, name: str, opener: Callable[[], BinaryIO]) -> None:
        self.name = name
        self._opener = opener

    @cached_property
    def names(self) -> list[str]:
        """What the first line says."""
        head = self._content.head.decode("utf-8-sig", errors="replace").splitlines()
        found = next(csv.reader(head), [])
        for name in found:
            if not name or found.count(name) > 1:
                raise UsageError(
                    f"The first line of {self.name} does not name the columns.",
                    why=f"It has {name!r} twice." if name else "A name is empty.",
                    remedy="Give each column a name of its own in the first line.",
                )
        if not found:
            raise UsageError(f"{self.name} is empty.", remedy="Give the names of the columns in its first line.")
        return found

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        # In one thread Arrow knows the number of a row that it cannot read.
        read = pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
        convert = pa_csv.ConvertOptions(
            column_types=schema,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
        )
        row = 2
        with self._content as content:
            try:
                parse = pa_csv.ParseOptions(newlines_in_values=True)
                for batch in pa_csv.open_csv(content, read_options=read, parse_options=parse, convert_options=convert):
                    self._check_decimals(batch, row)
                    row += batch.num_rows
                    for start in range(0, batch.num_rows, BATCH_ROWS):
                        yield batch.slice(start, BATCH_ROWS)
            except pa.ArrowException as error:
                raise self._broken(str(error)) from error
            if content.quotes % 2:
                raise self._broken("a quotation mark is opened and not closed")

    @cached_property
    def _content(self) -> _CountedQuotes:
        return _CountedQuotes(self._opener(), self.name)

    def _check_decimals(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Arrow takes numbers with more digits than the type has."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if types.is_decimal(column.type):
                end = 10 ** (column.type.precision - column.type.scale)
                is_large = pc.greater_equal(pc.abs(column.cast(pa.decimal256(76, column.type.scale))), end)
                if pc.any(is_large).as_py():
                    row = first_row + pc.index(is_large, pa.scalar(True)).as_py()
                    raise self._broken(f"row {row} has a number in {name} with more digits than {column.type}")

    def _broken(self, why: str) -> UsageError:
        if "straddles" in why or "straddling" in why:
            why = f"a row has more than {format_size(_BLOCK_BYTES)}; a quotation mark may be open"
        why = _COLUMN.sub(lambda found: f"In the column {self.names[int(found[1])]}: ", why.partition(". If ")[0])
        return UsageError(
            f"The rows of {self.name} cannot be read.",
            why=f"{why[0].upper()}{why[1:]}. The first row names the columns.",
            remedy="Mend the row; docs/write/rows.md says how values of each type are given.",
        )


class _CountedQuotes:
    """A file whose first lines were read already, as Arrow reads one, which counts the quotation marks."""

    def __init__(self, content: BinaryIO, name: str) -> None:
        self._content = content
        self.head = b""
        while b"\n" not in self.head and (more := content.read(_HEAD_BYTES)):
            self.head += more
            if len(self.head) > _HEAD_BYTES_MAX:
                raise UsageError(
                    f"The first line of {name} does not end.",
                    why=f"It has more than {format_size(_HEAD_BYTES_MAX)}.",
                    remedy="Give a CSV file, whose first line names the columns; or name the file by what it holds.",
                )
        self._unread = self.head
        self.quotes = 0
        self.closed = False

    def read(self, size: int) -> bytes:
        if self._unread:
            read, self._unread = self._unread[:size], self._unread[size:]
        else:
            read = self._content.read(size)
        self.quotes += read.count(_QUOTE)
        return read

    def __enter__(self) -> _CountedQuotes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True
        self._content.close()
