"""Typed fields out of a decoded record, Avro or JSON, whose writer is not trusted to have used the right types.

Touches: nothing.
Keeps:   1. a field that is absent and one that is null are the same: None, or empty for collections;
         2. a value of another type than asked for is a `BrokenFile` that names the field;
         3. fields that no caller asks for are ignored, so that newer writers stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from lakeward.base.errors import BrokenFile

_Value = TypeVar("_Value")


class RecordFields:
    """The fields of one record; `file` and `where` (the record's place in it) are for errors."""

    def __init__(self, values: object, *, file: str, where: str = "") -> None:
        self._file = file
        self._where = where
        if not isinstance(values, dict):
            raise self._broken(where or "its content", "a record", values)
        self._values = values

    def text(self, name: str) -> str | None:
        return self._optional(name, str)

    def boolean(self, name: str) -> bool | None:
        return self._optional(name, bool)

    def integer(self, name: str) -> int | None:
        return self._optional(name, int)

    def record(self, name: str) -> RecordFields | None:
        value = self._values.get(name)
        return None if value is None else RecordFields(value, file=self._file, where=self._path(name))

    def records(self, name: str) -> list[RecordFields]:
        return self._records(self._path(name), self._optional(name, list))

    def record_by_key(self, name: str) -> dict[str, RecordFields]:
        """A map of records."""
        path = self._path(name)
        return {
            key: RecordFields(value, file=self._file, where=f"{path}[{key!r}]")
            for key, value in self._entries(name).items()
        }

    def records_by_key(self, name: str) -> dict[str, list[RecordFields]]:
        """A map of arrays of records."""
        entries = self._entries(name)
        path = self._path(name)
        return {key: self._records(f"{path}[{key!r}]", value) for key, value in entries.items()}

    def texts(self, name: str) -> tuple[str, ...]:
        return self._texts(self._path(name), self._optional(name, list))

    def texts_by_key(self, name: str) -> dict[str, tuple[str, ...]]:
        """A map of arrays of text."""
        path = self._path(name)
        return {key: self._texts(f"{path}[{key!r}]", value) for key, value in self._entries(name).items()}

    def text_by_key(self, name: str) -> dict[str, str]:
        """A map of text; entries without a value are left out."""
        path = self._path(name)
        entries = self._entries(name).items()
        return {key: self._as(f"{path}[{key!r}]", value, str) for key, value in entries if value is not None}

    def integer_by_key(self, name: str) -> dict[str, int]:
        path = self._path(name)
        return {key: self._as(f"{path}[{key!r}]", value, int) for key, value in self._entries(name).items()}

    def number_by_key(self, name: str) -> dict[str, float]:
        path = self._path(name)
        return {key: self._as(f"{path}[{key!r}]", value, float) for key, value in self._entries(name).items()}

    def has(self, name: str) -> bool:
        """True when the field is there and not null."""
        return self._values.get(name) is not None

    def broken(self, name: str, expected: str) -> BrokenFile:
        """The error for a field whose value has the right type and makes no sense."""
        return self._broken(self._path(name), expected, self._values.get(name))

    def _optional(self, name: str, kind: type[_Value]) -> _Value | None:
        value = self._values.get(name)
        return None if value is None else self._as(self._path(name), value, kind)

    def _entries(self, name: str) -> Mapping[str, object]:
        return self._optional(name, dict) or {}

    def _records(self, path: str, values: object) -> list[RecordFields]:
        items: list[object] = [] if values is None else self._as(path, values, list)
        return [RecordFields(item, file=self._file, where=f"{path}[{index}]") for index, item in enumerate(items)]

    def _texts(self, path: str, values: object) -> tuple[str, ...]:
        items: list[object] = [] if values is None else self._as(path, values, list)
        return tuple(self._as(f"{path}[{index}]", item, str) for index, item in enumerate(items))

    def _as(self, path: str, value: object, kind: type[_Value]) -> _Value:
        # To Python True is an integer and 1 is no float; to Avro and JSON it is the other way round.
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self._broken(path, f"a value of type {kind.__name__}", value)
        return value

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def _broken(self, path: str, expected: str, value: object) -> BrokenFile:
        return BrokenFile(
            f"{self._file} cannot be understood.",
            why=f"In it, {path} is {_shortened(value)} instead of {expected}.",
            remedy="Find out which release or tool wrote it; nothing was changed.",
        )


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
