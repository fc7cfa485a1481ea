"""Rows of a Parquet file in batches that are bounded by what they take when they are decoded, down to single rows.

How many rows a batch may have is guessed from the footer, then tried: where `PageWatch` says that they need more than
the budget, fewer are asked for, and the row group is read again up to where it was. A list column whose dictionary may
inflate it is read as places in the dictionary, and cut to size before these become values.

Touches: the file it is given, by seeking and reading.
Keeps:   1. no batch, decoded, takes more than the budget; nor do the pages that it comes from;
         2. a row that does is an error that names its key, its column and its file;
         3. the rows are all rows of the file in their order, each once; or those of some row groups, or those with keys
            that are wanted: of the others pages are not read that hold none of them (`null_pages`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.base.errors import Unsupported
from lakeward.base.named_key import named_key
from lakeward.base.quantities import format_size
from lakeward.format.parquet.metadata_without_bloom import metadata_without_bloom
from lakeward.format.parquet.null_pages import NullPages
from lakeward.format.parquet.pages import BadPage, Chunk, PageWatch, TooMuch, chunks_of, longest_value
from lakeward.format.parquet.read_meter import ReadMeter

BATCH_ROWS = 16_384
BATCH_BYTES_MAX = 128 * 1024 * 1024
"""Bytes of one batch when it is decoded, or of one row, where the caller sets no other bound."""

_BATCH_BYTES = 16 * 1024 * 1024
_FEWER = 8
# The library reads this much ahead of a page, and the watch counts what is in it.
_BUFFER_BYTES = 16 * 1024
_KEY_COLUMN = "_hoodie_record_key"
_OTHERS_MIN = 4
"""Columns that take so many times what the keys take are worth a look at the keys before."""

WantedKeys = Callable[[pa.Array], pa.Array]
"""Says of record keys which are wanted; what it says of null counts for nothing."""


class ParquetBatches:
    """An open Parquet file. Raises what the library does, and `BadPage`."""

    def __init__(
        self, source: BinaryIO, *, where: str, bytes_max: int = BATCH_BYTES_MAX, with_bloom: bool = True, **options: Any
    ) -> None:
        """
        Args:
            where: names the file in errors.
            with_bloom: the `metadata` has the bloom filter of a base file, which takes four times its text.
            options: of the library's reader.
        """
        self._source = source
        self._where = where
        self._bytes_max = max(bytes_max, _BATCH_BYTES)
        self._options = {"pre_buffer": False, "memory_map": False, "buffer_size": _BUFFER_BYTES, **options}
        known = None if with_bloom else metadata_without_bloom(source)
        file = pq.ParquetFile(PageWatch(source, self._bytes_max), metadata=known, **self._options)
        self.metadata = file.metadata
        self.schema = file.schema_arrow

    def read(
        self,
        columns: Sequence[str],
        *,
        rows_max: int = BATCH_ROWS,
        groups: Sequence[int] | None = None,
        dictionaries: Collection[str] = (),
        wanted_keys: WantedKeys | None = None,
        meter: ReadMeter | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The columns, batch by batch. Values of lists may be in dictionaries.

        Args:
            groups: numbers of row groups; None for all.
            wanted_keys: rows with other record keys may be left out.
            dictionaries: columns of byte strings that come as dictionaries.
            meter: counts what is read, and what is not.
        """
        groups = range(self.metadata.num_row_groups) if groups is None else groups
        if meter is not None:
            meter.row_groups_skipped += self.metadata.num_row_groups - len(groups)
            meter.bytes_stored += sum(self._stored_bytes(group) for group in range(self.metadata.num_row_groups))
        for group in groups:
            if meter is not None:
                meter.row_groups += 1
            for batch in self._read_wanted(group, columns, rows_max, dictionaries, wanted_keys, meter or ReadMeter()):
                if meter is not None:
                    meter.rows += batch.num_rows
                yield batch

    def _stored_bytes(self, group: int) -> int:
        facts = self.metadata.row_group(group)
        return sum(int(facts.column(at).total_compressed_size) for at in range(facts.num_columns))

    def _read_wanted(
        self,
        group: int,
        columns: Sequence[str],
        rows_max: int,
        dictionaries: Collection[str],
        wanted_keys: WantedKeys | None,
        meter: ReadMeter,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the group, or those with these keys, of which rows without a key are never left out."""
        is_wanted = None if wanted_keys is None else self._find_wanted(group, columns, rows_max, wanted_keys, meter)
        chunks = chunks_of(self.metadata, group, columns)
        if is_wanted is None:
            meter.bytes_read += sum(chunk.end - chunk.start for chunk in chunks)
            yield from self._read_group(group, columns, rows_max, dictionaries)
            return
        wanted = np.flatnonzero(is_wanted)
        if not len(wanted):
            return
        pages = NullPages(self._source, chunks, wanted)
        try:
            at = 0
            for batch in self._read_group(group, columns, rows_max, dictionaries, cast(BinaryIO, pages)):
                chosen = batch.filter(pa.array(is_wanted[at : at + batch.num_rows]))
                at += batch.num_rows
                if chosen.num_rows:
                    yield chosen
                if at > wanted[-1]:
                    return
            raise BadPage(f"row group {group} has {len(is_wanted)} record keys and {at} rows")
        finally:
            meter.bytes_read += pages.bytes_read

    def _find_wanted(
        self, group: int, columns: Sequence[str], rows_max: int, wanted_keys: WantedKeys, meter: ReadMeter
    ) -> npt.NDArray[np.bool_] | None:
        """Which rows of the group have one of these keys, or none; None where all are, or it does not pay to look."""
        sizes = {each.path: each.end - each.start for each in chunks_of(self.metadata, group, columns)}
        key_bytes = sizes.get(_KEY_COLUMN)
        if key_bytes is None or _OTHERS_MIN * key_bytes > sum(sizes.values()):
            return None
        meter.bytes_read += key_bytes
        masks = [
            pc.or_(wanted_keys(keys), keys.is_null()).to_numpy(zero_copy_only=False)
            for batch in self._read_group(group, [_KEY_COLUMN], rows_max)
            for keys in [batch.column(0)]
        ]
        is_wanted = np.concatenate([np.zeros(0, dtype=np.bool_), *masks])
        return None if is_wanted.all() else is_wanted

    def _read_group(
        self,
        group: int,
        columns: Sequence[str],
        rows_max: int,
        dictionaries: Collection[str] = (),
        pages: BinaryIO | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """
        Args:
            pages: the file as its pages are to be read; None: as it is.
        """
        watch = PageWatch(self._source if pages is None else pages, self._bytes_max)
        chunks = chunks_of(self.metadata, group, columns)
        for chunk in chunks:
            chunk.stays_dictionary = chunk.path in dictionaries
        rows_in_group = self.metadata.row_group(group).num_rows
        rows = self._first_guess(group, rows_max)
        self._look_up([chunk for chunk in chunks if _FEWER * rows * chunk.dictionary_stored_bytes > self._bytes_max])
        done = 0
        while done < rows_in_group:
            try:
                for batch in self._attempt(watch, group, columns, chunks, rows, done):
                    yield from self._parts(batch, chunks)
                    done += batch.num_rows
                return
            except TooMuch as much:
                # All of them at once: each new beginning decodes again what came before.
                if self._look_up(chunks):
                    continue
                if much.chunk.can_keep_dictionary:
                    much.chunk.keeps_dictionary = True
                elif rows > 1:
                    rows = max(1, rows // _FEWER)
                else:
                    key = self._key(group, done)
                    raise self._too_large(
                        key, much.chunk.path, needed=much.needed, rows=much.chunk.rows_at_once
                    ) from None

    def _attempt(
        self,
        watch: PageWatch,
        group: int,
        columns: Sequence[str],
        chunks: Sequence[Chunk],
        rows: int,
        done: int,
    ) -> Iterator[pa.RecordBatch]:
        """The rows from `done` on."""
        as_dictionary = [chunk.path for chunk in chunks if chunk.keeps_dictionary or chunk.stays_dictionary]
        watch.begin(chunks)
        file = pq.ParquetFile(watch, metadata=self.metadata, read_dictionary=as_dictionary, **self._options)
        batches = file.iter_batches(rows, row_groups=[group], columns=list(columns), use_threads=False)
        rows_in_group = self.metadata.row_group(group).num_rows
        at = 0
        while at < rows_in_group:
            watch.ask(at, min(at + rows, rows_in_group))
            batch = next(batches, None)
            if batch is None:
                return
            at += batch.num_rows
            if at > done:
                yield batch.slice(max(0, batch.num_rows - (at - done)))

    def _first_guess(self, group: int, rows_max: int) -> int:
        """Fewer rows where they are wide, so that a batch stays near `_BATCH_BYTES`."""
        facts = self.metadata.row_group(group)
        if facts.num_rows <= 0 or facts.total_byte_size <= 0:
            return rows_max
        return int(min(rows_max, max(1, _BATCH_BYTES * facts.num_rows // facts.total_byte_size)))

    def _look_up(self, chunks: Sequence[Chunk]) -> bool:
        """Find out how long the values of the columns' dictionaries are. False when all is known."""
        unknown = [chunk for chunk in chunks if chunk.longest is None and not chunk.width and chunk.has_dictionary]
        for chunk in unknown:
            chunk.longest = longest_value(self._source, chunk, bytes_max=self._bytes_max)
        return bool(unknown)

    def _parts(self, batch: pa.RecordBatch, chunks: Sequence[Chunk]) -> Iterator[pa.RecordBatch]:
        """The batch, cut so that no part takes more than the budget when its dictionaries are gone."""
        inflating = {chunk.path.split(".")[0] for chunk in chunks if chunk.keeps_dictionary}
        if not inflating:
            yield batch
            return
        sizes = sum(row_bytes(batch.column(name)) for name in inflating)
        assert isinstance(sizes, np.ndarray)
        start = 0
        ends = np.cumsum(sizes)
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            end = int(np.searchsorted(ends, before + self._bytes_max, side="right"))
            if end == start:
                key = batch.column(_KEY_COLUMN)[start].as_py() if _KEY_COLUMN in batch.schema.names else None
                raise self._too_large(key, sorted(inflating)[0], needed=int(sizes[start]))
            # A copy: a slice would keep, and later decode, the lists of the other rows, too.
            yield batch.take(pa.array(np.arange(start, end)))
            start = end

    def _too_large(self, key: str | None, column: str, *, needed: int, rows: int = 1) -> Unsupported:
        key = "(unknown)" if key is None else named_key(key)
        named = f"the row with the key {key}" if rows == 1 else f"one of {rows} rows that begin with the key {key}"
        return Unsupported(
            f"The column {column} of {named} in {self._where} is too large.",
            why=f"Decoded, it takes {format_size(needed)} of memory, where {format_size(self._bytes_max)} are allowed.",
            remedy="Allow the operation more memory, or take the row out of the table.",
        )

    def _key(self, group: int, row: int) -> str | None:
        """None where the file has none, or it is what is too large."""
        if _KEY_COLUMN not in self.schema.names:
            return None
        try:
            chunks = chunks_of(self.metadata, group, [_KEY_COLUMN])
            self._look_up(chunks)
            for batch in self._attempt(PageWatch(self._source, self._bytes_max), group, [_KEY_COLUMN], chunks, 1, row):
                key: str | None = batch.column(0)[0].as_py()
                return key
        except TooMuch:
            pass
        return None


ChooseGroups = Callable[[ParquetBatches], Sequence[int]]
"""Looks at an open file's footer and says which row groups are read, by their numbers."""


def row_bytes(array: pa.Array) -> npt.NDArray[np.int64]:
    """How many bytes each row of a column takes when nothing of it is in a dictionary."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.fill_null(pc.binary_length(array.dictionary), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        places = pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)
        sizes = (lengths[places] if len(lengths) else np.zeros(len(array), dtype=np.int64)) + 4
        return np.asarray(sizes, dtype=np.int64)
    if pa.types.is_struct(kind):
        of_fields = [row_bytes(array.field(index)) for index in range(kind.num_fields)]
        return np.asarray(sum(of_fields, start=np.zeros(len(array), dtype=np.int64)))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        # The children as they lie there: those of other rows stand in between, and the offsets know.
        entries = (
            pa.StructArray.from_arrays([array.keys, array.items], ["k", "v"]) if pa.types.is_map(kind) else array.values
        )
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        total = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(row_bytes(entries))])
        return np.asarray(total[offsets[1:]] - total[offsets[:-1]] + 4)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return np.asarray(pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False), dtype=np.int64) + 4
    width = 1 if pa.types.is_boolean(kind) or pa.types.is_null(kind) else kind.bit_width // 8
    return np.full(len(array), width, dtype=np.int64)
