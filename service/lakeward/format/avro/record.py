"""One record of Avro binary as plain values: a schema and bytes in, dicts, lists and text out, within a budget.

    schema -> one reader a type, with the least bytes that a value takes and the most memory that it makes
    bytes  -> the readers, each from where the one before it ended

A run of an array says how many elements follow, so what they will take is known before the first of them is made.
All files of one kind of a timeline have one schema, whose readers take longer to make than a record to read: each
thread keeps those of the last few schemas.

Touches: nothing else.
Keeps:   1. nothing is read beyond the end of the bytes, and each value but a branch of null takes one at least;
         2. elements are made only after the budget was asked for them, whatever their schema makes of a byte;
         3. recursion, nesting and the size of the schema are bounded before anything is decoded: `ValueError`,
            never a `RecursionError`.
See:     decoder.py, which decodes many records into Arrow.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from lakeward.format.avro.primitive import read_boolean, read_bytes, read_int, read_long, read_text

_DEPTH_MAX = 32
_TOO_DEEP = "Its schema is nested too deeply."
_SCHEMA_BYTES_MAX = 1024 * 1024
"""Size of a schema; those of Hudi's timeline have 2 to 20 KB."""
_KEPT_SCHEMA_BYTES_MAX = 64 * 1024
_KEPT_SCHEMAS_MAX = 16

# What values take in memory, rounded up. The bytes of texts are not in it: the caller has them already.
_NUMBER_BYTES = 32
_TEXT_BYTES = 72
_LIST_BYTES, _ITEM_BYTES = 88, 9
_DICT_BYTES, _ENTRY_BYTES = 240, 64

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")

_Read = Callable[[bytes, int], tuple[Any, int]]


@dataclass(frozen=True, slots=True)
class _Type:
    read: _Read
    bytes_min: int
    """Bytes of one value as it is encoded."""
    memory_max: int
    """Memory of one value as it is decoded, without the elements of arrays and maps, for which the budget is asked as
    they come."""
    depth: int = 0
    """Levels of values below it. A schema can be flat and its values deep, by names."""


class _Budget:
    """What one record may still take, for readers that are made once for many records."""

    def __init__(self) -> None:
        self._max = self._left = 0

    def begin(self, bytes_max: int) -> None:
        self._max = self._left = bytes_max

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError(f"Decoded, it would take more than {self._max} bytes of memory.")


def decode_record(schema_json: bytes, data: bytes, *, memory_max: int) -> dict[str, Any]:
    """The one record that `data` holds. Raises `ValueError`, and `IndexError` where it is cut short.

    Args:
        memory_max: about the bytes that the record may take once it is decoded, those of `data` included.
    """
    if len(schema_json) > _SCHEMA_BYTES_MAX:
        raise ValueError(f"Its schema has more than {_SCHEMA_BYTES_MAX} bytes.")
    kind, budget = (_of_thread.kept if len(schema_json) <= _KEPT_SCHEMA_BYTES_MAX else _compile)(schema_json)
    budget.begin(memory_max)
    budget.spend(len(data) + kind.memory_max)
    record, end = kind.read(data, 0)
    if end != len(data):
        raise ValueError("Bytes are left over behind its record.")
    if not isinstance(record, dict):
        raise ValueError("What it holds is no record.")
    return record


def _compile(schema_json: bytes) -> tuple[_Type, _Budget]:
    """(the reader of the schema's record, the budget that it asks)"""
    budget = _Budget()
    return _Schema(budget).compile(orjson.loads(schema_json), namespace="", depth=0), budget


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.kept = lru_cache(maxsize=_KEPT_SCHEMAS_MAX)(_compile)


_of_thread = _OfThread()


class _Schema:
    """Makes readers of the types of one schema; a type that is named again is the same reader."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._named: dict[str, _Type | None] = {}
        """None while a record's fields are looked at: then it is not known what it takes, and it is recursive."""

    def compile(self, schema: Any, *, namespace: str, depth: int) -> _Type:
        if depth > _DEPTH_MAX:
            raise ValueError(_TOO_DEEP)
        match schema:
            case "null" | {"type": "null"} | {"type": "fixed", "size": 0} | {"type": "record", "fields": []}:
                raise ValueError("Its schema has values that take no bytes.")
            case str() if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            case str():
                return self._known(schema, namespace)
            case list():
                return self._union(schema, namespace=namespace, depth=depth)
            case {"type": "record" | "error", "name": str(name), "fields": list(fields)}:
                return self._record(schema, name, fields, namespace=namespace, depth=depth)
            case {"type": "array", "items": items}:
                return _array(self.compile(items, namespace=namespace, depth=depth + 1), self._budget)
            case {"type": "map", "values": values}:
                return _map(self.compile(values, namespace=namespace, depth=depth + 1), self._budget)
            case {"type": "enum", "name": str(name), "symbols": list(symbols)}:
                return self._name(_full_name(schema, name, namespace)[0], _enum(symbols))
            case {"type": "fixed", "name": str(name), "size": int(size)} if size > 0:
                return self._name(_full_name(schema, name, namespace)[0], _fixed(size))
            case {"type": (str() | dict() | list()) as inner} if inner not in _COMPLEX:
                return self.compile(inner, namespace=namespace, depth=depth + 1)
            case _:
                raise ValueError("Its schema is not understood.")

    def _record(self, schema: dict[str, Any], name: str, fields: list[Any], *, namespace: str, depth: int) -> _Type:
        full_name, inner = _full_name(schema, name, namespace)
        self._named[full_name] = None
        compiled: dict[str, _Type] = {}
        for field in fields:
            match field:
                case {"name": str(field_name), "type": of} if field_name not in compiled:
                    compiled[field_name] = self.compile(of, namespace=inner, depth=depth + 1)
                case _:
                    raise ValueError("Its schema is not understood.")
        return self._name(full_name, _record(compiled))

    def _union(self, branches: list[object], *, namespace: str, depth: int) -> _Type:
        if not branches:
            raise ValueError("Its schema is not understood.")
        return _union(
            [
                None if branch == "null" else self.compile(branch, namespace=namespace, depth=depth + 1)
                for branch in branches
            ]
        )

    def _known(self, name: str, namespace: str) -> _Type:
        qualified = f"{namespace}.{name}" if namespace and "." not in name else name
        key = qualified if qualified in self._named else name
        if key not in self._named:
            raise ValueError(f"Its schema has the type {name[:80]!r}, which it does not explain.")
        known = self._named[key]
        if known is None:
            raise ValueError("Its schema is recursive.")
        return known

    def _name(self, full_name: str, kind: _Type) -> _Type:
        self._named[full_name] = kind
        return kind


