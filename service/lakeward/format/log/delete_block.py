"""The keys that a delete block removes, with their ordering values: block content in, Arrow columns out; and back.

Content, version 3: int32 version, int32 length, then Avro binary of an array of (key: null or string, partition path:
null or string, ordering value: null or one of twelve wrapper records with one field). The twelfth holds the values of
several ordering fields: null or an array of null or such records. Hudi 1.2.0 writes a null there for a missing value,
and fails when it reads it. Bytes may follow those that the length counts: Hudi does not read them, and RFC-06 has an
index there. Versions 1, without ordering values, and 2 are Java objects of Hudi 0.13 and older
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
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.base.quantities import format_size
from lakeward.format.avro.decoder import decode_unframed, read_run
from lakeward.format.avro.encoder import encode_records, write_number
from lakeward.format.avro.program import AvroProgram, compile_schema
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

# Branches of the ordering value's union, in the order of the union. Hudi 1.2.0 cannot read the last one, which only
# values of several fields have, in place of the array.
_NULL, _BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _STRING, _DATE, _DECIMAL, _TIME, _TIMESTAMP, _ARRAY = range(13)
_LOCAL_DATE = 12
_WRAPPERS: dict[int, tuple[str, AvroType]] = {
    _BOOLEAN: ("BooleanWrapper", AvroType(AvroKind.BOOLEAN, pa.bool_())),
    _INT: ("IntWrapper", AvroType(AvroKind.INT, pa.int32())),
    _LONG: ("LongWrapper", AvroType(AvroKind.LONG, pa.int64())),
    _FLOAT: ("FloatWrapper", AvroType(AvroKind.FLOAT, pa.float32())),
    _DOUBLE: ("DoubleWrapper", AvroType(AvroKind.DOUBLE, pa.float64())),
    _BYTES: ("BytesWrapper", AvroType(AvroKind.BYTES, pa.binary())),
    _STRING: ("StringWrapper", AvroType(AvroKind.STRING, pa.string())),
    _DATE: ("DateWrapper", AvroType(AvroKind.INT, pa.date32())),
    _DECIMAL: ("DecimalWrapper", AvroType(AvroKind.DECIMAL_BYTES, pa.decimal128(30, 15))),
    _TIME: ("TimeMicrosWrapper", AvroType(AvroKind.LONG, pa.time64("us"))),
    _TIMESTAMP: ("TimestampMicrosWrapper", AvroType(AvroKind.LONG, pa.timestamp("us", "UTC"))),
}
"""A record of one field is encoded as the field is."""

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
_WRITTEN = (_BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _STRING, _DATE, _DECIMAL)
"""The wrappers that an ordering column of Lakeward can have."""


def _union(*more: AvroType) -> AvroType:
    """A union of null, the wrappers and more."""
    branches = [AvroType(AvroKind.RECORD, pa.struct([])), *(kind for _, kind in _WRAPPERS.values()), *more]
    children = tuple(AvroField(str(branch), kind) for branch, kind in enumerate(branches))
    return AvroType(AvroKind.UNION, pa.dense_union([child.arrow for child in children]), children=children)


_FIELD = AvroField("element", _union(_NUMBER))
_FIELDS = AvroType(AvroKind.ARRAY, pa.list_(_FIELD.arrow), null_branch=0, children=(_FIELD,))
_DELETE = compile_schema(
    (AvroField("key", _TEXT), AvroField("partition", _TEXT), AvroField("ordering", _union(_FIELDS)))
)
"""How a delete is read, whatever its ordering value is."""


def _delete_program(heads: int, branches: Sequence[int]) -> AvroProgram:
    """How deletes are encoded: key, partition, so many numbers, a value of each branch behind its number, and the end
    of an array, a number too."""
    # Numbers of branches and lengths are encoded as ints are, and here they are the same for all: columns like others.
    kinds = [_TEXT, _TEXT, *[_NUMBER] * heads]
    for branch in branches:
        kinds += [_NUMBER, _WRAPPERS[branch][1]]
    kinds += [_NUMBER] if heads else []
    return compile_schema(tuple(AvroField(f"c{number}", kind) for number, kind in enumerate(kinds)))


_PROGRAMS = {branch: _delete_program(0, [branch]) for branch in _WRITTEN}


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
    end = _HEAD_BYTES + length
    left_over = block.content_length - end
    if length < 0 or left_over < 0 or (left_over and version < DELETE_BLOCK_VERSION):
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
    known = _Known()
    for deletes, batch in _windows(file, block, end, window_bytes, bytes_max):
        yield _deleted_keys(batch, block, known, before=deletes)


def _windows(
    file: BinaryIO, block: LogBlock, end: int, window_bytes: int, bytes_max: int | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The deletes of a block of version 3 up to `end` of its content, each window with how many came before. Raises
    `BrokenFile` behind what can be read."""
    at, window, left, deletes = _HEAD_BYTES, window_bytes, 0, 0
    while True:
        content = read_content_range(file, block, at, min(window, end - at))
        data = np.frombuffer(content, dtype=np.uint8)
        beyond = end - at - len(data)
        used, read = 0, None
        if not left:
            left, used = (int(number) for number in read_run(data, 0, len(data), beyond))
            if not left and used >= 0:
                break
        if left and used >= 0:
            read = decode_unframed(_DELETE, data[used:], records_max=left)
            used += read.bytes_used
        if read is not None and read.batch.num_rows:
            yield deletes, read.batch
            deletes += read.batch.num_rows
            left -= read.batch.num_rows
        is_cut = read is None or read.why_no_more is not None
        if is_cut and not beyond:
            raise _broken(
                block, f"delete {deletes} is cut short, or holds a number out of range or a value of an unknown class"
            )
        if used <= 0:
            window *= 2
            if bytes_max is not None and window * _WINDOW_TIMES > bytes_max:
                what = f"Its delete {deletes} has more than {format_size(len(data))}"
                raise _too_large(block, what, times=1, bytes_max=bytes_max)
            continue
        at += used
        window = window_bytes
    if used != len(data) or beyond:
        raise _broken(block, f"{beyond + len(data) - used} bytes are left over behind its last delete")


