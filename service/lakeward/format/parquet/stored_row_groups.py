"""Row groups as a Parquet file stores them, and as another file takes them over without decoding them.

Pages do not say at which place they are. The footer and the offset indexes do, and these are rewritten: every offset
moves by as much as its column chunk did. One chunk is never carried over, that of `_hoodie_file_name`.

    source   ... | group 7: chunk, chunk, NAMES, chunk | ... | indexes | footer
                             |      |              |
    output   ...... | group 5: chunk, chunk, names, chunk | ... | indexes | footer

Touches: the source it is given, by seeking and reading; the sink it is given, by writing behind what is there.
Keeps:   1. a file of which anything is not understood gives no row groups, but `NotCopyable`: fields that are not known
            here, chunks that lie on one another or in another file, encryption;
         2. the range of keys of a row group is exact, where a reader asks for it, and there are ranges of its other
            texts and bytes, or the row group is no `StoredRowGroup`;
         3. two files of one form (`StoredRowGroups.form`) decode pages alike: the schema, the order of values and the
            library that wrote them are the same, byte by byte;
         4. what is held is a part of a chunk, what the footers say, and the indexes of the chunks that are copied: no
            more than a limit that is given, or the file gives no row groups;
         5. bytes that are not those on which the file's seal was made are not copied, but `BrokenFile`.
See:     docs/decisions/0047-untouched-row-groups-are-copied.md, docs/decisions/0040-a-seal-on-the-keys.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.base.errors import BrokenFile
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.footer import TAIL_BYTES, footer_bytes
from lakeward.format.parquet.key_summary import Extent, SealedKeys, read_sealed_keys
from lakeward.format.parquet.metadata_without_bloom import metadata_without_bloom
from lakeward.format.parquet.pages import BadPage
from lakeward.format.parquet.thrift_tree import (
    BINARY,
    BYTES_MAX,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    Values,
    read_struct,
    write_struct,
)
from lakeward.storage.storage import is_of_storage

_MAGIC = b"PAR1"
_KEY_PATH = [b"_hoodie_record_key"]
_NAME_COLUMN = "_hoodie_file_name"
_NAME_PATH = [_NAME_COLUMN.encode()]
_PIECE_BYTES = 1024 * 1024
_INDEX_GROWTH = 100
"""A place of a page takes seven bytes and more as it is stored, and so many times that as a tree."""

# Fields of FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and Statistics, as parquet.thrift numbers them.
_ROWS, _GROUPS, _ENTRIES = 3, 4, 5
_CHUNKS, _BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_STORED_BYTES, _ORDINAL = 1, 2, 3, 5, 6, 7
_CHUNK_OFFSET, _FACTS, _OFFSET_INDEX, _OFFSET_INDEX_BYTES, _COLUMN_INDEX, _COLUMN_INDEX_BYTES = 2, 3, 4, 5, 6, 7
_TYPE, _PATH, _VALUES, _VALUE_BYTES, _STORED_BYTES = 1, 3, 5, 6, 7
_DATA_OFFSET, _DICTIONARY_OFFSET, _STATISTICS = 9, 11, 12
_NULLS, _MAX, _MIN, _MAX_IS_EXACT, _MIN_IS_EXACT = 3, 5, 6, 7, 8
_INDEX_FIELDS = (_OFFSET_INDEX, _OFFSET_INDEX_BYTES, _COLUMN_INDEX, _COLUMN_INDEX_BYTES)

_BYTES_TYPES = (6, 7)
"""The types of text and bytes, of any and of one length."""

# What is known of each: sorting columns (4) stay true, for what is rewritten is one value in all rows.
_KNOWN_OF_GROUP = {_CHUNKS, _BYTES, _GROUP_ROWS, 4, _GROUP_OFFSET, _GROUP_STORED_BYTES, _ORDINAL}
_KNOWN_OF_CHUNK = {_CHUNK_OFFSET, _FACTS, *_INDEX_FIELDS}
_KNOWN_OF_FACTS = {
    _TYPE,
    2,
    _PATH,
    4,
    _VALUES,
    _VALUE_BYTES,
    _STORED_BYTES,
    8,
    _DATA_OFFSET,
    _DICTIONARY_OFFSET,
    _STATISTICS,
    13,
    16,
}


class NotCopyable(Exception):
    """The file's row groups must be decoded and encoded; the text says why."""


