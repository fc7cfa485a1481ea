"""Structures of Thrift's compact protocol as trees: read, changed in a place or two, and written back.

The protocol says the type of each value but not its name, and that is enough to write down again all that was read,
fields that no code here knows among it. `thrift_compact` is for those who only want a few numbers.

    Struct        1: (I32, 2)   2: (LIST, Values(STRUCT, [...]))   6: (BINARY, b"parquet-cpp-arrow ...")

Touches: nothing.
Keeps:   1. what Parquet's writers write comes out as the same bytes; `read_struct` refuses all that would not;
         2. nesting and memory are bounded, and no length is believed before the bytes are there.
See:     docs/decisions/0047-untouched-row-groups-are-copied.md, which says why no library does it
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.format.parquet.thrift_compact import CompactReader

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""Types of the compact protocol. The value of a field that is true or false is its type."""

_DEPTH_MAX = 32
BYTES_MAX = 50 * 1024 * 1024
"""What a tree may take where its reader says no less; a column chunk of a footer is nine structures, of five
kilobytes."""
_STRUCT_BYTES = 220
"""What a structure takes by itself, and what each of its fields and each value of a list adds, but for texts."""
_FIELD_BYTES = 90
_VALUE_BYTES = 40
_INTEGERS = (I16, I32, I64)
_DOUBLE_BYTES = 8
_SHORT_LIST_MAX = 14


@dataclass(slots=True)
class Values:
    """A list or a set: values of one type."""

    kind: int
    values: list[Any]


class Struct:
    """Fields by number, in the order in which they were read: each a type and an int, bytes, `Values` or `Struct`."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[int, tuple[int, Any]]) -> None:
        self.fields = fields

    def get(self, number: int, default: Any = None) -> Any:
        """The value of a field. True and false are bools."""
        kind, value = self.fields.get(number, (0, default))
        return kind == TRUE if kind in (TRUE, FALSE) else value

    def replace(self, values: Mapping[int, Any]) -> Struct:
        """A copy with other values in fields that are there."""
        changed = {number: (self.fields[number][0], value) for number, value in values.items()}
        return Struct({**self.fields, **changed})

    def without(self, numbers: Collection[int]) -> Struct:
        return Struct({number: field for number, field in self.fields.items() if number not in numbers})


def read_struct(
    data: bytes, at: int = 0, *, bytes_max: int | None = BYTES_MAX, only_read: bool = False
) -> tuple[Struct, int]:
    """The structure that starts at `at`, and the place behind it. `ValueError` where it would not be written so, or
    would take more memory.

    Args:
        bytes_max: what the tree may take; None: whatever it does, for structures that this process has made.
        only_read: it is never written back, so that it need not come out as the same bytes.
    """
    reader = _TreeReader(data, at, bytes_max)
    tree = reader.tree()
    if not only_read and write_struct(tree) != data[at : reader.position]:
        raise ValueError("it is not written as Parquet's writers do")
    return tree, reader.position


def write_struct(tree: Struct) -> bytes:
    out = bytearray()
    _write(out, STRUCT, tree)
    return bytes(out)


class _TreeReader(CompactReader):
    def __init__(self, data: bytes, at: int, bytes_max: int | None) -> None:
        super().__init__(data, at)
        self._bytes_left = sys.maxsize if bytes_max is None else bytes_max

    def tree(self, depth: int = 0) -> Struct:
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        self._take(_STRUCT_BYTES)
        fields: dict[int, tuple[int, Any]] = {}
        number = 0
        while header := self._byte():
            delta, kind = header >> 4, header & 15
            number = number + delta if delta else self._integer()
            if number in fields:
                raise ValueError(f"the field {number} is there twice")
            if kind in _INTEGERS:  # which most are
                value = self._varint()
                fields[number] = (kind, (value >> 1) ^ -(value & 1))
            else:
                fields[number] = (kind, None if kind in (TRUE, FALSE) else self._value(kind, depth + 1))
        self._take(_FIELD_BYTES * len(fields))
        return Struct(fields)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind == DOUBLE:
            return self._bytes(_DOUBLE_BYTES)
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind in (LIST, SET):
            header = self._byte()
            count = header >> 4 if header >> 4 != 15 else self._varint()
            of = header & 15
            if depth > _DEPTH_MAX:
                raise ValueError("it is nested too deeply")
            self._take(_STRUCT_BYTES + _VALUE_BYTES * count)
            return Values(of, [self._value(of, depth + 1) for _ in range(count)])
        if kind == STRUCT:
            return self.tree(depth)
        raise ValueError(f"values of type {kind} are in no footer of Parquet")

    def _take(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise ValueError("it would take more memory than there is for it")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _bytes(self, length: int) -> bytes:
        start = self._at
        self._move(length)
        self._take(length)
        return self._data[start : self._at]


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _write_varint(out, (value << 1) ^ (value >> 63))
    elif kind in (TRUE, FALSE, BYTE):
        out.append(value)
    elif kind == DOUBLE:
        out += value
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind in (LIST, SET):
        if len(value.values) <= _SHORT_LIST_MAX:
            out.append(len(value.values) << 4 | value.kind)
        else:
            out.append(0xF0 | value.kind)
            _write_varint(out, len(value.values))
        for each in value.values:
            _write(out, value.kind, each)
    else:
        assert kind == STRUCT
        before = 0
        for number, (of, each) in value.fields.items():
            delta = number - before
            if 0 < delta <= 15:
                out.append(delta << 4 | of)
            else:
                out.append(of)
                _write_varint(out, (number << 1) ^ (number >> 63))
            before = number
            if of in _INTEGERS:  # which most are
                rest = (each << 1) ^ (each >> 63)
                while rest >= 0x80:
                    out.append(rest & 0x7F | 0x80)
                    rest >>= 7
                out.append(rest)
            elif of not in (TRUE, FALSE):
                _write(out, of, each)
        out.append(0)


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
