"""Rows of a data block as Arrow batches in their own schema; `format/projection.py` brings them to the table's.

An Avro data block (type 3) holds int32 block version, int32 record count, then per record int32 length and Avro binary;
the schema is in the block's header. It is decoded straight into Arrow buffers by `format/avro/decoder.py`, some
thousand records at a time. Bytes may follow the records that the block counts: Hudi does not read them, and RFC-06 has
an index there. So are records of changes (type 6), and those of an HFile data block (type 4), as
`read_hfile_records` finds them. A Parquet data block (type 5) is a whole Parquet file inside of the log file and is
read in place.

Records of an HFile data block (type 4), framed as those of an Avro data block are: block in, stretches of them out.

The content is a whole HFile with an entry for each record, in the order of keys: a key, and the row in Avro binary by
the schema of the block's header. The key is the record key. A text column of the name `key` is stored as an empty
string, and readers put the entry's key there, because Hudi's metadata tables have such a column and its writer makes no
difference. Hudi 1.0 has the entry by what that column held, 1.2.0 by the record key (`read/logs/log_scan` refuses the
loss). (Hudi: HoodieHFileDataBlock and HFileUtils write, HoodieAvroHFileReaderImplBase reads; real tables of both.)

Touches: the log file it is given, by seeking and reading.
Keeps:   1. every length is checked against the block before it is used, every value against its type;
         2. as many rows come out as the block says it has, or an error; so is a record behind them, for then the count
            is wrong, and rows would be lost;
         3. of an Avro block no more is held than a window of 4 MiB, or one record that is larger, and its rows;
         4. memory is bounded by one data block of the HFile, which Hudi ends at 1 MiB, and its frames;
         5. as many records come out as the HFile's trailer counts, or an error.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.base.named_key import named_key
from lakeward.base.quantities import format_size
from lakeward.format.avro.decoder import Decoded, decode_records
from lakeward.format.avro.program import AvroProgram, BadRecord, TooLarge, compile_schema, read_number
from lakeward.format.avro.schema import AvroField, AvroKind, block_schema, parse_schema
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.log.block import KEY_COLUMN, BlockType, HeaderKey, LogBlock, read_content_range
from lakeward.format.parquet.base_file import repeated_strings
from lakeward.format.parquet.batches import BATCH_BYTES_MAX, BATCH_ROWS, ChooseGroups, ParquetBatches, WantedKeys
from lakeward.format.parquet.footer import TAIL_BYTES, footer_bytes, is_encrypted
from lakeward.format.parquet.pages import BadPage
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.projection import project
from lakeward.storage.storage import is_of_storage

_AVRO_BLOCK_VERSION = 3
_HEAD_BYTES = 8
_WINDOW_BYTES = 4 * 1024 * 1024
_FRAME_BYTES = 4
_KEY_COLUMN = "_hoodie_record_key"
_ROWS_TO_JUDGE_MIN = 16_384
"""A block of fewer rows has a small dictionary even of a column without any repetition."""
_NOTHING = np.zeros(0, dtype=np.uint8)


_FRAME = np.dtype(">i4")


@dataclass(frozen=True, slots=True)
class FramedRecords:
    """The records of one data block of the HFile."""

    keys: pa.BinaryArray
    data: npt.NDArray[np.uint8]
    """Each record led by its int32 length."""


def read_hfile_records(file: BinaryIO, block: LogBlock) -> Iterator[FramedRecords]:
    """All records of a block. Raises `BrokenFile` and `Unsupported`, naming the place."""
    assert block.type is BlockType.HFILE_DATA
    hfile = HFileReader(file, offset=block.content_offset, length=block.content_length, name=block.where)
    for entries in hfile.scan():
        yield FramedRecords(entries.keys, _framed(entries.values))


def with_key_column(batch: pa.RecordBatch, keys: pa.BinaryArray) -> pa.RecordBatch:
    """The rows of these entries, with what their column `key` held; unchanged where they have no text of that name."""
    place = batch.schema.get_field_index(KEY_COLUMN)
    if place < 0 or not pa.types.is_string(batch.schema.field(place).type):
        return batch
    stored = batch.column(place)
    # The column's own bytes: text that is not UTF-8 is found where all text is checked.
    held = pc.if_else(pc.equal(stored, ""), keys.view(pa.string()), stored)
    return batch.set_column(place, batch.schema.field(place), held)


def _framed(values: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[: len(values) + 1].astype(np.int64)
    heads = offsets[:-1] + _FRAME.itemsize * np.arange(len(values))
    framed = np.empty(int(offsets[-1]) + _FRAME.itemsize * len(values), dtype=np.uint8)
    is_head = np.zeros(len(framed), dtype=np.bool_)
    lengths = np.diff(offsets).astype(_FRAME).view(np.uint8).reshape(-1, _FRAME.itemsize)
    for index in range(_FRAME.itemsize):
        is_head[heads + index] = True
        framed[heads + index] = lengths[:, index]
    stored = values.buffers()[2]
    framed[~is_head] = np.frombuffer(stored, dtype=np.uint8)[: int(offsets[-1])] if len(values) else []
    return framed


def read_data_block(
    file: BinaryIO,
    block: LogBlock,
    *,
    batch_rows: int = BATCH_ROWS,
    bytes_max: int = BATCH_BYTES_MAX,
    columns: Collection[str] | None = None,
    choose: ChooseGroups | None = None,
    dictionaries: Collection[str] = (),
    wanted_keys: WantedKeys | None = None,
    meter: ReadMeter | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a data block, in block order and in the schema of its header.

    No batch takes more than `bytes_max` when it is decoded; a row that does is `Unsupported`. Neither does what is read
    of an Avro block at once: a few megabytes, or one record that is larger.

    Args:
        columns: the names of those that come out; None for all.
        choose: the row groups of a Parquet block to read, by its footer; without it all of them.
        dictionaries: columns of strings that come as dictionaries out of Parquet blocks.
        wanted_keys: rows of Parquet blocks with other record keys may be left out.
    """
    schema_json = block.headers.get(HeaderKey.SCHEMA)
    if schema_json is None:
        raise _broken(block, "it has no schema header")
    if block.type in (BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.CDC_DATA):
        if meter is not None:
            meter.bytes_read += block.content_length
            meter.bytes_stored += block.content_length
        read = _read_hfile if block.type is BlockType.HFILE_DATA else _read_avro
        for batch in read(file, block, schema_json, batch_rows, bytes_max, columns):
            if meter is not None:
                meter.rows += batch.num_rows
            yield batch
    elif block.type is BlockType.PARQUET_DATA:
        schema = block_schema(schema_json, where=block.where)
        yield from read_parquet_rows(
            file,
            block,
            schema if columns is None else pa.schema([column for column in schema if column.name in columns]),
            batch_rows=batch_rows,
            bytes_max=bytes_max,
            choose=choose,
            dictionaries=dictionaries,
            wanted_keys=wanted_keys,
            meter=meter,
        )
    else:
        raise Unsupported(
            f"{block.where} is of type {block.type.name}.",
            why="This release merges Avro, HFile and Parquet data blocks.",
            remedy="Compact this table with Hudi itself.",
        )