def no_deletes() -> bytes:
    """The content of a block that deletes nothing."""
    avro = write_number(0)
    return struct.pack(">ii", DELETE_BLOCK_VERSION, len(avro)) + avro


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
        return branch, ordering.cast(_WRAPPERS[branch][1].arrow)
    except pa.ArrowInvalid as error:
        raise Unsupported(
            f"An ordering value of the type {kind} cannot be written into a delete block.",
            why=f"Hudi keeps it as {_WRAPPERS[branch][1].arrow}: {error}.",
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
        for branch in _WRITTEN
        if _WRAPPERS[branch][1].arrow == kind or (branch == _DECIMAL and pa.types.is_decimal(kind))
    )


@dataclass(slots=True)
class _Known:
    """What the deletes of earlier windows say of the ordering values of a block."""

    fields: int = 0
    """How many each value has, `_ALONE` where they are of one field; 0 before the first one."""
    wrappers: tuple[str, ...] = ()


_ALONE, _NO_FIELDS = -1, -2


def _deleted_keys(batch: pa.RecordBatch, block: LogBlock, known: _Known, *, before: int) -> DeletedKeys:
    """
    Args:
        before: deletes of the block that were read before these.
    """
    keys, ordering = batch.column("key"), batch.column("ordering")
    branches, places = np.asarray(ordering.type_codes), np.asarray(ordering.offsets)
    is_default = branches == _NULL
    is_default[branches == _INT] = np.asarray(ordering.field(_INT)) == 0
    _check(keys, ordering, is_default, block, known, before)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as invalid:
        raise _broken(block, f"a key is not UTF-8 text: {invalid}") from None
    if known.fields > 0:
        # One that has no fields has no ordering value, also where it is an `IntWrapper(0)`.
        is_default = branches != _ARRAY
    if is_default.all():
        return DeletedKeys(keys, None, is_default, ())
    wrappers: tuple[str, ...]
    if known.fields > 0:
        elements = ordering.field(_ARRAY).values
        first = np.asarray(ordering.field(_ARRAY).offsets)[np.where(is_default, 0, places)]
        kinds, inner = np.asarray(elements.type_codes), np.asarray(elements.offsets)
        columns = [
            _values(elements, kinds[first + field], inner[first + field], is_default, block)
            for field in range(known.fields)
        ]
        names = [str(field) for field in range(known.fields)]
        values = pa.StructArray.from_arrays([column for _, column in columns], names, mask=pa.array(is_default))
        wrappers = tuple(wrapper for wrapper, _ in columns)
    else:
        wrapper, values = _values(ordering, branches, places, is_default, block)
        wrappers = (wrapper,)
    for one, other in zip(known.wrappers, wrappers, strict=False):
        if one != other:
            raise _mixed(block, sorted([one, other]))
    known.wrappers = wrappers
    return DeletedKeys(keys, values, is_default, wrappers)