@dataclass(frozen=True, slots=True)
class StoredRowGroup:
    """A row group that can be copied."""

    index: int
    """Its place among the row groups of its file."""
    rows: int
    size_bytes: int
    """Bytes of its pages when they are not compressed."""
    min_key: bytes
    """The smallest record key of its rows, all of it, as UTF-8; so the greatest. Empty where not asked for."""
    max_key: bytes
    description: Struct
    """What the footer says of it."""

    @property
    def dictionary_columns(self) -> list[str]:
        """The columns at the top of the schema that have a dictionary."""
        chunks = [chunk.get(_FACTS) for chunk in self.description.get(_CHUNKS).values]
        paths = [facts.get(_PATH).values for facts in chunks if facts.get(_DICTIONARY_OFFSET)]
        return [path[0].decode() for path in paths if len(path) == 1]

    @property
    def extent(self) -> Extent:
        places = [_place(chunk) for chunk in self.description.get(_CHUNKS).values]
        start, end = min(start for start, _ in places), max(end for _, end in places)
        return Extent(start, end, self.rows, self.min_key, self.max_key)

    @property
    def has_gaps(self) -> bool:
        """There are bytes between its columns that belong to none of them."""
        places = [_place(chunk) for chunk in self.description.get(_CHUNKS).values]
        return sum(end - start for start, end in places) != self.extent.end - self.extent.start


@dataclass(frozen=True)
class StoredRowGroups:
    form: bytes
    """All that the footer says but for its rows, row groups and entries."""
    groups: tuple[StoredRowGroup, ...]
    entries: dict[str, str]

    @cached_property
    def keys(self) -> SealedKeys | None:
        """What the footer says of all keys; None where that is not proved."""
        if any(group.has_gaps for group in self.groups):
            return None
        return read_sealed_keys(self.entries, [group.extent for group in self.groups])