def _read_avro(
    file: BinaryIO,
    block: LogBlock,
    schema_json: str,
    batch_rows: int,
    bytes_max: int,
    columns: Collection[str] | None,
) -> Iterator[pa.RecordBatch]:
    of_record = parse_schema(schema_json, where=block.where)
    program = compile_schema(of_record, columns)
    if block.content_length < _HEAD_BYTES:
        raise _broken(block, "its content is shorter than its head")
    version, count = struct.unpack(">ii", read_content_range(file, block, 0, _HEAD_BYTES))
    if not 1 <= version <= _AVRO_BLOCK_VERSION:
        raise Unsupported(
            f"{block.where} has data block version {version}.",
            why=f"This release reads versions 1 to {_AVRO_BLOCK_VERSION}.",
            remedy="Compact this table with the Hudi release that wrote it.",
        )
    position = _HEAD_BYTES
    done = 0
    window_bytes = _WINDOW_BYTES
    while done < count:
        length = min(window_bytes, block.content_length - position)
        rest = np.frombuffer(read_content_range(file, block, position, length), dtype=np.uint8)
        window_bytes = _WINDOW_BYTES
        while done < count:
            decoded = _decode(program, rest, block, done, rows_max=min(batch_rows, count - done), bytes_max=bytes_max)
            if decoded is None:
                break
            done += decoded.batch.num_rows
            position += decoded.bytes_used
            # A window that is through is not held while its rows are merged: a large one is one large record.
            rest = rest[decoded.bytes_used :] if decoded.bytes_used < len(rest) else _NOTHING
            yield decoded.batch
        if len(rest) == length:
            window_bytes = _record_bytes(rest)
            if window_bytes > block.content_length - position:
                raise _broken(block, f"it ends after {done} of {count} records")
            if window_bytes > bytes_max:
                raise _too_large(program, rest, block, done, needed=window_bytes, bytes_max=bytes_max)
    if count < 0:
        raise _broken(block, f"it claims {count} records")
    _check_no_record_follows(of_record, file, block, count, position, bytes_max)


