"""The keys that an operator names: a text file with a key on each line, or a column of a Parquet or CSV file.

    keys.txt, -                 one a line, as `_hoodie_record_key` has them; empty lines are passed over
    keys.parquet, keys.csv      the column `key`, or `_hoodie_record_key`, or the only one there is

Outputs name a key by its line (or row, from 1 on) and an HMAC of it: nothing of the file itself is in them, in errors
neither.

Touches: the file, reading.
Keeps:   1. an error names the file and the line, and no key;
         2. a key that comes twice is one, named by its first line.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from lakeward.base.errors import UsageError

_COLUMNS: Final = ("key", "_hoodie_record_key")
_KEY_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class NamedKeys:
    keys: tuple[str, ...]
    lines: tuple[int, ...]
    """The line of each key."""


def read_key_file(path: Path) -> NamedKeys:
    """Raises `UsageError`."""
    suffix = path.suffix.lower()
    lines = _text_lines(path) if suffix not in (".parquet", ".csv") else _column(path, suffix)
    found: dict[str, int] = {}
    for number, key in lines:
        if len(key.encode("utf-8", "surrogatepass")) > _KEY_BYTES_MAX:
            raise _bad(path, f"Line {number:,} is longer than a record key can be.")
        found.setdefault(key, number)
    if not found:
        raise _bad(path, "It names no key.")
    return NamedKeys(tuple(found), tuple(found.values()))


def key_hmac(salt: bytes, key: str) -> str:
    return hmac.new(salt, key.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _text_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise _bad(path, f"{error.strerror or type(error).__name__}.") from None
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            key = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            raise _bad(path, f"Line {number:,} is not UTF-8 text.") from None
        if "\0" in key:
            raise _bad(path, f"Line {number:,} has a zero byte.")
        if key:
            yield number, key


def _column(path: Path, suffix: str) -> Iterator[tuple[int, str]]:
    try:
        table = pq.read_table(path) if suffix == ".parquet" else _read_csv(path)
    except OSError as error:
        raise _bad(path, f"{error.strerror or 'It cannot be read as what its name says'}.") from None
    except pa.ArrowException:  # its text may quote a line of the file
        raise _bad(path, "It cannot be read as what its name says.") from None
    names = [name for name in _COLUMNS if name in table.column_names] or table.column_names
    if len(names) != 1 and names[0] not in _COLUMNS:
        raise _bad(path, f"It has {len(names):,} columns, and none is called {' or '.join(_COLUMNS)}.")
    column = table.column(names[0]).combine_chunks()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise _bad(path, f"The column {names[0]} is of the type {column.type}; record keys are text.")
    for row, key in enumerate(column.to_pylist(), 1):
        if key is None or not key:
            raise _bad(path, f"Row {row:,} has no key.")
        yield row, key


def _read_csv(path: Path) -> pa.Table:
    names = pyarrow.csv.open_csv(path).schema.names
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    return pyarrow.csv.read_csv(path, convert_options=options)


def _bad(path: Path, why: str) -> UsageError:
    return UsageError(
        f"The key file {path} cannot be used.",
        why=why,
        remedy="Give a text file with one record key on each line, or a Parquet or CSV file with a column `key`.",
    )
