"""The keys that a delete block removes, with their ordering values: block content in, Arrow columns out; and back.

Content, version 3: int32 version, int32 length, then Avro binary of an array of (key: null or string, partition path:
null or string, ordering value: null or one of twelve wrapper records with one field). The twelfth holds the values of
several ordering fields: null or an array of null or such records. Hudi 1.2.0 writes a null there for a missing value,
and fails when it reads it. Versions 1, without ordering values, and 2 are Java objects of Hudi 0.13 and older
(`kryo_deletes.py`), and are only read.

Touches: the log file it is given, by seeking and reading; writing gives bytes.
Keeps:   1. no ordering value and `IntWrapper(0)` mean the same, a delete that always wins, even where the ordering
            column is a long: Hudi writes both and cannot tell them apart itself. We write the latter, as Hudi does;
         2. the wrapper's class is kept beside the values, because a delete whose class differs from the row's wins;
         3. one block has ordering values of one class in each field only, or it is refused; what we write has one
            class for all of its deletes, since hudi-rs refuses `IntWrapper(0)` beside others, too;
         4. however large a block of version 3 is, a window of it is in memory, and what that holds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.base.kernel import I32, I64, TWO_I64, U8, U8_IN, kernel, types
from lakeward.base.quantities import format_size
from lakeward.format.avro.encoder import encode_records, write_number
from lakeward.format.avro.program import AvroProgram, compile_schema, read_number
from lakeward.format.avro.schema import AvroField, AvroKind, AvroType
from lakeward.format.log.block import BlockType, LogBlock, read_content, read_content_range
from lakeward.format.log.kryo_deletes import BadDeletes, OtherOrderingClass, read_kryo_deletes

DELETE_BLOCK_VERSION = 3
_HEAD_BYTES = 8
_WINDOW_BYTES = 4 * 1024 * 1024
_WINDOW_TIMES = 4
"""What is decoded of a window, and the window itself, as a multiple of it."""
_JAVA_TIMES = 16
"""The same of Java objects, which are objects here, too."""
_RECORD_BYTES_MIN = 4  # a key branch, a key length, a partition branch, an ordering branch

# Branches of the ordering value's union, in the order of the union.
_NULL, _BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _STRING, _DATE, _DECIMAL, _TIME, _TIMESTAMP, _ARRAY = range(13)
_WRAPPERS: dict[int, tuple[str, pa.DataType]] = {
    _BOOLEAN: ("BooleanWrapper", pa.bool_()),
    _INT: ("IntWrapper", pa.int32()),
    _LONG: ("LongWrapper", pa.int64()),
    _FLOAT: ("FloatWrapper", pa.float32()),
    _DOUBLE: ("DoubleWrapper", pa.float64()),
    _BYTES: ("BytesWrapper", pa.binary()),
    _STRING: ("StringWrapper", pa.string()),
    _DATE: ("DateWrapper", pa.date32()),
    _DECIMAL: ("DecimalWrapper", pa.decimal128(30, 15)),
    _TIME: ("TimeMicrosWrapper", pa.time64("us")),
    _TIMESTAMP: ("TimestampMicrosWrapper", pa.timestamp("us", "UTC")),
}

_JAVA_CLASSES = {
    "Boolean": _BOOLEAN,
    "Integer": _INT,
    "Long": _LONG,
    "Float": _FLOAT,
    "Double": _DOUBLE,
    "String": _STRING,
    "BigDecimal": _DECIMAL,
}
"""What versions 1 and 2 have in place of wrappers."""

_TEXT = AvroType(AvroKind.STRING, pa.string(), null_branch=0)
_NUMBER = AvroType(AvroKind.INT, pa.int32())
_VALUES = {
    _BOOLEAN: AvroKind.BOOLEAN,
    _INT: AvroKind.INT,
    _LONG: AvroKind.LONG,
    _FLOAT: AvroKind.FLOAT,
    _DOUBLE: AvroKind.DOUBLE,
    _STRING: AvroKind.STRING,
    _DATE: AvroKind.INT,
    _DECIMAL: AvroKind.DECIMAL_BYTES,
}
"""How the field of each wrapper is encoded, for those that an ordering column of Lakeward can have."""


def _delete_program(heads: int, branches: Sequence[int]) -> AvroProgram:
    """How deletes are encoded: key, partition, so many numbers, a value of each branch behind its number, and the end
    of an array, a number too."""
    # Numbers of branches and lengths are encoded as ints are, and here they are the same for all: columns like others.
    kinds = [_TEXT, _TEXT, *[_NUMBER] * heads]
    for branch in branches:
        kinds += [_NUMBER, AvroType(_VALUES[branch], _WRAPPERS[branch][1])]
    kinds += [_NUMBER] if heads else []
    return compile_schema(tuple(AvroField(f"c{number}", kind) for number, kind in enumerate(kinds)))


_PROGRAMS = {branch: _delete_program(0, [branch]) for branch in _VALUES}

_OK, _BROKEN, _NULL_KEY, _OTHER_WRAPPER, _NULL_FIELD, _UNEQUAL = range(6)


class _StateField(IntEnum):
    """Places in the numbers by which one window of a block goes on where the one before ended."""

    RECORDS = 0
    """Deletes that the window holds whole."""
    FAULT = 1
    FIELDS = 2
    """How many each ordering value has, where they are several."""
    POSITION = 3
    """The place behind the last of these deletes."""
    LEFT = 4
    """Deletes that are to come before the next number of deletes."""
    HAS_SINGLE = 5
    """An ordering value of one field was seen."""
    IS_DONE = 6


_RECORDS: Final = int(_StateField.RECORDS)
_FAULT: Final = int(_StateField.FAULT)
_SEVERAL: Final = int(_StateField.FIELDS)
_POSITION: Final = int(_StateField.POSITION)
_LEFT: Final = int(_StateField.LEFT)
_HAS_SINGLE: Final = int(_StateField.HAS_SINGLE)
_IS_DONE: Final = int(_StateField.IS_DONE)


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """Keys that a delete block removes, in block order."""

    keys: pa.StringArray
    ordering: pa.Array | None
    """The ordering values, null where default; None where all are. Of several fields they are structs."""
    is_default: npt.NDArray[np.bool_]
    """True where the delete carries no ordering value (null or `IntWrapper(0)`)."""
    wrappers: tuple[str, ...]
    """The class name of the values of each ordering field, such as `LongWrapper`; none where all are default."""


def read_delete_block(
    file: BinaryIO, block: LogBlock, *, bytes_max: int | None = None, window_bytes: int = _WINDOW_BYTES
) -> Iterator[DeletedKeys]:
    """All deletes of a block, some megabytes of it at a time. Raises `Unsupported` for values of several classes and
    for what Hudi cannot read.

    Args:
        bytes_max: what may be in memory at once; a single delete that takes more is `Unsupported`, and so is a block of
            version 1 or 2 that does, since these are read whole.
    """
    assert block.type is BlockType.DELETE
    if block.content_length < _HEAD_BYTES:
        raise _broken(block, "its content is shorter than its head")
    version, length = struct.unpack(">ii", read_content_range(file, block, 0, _HEAD_BYTES))
    if not 1 <= version <= DELETE_BLOCK_VERSION:
        raise _unsupported(
            block,
            f"It is a delete block of version {version}, and this release reads versions 1 to {DELETE_BLOCK_VERSION}.",
            "Compact this table once with the Hudi release that wrote it.",
        )
    if length != block.content_length - _HEAD_BYTES:
        raise _broken(block, f"it claims {length} bytes of {block.content_length - _HEAD_BYTES}")
    if version < DELETE_BLOCK_VERSION:
        if bytes_max is not None and block.content_length * _JAVA_TIMES > bytes_max:
            raise _too_large(
                block,
                f"Its {format_size(block.content_length)} are Java objects",
                times=_JAVA_TIMES,
                bytes_max=bytes_max,
            )
        yield _java_deletes(read_content(file, block)[_HEAD_BYTES:], version, block)
        return
    at, state, window, deletes = _HEAD_BYTES, _State(), window_bytes, 0
    wrappers: tuple[str, ...] = ()
    while not state.is_done:
        data = np.frombuffer(
            read_content_range(file, block, at, min(window, block.content_length - at)), dtype=np.uint8
        )
        found = _decode_deletes(data, block, state, beyond=block.content_length - at - len(data), before=deletes)
        if found is None and state.position == 0:
            window *= 2
            if bytes_max is not None and window * _WINDOW_TIMES > bytes_max:
                raise _too_large(
                    block, f"Its delete {deletes} has more than {format_size(len(data))}", times=1, bytes_max=bytes_max
                )
            continue
        at += state.position
        window = window_bytes
        if found is None:
            continue
        for before, here in zip(wrappers, found.wrappers, strict=False):
            if before != here:
                raise _mixed(block, sorted([before, here]))
        wrappers = found.wrappers or wrappers
        deletes += len(found.keys)
        yield found


def encode_deletes(
    keys: pa.Array, ordering: pa.Array | None, *, partition_path: str, bytes_max: int
) -> Iterator[bytes]:
    """The contents of as many delete blocks as the keys take, first those of deletes without an ordering value.

    `ordering` holds values of the ordering column, null where the delete has the default; None where all have.
    """
    assert keys.null_count == 0
    if ordering is None or ordering.null_count == len(keys):
        ordering = pa.array(np.zeros(len(keys), dtype=np.int32))
    elif ordering.type in (pa.int8(), pa.int16(), pa.int32()):
        ordering = ordering.cast(pa.int32()).fill_null(0)  # where values are Integers, the default is one of them
    elif ordering.null_count:
        defaults = ordering.is_null()
        yield from encode_deletes(keys.filter(defaults), None, partition_path=partition_path, bytes_max=bytes_max)
        keys, ordering = keys.filter(ordering.is_valid()), ordering.drop_null()
    columns, program = _as_columns(ordering)
    columns = [keys, pa.repeat(partition_path, len(keys)), *columns]
    batch = pa.RecordBatch.from_arrays(columns, schema=program.schema)
    while batch.num_rows:
        encoded = encode_records(program, batch, bytes_max=bytes_max, framed=False)
        # An array is one run of elements: their number, they themselves, and the end.
        avro = write_number(encoded.records) + encoded.data + write_number(0)
        yield struct.pack(">ii", DELETE_BLOCK_VERSION, len(avro)) + avro
        batch = batch.slice(encoded.records)


def _as_columns(ordering: pa.Array) -> tuple[list[pa.Array], AvroProgram]:
    """The columns behind key and partition path, and the program for all of them."""

    def number(value: int) -> pa.Array:
        return pa.array(np.full(len(ordering), value, np.int32))

    if not pa.types.is_struct(ordering.type):
        branch, values = _as_wrapped(ordering)
        return [number(branch), values], _PROGRAMS[branch]
    fields = ordering.flatten()
    if any(values.null_count for values in fields):
        raise Unsupported(
            "A delete that lacks an ordering value cannot be written into a delete block.",
            why="Hudi 1.2.0 writes such blocks and cannot read them.",
            remedy="Compact this file group with --type full.",
        )
    wrapped = [_as_wrapped(values) for values in fields]
    heads = (_ARRAY, 1, len(wrapped))  # the branch of the union, that of its field, which may be null, and how many
    columns = [number(head) for head in heads]
    for branch, values in wrapped:
        columns += [number(branch), values]
    return [*columns, number(0)], _delete_program(len(heads), [branch for branch, _ in wrapped])


def wrapper_of(kind: pa.DataType) -> str:
    """The class name that values of an ordering column have in a delete block; it is one that `ordering_wrappers` of
    the merge's rules takes."""
    return _WRAPPERS[_branch_of(kind)][0]


