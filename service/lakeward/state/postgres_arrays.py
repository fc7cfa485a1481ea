"""Columns to PostgreSQL and back as its binary arrays, a column at a time and never a value at a time.

    20 bytes       dimensions (1), whether there are nulls (0), type of the elements, their number, first index (1)
    each element   its bytes (4), then these

Touches: nothing but the cursor that it sets up.
Keeps:   1. what is sent is read back as it was;
         2. an array with nulls is refused, not misread.
Source:  array_send, array_recv (PostgreSQL 16)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    import psycopg

_HEAD = struct.Struct("!iiiii")
_BYTEA, _BYTEAS = 17, 1001
_INT4, _INT4S = 23, 1007
_INT4_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i4")])


@dataclass(frozen=True, slots=True)
class Integers:
    """A parameter that is `int4[]`."""

    content: bytes

    @classmethod
    def of(cls, values: npt.NDArray[np.int32]) -> Integers:
        elements = np.empty(len(values), _INT4_ELEMENT)
        elements["length"] = 4
        elements["value"] = values
        return cls(_HEAD.pack(1, 0, _INT4, len(values), 1) + elements.tobytes())


@dataclass(frozen=True, slots=True)
class Binaries:
    """A parameter that is `bytea[]`."""

    content: bytes

    @classmethod
    def of(cls, texts: pa.Array) -> Binaries:
        """The UTF-8 of the texts, none of which is null."""
        assert texts.null_count == 0
        offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        data = texts.buffers()[2]
        text = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.empty(0, np.uint8)
        elements = np.empty(len(text) + 4 * len(texts), np.uint8)
        heads = (offsets[:-1] - offsets[0]) + 4 * np.arange(len(texts))
        lengths = np.diff(offsets).astype(">i4").view(np.uint8).reshape(-1, 4)
        is_text = np.ones(len(elements), bool)
        for byte in range(4):
            elements[heads + byte] = lengths[:, byte]
            is_text[heads + byte] = False
        elements[is_text] = text
        return cls(_HEAD.pack(1, 0, _BYTEA, len(texts), 1) + elements.tobytes())


def integers(content: bytes | None) -> npt.NDArray[np.int32]:
    """The values of an `int4[]` as `binary_cursor` gives it; None: an aggregate over no row."""
    if content is None:
        return np.empty(0, np.int32)
    dimensions, has_nulls, kind, count, _ = _HEAD.unpack_from(content)
    assert (dimensions, has_nulls, kind) == (1, 0, _INT4), "another array than was asked for"
    elements = np.frombuffer(content, _INT4_ELEMENT, count, _HEAD.size)
    return elements["value"].astype(np.int32)


def texts(content: bytes | None, lengths: npt.NDArray[np.int32]) -> pa.Array:
    """Texts of these lengths in bytes, one behind the other."""
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(content or b""))


def binary_cursor(connection: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    """A cursor that takes `Integers` and `Binaries`, and gives `int4[]` as bytes for `integers`."""
    from psycopg import adapt, pq

    class _BinariesDumper(adapt.Dumper):
        format = pq.Format.BINARY
        oid = _BYTEAS

        def dump(self, obj: Binaries) -> bytes:
            return obj.content

    class _IntegersDumper(adapt.Dumper):
        format = pq.Format.BINARY
        oid = _INT4S

        def dump(self, obj: Integers) -> bytes:
            return obj.content

    class _IntegersLoader(adapt.Loader):
        format = pq.Format.BINARY

        def load(self, data: Any) -> bytes:
            return bytes(data)

    cursor = connection.cursor(binary=True)
    cursor.adapters.register_dumper(Binaries, _BinariesDumper)
    cursor.adapters.register_dumper(Integers, _IntegersDumper)
    cursor.adapters.register_loader(_INT4S, _IntegersLoader)
    return cursor
