"""Deletes as Hudi 0.13 and older wrote them: Java objects serialised by Kryo 4 in, keys and ordering values out.

Delete blocks of version 1 hold a HoodieKey[], those of version 2 a DeleteRecord[] (Hudi's HoodieDeleteBlock). Kryo, as
Hudi sets it up, follows references and registers no class beyond its own, so what is there is

    object     class, then, but for boxed numbers: 0 null | 1 a new one, its content follows | n + 2 the n-th new one
    class      0 null | 1, number of the name, the name where that is a new number | 2 Integer, 3 String, 4 Float,
               5 Boolean, 9 Long, 10 Double
    array      length + 1, its elements as objects
    HoodieKey  partition path, record key, by the names of the fields; the class of a String field is left out
    DeleteRecord   the HoodieKey, the ordering value, both as objects
    String     ASCII of 2 to 63 characters, the last with its highest bit set
               | length in UTF-16 units + 1, one to three bytes for each unit

and numbers are of 7 bits a byte, lowest first; those that may be negative go zigzag.

Touches: nothing.
Keeps:   what is not exactly that is an error; no length is used before it is known to lie inside of the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

_T = TypeVar("_T")

OrderingValue = int | float | str | bool | Decimal | None

_KEY = "org.apache.hudi.common.model.HoodieKey"
_RECORD = "org.apache.hudi.common.model.DeleteRecord"
_REGISTERED = {2: "Integer", 3: "String", 4: "Float", 5: "Boolean", 9: "Long", 10: "Double"}
_SCALE_MAX = 1000


class BadDeletes(Exception):
    """The bytes are not of this form."""


class OtherOrderingClass(Exception):
    """An ordering value is of a class that we do not read; its name."""


@dataclass(frozen=True, slots=True)
class DeletedKey:
    record_key: str
    ordering: OrderingValue
    ordering_class: str | None
    """Simple name of its Java class; None without a value."""

    @property
    def has_no_ordering(self) -> bool:
        """Nothing, or what Hudi takes for it: the Integer 0."""
        return self.ordering is None or (self.ordering_class == "Integer" and self.ordering == 0)


def read_kryo_deletes(data: bytes, version: int) -> list[DeletedKey]:
    """The deletes of a block of version 1 or 2, in block order. Raises `BadDeletes`, `OtherOrderingClass`."""
    assert version in (1, 2)
    reader = _Reader(data)
    try:
        deletes = reader.array_of(_KEY, reader.key) if version == 1 else reader.array_of(_RECORD, reader.record)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise BadDeletes("they end in the middle of a value, or hold text that is none") from None
    if reader.at != len(data):
        raise BadDeletes("bytes are left over behind them")
    return deletes


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._names: list[str] = []
        self._objects: list[object] = []

    def array_of(self, element: str, read: Callable[[], DeletedKey]) -> list[DeletedKey]:
        if self._class() != f"[L{element};":
            raise BadDeletes(f"they are no array of {element}")
        if self._number() != 1:
            raise BadDeletes("the array is null")
        self._objects.append(None)  # what it holds does not refer to it
        count = self._number() - 1
        if not 0 <= count <= len(self._data):
            raise BadDeletes(f"they claim to be {count}")
        deletes = []
        for _ in range(count):
            if self._class() != element:
                raise BadDeletes(f"one is not of the class {element}")
            deletes.append(self._object(read, DeletedKey))
        return deletes

    def key(self) -> DeletedKey:
        self._object(self._string, str)  # the partition path, which is the file's
        return DeletedKey(self._object(self._string, str), None, None)

    def record(self) -> DeletedKey:
        if self._class() != _KEY:
            raise BadDeletes("one has no key")
        key = self._object(self.key, DeletedKey)
        kind = self._class()
        if kind is None:
            return key
        return DeletedKey(key.record_key, self._ordering(kind), kind.rpartition(".")[2])

    def _ordering(self, kind: str) -> OrderingValue:
        match kind:
            case "Integer" | "Long":
                number, bits = self._signed(), 32 if kind == "Integer" else 64
                if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
                    raise BadDeletes(f"a number has more than {bits} bits")
                return number
            case "Float":
                return float(struct.unpack(">f", self._take(4))[0])
            case "Double":
                return float(struct.unpack(">d", self._take(8))[0])
            case "Boolean":
                return self._take(1) == b"\1"
            case "String":
                return self._object(self._string, str)
            case "java.math.BigDecimal":
                return self._object(self._decimal, Decimal)
        raise OtherOrderingClass(kind)

    def _class(self) -> str | None:
        number = self._number()
        if number == 0:
            return None
        if number > 1:
            if number not in _REGISTERED:
                raise BadDeletes(f"they hold a class of the number {number}")
            return _REGISTERED[number]
        place = self._number()
        if place == len(self._names):
            self._names.append(self._string())
        if place >= len(self._names):
            raise BadDeletes("they hold a class without a name")
        return self._names[place]

    def _object(self, read: Callable[[], _T], kind: type[_T]) -> _T:
        place = self._number()
        if place == 1:
            index = len(self._objects)
            self._objects.append(None)
            found = read()
            self._objects[index] = found
            return found
        seen = self._objects[place - 2] if place > 1 else None
        if not isinstance(seen, kind):
            raise BadDeletes("a value is null, or refers to none of its kind")
        return seen

    def _decimal(self) -> Decimal:
        unscaled = int.from_bytes(self._take(self._number() - 1), "big", signed=True)
        scale = self._signed()
        if abs(scale) > _SCALE_MAX:
            raise BadDeletes(f"a decimal has the scale {scale}")
        return Decimal(f"{unscaled}E{-scale}")  # arithmetic would round it

    def _signed(self) -> int:
        number = self._number()
        return (number >> 1) ^ -(number & 1)

    def _number(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._data[self.at]
            self.at += 1
            # The ninth byte of a long has eight bits of it.
            if shift == 56:
                return value | byte << 56
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        return value

    def _string(self) -> str:
        first = self._data[self.at]
        if first < 0x80:
            end = self.at + 1
            while self._data[end] < 0x80:
                end += 1
            text = self._data[self.at : end] + bytes([self._data[end] & 0x7F])
            self.at = end + 1
            return text.decode("ascii")
        self.at += 1
        length = first & 0x3F
        shift = 6
        while first & (0x40 if shift == 6 else 0x80):
            if shift > 27:
                raise BadDeletes("the length of a text has more than 32 bits")
            first = self._data[self.at]
            self.at += 1
            length |= (first & 0x7F) << shift
            shift += 7
        if length == 0:
            raise BadDeletes("a text is null")
        if length - 1 > len(self._data) - self.at:
            raise BadDeletes("a text is longer than all of them")
        units = bytearray()
        for _ in range(length - 1):
            units += struct.pack("<H", self._unit())
        return units.decode("utf-16-le")

    def _unit(self) -> int:
        byte = self._data[self.at]
        more = 0 if byte < 0x80 else 1 if byte >> 5 == 0b110 else 2 if byte >> 4 == 0b1110 else -1
        if more < 0:
            raise BadDeletes("a text holds a byte that begins no character")
        unit = byte & (0x7F, 0x1F, 0x0F)[more]
        self.at += 1
        for byte in self._take(more):
            if byte >> 6 != 0b10:
                raise BadDeletes("a text holds a character that is cut short")
            unit = unit << 6 | byte & 0x3F
        return unit

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self.at:
            raise IndexError
        self.at += length
        return self._data[self.at - length : self.at]