def _as_wrapped(ordering: pa.Array) -> tuple[int, pa.Array]:
    """(branch, the values as the wrapper of that branch holds them)"""
    kind = ordering.type
    if pa.types.is_timestamp(kind):
        # Spark's rows hold points in time as longs of microseconds, whatever the column's unit; so do its deletes.
        return _LONG, ordering.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if pa.types.is_integer(kind) and kind != pa.int64():
        ordering = ordering.cast(pa.int32())
        kind = ordering.type
    branch = _branch_of(kind)
    try:
        return branch, ordering.cast(_WRAPPERS[branch][1])
    except pa.ArrowInvalid as error:
        raise Unsupported(
            f"An ordering value of the type {kind} cannot be written into a delete block.",
            why=f"Hudi keeps it as {_WRAPPERS[branch][1]}: {error}.",
            remedy="Compact this file group with --type full.",
        ) from error


def _branch_of(kind: pa.DataType) -> int:
    """The branch of the union for values of this type, which must be one that can order rows."""
    if pa.types.is_timestamp(kind):
        return _LONG
    if pa.types.is_integer(kind) and kind != pa.int64():
        return _INT
    return next(
        branch
        for branch in _VALUES
        if _WRAPPERS[branch][1] == kind or (branch == _DECIMAL and pa.types.is_decimal(kind))
    )