def _check_no_record_follows(
    of_record: tuple[AvroField, ...], file: BinaryIO, block: LogBlock, count: int, position: int, bytes_max: int
) -> None:
    left = block.content_length - position
    length = _record_bytes(np.frombuffer(read_content_range(file, block, position, min(4, left)), dtype=np.uint8))
    if not _FRAME_BYTES <= length <= left:
        return
    if length <= bytes_max:
        frame = np.frombuffer(read_content_range(file, block, position, length), dtype=np.uint8)
        try:
            decode_records(compile_schema(of_record), frame, records_max=1, heap_bytes_max=bytes_max)
        except TooLarge:
            pass
        except BadRecord:
            return
    raise _broken(block, f"a record follows the {count} that it counts")


def _read_hfile(
    file: BinaryIO,
    block: LogBlock,
    schema_json: str,
    batch_rows: int,
    bytes_max: int,
    columns: Collection[str] | None,
) -> Iterator[pa.RecordBatch]:
    program = compile_schema(parse_schema(schema_json, where=block.where), columns)
    done = 0
    for records in read_hfile_records(file, block):
        first = used = 0
        while first < len(records.keys):
            decoded = _decode(
                program,
                records.data[used:],
                block,
                done,
                rows_max=batch_rows,
                bytes_max=bytes_max,
                keys=records.keys.slice(first),
            )
            assert decoded is not None, "frames are whole"
            yield decoded.batch
            first += decoded.batch.num_rows
            done += decoded.batch.num_rows
            used += decoded.bytes_used


def _decode(
    program: AvroProgram,
    data: npt.NDArray[np.uint8],
    block: LogBlock,
    done: int,
    *,
    rows_max: int,
    bytes_max: int,
    keys: pa.BinaryArray | None = None,
) -> Decoded | None:
    """The next records, checked; `done` were before them. `keys` are those of an HFile's entries."""
    try:
        decoded = decode_records(program, data, records_max=rows_max, heap_bytes_max=bytes_max)
    except TooLarge as large:
        raise _too_large(program, data, block, done, needed=large.needed, bytes_max=bytes_max) from None
    except BadRecord as bad:
        raise _broken(block, f"record {done + bad.record} is not of its schema: {bad.why}") from None
    if decoded is None:
        return None
    batch = decoded.batch if keys is None else with_key_column(decoded.batch, keys.slice(0, decoded.batch.num_rows))
    _check_text(batch, block)
    return Decoded(batch, decoded.bytes_used)


