"""Which of the keys a file holds, and as what: any file below a table's base path, by what it is and not by its name.

    row, delete    in the column of record keys of a Parquet file, or of a data block; in a delete block, a native log
    entry          the key of an HFile's entry: the metadata table, an index of Lakeward
    list           the key list of a log's tail, or a range that it or the cache of filters has
    text           in what holds no rows: commits, plans, footers, statistics, manifests, and the path of the file

All blocks of a log are read, whether they count or not: what was rolled back is in its bytes all the same. What is
compressed is decompressed first. Bloom filters hold no keys.

Touches: the file, reading.
Keeps:   1. what cannot be read whole is said to be unread, and is still looked through as text;
         2. rows are looked through by their record keys alone, in blocks that count and in others;
         3. the path of a file is looked through like what is in it.
Memory:  a batch of rows, a block of an HFile, or a stretch of text; the records of a container and the tail of a log.
"""

from __future__ import annotations

import posixpath
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, LakewardError, Unsupported
from lakeward.format.avro.container import MAGIC as AVRO_MAGIC
from lakeward.format.avro.container import open_container
from lakeward.format.file_name import NativeLogKind, parse_native_log
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.log.block import MAGIC as LOG_MAGIC
from lakeward.format.log.block import BlockType, CorruptBlock, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.delete_block import read_delete_block
from lakeward.format.log.key_list import read_key_list
from lakeward.format.log.log_tail import LogTail, read_entry_tail, read_log_tail
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.footer import TAIL_BYTES, is_encrypted, read_ending, without_bloom
from lakeward.index.bloom.cache_file import ENTRIES
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.read.made_keys import made_keys
from lakeward.services.together.erasure.wanted_keys import ErasureKeys, Numbers
from lakeward.storage.storage import Storage, is_of_storage

_STRETCH_BYTES: Final = 4 * 1024 * 1024
_PARQUET_MAGIC: Final = b"PAR1"
_HFILE_MAGIC: Final = b"DATABLK*"
_HFILE_END: Final = b'TRABLK"$'
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_CACHE_ENDING: Final = ".keys"
_IMAGES: Final = ("before", "after")
_CHANGED_KEY: Final = "record_key"
_SECONDARY: Final = r"^(?s:(?:[^\\$]|\\.)*\$)"
"""The value before the record key in the key of a secondary index: up to the first `$` that is not escaped."""


class HeldAs(StrEnum):
    """The role of a key in a file. Scripts match on these ids."""

    ROW = "row"
    DELETE = "delete"
    ENTRY = "entry"
    LIST = "list"
    TEXT = "text"


