"""A base file that is made of the row groups of others, as they are stored. All have one form.

    file 1   group, group | footer          joined   group, group, group | footer of their form,
    file 2   group | footer                                                filter and range of all keys

What pages say they say as they did, by the writer that the footer names. New is the column of the file's name, and what
the footer says of keys.

Touches: the sources it is given, by seeking and reading; the sink it is given.
Keeps:   1. filter and range cover the keys of all rows: either these are read, or they were so for each file;
         2. it is written only from files that agree in all that their footers say, but for rows and keys;
         3. memory is bounded by a part of a chunk, a batch of keys, and by what the footers say.
See:     docs/decisions/0144-packing-copies-row-groups.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from lakeward.base.errors import BrokenFile
from lakeward.format.bloom_lookup import TYPE_CODE
from lakeward.format.parquet.base_file import SORTED_BY_KEY, BaseFileStats
from lakeward.format.parquet.counted_sink import CountedSink
from lakeward.format.parquet.key_summary import (
    BLOOM_KEY,
    BLOOM_TYPE_KEY,
    FILTER_ROWS_KEY,
    MAX_KEY,
    MIN_KEY,
    SEAL_KEY,
    Extent,
    JoinedKeys,
    KeySummary,
    filter_rows,
    seal,
)
from lakeward.format.parquet.parquet_writer import FileNames
from lakeward.format.parquet.stored_row_groups import RowGroupCopies, StoredRowGroup, StoredRowGroups

_KEY_COLUMN = "_hoodie_record_key"
_OF_FILE = (SEAL_KEY, FILTER_ROWS_KEY)
_OF_KEYS = (BLOOM_KEY, BLOOM_TYPE_KEY, MIN_KEY, MAX_KEY, SORTED_BY_KEY, *_OF_FILE)


@dataclass(frozen=True, slots=True)
class JoinedForm:
    """What files that are joined have in common."""

    form: bytes
    """`StoredRowGroups.form`."""
    entries: Mapping[str, str]
    """The footer's entries that say nothing of keys."""

    @classmethod
    def of(cls, stored: StoredRowGroups) -> JoinedForm:
        return cls(stored.form, {name: value for name, value in stored.entries.items() if name not in _OF_KEYS})

    @staticmethod
    def keys_of(stored: StoredRowGroups) -> dict[str, str]:
        """The others, but for those that say where row groups are."""
        return {name: value for name, value in stored.entries.items() if name in _OF_KEYS and name not in _OF_FILE}


class JoinedFileWriter:
    """Writes one file. Close it, or the sink holds no file."""

    def __init__(
        self,
        sink: BinaryIO,
        form: JoinedForm,
        *,
        file_name: str,
        codec: str,
        names_nullable: bool,
        keys_expected: int,
        bloom_bytes_max: int,
        known: JoinedKeys | None = None,
    ) -> None:
        """
        Args:
            known: what the footer is to say of keys, where they are not read.
            codec: of the column of the file's name.
            names_nullable: that column may hold nulls, as the form says.
            bloom_bytes_max: what the bits of the filter may take.
        """
        self._sink = CountedSink(sink, sums_up=known is None)
        self._stream = pa.PythonFile(self._sink, mode="w")
        self._form = form
        self._names = FileNames(file_name, codec=codec, nullable=names_nullable)
        self._copies = RowGroupCopies(self._stream, file_name=file_name)
        self._keys = KeySummary(keys_expected=keys_expected, bloom_type=TYPE_CODE, bloom_bytes_max=bloom_bytes_max)
        self._known = known
        self._filter_rows: list[range] = []
        self._extents: list[Extent] = []
        self._checksums: list[int] = []
        self._rows = 0
        self._stream.write(b"PAR1")

    def copy(self, source: BinaryIO, group: StoredRowGroup, keys: Iterable[pa.StringArray] | None, file: int) -> int:
        """Append a row group; its place in this file.

        Args:
            keys: the record keys of its rows, in their order; None where the footer is known.
            file: the number of the file that it is of.
        """
        if self._known is not None:
            self._filter_rows.append(self._known.rows[file])
        first, last = (b"", b"") if keys is None else self._add(keys, group)
        start = self._sink.begin_checksum()
        self._copies.copy(source, group, self._names.of(group.rows), encoded=0)
        self._extents.append(Extent(start, self._sink.position, group.rows, first, last))
        self._checksums.append(self._sink.checksum)
        self._rows += group.rows
        return len(self._extents) - 1

    def _add(self, keys: Iterable[pa.StringArray], group: StoredRowGroup) -> tuple[bytes, bytes]:
        """The first and the last."""
        rows, first, last = 0, b"", b""
        for part in keys:
            if part.null_count:
                raise BrokenFile(f"A row of the row group {group.index} of a base file has no record key.")
            if len(part):
                first = first if rows else part[0].as_py().encode()
                last = part[-1].as_py().encode()
            self._keys.add(part)
            rows += len(part)
        if rows != group.rows:
            raise BrokenFile(f"The row group {group.index} of a base file has {rows} keys of {group.rows} rows.")
        return first, last

    def close(self, *, is_sorted: bool) -> BaseFileStats:
        """Write the footer. The sink stays open, since it is the caller's.

        Args:
            is_sorted: the rows are in the order of their keys' bytes, no key twice, which the footer then says.
        """
        of_keys = self._keys.entries() if self._known is None else dict(self._known.entries)
        if self._known is not None:
            of_keys[FILTER_ROWS_KEY] = filter_rows(of_keys[BLOOM_KEY], self._extents, self._filter_rows)
        if is_sorted:
            assert self._known is None, "the keys were not read"
            of_keys[SORTED_BY_KEY] = _KEY_COLUMN
            of_keys[SEAL_KEY] = seal(of_keys, self._extents, self._checksums)
        self._sink.write(self._copies.end_as(self._form.form, {**self._form.entries, **of_keys}, self._sink.position))
        return BaseFileStats(
            rows=self._rows,
            size_bytes=self._sink.position,
            min_key=of_keys.get(MIN_KEY),
            max_key=of_keys.get(MAX_KEY),
            bloom_error_rate=self._keys.bloom_error_rate,
        )