def _check(
    keys: pa.StringArray,
    ordering: pa.UnionArray,
    is_default: npt.NDArray[np.bool_],
    block: LogBlock,
    known: _Known,
    before: int,
) -> None:
    """Raises for the first delete without a key, or with an ordering value that cannot be compared with others."""
    several = np.flatnonzero(np.asarray(ordering.type_codes) == _ARRAY)
    lengths = np.asarray(ordering.field(_ARRAY).value_lengths().fill_null(0))
    kinds, owners = np.asarray(ordering.field(_ARRAY).values.type_codes), np.repeat(several, lengths)
    fields = np.where(is_default, 0, _ALONE)
    fields[several] = np.where(lengths == 0, _NO_FIELDS, lengths)
    known.fields = known.fields or int(next(iter(fields[fields != 0]), 0))
    has_others = (fields != 0) & (fields != known.fields) | (fields == _NO_FIELDS)
    faults = (
        (
            np.flatnonzero(keys.is_null()),
            lambda which: _broken(block, f"delete {which} has no key"),
        ),
        (
            owners[kinds == _LOCAL_DATE],
            lambda which: _unsupported(
                block,
                f"Delete {which} has an ordering value of an unknown class, or one of Hudi's that Hudi 1.2.0 cannot "
                "read.",
                "Compact this table with Hudi itself.",
            ),
        ),
        (
            owners[kinds == _NULL],
            lambda which: _unsupported(
                block,
                f"Delete {which} has no value of one of several ordering fields, which Hudi 1.2.0 cannot read either.",
                "Roll back the commit that wrote it, and delete the row by its key alone.",
            ),
        ),
        (
            np.flatnonzero(has_others),
            lambda which: _unsupported(
                block,
                f"Delete {which} has an ordering value of another number of fields than one before.",
                "Compact this table with Hudi itself.",
            ),
        ),
    )
    found = [(int(deletes[0]), error) for deletes, error in faults if len(deletes)]
    if found:
        which, error = min(found, key=lambda each: each[0])
        raise error(before + which)


def _values(
    union: pa.UnionArray,
    branches: npt.NDArray[np.int8],
    places: npt.NDArray[np.int32],
    is_default: npt.NDArray[np.bool_],
    block: LogBlock,
) -> tuple[str, pa.Array]:
    """(the wrapper, the values, null where they are the default) of one field of deletes of which some have a value."""
    branch = _only_branch(branches[~is_default], block)
    assert branch is not None
    values = union.field(branch).take(pa.array(places, mask=is_default))
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as invalid:
        raise _broken(block, f"an ordering value is not of its type: {invalid}") from None
    return _WRAPPERS[branch][0], values


def _only_branch(branches: npt.NDArray[np.int8], block: LogBlock) -> int | None:
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
    branch = _only_branch(np.array(branches, dtype=np.int8)[~is_default], block)
    if branch is None:
        return DeletedKeys(keys, None, is_default, ())
    wrapper, kind = _WRAPPERS[branch]
    values = [None if delete.has_no_ordering else delete.ordering for delete in deletes]
    try:
        ordering = pa.array(values, kind.arrow)
    except pa.ArrowInvalid as invalid:
        raise _unsupported(
            block, f"It has an ordering value that is no {wrapper}: {invalid}.", "Compact this table with Hudi itself."
        ) from None
    return DeletedKeys(keys, ordering, is_default, (wrapper,))


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
