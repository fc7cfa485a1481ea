"""A look at a Parquet footer without a Parquet library: is the file encrypted, in whole or in some columns?

An encrypted footer shows in the magic (`PARE`). With a plain footer and encrypted columns only field 8 of the
footer's Thrift structure tells (`encryption_algorithm`), and pyarrow 26 does not raise but ends the process when
it meets the metadata of such a column. So the structure is walked here, skipping all but its field numbers.

    ... | footer: FileMetaData, Thrift compact protocol | length, 4 bytes little-endian | PAR1 or PARE

Touches: nothing.
Keeps:   1. lengths are checked against the bytes that are there before anything is skipped;
         2. nesting is bounded, so that a hostile footer cannot exhaust the stack.
"""

from __future__ import annotations

from lakeward.errors import BrokenFile

TAIL_BYTES = 8
"""Length and magic."""

_PLAIN = b"PAR1"
_ENCRYPTED_FOOTER = b"PARE"
_ENCRYPTION_ALGORITHM = 8
_DEPTH_MAX = 32

# Types of the compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
_VARINTS = (4, 5, 6)


def footer_bytes(tail: bytes, *, file: str) -> int:
    """The length of the footer by the file's last eight bytes. Raises `BrokenFile` where they end no Parquet file."""
    if len(tail) != TAIL_BYTES or tail[4:] not in (_PLAIN, _ENCRYPTED_FOOTER):
        raise BrokenFile(f"{file} is not a Parquet file.", why="It does not end with PAR1 or PARE.")
    return int.from_bytes(tail[:4], "little")


def is_encrypted(tail: bytes, footer: bytes, *, file: str) -> bool:
    """True when the footer or any column is encrypted."""
    if tail[4:] == _ENCRYPTED_FOOTER:
        return True
    try:
        return _ENCRYPTION_ALGORITHM in _Walker(footer).struct_fields()
    except ValueError as error:
        raise BrokenFile(f"The footer of {file} cannot be read.", why=str(error)) from error


class _Walker:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

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

    def _byte(self) -> int:
        self._move(1)
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")

    def _move(self, length: int) -> None:
        if length > len(self._data) - self._at:
            raise ValueError("it ends too early")
        self._at += length


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
