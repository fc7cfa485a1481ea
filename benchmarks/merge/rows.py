"""Rows of a shape, made by the million: a number makes a key, and with its version and chance the other columns.

Touches: nothing.
Keeps:   keys are in the order of their numbers, 36 characters long.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.merge.shape import SPARSE, Columns

Numbers = npt.NDArray[np.int64]

_KEY = b"user-000000000000-0000-4000-8000-abc"
_DIGITS_AT, _DIGITS = 5, 12
TEXT_LENGTH = 2_000
_POOL_BYTES = 61_000_003  # no multiple of any length, so that a second round has other strings
_WORDS = pa.array([f"city {number:03}" for number in range(500)])


def make_rows(
    schema: pa.Schema, columns: Columns, numbers: Numbers, ts: Numbers, instant: str, chance: np.random.Generator
) -> pa.RecordBatch:
    """A row for each number, in the table's schema. `ts` are the ordering values."""
    count = len(numbers)
    keys = make_keys(numbers)
    made = {
        "_hoodie_commit_time": pa.repeat(instant, count),
        "_hoodie_commit_seqno": pc.binary_join_element_wise(
            pa.repeat(f"{instant}_0", count), pa.array(numbers).cast(pa.string()), "_"
        ),
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": pa.repeat("", count),
        "_hoodie_file_name": pa.repeat("f", count),
    }
    for name, kind in columns.items():
        target = schema.field(name).type
        if kind == "key":
            made[name] = keys
        elif kind == "ordering":
            made[name] = pa.array(ts)
        else:
            values = _MAKERS[kind.removeprefix(SPARSE)](numbers, ts, chance, target)
            is_sparse = kind.startswith(SPARSE)
            made[name] = _with_nulls(values, chance) if is_sparse else values
    return pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)


def make_keys(numbers: Numbers) -> pa.Array:
    text: npt.NDArray[np.uint8] = np.tile(np.frombuffer(_KEY, dtype=np.uint8), (len(numbers), 1))
    rest = numbers.copy()
    for at in range(_DIGITS_AT + _DIGITS - 1, _DIGITS_AT - 1, -1):
        rest, digit = np.divmod(rest, 10)
        text[:, at] += digit.astype(np.uint8)
    return _strings(text)


def random_text(count: int, length: int, chance: np.random.Generator) -> pa.Array:
    """Strings of 64 different characters, of which no codec makes much less."""
    start = int(chance.integers(0, _POOL_BYTES))
    drawn = np.take(_pool(), np.arange(start, start + count * length), mode="wrap")
    return _strings(drawn.reshape(count, length))


@functools.cache
def _pool() -> npt.NDArray[np.uint8]:
    """Characters by chance, more than any codec looks back for."""
    drawn = np.frombuffer(np.random.default_rng(0).bytes(_POOL_BYTES), dtype=np.uint8)
    return (drawn & np.uint8(63)) + np.uint8(ord("0"))


def _strings(text: npt.NDArray[np.uint8]) -> pa.Array:
    count, length = text.shape
    offsets = np.arange(count + 1, dtype=np.int32) * length
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))


def _with_nulls(values: pa.Array, chance: np.random.Generator) -> pa.Array:
    is_null = chance.random(len(values)) < 0.6
    return pc.if_else(pa.array(is_null), pa.scalar(None, values.type), values)


def _note(numbers: Numbers, ts: Numbers) -> pa.Array:
    number, version = pa.array(numbers % 7777).cast(pa.string()), pa.array(ts).cast(pa.string())
    return pc.binary_join_element_wise("note", number, "of version", version, " ")


def _words(numbers: Numbers, chance: np.random.Generator) -> pa.Array:
    return _WORDS.take(pa.array(chance.integers(0, len(_WORDS), len(numbers))))


def _lists(count: int, each: int) -> pa.Array:
    return pa.array(np.arange(count + 1, dtype=np.int32) * each)


def _numbers(numbers: Numbers, kind: pa.DataType) -> pa.Array:
    values = (np.repeat(numbers, 3) * 7919 + np.tile(np.arange(3), len(numbers))) % 100_003
    return pa.ListArray.from_arrays(_lists(len(numbers), 3), pa.array(values), type=kind)


def _attributes(numbers: Numbers, kind: pa.DataType, chance: np.random.Generator) -> pa.Array:
    names = pa.array(["colour", "size"]).take(pa.array(np.tile([0, 1], len(numbers))))
    values = _words(np.repeat(numbers, 2), chance)
    return pa.MapArray.from_arrays(_lists(len(numbers), 2), names, values, type=kind)


def _address(numbers: Numbers, kind: pa.DataType, chance: np.random.Generator) -> pa.Array:
    parts = [_words(numbers, chance), pa.array((numbers % 200).astype(np.int32))]
    return pa.StructArray.from_arrays(parts, fields=list(kind))


_MAKERS: dict[str, Callable[[Numbers, Numbers, np.random.Generator, pa.DataType], pa.Array]] = {
    "int": lambda n, ts, chance, kind: pa.array((n % 100_000).astype(np.int32)),
    "long": lambda n, ts, chance, kind: pa.array(n * 1_000_003),
    "double": lambda n, ts, chance, kind: pa.array(chance.random(len(n))),
    "boolean": lambda n, ts, chance, kind: pa.array(n % 3 == 0),
    "word": lambda n, ts, chance, kind: _words(n, chance),
    "code": lambda n, ts, chance, kind: random_text(len(n), 16, chance),
    "note": lambda n, ts, chance, kind: _note(n, ts),
    "text": lambda n, ts, chance, kind: random_text(len(n), TEXT_LENGTH, chance),
    "numbers": lambda n, ts, chance, kind: _numbers(n, kind),
    "attributes": lambda n, ts, chance, kind: _attributes(n, kind, chance),
    "address": lambda n, ts, chance, kind: _address(n, kind, chance),
}
