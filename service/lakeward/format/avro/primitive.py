"""Avro's primitive types one value at a time, for records that are encoded by hand.

Reading takes the bytes and where in them to begin, and gives the value and where it ends.

Touches: nothing.
Keeps:   1. nothing is read or allocated beyond the end of the bytes: there reading is an `IndexError`;
         2. what no writer would have written (a number too large, a boolean of 2, broken text) is a `ValueError`.
"""

from __future__ import annotations

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


def read_long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    value = byte & 127
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise ValueError("A number has more than ten bytes")
    value = (value >> 1) ^ -(value & 1)
    if not _LONG_MIN <= value <= _LONG_MAX:
        raise ValueError("A number has more than 64 bits")
    return value, at


def read_int(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_long(data, at)
    if not _INT_MIN <= value <= _INT_MAX:
        raise ValueError("A number has more than 32 bits")
    return value, at


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = read_long(data, at)
    end = at + length
    if length < 0:
        raise ValueError("A length is negative")
    if end > len(data):
        raise IndexError
    return data[at:end], end


def read_text(data: bytes, at: int) -> tuple[str, int]:
    text, at = read_bytes(data, at)
    return text.decode("utf-8"), at


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte = data[at]
    if byte > 1:
        raise ValueError("A boolean is neither 0 nor 1")
    return byte == 1, at + 1


def encode_long(value: int) -> bytes:
    """Raises `ValueError` for what no 64 bits hold."""
    if -64 <= value < 64:
        return _SHORT[value]
    if not _LONG_MIN <= value <= _LONG_MAX:
        raise ValueError(f"the number {value} has more than 64 bits")
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)
    return bytes(out)


def encode_int(value: int) -> bytes:
    """Raises `ValueError` for what no 32 bits hold."""
    if not _INT_MIN <= value <= _INT_MAX:
        raise ValueError(f"the number {value} has more than 32 bits")
    return encode_long(value)


def encode_boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def encode_bytes(value: bytes) -> bytes:
    return encode_long(len(value)) + value


def encode_text(value: str) -> bytes:
    """Raises `ValueError` for text that is no UTF-8 (half of a pair of surrogates)."""
    data = value.encode("utf-8")
    return encode_long(len(data)) + data


_SHORT = {value: bytes([(value << 1) ^ (value >> 63)]) for value in range(-64, 64)}