class _State:
    """How far the deletes of a block are read."""

    def __init__(self) -> None:
        self.numbers = np.zeros(len(_StateField), dtype=np.int64)

    @property
    def position(self) -> int:
        """How much of the last window was read."""
        return int(self.numbers[_StateField.POSITION])

    @property
    def is_done(self) -> bool:
        return bool(self.numbers[_StateField.IS_DONE])


def _decode_deletes(
    data: npt.NDArray[np.uint8], block: LogBlock, state: _State, *, beyond: int, before: int
) -> DeletedKeys | None:
    """The deletes that a window holds whole; None where it holds none.

    Args:
        beyond: bytes of the block behind the window.
        before: deletes of the block that were read.
    """
    records_max = len(data) // _RECORD_BYTES_MIN
    key_offsets = np.empty(records_max + 1, dtype=np.int32)
    key_bytes = np.empty(len(data), dtype=np.uint8)
    branches = np.empty(records_max, dtype=np.uint8)
    values = np.empty(records_max, dtype=np.int64)
    value_offsets = np.empty(records_max + 1, dtype=np.int32)
    value_bytes = np.empty(len(data), dtype=np.uint8)
    begun, numbers = state.numbers.copy(), state.numbers

    def read(field: int) -> int:
        out = (key_offsets, key_bytes, branches, values, value_offsets, value_bytes, numbers)
        _read_deletes(data, beyond, field, *out)
        return int(numbers[_StateField.FAULT])

    fault = read(0)
    count, fields = int(numbers[_StateField.RECORDS]), int(numbers[_StateField.FIELDS])
    which = before + count
    if fault == _NULL_KEY:
        raise _broken(block, f"delete {which} has no key")
    if fault == _OTHER_WRAPPER:
        raise _unsupported(
            block,
            f"Delete {which} has an ordering value of an unknown class, or one of Hudi's that Hudi 1.2.0 cannot read.",
            "Compact this table with Hudi itself.",
        )
    if fault == _NULL_FIELD:
        raise _unsupported(
            block,
            f"Delete {which} has no value of one of several ordering fields, which Hudi 1.2.0 cannot read either.",
            "Roll back the commit that wrote it, and delete the row by its key alone.",
        )
    if fault == _UNEQUAL:
        raise _unsupported(
            block,
            f"Delete {which} has an ordering value of another number of fields than one before.",
            "Compact this table with Hudi itself.",
        )
    if fault != _OK and not beyond:
        raise _broken(block, f"delete {which} is cut short or holds a number out of range")
    if not count:
        return None

    keys = pa.StringArray.from_buffers(count, _trimmed(key_offsets, count + 1), _trimmed(key_bytes, key_offsets[count]))
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as invalid:
        raise _broken(block, f"a key is not UTF-8 text: {invalid}") from None
    if not fields:
        column = _column(branches, values, value_offsets, value_bytes, count, block)
        if column.wrapper is None:
            return DeletedKeys(keys, None, column.is_default, ())
        return DeletedKeys(keys, column.values, column.is_default, (column.wrapper,))
    columns = []
    is_default = branches[:count] == _NULL
    if is_default.all():
        return DeletedKeys(keys, None, is_default, ())
    begun[_StateField.FIELDS] = fields
    for field in range(fields):
        if field:
            numbers[:] = begun
            read(field)
        # Arrow may keep the array that it is given, and the next field is read into the same one.
        own = values[:count].copy()
        columns.append(_column(branches, own, value_offsets, value_bytes, count, block, is_missing=is_default))
    names = [str(field) for field in range(fields)]
    ordering = pa.StructArray.from_arrays([column.values for column in columns], names, mask=pa.array(is_default))
    wrappers = tuple(column.wrapper for column in columns if column.wrapper is not None)
    return DeletedKeys(keys, ordering, is_default, wrappers)


