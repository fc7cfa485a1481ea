"""Protobuf messages as numbered fields: those of an HFile, its trailer and its file info, and those of HBase.

Written by hand and not with the `protobuf` library: messages of numbers and bytes are these few lines, and the library
would bring a compiler's generated modules and a version of its own that executors had to agree on.

    message = field*; field = varint (number << 3 | wire type), then by wire type
    0: varint | 1: 8 bytes | 2: varint length, bytes | 5: 4 bytes

Touches: nothing.
Keeps:   fields that are not known are skipped, as protobuf's own readers do.
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10

FieldValue = int | bytes
Field = tuple[int, FieldValue]


class BrokenMessage(Exception):
    """Bytes that are no message; its text says why. The caller, which knows the file, makes an error of it."""


def decode_message(data: bytes) -> list[Field]:
    """(number, value) of every field, in order. Numbers are unsigned. Raises `BrokenMessage`."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        value: FieldValue
        if wire_type == _VARINT:
            value, at = read_varint(data, at)
            fields.append((number, value))
            continue
        if wire_type == _BYTES:
            length, at = read_varint(data, at)
        elif wire_type in (_EIGHT_BYTES, _FOUR_BYTES):
            length = 8 if wire_type == _EIGHT_BYTES else 4
        else:
            raise BrokenMessage(f"field {number} has the wire type {wire_type}")
        if length > len(data) - at:
            raise BrokenMessage(f"field {number} is cut short")
        fields.append((number, data[at : at + length]))
        at += length
    return fields


def encode_message(fields: Iterable[Field]) -> bytes:
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += write_varint(number << 3 | _VARINT) + write_varint(value)
        else:
            out += write_varint(number << 3 | _BYTES) + write_varint(len(value)) + value
    return bytes(out)


def as_bytes(value: FieldValue) -> bytes:
    """What a field of text, of bytes or of a message has. Raises `BrokenMessage` for a number."""
    if isinstance(value, int):
        raise BrokenMessage("a number stands where there is text")
    return value


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value below 2^64, where it ends). Raises `BrokenMessage`."""
    value = 0
    for index, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + index + 1
    raise BrokenMessage(f"the number at byte {at} has no end")


def write_varint(value: int) -> bytes:
    """Negative numbers as protobuf's int64: in ten bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