def _record_bytes(data: npt.NDArray[np.uint8]) -> int:
    """What the first record takes with its length, of which it may be that not all is here."""
    return _FRAME_BYTES + int.from_bytes(data[:_FRAME_BYTES].tobytes().ljust(_FRAME_BYTES, b"\x7f"), "big")


def _too_large(
    program: AvroProgram, data: npt.NDArray[np.uint8], block: LogBlock, number: int, *, needed: int, bytes_max: int
) -> Unsupported:
    key = _record_key(program, data)
    return Unsupported(
        f"Record {number}{'' if key is None else f', with the key {named_key(key)}'}, of {block.where} is too large.",
        why=f"It takes {format_size(needed)} of memory, where {format_size(bytes_max)} are allowed.",
        remedy="Allow the operation more memory, or take the row out of the table.",
    )


def _record_key(program: AvroProgram, data: npt.NDArray[np.uint8]) -> str | None:
    """The key of the first record, which may be cut; None where it is not among text at its beginning."""
    at, end = _FRAME_BYTES, len(data)
    for column in program.columns:
        if column.type.kind is not AvroKind.STRING:
            return None
        if column.type.null_branch is not None:
            branch, at = read_number(data, at, end)
            if at < 0:
                return None
            if branch == column.type.null_branch:
                continue
        length, at = read_number(data, at, end)
        if at < 0 or not 0 <= length <= end - at:
            return None
        if column.name == _KEY_COLUMN:
            return data[at : at + length].tobytes().decode(errors="replace")
        at += length
    return None


def _check_text(batch: pa.RecordBatch, block: LogBlock) -> None:
    """Text that is not UTF-8 and decimals beyond their precision are found here, not by the output's next reader."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as invalid:
        raise _broken(block, f"a value is not of its type: {invalid}") from None


def read_parquet_rows(
    file: BinaryIO,
    block: LogBlock,
    schema: pa.Schema,
    *,
    batch_rows: int = BATCH_ROWS,
    bytes_max: int = BATCH_BYTES_MAX,
    choose: ChooseGroups | None = None,
    dictionaries: Collection[str] = (),
    wanted_keys: WantedKeys | None = None,
    meter: ReadMeter | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet block in the schema that is asked for, as `read_data_block` gives them in its own."""
    coded = {column.name for column in schema if column.name in dictionaries and pa.types.is_string(column.type)}
    schema = pa.schema(
        [each.with_type(pa.dictionary(pa.int32(), each.type)) if each.name in coded else each for each in schema]
    )
    wanted = set(schema.names)
    _check_plain(file, block)
    try:
        source = ParquetBatches(cast(BinaryIO, _Section(file, block)), where=block.where, bytes_max=bytes_max)
        names = [name for name in source.schema.names if name in wanted]
        groups = None if choose is None else choose(source)
        for batch in source.read(
            names, rows_max=batch_rows, groups=groups, dictionaries=coded, wanted_keys=wanted_keys, meter=meter
        ):
            yield project(batch, schema, where=block.where)
    except (pa.ArrowException, OSError, BadPage) as broken:
        if is_of_storage(broken):
            raise
        raise _broken(block, f"its Parquet file cannot be read: {broken}") from broken


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """What the footer of a Parquet block says beside where the rows are."""

    rows: int
    columns: tuple[str, ...]
    entries: dict[bytes, bytes]
    """The key-value metadata."""
    offset: int
    """The place of the footer in the block."""


def read_parquet_footer(file: BinaryIO, block: LogBlock) -> ParquetFooter:
    """The footer of a Parquet block, or of a native log, which is a block that fills its file."""
    offset = _check_plain(file, block)
    try:
        source = ParquetBatches(cast(BinaryIO, _Section(file, block)), where=block.where)
        return ParquetFooter(
            int(source.metadata.num_rows), tuple(source.schema.names), dict(source.metadata.metadata or {}), offset
        )
    except (pa.ArrowException, OSError, BadPage) as broken:
        if is_of_storage(broken):
            raise
        raise _broken(block, f"its Parquet file cannot be read: {broken}") from broken