@dataclass(frozen=True, slots=True)
class _Column:
    values: pa.Array
    is_default: npt.NDArray[np.bool_]
    wrapper: str | None


def _column(
    branches: npt.NDArray[np.uint8],
    values: npt.NDArray[np.int64],
    value_offsets: npt.NDArray[np.int32],
    value_bytes: npt.NDArray[np.uint8],
    count: int,
    block: LogBlock,
    *,
    is_missing: npt.NDArray[np.bool_] | None = None,
) -> _Column:
    """The values of one field, null where they are the default, or where the deletes are that have none."""
    branches, values = branches[:count], values[:count]
    is_default = is_missing
    if is_default is None:
        is_default = (branches == _NULL) | ((branches == _INT) & (values == 0))
    branch = _only_branch(branches[~is_default], block)
    if branch is None:
        return _Column(pa.nulls(count), is_default, None)
    wrapper, arrow = _WRAPPERS[branch]
    if branch in (_BYTES, _STRING):
        ordering = pa.Array.from_buffers(
            arrow,
            count,
            [
                pa.py_buffer(np.packbits(~is_default, bitorder="little")),
                _trimmed(value_offsets, count + 1),
                _trimmed(value_bytes, value_offsets[count]),
            ],
        )
    elif branch == _DECIMAL:
        ordering = _decimals(value_bytes, value_offsets[: count + 1], is_default, arrow, block)
    else:
        ordering = _numbers(values, is_default, branch, arrow)
    try:
        ordering.validate(full=True)
    except pa.ArrowInvalid as invalid:
        raise _broken(block, f"an ordering value is not of its type: {invalid}") from None
    return _Column(ordering, is_default, wrapper)


