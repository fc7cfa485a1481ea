"""Record keys as a caller names them, and as `_hoodie_record_key` has them.

    one key field          its value as text: `k17`, 17
    several key fields     `a:1,b:2`, or the values by the names of the fields: {"a": 1, "b": 2}
    text of a command      keys with commas between them; where a key has several fields, each begins with the first of
                           them: `a:1,b:2,a:3,b:4`

Touches: nothing.
Keeps:   what cannot be a key of the table is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeward.base.errors import UsageError

_NULL = "__null__"
_EMPTY = "__empty__"


def key_texts(given: Any, key_fields: tuple[str, ...]) -> tuple[str, ...]:
    """The keys, each once, in their order. Raises `UsageError`.

    Args:
        given: a key, or several of them: texts, whole numbers, or values by the names of the key fields; an Arrow array
            too.
        key_fields: those of the table.
    """
    if isinstance(given, pa.Array | pa.ChunkedArray):
        given = given.to_pylist()
    if isinstance(given, str | int | Mapping) or not isinstance(given, Iterable):
        given = [given]
    return tuple(dict.fromkeys(_spelled(each, key_fields) for each in given))


def _spelled(key: Any, key_fields: tuple[str, ...]) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        if len(key_fields) > 1:
            raise UsageError(
                f"The key {key} is one value, and the table's keys have the fields {', '.join(key_fields)}.",
                remedy=f"Write it as {_example(key_fields)}.",
            )
        return str(key)
    if isinstance(key, Mapping):
        if set(key) != set(key_fields):
            raise UsageError(
                f"The key {dict(key)!r} does not have the fields of the table's keys: {', '.join(key_fields)}.",
                remedy="Name a value for each of them, and nothing else.",
            )
        return composite_key([(name, _text(key[name])) for name in key_fields])
    raise UsageError(
        f"{key!r} is not a record key.",
        why="A key is a text or a whole number, or has values by the names of its fields.",
        remedy=f"Write it as `_hoodie_record_key` has it: {_example(key_fields)}.",
    )


def composite_key(values: Sequence[tuple[str, str | None]]) -> str:
    """The record key of these values of the key fields, in the order of the fields."""
    if len(values) == 1:
        return values[0][1] or ""
    return ",".join(f"{name}:{_NULL if value is None else value or _EMPTY}" for name, value in values)


def split_keys(text: str, key_fields: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of an option's text, empty ones left out."""
    if len(key_fields) <= 1:
        return tuple(key for each in text.split(",") if (key := each.strip()))
    found: list[str] = []
    for piece in text.split(","):
        if found and not piece.lstrip().startswith(f"{key_fields[0]}:"):
            found[-1] = f"{found[-1]},{piece}"
        elif piece.strip():
            found.append(piece.lstrip())
    return tuple(found)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise UsageError(
        f"The value {value!r} of a key field is neither text nor a whole number.",
        why="How others stand in a key depends on the writer.",
        remedy="Write the key as `_hoodie_record_key` has it.",
    )


def _example(key_fields: tuple[str, ...]) -> str:
    return ",".join(f"{name}:…" for name in key_fields) if len(key_fields) > 1 else "its value as text"