def _full_name(schema: dict[str, Any], name: str, namespace: str) -> tuple[str, str]:
    """(the full name of a named type, the namespace of what it holds)"""
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = str(schema.get("namespace") or namespace)
    return (f"{inner}.{name}" if inner else name), inner


def _depth_over(children: Iterable[_Type | None]) -> int:
    depth = 1 + max((child.depth for child in children if child is not None), default=0)
    if depth > _DEPTH_MAX:
        raise ValueError(_TOO_DEEP)
    return depth


def _record(fields: dict[str, _Type]) -> _Type:
    readers = tuple((name, field.read) for name, field in fields.items())

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for name, read_field in readers:
            values[name], at = read_field(data, at)
        return values, at

    return _Type(
        read,
        bytes_min=sum(field.bytes_min for field in fields.values()),
        memory_max=_DICT_BYTES + sum(_ENTRY_BYTES + field.memory_max for field in fields.values()),
        depth=_depth_over(fields.values()),
    )


def _union(branches: list[_Type | None]) -> _Type:
    readers = tuple(None if branch is None else branch.read for branch in branches)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        number = data[at]
        if number in (0, 2):  # the numbers of nearly all branches, in the form of a long
            number >>= 1
            at += 1
        else:
            number, at = read_long(data, at)
        if not 0 <= number < len(readers):
            raise ValueError("It holds a union branch that the schema does not have.")
        branch = readers[number]
        return (None, at) if branch is None else branch(data, at)

    return _Type(
        read,
        bytes_min=1 + min(0 if branch is None else branch.bytes_min for branch in branches),
        memory_max=max(0 if branch is None else branch.memory_max for branch in branches),
        depth=_depth_over(branches),
    )


def _array(items: _Type, budget: _Budget) -> _Type:
    each = _ITEM_BYTES + items.memory_max

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while True:
            count, at = _read_count(data, at, items.bytes_min)
            if count == 0:
                return values, at
            budget.spend(count * each)
            for _ in range(count):
                value, at = items.read(data, at)
                values.append(value)

    return _Type(read, bytes_min=1, memory_max=_LIST_BYTES, depth=_depth_over([items]))


def _map(values: _Type, budget: _Budget) -> _Type:
    each = _ENTRY_BYTES + _TEXT_BYTES + values.memory_max

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        entries: dict[str, Any] = {}
        while True:
            count, at = _read_count(data, at, 1 + values.bytes_min)
            if count == 0:
                return entries, at
            budget.spend(count * each)
            for _ in range(count):
                key, at = read_text(data, at)
                entries[key], at = values.read(data, at)

    return _Type(read, bytes_min=1, memory_max=_DICT_BYTES, depth=_depth_over([values]))


def _read_count(data: bytes, at: int, bytes_min: int) -> tuple[int, int]:
    """How many elements the next run has; 0 behind the last one."""
    count, at = read_long(data, at)
    if count < 0:
        # A negative count is followed by the run's bytes, which only serve skipping.
        count = -count
        _, at = read_long(data, at)
    if count * bytes_min > len(data) - at:
        raise ValueError(f"It claims {count} elements, for which it is too short.")
    return count, at


def _enum(symbols: list[object]) -> _Type:
    def read(data: bytes, at: int) -> tuple[object, int]:
        number, at = read_int(data, at)
        if not 0 <= number < len(symbols):
            raise ValueError("It holds a symbol that the schema does not have.")
        return symbols[number], at

    return _Type(read, bytes_min=1, memory_max=0)


def _fixed(size: int) -> _Type:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise IndexError
        return data[at:end], end

    return _Type(read, bytes_min=size, memory_max=_TEXT_BYTES)


def _number(layout: struct.Struct) -> _Type:
    def read(data: bytes, at: int) -> tuple[float, int]:
        end = at + layout.size
        if end > len(data):
            raise IndexError
        return layout.unpack_from(data, at)[0], end

    return _Type(read, bytes_min=layout.size, memory_max=_NUMBER_BYTES)


_PRIMITIVES = {
    "boolean": _Type(read_boolean, bytes_min=1, memory_max=0),
    "int": _Type(read_int, bytes_min=1, memory_max=_NUMBER_BYTES),
    "long": _Type(read_long, bytes_min=1, memory_max=_NUMBER_BYTES),
    "float": _number(_FLOAT),
    "double": _number(_DOUBLE),
    "bytes": _Type(read_bytes, bytes_min=1, memory_max=_TEXT_BYTES),
    "string": _Type(read_text, bytes_min=1, memory_max=_TEXT_BYTES),
}
_COMPLEX = ("record", "error", "array", "map", "enum", "fixed")