def _only_branch(branches: npt.NDArray[np.uint8], block: LogBlock) -> int | None:
    """The branch of all of these ordering values, None where there are none. Raises `Unsupported` for several."""
    present = [int(branch) for branch in np.unique(branches)]
    if len(present) > 1:
        raise _mixed(block, [_WRAPPERS[branch][0] for branch in present])
    return present[0] if present else None


def _java_deletes(content: bytes, version: int, block: LogBlock) -> DeletedKeys:
    try:
        deletes = read_kryo_deletes(content, version)
    except BadDeletes as bad:
        raise _broken(block, f"its deletes are not as Java wrote them: {bad}") from None
    except OtherOrderingClass as other:
        raise _unsupported(
            block, f"It has an ordering value of the class {other}.", "Compact this table with Hudi itself."
        ) from None
    keys = pa.array([delete.record_key for delete in deletes], pa.string())
    is_default = np.array([delete.has_no_ordering for delete in deletes], dtype=np.bool_)
    branches = [_JAVA_CLASSES[delete.ordering_class or "Integer"] for delete in deletes]
    branch = _only_branch(np.array(branches, dtype=np.uint8)[~is_default], block)
    if branch is None:
        return DeletedKeys(keys, None, is_default, ())
    wrapper, arrow = _WRAPPERS[branch]
    values = [None if delete.has_no_ordering else delete.ordering for delete in deletes]
    try:
        ordering = pa.array(values, arrow)
    except pa.ArrowInvalid as invalid:
        raise _unsupported(
            block, f"It has an ordering value that is no {wrapper}: {invalid}.", "Compact this table with Hudi itself."
        ) from None
    return DeletedKeys(keys, ordering, is_default, (wrapper,))


def _numbers(
    values: npt.NDArray[np.int64], is_default: npt.NDArray[np.bool_], branch: int, arrow: pa.DataType
) -> pa.Array:
    if branch == _BOOLEAN:
        return pa.array(values != 0, type=arrow, mask=is_default)
    if branch == _FLOAT:
        return pa.array(values.astype(np.int32).view(np.float32), type=arrow, mask=is_default)
    if branch == _DOUBLE:
        return pa.array(values.view(np.float64), type=arrow, mask=is_default)
    if branch in (_INT, _DATE):
        return pa.array(values.astype(np.int32), mask=is_default).view(arrow)
    return pa.array(values, mask=is_default).view(arrow)


def _decimals(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int32],
    is_default: npt.NDArray[np.bool_],
    arrow: pa.DataType,
    block: LogBlock,
) -> pa.Array:
    """Big-endian numbers of any width as Arrow's 16 little-endian bytes, one by one: this class is rare."""
    out = bytearray()
    for start, end in pairwise(offsets):
        if end - start > 16:
            raise _broken(block, "an ordering value is a decimal of more than 16 bytes")
        out += int.from_bytes(data[start:end].tobytes(), "big", signed=True).to_bytes(16, "little", signed=True)
    validity = pa.py_buffer(np.packbits(~is_default, bitorder="little"))
    return pa.Array.from_buffers(arrow, len(is_default), [validity, pa.py_buffer(out)])