@dataclass(slots=True)
class FileContents:
    """What was found in one file."""

    keys: ErasureKeys
    found: dict[HeldAs, npt.NDArray[np.bool_]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    """Why a part of it could not be read."""

    @property
    def holds(self) -> Mapping[HeldAs, Numbers]:
        """The keys that it has in each form."""
        return {form: np.flatnonzero(self.found[form]) for form in HeldAs if form in self.found}

    @property
    def numbers(self) -> Numbers:
        """All keys that it has."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self.holds.values()]))

    def see(self, form: HeldAs, column: pa.Array) -> None:
        self._add(form, self.keys.in_column(column))

    def see_text(self, text: bytes, *, goes_on: bool = False) -> None:
        self._add(HeldAs.TEXT, self.keys.in_text(text, known=self.found.get(HeldAs.TEXT), goes_on=goes_on))

    def _add(self, form: HeldAs, numbers: Numbers) -> None:
        if len(numbers):
            self.found.setdefault(form, np.zeros(len(self.keys), np.bool_))[numbers] = True


@dataclass(frozen=True, slots=True)
class FileReading:
    storage: Storage
    keys: ErasureKeys
    key_fields: Sequence[str]
    """The table's record key fields, for rows that carry no key."""

    def read(self, path: str, size: int, *, shown: str) -> FileContents:
        """Raises `NotFound` where it has gone, and what the storage fails with.

        Args:
            shown: the path below the table.
        """
        found = FileContents(self.keys)
        found.see_text(f"/{shown}/".encode("utf-8", "surrogatepass"))
        with self.storage.open_input(path) as file:
            try:
                self._read(file, size, shown, found)
            except (LakewardError, pa.ArrowException, ValueError, KeyError, IndexError, OSError, zlib.error) as error:
                if is_of_storage(error):
                    raise
                found.unread.append(_reason(error))
                self._text_of(file, 0, size, found)
        return found

    def _read(self, file: BinaryIO, size: int, shown: str, found: FileContents) -> None:
        head = file.read(len(_HFILE_MAGIC))
        name = posixpath.basename(shown)
        if head.startswith(LOG_MAGIC):
            self._read_log(file, size, shown, found)
        elif head.startswith(_PARQUET_MAGIC):
            self._read_parquet(file, size, shown, found)
        elif head == _HFILE_MAGIC or (name.endswith(".hfile") and size):  # an empty one has no data block
            is_deletes = (native := parse_native_log(name)) is not None and native.kind is NativeLogKind.DELETES
            form = HeldAs.DELETE if is_deletes else HeldAs.ENTRY
            self._read_hfile(HFileReader(file, length=size, name=shown), shown, form, found)
        elif head.startswith(AVRO_MAGIC):
            file.seek(0)
            found.see_text(open_container(file.read(size))[1])
        elif name.endswith(_CACHE_ENDING):
            self._read_cache(file, size, found)
        elif head.startswith((_GZIP_MAGIC, _ZSTD_MAGIC)):
            file.seek(0)
            kind = "gzip" if head.startswith(_GZIP_MAGIC) else "zstd"
            with pa.CompressedInputStream(pa.PythonFile(file, "r"), kind) as stream:
                self._stretches(lambda length: stream.read(length), found)
        else:
            self._text_of(file, 0, size, found)

    def _read_log(self, file: BinaryIO, size: int, shown: str, found: FileContents) -> None:
        has_rows = ".commits_" not in posixpath.basename(shown)  # the archive of table version 6 is a log of instants
        for block in scan_blocks(file, size, name=shown):
            if isinstance(block, CorruptBlock):
                found.unread.append(f"The {block.length:,} bytes from byte {block.offset:,} on are no whole log block.")
                self._text_of(file, block.offset, block.offset + block.length, found)
                continue
            self._text_of(file, block.offset, block.content_offset, found)
            if block.type is BlockType.DELETE:
                for deleted in read_delete_block(file, block):
                    found.see(HeldAs.DELETE, deleted.keys)
            elif block.type is BlockType.HFILE_DATA:
                reader = HFileReader(file, offset=block.content_offset, length=block.content_length, name=block.where)
                self._read_hfile(reader, shown, HeldAs.ENTRY, found)
            elif block.type is not BlockType.COMMAND and has_rows:
                for batch in read_data_block(file, block):
                    self._see_rows(batch, found)
            else:
                self._text_of(file, block.content_offset, block.content_offset + block.content_length, found)
        if (tail := read_log_tail(file, size)) is not None:
            _see_tail(tail, file, found)

    def _read_parquet(self, file: BinaryIO, size: int, shown: str, found: FileContents) -> None:
        tail, footer = read_ending(file, size, file=shown)
        if is_encrypted(tail, footer, file=shown):
            raise Unsupported(f"{shown} is encrypted.")
        native = parse_native_log(posixpath.basename(shown))
        file.seek(0)
        source = ParquetBatches(file, where=shown)
        found.see_text(without_bloom(footer))
        entries = dict(source.metadata.metadata or {})
        own = read_entry_tail(entries, bytes_before=size - TAIL_BYTES - len(footer))
        if own is not None:
            _see_tail(*own, found)
        names = source.schema.names
        is_delete = native is not None and native.kind is NativeLogKind.DELETES
        if is_delete or RECORD_KEY_FIELD in names or (native is not None and native.is_cdc):
            known = {RECORD_KEY_FIELD, _CHANGED_KEY, *_IMAGES, *self.key_fields}
            for batch in source.read([name for name in names if name in known]):
                self._see_rows(batch, found, HeldAs.DELETE if is_delete else HeldAs.ROW)
        else:
            for batch in source.read(names):
                for column in batch.columns:
                    _see_values(column, found)

    def _see_rows(self, batch: pa.RecordBatch, found: FileContents, form: HeldAs = HeldAs.ROW) -> None:
        """Rows by their keys; changes by the keys that they name, and those of the rows in them."""
        for name in (RECORD_KEY_FIELD, _CHANGED_KEY):
            if name in batch.schema.names and _is_text(batch.schema.field(name).type):
                keys = batch.column(name)
                found.see(form, keys)
                if keys.null_count < len(keys) and not pc.all(pc.equal(keys, "")).as_py():
                    return
        images = [batch.column(name) for name in _IMAGES if name in batch.schema.names]
        structs = [image for image in images if pa.types.is_struct(image.type)]
        parts = [pa.RecordBatch.from_struct_array(image.drop_null()) for image in structs] or [batch]
        for part in parts:
            for keys in self._made(part):
                found.see(form, keys)

    def _made(self, batch: pa.RecordBatch) -> Iterator[pa.Array]:
        """The keys of rows that carry none, in each form that a key generator gives them."""
        fields = tuple(self.key_fields)
        if not fields or not set(fields) <= set(batch.schema.names):
            raise BrokenFile("Rows have no record key, and not all fields that it is made of.")
        keys = made_keys(batch, fields)
        yield keys.cast(pa.string())
        if len(fields) == 1:
            yield pc.binary_join_element_wise(fields[0], keys.cast(pa.string()), ":")

    def _read_hfile(self, reader: HFileReader, shown: str, form: HeldAs, found: FileContents) -> None:
        is_secondary = "/secondary_index_" in shown
        for value in reader.info.values():
            found.see_text(value)
        for entries in reader.scan():
            keys = entries.keys
            found.see(form, keys)
            # In an index where a key is one in its partition, the path follows behind a zero byte.
            found.see(form, pc.list_element(pc.split_pattern(keys, b"\0", max_splits=1, reverse=True), 0))
            if is_secondary:
                record_keys = pc.replace_substring_regex(keys.cast(pa.string()), _SECONDARY, "")
                found.see(form, pc.replace_substring_regex(record_keys, r"\\(.)", r"\1"))
            _see_values(entries.values, found)

    def _read_cache(self, file: BinaryIO, size: int, found: FileContents) -> None:
        """The ranges in a file of the cache of filters (`index/bloom/cache_file`)."""
        file.seek(0)
        data = file.read(size)
        at = data.rfind(ENTRIES.serialize().to_pybytes())
        if at < 0:
            raise BrokenFile("Its entries are not found.")
        with pa.ipc.open_stream(data[at:]) as stream:
            for batch in stream:
                found.see(HeldAs.LIST, batch.column("low"))
                found.see(HeldAs.LIST, batch.column("high"))
                _see_values(batch.column("path"), found)

    def _text_of(self, file: BinaryIO, start: int, end: int, found: FileContents) -> None:
        left = end - start
        file.seek(start)

        def read(length: int) -> bytes:
            nonlocal left
            data = file.read(min(length, left))
            left -= len(data)
            return data

        self._stretches(read, found)

    def _stretches(self, read: Callable[[int], bytes], found: FileContents) -> None:
        before, data = b"", read(_STRETCH_BYTES)
        while data:
            behind = read(_STRETCH_BYTES)
            text = before + data
            found.see_text(text, goes_on=bool(behind))
            # A key may lie across two stretches, with the byte before it and the one behind.
            before, data = text[-(self.keys.bytes_max + 2) :], behind


def _see_tail(tail: LogTail, file: BinaryIO, found: FileContents) -> None:
    ranges = [tail.own.low, tail.own.high, tail.cumulative.low, tail.cumulative.high]
    found.see(HeldAs.LIST, pa.array(ranges, pa.string()))
    if tail.key_list is None:
        return
    listed = tail.key_list.read(file)
    if listed is None:
        raise BrokenFile("The key list of its tail has another checksum than it should.")
    for run in read_key_list(listed):
        found.see(HeldAs.LIST, run)


def _see_values(column: pa.Array, found: FileContents) -> None:
    """The text of values, each by itself."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        _see_values(column.dictionary, found)
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            _see_values(part, found)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        _see_values(column.flatten(), found)
    elif _is_text(kind) and len(column):
        values = column.cast(pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
        apart = pc.binary_join_element_wise(values.fill_null(b""), b"", b"\0")
        _, _, data = apart.buffers()
        found.see_text(b"" if data is None else b"\0" + data.to_pybytes())


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _reason(error: Exception) -> str:
    if isinstance(error, LakewardError):
        return f"{error.what} {error.why}".strip()
    return f"{type(error).__name__}: {error}"