@dataclass(frozen=True, slots=True)
class ParquetExtent:
    """What some columns of a Parquet block take, by its footer, once they are decompressed."""

    rows: int
    bytes: int
    row_group_bytes_max: int
    in_dictionaries: frozenset[str]
    """Columns of byte strings of which values are stored once: decoded, they take more."""


def parquet_extent(
    file: BinaryIO, block: LogBlock, columns: Collection[str], choose: ChooseGroups | None = None
) -> ParquetExtent:
    """What the row groups that are chosen have of these columns; without `choose` all of them."""
    _check_plain(file, block)
    in_dictionaries: set[str] = set()
    sizes: list[int] = []
    rows = 0
    try:
        source = ParquetBatches(cast(BinaryIO, _Section(file, block)), where=block.where)
        for number in range(source.metadata.num_row_groups) if choose is None else choose(source):
            group, size = source.metadata.row_group(number), 0
            rows += int(group.num_rows)
            for chunk in (group.column(at) for at in range(group.num_columns)):
                name = chunk.path_in_schema.split(".")[0]
                if name in columns:
                    size += int(chunk.total_uncompressed_size)
                    if chunk.has_dictionary_page and chunk.physical_type == "BYTE_ARRAY":
                        in_dictionaries.add(name)
            sizes.append(size)
    except (pa.ArrowException, OSError, BadPage) as broken:
        if is_of_storage(broken):
            raise
        raise _broken(block, f"its Parquet file cannot be read: {broken}") from broken
    return ParquetExtent(rows, sum(sizes), max(sizes, default=0), frozenset(in_dictionaries))


def repeated_in_block(file: BinaryIO, block: LogBlock) -> frozenset[str]:
    """Columns of strings of a Parquet block that have few and short values. None in a block of few rows."""
    _check_plain(file, block)
    try:
        section = cast(BinaryIO, _Section(file, block))
        metadata = ParquetBatches(section, where=block.where).metadata
        if metadata.num_row_groups == 0 or metadata.row_group(0).num_rows < _ROWS_TO_JUDGE_MIN:
            return frozenset()
        return repeated_strings(section, metadata)
    except (pa.ArrowException, OSError, BadPage) as broken:
        if is_of_storage(broken):
            raise
        raise _broken(block, f"its Parquet file cannot be read: {broken}") from broken


def _check_plain(file: BinaryIO, block: LogBlock) -> int:
    """Encrypted columns make pyarrow end the process, so they are looked for without it. The result is the place of
    the footer."""
    if block.content_length < TAIL_BYTES:
        raise _broken(block, f"its Parquet file has {block.content_length} bytes")
    at = block.content_length - TAIL_BYTES
    tail = read_content_range(file, block, at, TAIL_BYTES)
    length = footer_bytes(tail, file=block.where)
    if length > at:
        raise _broken(block, "its Parquet file is shorter than its footer says")
    if is_encrypted(tail, read_content_range(file, block, at - length, length), file=block.where):
        raise Unsupported(
            f"{block.where} is encrypted.",
            why="The Parquet file in it or some of its columns are, and this release has no keys.",
            remedy="Leave compaction of this table to Hudi.",
        )
    return at - length


class _Section(io.RawIOBase):
    """The content of one block as a file of its own."""

    def __init__(self, file: BinaryIO, block: LogBlock) -> None:
        self._file = file
        self._block = block
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._block.content_length}[whence]
        self._position = origin + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._block.content_length - self._position)
        length = left if size < 0 else min(size, left)
        data = read_content_range(self._file, self._block, self._position, length) if length else b""
        self._position += length
        return data


def _broken(block: LogBlock, why: str) -> BrokenFile:
    return BrokenFile(
        f"The log file {block.file} is broken in its block at byte {block.offset}.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Restore the file, or roll back the commit that wrote it.",
    )
