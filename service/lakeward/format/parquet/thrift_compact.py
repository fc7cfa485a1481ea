"""Structures of Thrift's compact protocol, of which Parquet's footers and page headers are: field numbers, integers.

Strings, lists and maps are skipped: no code here asks for what they hold.

Touches: nothing.
Keeps:   1. lengths are checked against the bytes that are there before anything is skipped;
         2. nesting is bounded, so that a hostile structure cannot exhaust the stack.
"""

from __future__ import annotations

_DEPTH_MAX = 32

# Types of the compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
_VARINTS = (4, 5, 6)

Fields = dict[int, "int | Fields"]
"""Values by field number: integers, and structures as such."""


class EndsTooEarly(ValueError):
    """There are fewer bytes than the structure has."""


class CompactReader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    @property
    def position(self) -> int:
        return self._at

    def struct(self, depth: int = 0) -> Fields:
        """The integers of the structure that starts here, and of those in it; the position moves behind it."""
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        found: Fields = {}
        number = 0
        while (header := self._byte()) != _STOP:
            delta, kind = header >> 4, header & 15
            number = number + delta if delta else _unzigzag(self._varint())
            if kind in _VARINTS:
                found[number] = _unzigzag(self._varint())
            elif kind == _STRUCT:
                found[number] = self.struct(depth + 1)
            elif kind not in (_TRUE, _FALSE):  # a field's truth value is its type
                self._skip(kind, depth + 1)
        return found

    def struct_fields(self, depth: int = 0) -> set[int]:
        """The field numbers of the structure that starts here; the position moves behind it."""
        fields: set[int] = set()
        number = 0
        while (header := self._byte()) != _STOP:
            delta, kind = header >> 4, header & 15
            number = number + delta if delta else _unzigzag(self._varint())
            fields.add(number)
            if kind not in (_TRUE, _FALSE):  # a field's truth value is its type
                self._skip(kind, depth + 1)
        return fields

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        if kind in (_TRUE, _FALSE, _BYTE):
            self._move(1)
        elif kind in _VARINTS:
            self._varint()
        elif kind == _DOUBLE:
            self._move(8)
        elif kind == _BINARY:
            self._move(self._varint())
        elif kind in (_LIST, _SET):
            header = self._byte()
            count = header >> 4 if header >> 4 != 15 else self._varint()
            for _ in range(count):  # each takes a byte at least, so a count too high ends with the data
                self._skip(header & 15, depth + 1)
        elif kind == _MAP:
            if count := self._varint():
                kinds = self._byte()
                for _ in range(count):
                    self._skip(kinds >> 4, depth + 1)
                    self._skip(kinds & 15, depth + 1)
        elif kind == _STRUCT:
            self.struct_fields(depth)
        else:
            raise ValueError(f"type {kind} is unknown")

    # Every page of every file goes through these two, so they call nothing.

    def _byte(self) -> int:
        try:
            byte = self._data[self._at]
        except IndexError:
            raise EndsTooEarly("it ends too early") from None
        self._at += 1
        return byte

    def _varint(self) -> int:
        data, at = self._data, self._at
        value = shift = 0
        try:
            while (byte := data[at]) >= 0x80:
                value |= (byte & 0x7F) << shift
                at += 1
                shift += 7
                if shift > 63:
                    raise ValueError("a number is too long")
        except IndexError:
            raise EndsTooEarly("it ends too early") from None
        self._at = at + 1
        return value | byte << shift

    def _move(self, length: int) -> None:
        if length > len(self._data) - self._at:
            raise EndsTooEarly("it ends too early")
        self._at += length


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