def _trimmed(values: npt.NDArray[Any], length: Any) -> pa.Buffer:
    """The first `length` values in memory of their own: the buffers were sized for the worst case."""
    return pa.py_buffer(values[: int(length)].copy())


_VALUE = types.UniTuple(types.int64, 3)
_FIELDS = types.UniTuple(types.int64, 5)


@kernel(_VALUE(U8_IN, types.int64, types.int64, types.int64, U8, types.int64))
def _read_value(data: Any, at: Any, end: Any, branch: Any, value_bytes: Any, value_end: Any) -> tuple[Any, Any, Any]:
    """(the value as a number, the place behind it, the end of the value bytes); the place is -1 where it is broken."""
    value = np.int64(0)
    if branch == _BOOLEAN:
        if at >= end or data[at] > 1:
            return value, -1, value_end
        return np.int64(data[at]), at + 1, value_end
    if branch in (_FLOAT, _DOUBLE):
        width = 4 if branch == _FLOAT else 8
        if end - at < width:
            return value, -1, value_end
        for index in range(width):
            value |= np.int64(data[at + index]) << np.int64(8 * index)
        return value, at + width, value_end
    if branch in (_BYTES, _STRING, _DECIMAL):
        length, at = read_number(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return value, -1, value_end
        for index in range(length):
            value_bytes[value_end + index] = data[at + index]
        return value, at + length, value_end + length
    if branch != _NULL:
        value, at = read_number(data, at, end)
        if (branch in (_INT, _DATE)) and (value < -2147483648 or value > 2147483647):
            return value, -1, value_end
    return value, at, value_end


@kernel(TWO_I64(U8_IN, types.int64, types.int64, types.int64))
def _read_length(data: Any, at: Any, end: Any, beyond: Any) -> tuple[Any, Any]:
    """(how many elements of an array follow, the place behind); the place is -1 where it is broken."""
    left, at = read_number(data, at, end)
    if at >= 0 and left < 0:
        if left < at - end - beyond:
            return 0, -1
        left = -left
        _skipped, at = read_number(data, at, end)
    if left < 0:
        return 0, -1
    return left, at


@kernel(_FIELDS(U8_IN, types.int64, types.int64, types.int64, U8, types.int64))
def _read_fields(
    data: Any, at: Any, end: Any, field: int, value_bytes: Any, value_end: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """(how many values there are, branch and value of the one of `field`, the place behind them, the end of the value
    bytes); the place is the fault, below 0, where they cannot be read."""
    branch, at = read_number(data, at, end)
    if at < 0 or branch != 1:
        return 0, 0, 0, -_BROKEN, value_end
    fields = np.int64(0)
    wanted = np.int64(_NULL)
    value = np.int64(0)
    while True:
        left, at = _read_length(data, at, end, 0)
        if at < 0 or left > end - at:
            return 0, 0, 0, -_BROKEN, value_end
        if left == 0:
            return fields, wanted, value, at, value_end
        for _ in range(left):
            branch, at = read_number(data, at, end)
            if at < 0 or branch < 0:
                return 0, 0, 0, -_BROKEN, value_end
            if branch == _NULL or branch >= _ARRAY:
                return 0, 0, 0, -_NULL_FIELD if branch == _NULL else -_OTHER_WRAPPER, value_end
            before = value_end
            here, at, value_end = _read_value(data, at, end, branch, value_bytes, value_end)
            if at < 0:
                return 0, 0, 0, -_BROKEN, value_end
            if fields == field:
                wanted = branch
                value = here
            else:
                value_end = before
            fields += 1


@kernel(
    types.void(
        U8_IN,  # data
        types.int64,  # beyond: bytes of the block behind the data
        types.int64,  # field: of values of several fields, the one that is wanted
        I32,  # key_offsets, one more than records
        U8,  # key_bytes
        U8,  # branches
        I64,  # values: numbers as they are, floats as their bits
        I32,  # value_offsets, one more than records
        U8,  # value_bytes: text, bytes and decimals
        I64,  # state, by `_StateField`
    ),
)
def _read_deletes(
    data: Any,
    beyond: Any,
    field: int,
    key_offsets: Any,
    key_bytes: Any,
    branches: Any,
    values: Any,
    value_offsets: Any,
    value_bytes: Any,
    state: Any,
) -> None:
    """The deletes that begin and end in `data`. One that is cut short by its end has the fault `_BROKEN`, as one that
    is broken has; where there is more of the block, that is to be read first.

    Each output is long enough for a record per four bytes of `data`, and for all of its bytes. Where values have
    several fields, those that have none count as null, also as `IntWrapper(0)`.
    """
    end = np.int64(len(data))
    at = np.int64(0)
    left = state[_LEFT]
    record = 0
    key_end = 0
    value_end = 0
    key_offsets[0] = 0
    value_offsets[0] = 0
    state[_FAULT] = _BROKEN
    while True:
        state[_RECORDS] = record
        state[_POSITION] = at
        state[_LEFT] = left
        if left == 0:
            left, at = _read_length(data, at, end, beyond)
            if at < 0 or left > (end - at + beyond) // _RECORD_BYTES_MIN:
                return
            if left == 0:
                break
            continue
        branch, at = read_number(data, at, end)
        if at < 0 or branch < 0 or branch > 1:
            return
        if branch == 0:
            state[_FAULT] = _NULL_KEY
            return
        length, at = read_number(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return
        for index in range(length):
            key_bytes[key_end + index] = data[at + index]
        key_end += length
        at += length
        branch, at = read_number(data, at, end)
        if at < 0 or branch < 0 or branch > 1:
            return
        if branch == 1:
            length, at = read_number(data, at, end)
            if at < 0 or length < 0 or length > end - at:
                return
            at += length
        branch, at = read_number(data, at, end)
        if at < 0 or branch < 0:
            return
        if branch > _ARRAY:
            state[_FAULT] = _OTHER_WRAPPER
            return
        value = np.int64(0)
        if branch < _ARRAY:
            value, at, value_end = _read_value(data, at, end, branch, value_bytes, value_end)
            if at < 0:
                return
            if branch != _NULL and not (branch == _INT and value == 0):
                state[_HAS_SINGLE] = 1
            elif state[_SEVERAL] > 0:
                branch = np.int64(_NULL)
        else:
            fields, branch, value, at, value_end = _read_fields(data, at, end, field, value_bytes, value_end)
            if at < 0:
                state[_FAULT] = -at
                return
            if state[_SEVERAL] == 0:
                for index in range(record):
                    branches[index] = _NULL
                state[_SEVERAL] = fields
            if fields == 0 or fields != state[_SEVERAL]:
                state[_FAULT] = _UNEQUAL
                return
        if state[_HAS_SINGLE] > 0 and state[_SEVERAL] > 0:
            state[_FAULT] = _UNEQUAL
            return
        branches[record] = branch
        values[record] = value
        record += 1
        left -= 1
        key_offsets[record] = np.int32(key_end)
        value_offsets[record] = np.int32(value_end)
    if at == end and beyond == 0:
        state[_POSITION] = at
        state[_IS_DONE] = 1
        state[_FAULT] = _OK


def _mixed(block: LogBlock, wrappers: Sequence[str]) -> Unsupported:
    names = " and ".join(wrappers)
    return _unsupported(block, f"Its deletes mix ordering values of {names}.", "Compact this table with Hudi itself.")


def _too_large(block: LogBlock, what: str, *, times: int, bytes_max: int) -> Unsupported:
    more = "" if times == 1 else f", which take {times} times as much"
    return Unsupported(
        f"The delete block in {block.where} is too large.",
        why=f"{what}{more}, where {format_size(bytes_max)} of memory are allowed.",
        remedy="Allow the operation more memory (--memory, or defaults.memory of the configuration).",
    )


def _broken(block: LogBlock, why: str) -> BrokenFile:
    return BrokenFile(
        f"The log file {block.file} is broken in its delete block at byte {block.offset}.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Restore the file, or roll back the commit that wrote it.",
    )


def _unsupported(block: LogBlock, why: str, remedy: str) -> Unsupported:
    return Unsupported(f"The delete block in {block.where} is not supported.", why=why, remedy=remedy)
