"""Parquet base files: Arrow batches in, one file with Hudi's footer out; and the reverse.

Written: the five meta columns first, every column nullable unless the caller knows better, decimals as fixed-length
byte arrays, timestamps as INT64, 3-level lists; footer entries with the bloom filter, its type, and the smallest and
largest record key, without which Hudi's indexes fail or miss rows. Read: what Hudi's Avro writer and Spark's row
writer make, that is lists of 2 and 3 levels, INT96 timestamps, columns that are missing or still have their older type.

Row groups of an earlier base file of the same form can be taken over as they are stored (`stored_row_groups`).

Touches: the sink it is given; the source it is given, by seeking and reading.
Keeps:   1. `_hoodie_file_name` is the file's own name in every row, whatever the batch says;
         2. the bloom filter and the key range cover every row (`key_summary`); where rows carry no keys the footer has
            neither, and no seal;
         3. what is written is held for two row groups and a quarter, bounded by rows and by bytes: while one is
            encoded the next is gathered; what is read is held for one batch;
         4. a row group has a quarter of `ROW_GROUP_ROWS` or more, unless its rows are wide or there are no more rows
            before the next row group that is copied;
         5. the seal of a file that is sorted has the bytes of each row group as they went to the sink;
         6. the footer says of each row group, also where values are long, within which range its texts and bytes are
            (`long_values`).
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.column_names import META_COLUMNS, OPERATION_COLUMN
from lakeward.format.bloom_lookup import TYPE_CODE
from lakeward.format.bloom_size import ROW_BYTES_MAX
from lakeward.format.parquet.batches import BATCH_BYTES_MAX, BATCH_ROWS, ChooseGroups, ParquetBatches, WantedKeys
from lakeward.format.parquet.behind import Behind
from lakeward.format.parquet.counted_sink import CountedSink
from lakeward.format.parquet.key_summary import SEAL_KEY, Extent, KeySummary, SealedKeys, seal
from lakeward.format.parquet.long_values import Ranges, add_ranges, find_long
from lakeward.format.parquet.metadata_without_bloom import metadata_without_bloom
from lakeward.format.parquet.pages import chunks_of, longest_value
from lakeward.format.parquet.parquet_writer import (
    PAGE_BYTES,
    VALUES_AT_ONCE_MAX,
    FileNames,
    open_writer,
    repeated_columns,
    values_of_a_page,
)
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.parquet.stored_row_groups import RowGroupCopies, StoredRowGroup, read_stored_row_groups
from lakeward.format.parquet.unreadable import broken_if_unreadable
from lakeward.format.projection import project

SORTED_BY_KEY = "lakeward.sorted.by"
"""The entry names the column by which the rows are sorted. Hudi passes over entries that it does not know."""

ROW_GROUP_ROWS = 61_440
"""Rows of a row group at most. A key of the logs costs decoding and encoding one row group, a key that is looked for
decoding one; each column of each adds some hundred bytes to the footer."""
ROW_GROUP_BYTES = 128 * 1024 * 1024
SHARE_OF_SMALL = 4
"""A row group is small with less than a quarter of the rows and of the bytes that one has at most."""

_KEY_COLUMN = "_hoodie_record_key"
_FILE_NAME_COLUMN = "_hoodie_file_name"
_SMALL_DICTIONARY_BYTES = 64 * 1024
"""The library stops adding to a dictionary at a megabyte: stored, a smaller one holds all values of its row group."""
_SHORT_VALUE_BYTES = 256
_PAGE_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BaseFileStats:
    """What was written."""

    rows: int
    size_bytes: int
    min_key: str | None
    max_key: str | None
    copied: tuple[tuple[int, int], ...] = ()
    """The row groups that were copied: their places in the file that they are of, and in this one."""
    bloom_error_rate: float | None = None
    """How often the bloom filter errs, where it has more keys than there was room for."""


class BaseFileWriter:
    """Writes one base file. Close it, or the sink holds no file. A context manager: at its end nothing is written any
    more, also where it was not closed."""

    def __init__(
        self,
        sink: BinaryIO,
        schema: pa.Schema,
        *,
        file_name: str,
        codec: str = "zstd",
        keys_expected: int | None = None,
        bloom_type: str = TYPE_CODE,
        bloom_bytes_max: int = ROW_BYTES_MAX,
        required: Collection[str] = (),
        row_group_bytes: int = ROW_GROUP_BYTES,
        dictionaries: Collection[str] = (),
        has_keys: bool = True,
    ) -> None:
        """
        Args:
            dictionaries: columns of strings that come as dictionaries.
            has_keys: rows carry their keys; else the column of the key is null, and the footer says nothing of keys.
            keys_expected: sizes the bloom filter; without it all keys are held in memory until `close`.
            bloom_bytes_max: what the bits of the filter may take.
            required: columns that hold no null, and are written so.
            row_group_bytes: rows that take more do not wait for others.
        """
        assert tuple(schema.names[: len(META_COLUMNS)]) == META_COLUMNS
        self._sink = CountedSink(sink)
        self._stream = pa.PythonFile(self._sink, mode="w")
        in_dictionaries = {*dictionaries, _FILE_NAME_COLUMN}
        kinds = [pa.dictionary(pa.int32(), each.type) if each.name in in_dictionaries else each.type for each in schema]
        columns = list(zip(schema.names, kinds, strict=True))
        self._rows_schema = pa.schema([pa.field(name, kind) for name, kind in columns if name != _FILE_NAME_COLUMN])
        self._file_name = pa.array([file_name], type=pa.string())
        self._file_name_index = schema.get_field_index(_FILE_NAME_COLUMN)
        self._required = [name for name in self._rows_schema.names if name in required]
        self._written_schema = pa.schema(
            [pa.field(name, kind, nullable=name not in required) for name, kind in columns]
        )
        self._codec = codec
        self._row_group_bytes = row_group_bytes
        self._encoder = Behind("lakeward-encoder")
        self._writer: pq.ParquetWriter | None = None
        self._encoded = 0
        self._long: list[Ranges] = []
        self._copies = RowGroupCopies(self._stream, file_name=file_name)
        self._copied: list[int] = []
        self._names = FileNames(file_name, codec=codec, nullable=_FILE_NAME_COLUMN not in required)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._taken_bytes = 0
        self._keys: KeySummary | None = None
        if has_keys:
            self._keys = KeySummary(keys_expected=keys_expected, bloom_type=bloom_type, bloom_bytes_max=bloom_bytes_max)
        self._sealed: SealedKeys | None = None
        self._extents: list[Extent] = []
        self._checksums: list[int] = []
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._encoder.close()
        if kind is not None and self._writer is not None:
            # Or the library writes a footer when the object goes, to a sink that is closed by then.
            self._writer.is_open = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, in the writer's schema; the column of the file's name may be missing."""
        if _FILE_NAME_COLUMN in batch.schema.names:
            batch = batch.drop_columns([_FILE_NAME_COLUMN])
        assert batch.schema.equals(self._rows_schema), f"{batch.schema} is not {self._rows_schema}"
        for start in range(0, batch.num_rows, ROW_GROUP_ROWS):
            self._write_part(batch.slice(start, ROW_GROUP_ROWS))

    @property
    def form(self) -> bytes:
        """The form of the file (`StoredRowGroups.form`): row groups of files of another form cannot be copied."""
        empty = io.BytesIO()
        self._library_writer(empty, self._written_schema, repeated=(), values_at_once=1).close()
        return read_stored_row_groups(empty, name=str(self._file_name[0])).form

    def estimate_size(self) -> int:
        """About how many bytes the file would have if it were closed now, its footer left out: rows that wait count as
        those that are encoded came out, the first ones as they are. Waits until no row is being encoded."""
        self._encoder.wait()
        encoded_bytes = self._taken_bytes - self._pending_bytes
        if encoded_bytes <= 0:
            return self._pending_bytes
        return self._sink.position + self._pending_bytes * self._sink.position // encoded_bytes

    def begin_with(self, keys: SealedKeys) -> None:
        """Go on with the bloom filter of the file whose row groups are copied; called before anything is written."""
        self._sealed = keys
        assert self._keys is not None
        self._keys.begin_with(keys)

    def copy(self, source: BinaryIO, group: StoredRowGroup, keys: Iterable[pa.StringArray] | None) -> None:
        """Append a row group as another file of the same form stores it, but for the file's name.

        Args:
            keys: the record keys of its rows; None where that file's filter, with which this one began, has them.
        """
        assert self._keys is not None, "row groups are copied by their keys"
        self._flush_to_the_end()
        checksum = None
        if keys is None:
            assert self._sealed is not None
            checksum = self._sealed.checksums[group.index]
            self._keys.take_over(group.min_key, group.max_key, rows=group.rows)
        else:
            rows = 0
            for part in keys:
                self._keys.add(part)
                rows += len(part)
            assert rows == group.rows, f"{rows} keys of {group.rows} rows"
        if self._writer is None:
            self._open(group.dictionary_columns, rows=group.rows, size_bytes=group.size_bytes)
        start = self._sink.begin_checksum()
        names = self._names.of(group.rows)
        self._copies.copy(source, group, names, encoded=self._encoded, checksum=checksum)
        self._end_row_group(start, group.rows, group.min_key, group.max_key)
        self._copied.append(group.index)
        self._rows += group.rows

    def close(self, *, is_sorted: bool = False, entries: Mapping[str, str] | None = None) -> BaseFileStats:
        """Write what is left, then the footer. The sink stays open, since it is the caller's.

        Args:
            is_sorted: the rows were written in the order of their keys' bytes, which the footer then says.
            entries: of the footer's key-value metadata, beside what is said of keys.
        """
        self.end_rows()
        assert self._writer is not None
        self._encoder.close()
        if self._keys is not None:
            of_keys = self._keys.entries()
            if is_sorted:
                of_keys[SORTED_BY_KEY] = _KEY_COLUMN
                of_keys[SEAL_KEY] = seal(of_keys, self._extents, self._checksums)
            self._writer.add_key_value_metadata(of_keys)
        if entries is not None:
            self._writer.add_key_value_metadata(dict(entries))
        at = self._sink.hold()
        self._writer.close()
        ending = self._sink.release()
        if any(self._long):
            ending = add_ranges(ending, self._long, file_name=str(self._file_name[0]))
        self._sink.write(self._copies.end(ending, at) if self._copied else ending)
        return BaseFileStats(
            rows=self._rows,
            size_bytes=self._sink.position,
            min_key=None if self._keys is None else self._keys.min_key,
            max_key=None if self._keys is None else self._keys.max_key,
            copied=tuple(zip(self._copied, self._copies.places, strict=True)),
            bloom_error_rate=None if self._keys is None else self._keys.bloom_error_rate,
        )

    def end_rows(self) -> int:
        """Write what is left of the rows; what lies in front of the footer then."""
        self._flush_to_the_end()
        if self._writer is None:
            self._open([], rows=0, size_bytes=0)
        return self._sink.position

    def _write_part(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        for name in self._required:
            if batch.column(name).null_count:
                raise BrokenFile(
                    f"Column {name} of {self._file_name[0]} would hold a null.",
                    why="The table's schema and the base file before say that it holds none; a log file has one.",
                    remedy="Find out which writer put it there; nothing was published.",
                )
        if self._keys is not None:
            self._keys.add(batch.column(_KEY_COLUMN))
        names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(batch.num_rows, dtype=np.int32)), self._file_name)
        columns = batch.columns
        columns.insert(self._file_name_index, names)
        self._pending.append(pa.RecordBatch.from_arrays(columns, schema=self._written_schema))
        self._pending_rows += batch.num_rows
        size_bytes = _plain_bytes(batch)
        self._pending_bytes += size_bytes
        self._taken_bytes += size_bytes
        self._rows += batch.num_rows
        # Where wide rows come after narrow ones, their pages may be as large as the row group.
        is_wide = self._pending_bytes > self._pending_rows * (PAGE_BYTES // VALUES_AT_ONCE_MAX)
        bytes_max = self._row_group_bytes // 2 if is_wide else self._row_group_bytes
        if self._pending_bytes >= bytes_max:
            self._flush_all()
        elif self._pending_rows >= ROW_GROUP_ROWS + ROW_GROUP_ROWS // SHARE_OF_SMALL:
            self._flush(ROW_GROUP_ROWS)

    def _flush_all(self) -> None:
        """Write the rows that wait: in two parts where they are more than a row group has, so that none is small."""
        if self._pending_rows > ROW_GROUP_ROWS:
            self._flush(self._pending_rows // 2)
        if self._pending_rows:
            self._flush(self._pending_rows)

    def _flush_to_the_end(self) -> None:
        """Write the rows that wait, and go on when all are encoded."""
        self._flush_all()
        self._encoder.wait()

    def _flush(self, rows: int) -> None:
        """Begin to write the first of the rows that wait as a row group."""
        pending = pa.Table.from_batches(self._pending, schema=self._written_schema)
        # The library writes one dictionary for a row group; rows of a second one it would write plain.
        table, rest = pending.slice(0, rows).unify_dictionaries(), pending.slice(rows)
        if self._writer is None:
            self._open(repeated_columns(table), rows=rows, size_bytes=self._pending_bytes)
        assert self._writer is not None
        self._encoder.run(partial(self._encode, table))
        self._encoded += 1
        self._pending = rest.to_batches()
        self._pending_rows = rest.num_rows
        self._pending_bytes = sum(_plain_bytes(batch) for batch in self._pending)

    def _encode(self, table: pa.Table) -> None:
        assert self._writer is not None
        start = self._sink.begin_checksum()
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._long.append(find_long(table))
        if self._keys is not None:
            keys = table.column(_KEY_COLUMN)
            self._end_row_group(start, table.num_rows, keys[0].as_py().encode(), keys[-1].as_py().encode())

    def _end_row_group(self, start: int, rows: int, first: bytes, last: bytes) -> None:
        """Note what the seal says of a row group; where rows are sorted, its first key is the smallest."""
        self._extents.append(Extent(start, self._sink.position, rows, first, last))
        self._checksums.append(self._sink.checksum)

    def _open(self, repeated: Sequence[str], *, rows: int, size_bytes: int) -> None:
        """Begin the file. The first row group says which columns repeat, and how wide rows are."""
        at_once = min(VALUES_AT_ONCE_MAX, values_of_a_page(rows, size_bytes))
        self._writer = self._library_writer(
            self._stream, self._written_schema, repeated=repeated, values_at_once=at_once
        )

    def _library_writer(
        self, sink: BinaryIO | pa.NativeFile, schema: pa.Schema, *, repeated: Sequence[str], values_at_once: int
    ) -> pq.ParquetWriter:
        return open_writer(sink, schema, codec=self._codec, repeated=repeated, values_at_once=values_at_once)


def open_base_file(
    source: BinaryIO,
    schema: pa.Schema,
    *,
    name: str,
    batch_rows: int = BATCH_ROWS,
    bytes_max: int = BATCH_BYTES_MAX,
    choose: ChooseGroups | None = None,
    with_bloom: bool = False,
    wanted_keys: WantedKeys | None = None,
    meter: ReadMeter | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a base file in file order, in `schema`: columns the file does not have are filled in as by `project`,
    and what is a dictionary there comes as one.

    No batch takes more than `bytes_max` when it is decoded; a row that does is `Unsupported`.

    Args:
        choose: without it all row groups are read.
        with_bloom: `choose` finds the file's bloom filter in its footer.
        wanted_keys: rows with other record keys may be left out.
    """
    where = f"the base file {name}"
    with broken_if_unreadable(name):
        file = ParquetBatches(
            source, where=where, bytes_max=bytes_max, with_bloom=with_bloom, coerce_int96_timestamp_unit="us"
        )
        metadata = file.metadata
        wanted = set(schema.names)
        columns = [column for column in file.schema.names if column in wanted]
        dictionaries = [column.name for column in schema if pa.types.is_dictionary(column.type)]
        naive_is_utc = any(metadata.schema.column(i).physical_type == "INT96" for i in range(metadata.num_columns))
        groups = range(metadata.num_row_groups) if choose is None else choose(file)
        if not columns:
            rows = sum(metadata.row_group(group).num_rows for group in groups)
            for start in range(0, rows, batch_rows):
                nothing = pa.RecordBatch.from_struct_array(pa.nulls(min(batch_rows, rows - start), pa.struct([])))
                yield project(nothing, schema, where=where)
            return
        for batch in file.read(
            columns,
            rows_max=batch_rows,
            groups=groups,
            dictionaries=dictionaries,
            wanted_keys=wanted_keys,
            meter=meter,
        ):
            yield project(batch, schema, where=where, naive_is_utc=naive_is_utc)


def read_required(source: BinaryIO, *, name: str) -> frozenset[str]:
    """The columns of a base file that may hold no null, from its footer."""
    with broken_if_unreadable(name):
        return frozenset(column.name for column in _open(source).schema_arrow if not column.nullable)


@dataclass(frozen=True, slots=True)
class BaseFileShape:
    """What the footer says of the rows as a whole."""

    rows: int
    is_sorted: bool
    """Its writer says that they are in the order of their keys' bytes, no key twice."""
    repeated: frozenset[str] = frozenset()
    """Columns of byte strings whose values are few and short: each row group has a small dictionary of them."""
    has_operation: bool = False
    """Rows have the kind of change beside them."""


def count_rows(source: BinaryIO, *, name: str) -> int:
    """How many rows the footer counts; nothing else of the file is read."""
    with broken_if_unreadable(name):
        return int(_open(source).metadata.num_rows)


def read_shape(source: BinaryIO, *, name: str, with_repeated: bool = True) -> BaseFileShape:
    """
    Args:
        with_repeated: look for columns that repeat, whose dictionaries are read for it.
    """
    with broken_if_unreadable(name):
        metadata = _open(source).metadata
        entries = metadata.metadata or {}
        return BaseFileShape(
            int(metadata.num_rows),
            entries.get(SORTED_BY_KEY.encode()) == _KEY_COLUMN.encode(),
            repeated_strings(source, metadata) if with_repeated else frozenset(),
            any(metadata.schema.column(index).path == OPERATION_COLUMN for index in range(metadata.num_columns)),
        )


def repeated_strings(source: BinaryIO, metadata: pq.FileMetaData) -> frozenset[str]:
    """Columns of byte strings whose values are few and short, by the sizes of their dictionaries."""
    columns = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    found = {
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type == "STRING" and column.path == column.name
    } - {_KEY_COLUMN}
    for group in range(metadata.num_row_groups):
        for chunk in chunks_of(metadata, group, list(found)):
            is_small = 0 < chunk.dictionary_stored_bytes <= _SMALL_DICTIONARY_BYTES
            # The first row group stands for the others: a value of a later one may be long, and takes its time then.
            if is_small and group == 0:
                is_small = longest_value(source, chunk, bytes_max=_PAGE_MAX) <= _SHORT_VALUE_BYTES
            if not is_small:
                found.discard(chunk.path)
    return frozenset(found)


def _open(source: BinaryIO) -> pq.ParquetFile:
    """The file is opened to read its footer, without the bloom filter there."""
    return pq.ParquetFile(
        source,
        metadata=metadata_without_bloom(source),
        pre_buffer=False,
        memory_map=False,
        buffer_size=256 * 1024,
        coerce_int96_timestamp_unit="us",
    )


def _plain_bytes(batch: pa.RecordBatch) -> int:
    """What the rows take, where values of dictionaries may take as much as the longest of them."""
    total = 0
    for column in batch.columns:
        total += column.nbytes
        if pa.types.is_dictionary(column.type) and len(column.dictionary):
            longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
            total += len(column) * longest
    return total
