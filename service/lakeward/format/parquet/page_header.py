"""The header of a Parquet page, as far as it says how much the page takes.

Every page of every file that is read goes through here, so the header is walked by a kernel. What that does not know
(a list, a map, a type that came later) is left to the reader of all structures, `thrift_compact`.

Touches: nothing.
Keeps:   the kernel finds what `thrift_compact` finds, or leaves it to it.
Source:  Parquet's `PageHeader` in parquet.thrift; Thrift's compact protocol.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakeward.base.kernel import I64, TWO_I64, U8_IN, kernel, types
from lakeward.format.parquet.thrift_compact import CompactReader, Fields

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
PLAIN_DICTIONARY, RLE_DICTIONARY = 2, 8
"""Encodings of values that are places in the dictionary."""

_DEPTH_MAX = 4
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 7, 8, 12
_KINDS = (DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2)
# Numbers of fields: of the header, and of the structure that a kind of page has.
_KIND, _SIZE, _STORED, _OF_DATA, _OF_DICTIONARY, _OF_DATA_V2 = 1, 2, 3, 5, 7, 8
_VALUES, _ENCODING, _ENCODING_V2 = 1, 2, 4


@dataclass(frozen=True, slots=True)
class PageHeader:
    kind: int
    size_bytes: int
    """Size of the page when it is decompressed."""
    stored_bytes: int
    values: int
    encoding: int
    end: int
    """The place behind it among the bytes that were given."""


def read_page_header(data: bytes, at: int) -> PageHeader:
    """The header that starts there. Raises `EndsTooEarly`, and `ValueError` where it is none."""
    found = np.zeros(10, dtype=np.int64)
    numbers = np.zeros(_DEPTH_MAX, dtype=np.int64)
    end = int(_walk(np.frombuffer(data, dtype=np.uint8), at, numbers, found))
    if end >= 0:
        kind, size, stored, *of_kinds, _ = found.tolist()
        values, encoding = of_kinds[2 * _KINDS.index(kind) :][:2] if kind in _KINDS else (0, 0)
        return PageHeader(kind, size, stored, values, encoding, end)
    reader = CompactReader(data, at)
    header = reader.struct()
    kind = _integer(header, _KIND)
    of_kind = header.get({DATA_PAGE: _OF_DATA, DICTIONARY_PAGE: _OF_DICTIONARY, DATA_PAGE_V2: _OF_DATA_V2}.get(kind, 0))
    details = of_kind if isinstance(of_kind, dict) else {}
    return PageHeader(
        kind,
        _integer(header, _SIZE),
        _integer(header, _STORED),
        _integer(details, _VALUES),
        _integer(details, _ENCODING_V2 if kind == DATA_PAGE_V2 else _ENCODING),
        reader.position,
    )


@kernel(TWO_I64(U8_IN, types.int64))
def _varint(data: npt.NDArray[np.uint8], at: int) -> tuple[int, int]:
    """(value, where it ends) of up to 9 bytes; the end is -1 where there is none."""
    value = 0
    for shift in range(0, 63, 7):
        if at >= len(data):
            break
        byte = int(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return 0, -1


@kernel(TWO_I64(types.int64))
def _places(number: int) -> tuple[int, int]:
    """The places for values and encoding in the structure of this number; at the end, for what is not asked for."""
    if number == _OF_DATA:
        return 3, 4
    if number == _OF_DICTIONARY:
        return 5, 6
    return (7, 8) if number == _OF_DATA_V2 else (9, 9)


@kernel(types.int64(U8_IN, types.int64, I64, I64))
def _walk(data: npt.NDArray[np.uint8], at: int, numbers: npt.NDArray[np.int64], found: npt.NDArray[np.int64]) -> int:
    """The place behind the header; -1 where it is left to the other reader.

    `numbers` has a zero for each level of structs. `found` gets kind, size and stored size, then values and encoding of
    each of the `_KINDS`, then the rest.
    """
    depth = 0
    while at < len(data):
        head = int(data[at])
        at += 1
        if head == _STOP:
            if depth == 0:
                return at
            depth -= 1
            continue
        if head >> 4 == 0:  # a number that is no small step from the last one
            return -1
        numbers[depth] += head >> 4
        form = head & 15
        if form in (_TRUE, _FALSE):
            continue
        outer, inner = numbers[0], numbers[1]
        if form == _STRUCT:
            if depth == 0:
                if outer <= _STORED:
                    return -1
                for place in _places(outer):
                    found[place] = 0
            depth += 1
            if depth == _DEPTH_MAX:
                return -1
            numbers[depth] = 0
        elif form == _BYTE:
            at += 1
        elif form == _DOUBLE:
            at += 8
        elif form > _BINARY or form == _STOP:
            return -1
        else:
            value, at = _varint(data, at)
            if at < 0 or (form == _BINARY and value > len(data) - at):
                return -1
            if form == _BINARY:
                at += value
                continue
            value = (value >> 1) ^ -(value & 1)
            if depth == 0 and outer in (_OF_DATA, _OF_DICTIONARY, _OF_DATA_V2):
                return -1
            if depth == 0 and outer <= _STORED:
                found[outer - 1] = value
            elif depth == 1 and inner == _VALUES:
                found[_places(outer)[0]] = value
            elif depth == 1 and inner == (_ENCODING_V2 if outer == _OF_DATA_V2 else _ENCODING):
                found[_places(outer)[1]] = value
    return -1


def _integer(fields: Fields, number: int) -> int:
    found = fields.get(number, 0)
    return found if isinstance(found, int) else 0
