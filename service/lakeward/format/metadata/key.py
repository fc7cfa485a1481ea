"""The keys of the metadata table, and which file group of its partition a key lives in.

    files              __all_partitions__, or a partition path; `.` for the one of an unpartitioned table
    column_stats       column ‖ partition ‖ file
    partition_stats    column ‖ partition
    bloom_filters      partition ‖ file
    record_index       the record key
    secondary_index_*  secondary value $ record key, both escaped

`‖` joins hashes in base64 with padding: twelve characters for a column or a partition path (`hash_id`, which paths of
locks are made of too), twenty-four for a file name (MD5). The file group is the Java hash of the key modulo their
number; the groups are numbered by their file ids in order.

Touches: nothing.
Keeps:   1. equal names give the keys that Hudi gives them, beyond ASCII too;
         2. a key's file group is below the count, whatever the key;
         3. equal text has the eight bytes of `hash_id` that every Hudi release gives it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from hashlib import md5
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from lakeward.base.kernel import I32, I64_IN, U16_IN, kernel, types

_SEED = 0xFFFFFFFFDABADABA
"""The int 0xdabadaba with its sign, as a long."""


def hash_id(text: str) -> bytes:
    """Eight bytes, big-endian."""
    return xxhash.xxh64_digest(text.encode("utf-8"), seed=_SEED)


ALL_PARTITIONS = "__all_partitions__"
"""The key under which `files` lists the partitions themselves."""

UNPARTITIONED = "."
"""What keys call the empty partition path."""

_ESCAPE = "\\"
_SEPARATOR = "$"
_NULL = "\0"
"""What keys call a secondary value that is null."""


def files_key(partition_path: str) -> str:
    """The key of the record that lists the files of a partition, and of the partition in the record of all
    partitions."""
    return partition_path or UNPARTITIONED


def column_stats_key(column: str, partition_path: str, file_name: str) -> str:
    """`file_name` without its folders."""
    return column_prefix(column, partition_path) + _file_piece(file_name)


def partition_stats_key(column: str, partition_path: str) -> str:
    return column_prefix(column, partition_path)


def bloom_filter_key(partition_path: str, file_name: str) -> str:
    """`file_name` without its folders."""
    return _piece(files_key(partition_path)) + _file_piece(file_name)


def column_prefix(column: str, partition_path: str | None = None) -> str:
    """The prefix with which every key of the column, or of the column in one partition, starts."""
    return _piece(column) if partition_path is None else _piece(column) + _piece(files_key(partition_path))


def secondary_index_key(value: str | None, record_key: str) -> str:
    return f"{_NULL if value is None else _escaped(value)}{_SEPARATOR}{_escaped(record_key)}"


def hashed_secondary_value(key: str) -> str:
    """The part of a secondary index's key whose hash chooses the file group, in the index's version 2: all up to the
    separator, and it. (Version 1 hashes the whole key, as every other partition does.)
    """
    at = 0
    while (found := key.find(_SEPARATOR, at)) >= 0:
        escapes = found - len(key[:found].rstrip(_ESCAPE))
        if escapes % 2 == 0:
            return key[: found + 1]
        at = found + 1
    return key


def file_group_index(key: str, count: int) -> int:
    """Which of the partition's `count` file groups the key lives in."""
    return int(file_group_indexes((key,), count)[0])


def file_group_indexes(keys: Sequence[str], count: int) -> npt.NDArray[np.int32]:
    """`file_group_index` of each key."""
    assert count > 0
    out = np.zeros(len(keys), dtype=np.int32)
    if count == 1 or not keys:
        return out
    # Java hashes a string's UTF-16 units, of which a character beyond U+FFFF has two.
    units = np.frombuffer("".join(keys).encode("utf-16-le"), dtype="<u2").astype(np.uint16, copy=False)
    ends = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    if len(units) != int(ends.sum()):
        ends = np.fromiter((len(key.encode("utf-16-le")) // 2 for key in keys), dtype=np.int64, count=len(keys))
    _hash_keys(units, np.cumsum(ends), count, out)
    return out


@lru_cache(maxsize=65_536)
def _escaped(text: str) -> str:
    return "".join(_ESCAPE + unit if unit in (_ESCAPE, _SEPARATOR, _NULL) else unit for unit in text)


def _piece(text: str) -> str:
    return base64.b64encode(hash_id(text)).decode("ascii")


def _file_piece(file_name: str) -> str:
    return base64.b64encode(md5(file_name.encode("utf-8"), usedforsecurity=False).digest()).decode("ascii")


@kernel(types.void(U16_IN, I64_IN, types.int64, I32))
def _hash_keys(units: Any, ends: Any, count: int, out: Any) -> None:
    """Key i is `units[ends[i - 1]:ends[i]]`; `ends` are ascending and the last one is the length of `units`."""
    at = 0
    for key in range(len(ends)):
        value = np.uint32(0)
        while at < ends[key]:
            value = np.uint32(np.uint32(31) * value + np.uint32(units[at]))
            at += 1
        # Java: abs(abs(h) % count), where abs of the smallest int is itself; so is the remainder's size the same.
        signed = np.int64(value)
        if signed >= 0x80000000:
            signed -= 0x100000000
        out[key] = np.int32(abs(signed) % count)
