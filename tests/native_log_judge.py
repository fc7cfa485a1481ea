"""A second reader of native logs, for files that no release of Hudi reads yet: plain pyarrow, dicts, nothing of
Lakeward.

It follows what is known of table version 10 (docs/formats/native-logs.md says from where) the slow and obvious way, and
must not import the service: what both read from one file is then not one mistake.
"""

from __future__ import annotations

import base64
import io
import json
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow.parquet as pq

NAME = re.compile(r"([^._]+)_((\d+)-(\d+)-(\d+))_([^_]+)_(\d+)\.(log|deletes|cdc)\.([^.]+)")
KEY = "_hoodie_record_key"
META = ("_hoodie_commit_time", "_hoodie_commit_seqno", KEY, "_hoodie_partition_path", "_hoodie_file_name")
UNCONDITIONAL = None

Row = dict[str, Any]


@dataclass(frozen=True)
class Version:
    """A row, or the delete of one (`row` is None), with its ordering value; `UNCONDITIONAL` for deletes without."""

    row: Row | None
    ordering: tuple[Any, ...] | None


def name_parts(name: str) -> dict[str, str]:
    match = NAME.fullmatch(name)
    assert match is not None, name
    file_id, token, _, _, _, instant, version, kind, format_ = match.groups()
    return {"file_id": file_id, "token": token, "instant": instant, "version": version, "kind": kind, "format": format_}


def file_order(name: str) -> tuple[str, int, str, int]:
    parts = name_parts(name)
    kinds = ("log", "deletes", "cdc")
    return parts["instant"], int(parts["version"]), parts["token"], kinds.index(parts["kind"])


def footer(data: bytes) -> dict[str, str]:
    entries = pq.read_metadata(io.BytesIO(data)).metadata or {}
    own = {key for key in entries if b"hudi" in key or b"hoodie" in key or b"lakeward" in key}
    if not own:
        return {}
    assert own == {b"hudi.log.format.metadata"}, own
    values = json.loads(entries[b"hudi.log.format.metadata"])
    assert all(isinstance(value, str) for value in values.values())
    assert next(iter(values)) == "VERSION" and values["VERSION"] == "2"
    return dict(values)


def positions(text: str) -> list[int]:
    data = base64.b64decode(text, validate=True)
    (count,) = struct.unpack_from(">i", data)
    numbers, value, shift = [], 0, 0
    for byte in data[4:]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    assert shift == 0 and len(numbers) == count
    return numbers


def rows(data: bytes) -> list[Row]:
    """The rows of a file of any kind, those of the table without their meta columns but for the key."""
    found: list[Row] = pq.read_table(io.BytesIO(data)).to_pylist()
    return [{name: value for name, value in row.items() if name == KEY or name not in META} for row in found]


def versions(name: str, data: bytes, ordering: list[str]) -> list[tuple[str, Version]]:
    """The records of a file of rows or deletes, in its order, which must be that of the keys' bytes."""
    found = []
    for row in rows(data):
        values = tuple(row.get(field) for field in ordering)
        if name_parts(name)["kind"] == "log":
            found.append((row[KEY], Version(row, values)))
        else:
            assert set(row) == {KEY, *ordering}
            is_unconditional = all(value is None for value in values)
            found.append((row[KEY], Version(None, UNCONDITIONAL if is_unconditional else values)))
    keys = [key.encode() for key, _ in found]
    assert all(before < after for before, after in pairwise(keys)), f"{name} is not sorted"
    return found


def newer(old: Version, new: Version, *, lsm: bool = False) -> Version:
    """The version that stays of two that follow each other. By commit time there is no ordering: the new one does.

    An unconditional delete is not taken back by a delete of a log, in Hudi's classic fold (seen on 1.2.0).
    """
    if not lsm and old.row is None and old.ordering is UNCONDITIONAL and new.row is None:
        return old
    if not new.ordering or not old.ordering:
        return new
    return new if new.ordering >= old.ordering else old


def merged(base: Iterable[Row], logs: Mapping[str, bytes], ordering: list[str], *, lsm: bool = False) -> dict[str, Row]:
    """The rows of a slice by key.

    Args:
        lsm: as Hudi's reader of `lsm_tree` tables: the base is the first version, and no file stands for others.
    """
    stood_for: set[str] = set()
    for data in () if lsm else logs.values():
        stood_for |= set(footer(data).get("COMPACTED_BLOCK_TIMES", "").split(","))
    of_base = {row[KEY]: Version(row, tuple(row.get(field) for field in ordering)) for row in base}
    found = dict(of_base) if lsm else {}
    for name in sorted(logs, key=file_order):
        if name_parts(name)["kind"] == "cdc" or name_parts(name)["instant"] in stood_for:
            continue
        for key, version in versions(name, logs[name], ordering):
            found[key] = newer(found[key], version, lsm=lsm) if key in found else version
    if not lsm:
        found = {
            **of_base,
            **{key: newer(of_base[key], each) if key in of_base else each for key, each in found.items()},
        }
    return {key: version.row for key, version in found.items() if version.row is not None}