def read_stored_row_groups(
    source: BinaryIO, *, name: str, bytes_max: int = 2 * BYTES_MAX, with_key_ranges: bool = True
) -> StoredRowGroups:
    """Raises `NotCopyable` by the first two invariants and the fourth, `BrokenFile` for what is no Parquet file.

    Args:
        with_key_ranges: without them row groups are copied whose keys are read, such as those of Hudi, whose footers do
            not say that ranges are exact.
        bytes_max: what may be held in memory for copying all of them. Half of it is for the footer; as much as a half
            of that becomes another one where row groups are copied, and as much is for indexes.
    """
    tree, end = _footer(source, name=name, bytes_max=bytes_max // 2)
    try:
        _check_indexes(tree, bytes_max // 4)
        return StoredRowGroups(
            form=write_struct(tree.without((_ROWS, _GROUPS, _ENTRIES))),
            groups=tuple(
                _stored(index, group, end, with_key_ranges) for index, group in enumerate(tree.get(_GROUPS).values)
            ),
            entries={
                entry.get(1).decode(errors="replace"): entry.get(2, b"").decode(errors="replace")
                for entry in tree.get(_ENTRIES, Values(STRUCT, [])).values
            },
        )
    except (AttributeError, TypeError) as error:  # a field is missing, or of another type
        raise NotCopyable(f"its footer is not that of a Parquet file: {error}") from error


class RowGroupCopies:
    """The row groups that a file takes over while a library writes the others of it."""

    def __init__(self, sink: pa.NativeFile, *, file_name: str) -> None:
        """
        Args:
            sink: the stream that the library writes to, which keeps count of where it is.
        """
        self._sink = sink
        self._file_name = file_name
        self._names: tuple[BinaryIO | None, Struct] = (None, Struct({}))
        self._groups: list[tuple[int, Struct]] = []
        self._indexes: list[tuple[Struct, bytes, bytes]] = []

    def __len__(self) -> int:
        return len(self._groups)

    def copy(
        self, source: BinaryIO, group: StoredRowGroup, names: BinaryIO, *, encoded: int, checksum: int | None = None
    ) -> None:
        """Write the pages of a row group behind all that is written.

        Args:
            names: a Parquet file with the one column `_hoodie_file_name`, of as many rows in one row group.
            encoded: how many row groups the library has written by now.
            checksum: the CRC-32 that the bytes of the row group must have, where it is known.
        """
        if names is not self._names[0]:
            (of_names,) = _footer(names, name=_NAME_COLUMN)[0].get(_GROUPS).values
            self._names = names, of_names
        of_names = self._names[1]
        assert of_names.get(_GROUP_ROWS) == group.rows
        (new_names,) = of_names.get(_CHUNKS).values
        start = self._sink.tell()
        found = None if checksum is None else 0
        chunks = list(group.description.get(_CHUNKS).values)
        for stretch in _stretches(chunks):
            if _path(chunks[stretch[0]]) == _NAME_PATH:
                (index,) = stretch
                if found is not None:
                    found = _sum_up(_pieces(source, *_place(chunks[index])), found)
                chunks[index] = self._copy_chunks(names, [new_names])[0][0]
                continue
            taken, found = self._copy_chunks(source, [chunks[index] for index in stretch], found)
            for index, chunk in zip(stretch, taken, strict=True):
                chunks[index] = chunk
        if checksum is not None and found != checksum:
            raise BrokenFile(
                f"The row group {group.index} of the base file from which {self._file_name} is made is damaged.",
                why=f"Its bytes have the checksum {found:08x}, and had {checksum:08x} when they were written.",
                remedy="Restore the base file, or roll back the commit that wrote it.",
            )
        value_bytes = sum(chunk.get(_FACTS).get(_VALUE_BYTES) for chunk in chunks)
        changed = {
            _CHUNKS: Values(STRUCT, chunks),
            _BYTES: value_bytes,
            _GROUP_OFFSET: start,
            _GROUP_STORED_BYTES: self._sink.tell() - start,
        }
        description = group.description.replace({n: v for n, v in changed.items() if n in group.description.fields})
        self._groups.append((encoded, description))

    def end(self, ending: bytes, at: int) -> bytes:
        """What ends the file: the indexes of what was copied, and the footer of all row groups.

        Args:
            ending: as the library would end the file, from `at` on.
        """
        length = footer_bytes(ending[-TAIL_BYTES:], file=self._file_name)
        tail = self._with_indexes(ending[: -TAIL_BYTES - length], at)
        tree = _read(ending[-TAIL_BYTES - length : -TAIL_BYTES], bytes_max=None)
        groups = tree.get(_GROUPS).values
        for before, group in reversed(self._groups):
            groups.insert(before, group)
        return tail + _footer_of(tree.fields, groups)

    def end_as(self, form: bytes, entries: Mapping[str, str], at: int) -> bytes:
        """What ends a file that has copied row groups alone, and their form."""
        of_entries = [
            Struct({1: (BINARY, name.encode()), 2: (BINARY, value.encode())}) for name, value in entries.items()
        ]
        fields = _read(form).fields | {
            _ROWS: (I64, 0),
            _GROUPS: (LIST, Values(STRUCT, [])),
            _ENTRIES: (LIST, Values(STRUCT, of_entries)),
        }
        return self._with_indexes(b"", at) + _footer_of(fields, [group for _, group in self._groups])

    def _with_indexes(self, ending: bytes, at: int) -> bytes:
        tail = bytearray(ending)
        for chunk, offset_index, column_index in self._indexes:
            if offset_index:
                chunk.fields[_OFFSET_INDEX] = (I64, at + len(tail))
                chunk.fields[_OFFSET_INDEX_BYTES] = (I32, len(offset_index))
                tail += offset_index
            if column_index:
                chunk.fields[_COLUMN_INDEX] = (I64, at + len(tail))
                chunk.fields[_COLUMN_INDEX_BYTES] = (I32, len(column_index))
                tail += column_index
        return bytes(tail)

    @property
    def places(self) -> list[int]:
        """The places that the row groups have in the file, as they were copied."""
        return [encoded + before for before, (encoded, _) in enumerate(self._groups)]

    def _copy_chunks(
        self, source: BinaryIO, chunks: Sequence[Struct], checksum: int | None = None
    ) -> tuple[list[Struct], int | None]:
        """Copy chunks that lie one behind the other; what the new footer says of them, and the checksum so far."""
        start, end = _place(chunks[0])[0], _place(chunks[-1])[1]
        moved_by = self._sink.tell() - start
        for data in _pieces(source, start, end):
            checksum = None if checksum is None else crc32(data, checksum)
            self._sink.write(data)
        return [self._moved(source, chunk, moved_by) for chunk in chunks], checksum

    def _moved(self, source: BinaryIO, chunk: Struct, moved_by: int) -> Struct:
        facts = chunk.get(_FACTS)
        offsets = {n: facts.get(n) + moved_by for n in (_DATA_OFFSET, _DICTIONARY_OFFSET) if facts.get(n)}
        offset = chunk.get(_CHUNK_OFFSET)
        moved = {_FACTS: facts.replace(offsets), _CHUNK_OFFSET: offset + moved_by if offset else 0}
        taken = chunk.replace(moved).without(_INDEX_FIELDS)
        places, column_index = _indexes(source, chunk)
        offset_index = b""
        if places is not None:
            pages = [page.replace({1: page.get(1) + moved_by}) for page in places.get(1).values]
            offset_index = write_struct(places.replace({1: Values(STRUCT, pages)}))
        if offset_index or column_index:
            self._indexes.append((taken, offset_index, column_index))
        return taken


def _footer_of(fields: Mapping[int, tuple[int, Any]], groups: Sequence[Struct]) -> bytes:
    groups = [
        group.replace({_ORDINAL: index}) if _ORDINAL in group.fields else group for index, group in enumerate(groups)
    ]
    rows = sum(group.get(_GROUP_ROWS) for group in groups)
    tree = Struct(dict(sorted(fields.items()))).replace({_ROWS: rows, _GROUPS: Values(STRUCT, groups)})
    data = write_struct(tree)
    return data + len(data).to_bytes(4, "little") + _MAGIC


def find_difference(
    source: BinaryIO, output: BinaryIO, pairs: Iterable[tuple[int, int]], *, file_name: str
) -> str | None:
    """`RowGroupComparison.find_difference` where one file was copied from."""
    return RowGroupComparison(output, file_name=file_name).find_difference(source, pairs)


class RowGroupComparison:
    """An output beside the files from which row groups of it were copied.

    The footers are read by the library and not by the code that wrote one of them. The pages are compared as bytes.
    """

    def __init__(self, output: BinaryIO, *, file_name: str) -> None:
        """
        Args:
            file_name: what all rows of the output say.
        """
        self._output = output
        self._file_name = file_name

    @cached_property
    def _names(self) -> ParquetBatches:
        return ParquetBatches(self._output, where=f"the base file {self._file_name}", with_bloom=False)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and row groups the output has."""
        return self._names.metadata.num_rows, self._names.metadata.num_row_groups

    def find_difference(self, source: BinaryIO, pairs: Iterable[tuple[int, int]]) -> str | None:
        """What a row group of the source and the one that it became differ in, but for the file's name.

        Args:
            pairs: the places of row groups in the source and in the output.
        """
        try:
            return self._find_difference(source, pairs)
        except (pa.ArrowException, OSError, BadPage) as error:
            if is_of_storage(error):
                raise
            return f"what was copied cannot be read: {error}"

    def _find_difference(self, source: BinaryIO, pairs: Iterable[tuple[int, int]]) -> str | None:
        before, after = metadata_without_bloom(source) or pq.read_metadata(source), self._names.metadata
        for of_source, of_output in pairs:
            old, new = before.row_group(of_source), after.row_group(of_output)
            where = f"the row group {of_output}, copied from {of_source},"
            if (old.num_rows, old.num_columns) != (new.num_rows, new.num_columns):
                return f"{where} has {new.num_rows} rows where {old.num_rows} were"
            for index in range(new.num_columns):
                column = new.column(index)
                is_name = column.path_in_schema == _NAME_COLUMN
                if not is_name and not _are_same(source, old.column(index), self._output, column):
                    return f"{where} has other bytes in the column {column.path_in_schema}"
            rows = 0
            # As a dictionary: as texts they would take longer to decode than all pages to compare.
            names = self._names.read(
                [_NAME_COLUMN], rows_max=new.num_rows, groups=[of_output], dictionaries=[_NAME_COLUMN]
            )
            for batch in names:
                rows += batch.num_rows
                if set(batch.column(0).unique().to_pylist()) != {self._file_name}:
                    return f"{where} has rows of another file's name"
            if rows != new.num_rows:
                return f"{where} has {rows} file names for {new.num_rows} rows"
        return None


def _are_same(source: BinaryIO, old: Any, output: BinaryIO, new: Any) -> bool:
    if _without_places(old) != _without_places(new):
        return False
    at, other = _library_start(old), _library_start(new)
    if old.data_page_offset - at != new.data_page_offset - other:
        return False
    size = old.total_compressed_size
    pairs = zip(_pieces(source, at, at + size), _pieces(output, other, other + size), strict=True)
    return all(before == after for before, after in pairs)


def _without_places(chunk: Any) -> dict[str, Any]:
    facts: dict[str, Any] = chunk.to_dict()
    for name in ("file_offset", "dictionary_page_offset", "data_page_offset"):
        del facts[name]
    return facts


def _library_start(chunk: Any) -> int:
    return int(chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset)


def _stored(index: int, group: Struct, end: int, with_key_ranges: bool) -> StoredRowGroup:
    where = f"the row group {index}"
    chunks = group.get(_CHUNKS).values
    keys = [chunk for chunk in chunks if _path(chunk) == _KEY_PATH]
    if not _KNOWN_OF_GROUP.issuperset(group.fields) or not all(_is_understood(chunk) for chunk in chunks):
        raise NotCopyable(f"{where} has fields that are not known here")
    places = sorted(_place(chunk) for chunk in chunks)
    starts, ends = [start for start, _ in places], [end for _, end in places]
    if any(start > end for start, end in places) or any(
        before > after for before, after in zip([len(_MAGIC), *ends], [*starts, end], strict=True)
    ):
        raise NotCopyable(f"{where} has columns that lie on one another, or outside of its file")
    if len(keys) != 1 or sum(_path(chunk) == _NAME_PATH for chunk in chunks) != 1:
        raise NotCopyable(f"{where} has not the columns of Hudi")
    smallest, largest = _key_range(keys[0].get(_FACTS), where) if with_key_ranges else (b"", b"")
    if not all(_has_range(chunk.get(_FACTS)) for chunk in chunks):
        raise NotCopyable(f"{where} has a column of long values without a range")
    return StoredRowGroup(index, group.get(_GROUP_ROWS), group.get(_BYTES), smallest, largest, group)


def _key_range(facts: Struct, where: str) -> tuple[bytes, bytes]:
    statistics = facts.get(_STATISTICS, Struct({}))
    smallest, largest = statistics.get(_MIN), statistics.get(_MAX)
    is_exact = statistics.get(_MIN_IS_EXACT) is True and statistics.get(_MAX_IS_EXACT) is True
    if not is_exact or smallest is None or largest is None or statistics.get(_NULLS) != 0:
        raise NotCopyable(f"{where} has no exact range of its keys")
    return smallest, largest


def _is_understood(chunk: Struct) -> bool:
    facts = chunk.get(_FACTS)
    return (
        isinstance(facts, Struct)
        and _KNOWN_OF_CHUNK.issuperset(chunk.fields)
        and _KNOWN_OF_FACTS.issuperset(facts.fields)
        and facts.get(_DATA_OFFSET) >= _start(facts)
        # Java's writer has the place of the first page of data there, as of old.
        and chunk.get(_CHUNK_OFFSET) in (0, facts.get(_DATA_OFFSET))
    )


def _has_range(facts: Struct) -> bool:
    """Files of before `long_values` have columns without."""
    statistics = facts.get(_STATISTICS, Struct({}))
    holds_nulls_alone = statistics.get(_NULLS) == facts.get(_VALUES)
    return facts.get(_TYPE) not in _BYTES_TYPES or holds_nulls_alone or {_MIN, _MAX} <= statistics.fields.keys()


def _path(chunk: Struct) -> list[bytes]:
    facts = chunk.get(_FACTS)
    return facts.get(_PATH).values if isinstance(facts, Struct) else []


def _start(facts: Struct) -> int:
    """The place of the first page."""
    start: int = facts.get(_DICTIONARY_OFFSET) or facts.get(_DATA_OFFSET)
    return start


def _place(chunk: Struct) -> tuple[int, int]:
    """The places at which the column chunk begins and ends."""
    facts = chunk.get(_FACTS)
    start = _start(facts)
    return start, start + facts.get(_STORED_BYTES)


def _stretches(chunks: Sequence[Struct]) -> Iterator[list[int]]:
    """The chunks, by their numbers, that lie one behind the other; that of the file's name is alone."""
    stretch: list[int] = []
    for index in sorted(range(len(chunks)), key=lambda index: _place(chunks[index])):
        if stretch:
            before = chunks[stretch[-1]]
            follows = _place(before)[1] == _place(chunks[index])[0]
            if not follows or _NAME_PATH in (_path(before), _path(chunks[index])):
                yield stretch
                stretch = []
        stretch.append(index)
    yield stretch


def _sum_up(pieces: Iterable[bytes], checksum: int) -> int:
    for data in pieces:
        checksum = crc32(data, checksum)
    return checksum


def _indexes(source: BinaryIO, chunk: Struct) -> tuple[Struct | None, bytes]:
    """The offset index and the column index of a chunk, the latter as it is stored."""
    offset_index, column_index = None, b""
    if chunk.get(_OFFSET_INDEX):
        source.seek(chunk.get(_OFFSET_INDEX))
        offset_index = _read(source.read(chunk.get(_OFFSET_INDEX_BYTES)))
    if chunk.get(_COLUMN_INDEX):
        source.seek(chunk.get(_COLUMN_INDEX))
        column_index = source.read(chunk.get(_COLUMN_INDEX_BYTES))
    return offset_index, column_index


def _check_indexes(tree: Struct, bytes_max: int) -> None:
    """They are all held as they are stored, and one of them as a tree."""
    held = largest = 0
    for group in tree.get(_GROUPS).values:
        for chunk in group.get(_CHUNKS).values:
            held += chunk.get(_OFFSET_INDEX_BYTES, 0) + chunk.get(_COLUMN_INDEX_BYTES, 0)
            largest = max(largest, chunk.get(_OFFSET_INDEX_BYTES, 0))
    if held + _INDEX_GROWTH * largest > bytes_max:
        raise NotCopyable("its indexes would take more memory than there is for them")


def _footer(source: BinaryIO, *, name: str, bytes_max: int = BYTES_MAX) -> tuple[Struct, int]:
    """The footer, and the place at which it begins."""
    end = source.seek(0, 2) - TAIL_BYTES
    source.seek(max(0, end))
    tail = source.read(TAIL_BYTES)
    length = footer_bytes(tail, file=name)
    if tail[4:] != _MAGIC or length > end:
        raise NotCopyable("the footer is encrypted or cut short")
    if length > bytes_max:
        raise NotCopyable("the footer would take more memory than there is for it")
    source.seek(end - length)
    return _read(source.read(length), bytes_max=bytes_max), end - length


def _read(data: bytes, *, bytes_max: int | None = BYTES_MAX) -> Struct:
    try:
        tree, _ = read_struct(data, bytes_max=bytes_max)
    except ValueError as error:
        raise NotCopyable(str(error)) from error
    return tree


def _pieces(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, _PIECE_BYTES):
        file.seek(at)
        data = file.read(min(_PIECE_BYTES, end - at))
        if len(data) != min(_PIECE_BYTES, end - at):
            raise BrokenFile("A base file ended while it was copied.")
        yield data
