"""What a native log of rows or deletes says of itself: one entry among the key-value metadata of its footer.

    hudi.log.format.metadata    {"VERSION":"2","INSTANT_TIME":"20261122003000000","SCHEMA":"{...}", ...}

| name | value | when |
|---|---|---|
| `VERSION` | `2` | always, first |
| `INSTANT_TIME` | the instant that wrote it | always; read from the name where it is missing |
| `SCHEMA` | Avro JSON of the rows with meta columns; in a file of deletes, too, that of the table's rows | always |
| `IS_PARTIAL` | `true` | rows have some of the columns only |
| `COMPACTED_BLOCK_TIMES` | instants, joined by commas | output of a log compaction: what it stands for |
| `BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS`, `RECORD_POSITIONS` | `record_positions.py` | both or neither |

All values are text. There is no entry for what the file holds: its name says that. Files of changes have no entry.
docs/formats/native-logs.md has the whole, and what is read beside this form.

Touches: nothing.
Keeps:   1. names that are not known are passed over, and a version that is newer than 2 is refused;
         2. a footer without a schema is an error, for its rows could not be read as their writer meant them;
         3. what is decoded of an encoded footer is that footer.
Source:  NativeLogFooterMetadata, HoodieNativeLogFormatWriter (Hudi's master of July 2026).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.file_name import NativeLogKind, NativeLogName
from lakeward.format.log.block import HeaderKey
from lakeward.format.log.native_log.record_positions import decode_positions, encode_positions

FOOTER_KEY = "hudi.log.format.metadata"
_ENTRY_OF_ITS_OWN = "hudi.log.format."
"""One entry for each name, as a proposal had it that was not merged (apache/hudi#19247)."""
_EARLY_KIND = "hudi.log.block_type"
"""Beside the first names of RFC-103 alone; any other file may say there what it likes."""
_EARLY_KINDS = {
    "parquet_data": NativeLogKind.DATA,
    "delete": NativeLogKind.DELETES,
    "cdc": NativeLogKind.CHANGES,
}
FOOTER_PREFIX = "hudi.log."
"""What the keys of all these begin with."""

_VERSION_NAME = "VERSION"
_VERSION = 2
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
_INSTANT = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class RecordPositions:
    base_instant: str
    """The instant of the base file whose rows are counted."""
    text: str
    """One number for each row of the log, in its order, as `encode_positions` makes it."""

    @classmethod
    def of(cls, base_instant: str, numbers: npt.NDArray[np.int64]) -> Self:
        return cls(base_instant, encode_positions(numbers))

    def numbers(self, rows: int, *, where: str) -> npt.NDArray[np.int64]:
        """The numbers, which are as many as the log has rows. Raises `BrokenFile`."""
        try:
            found = decode_positions(self.text)
        except ValueError as error:
            raise broken_footer(where, f"its record positions cannot be read: {error}") from None
        if len(found) != rows:
            raise broken_footer(where, f"it has {len(found)} record positions for {rows} rows")
        return found


@dataclass(frozen=True, slots=True)
class NativeLogFooter:
    instant: str
    schema_json: str
    """The schema of the rows with meta columns (`log_block_schema`), also in a file of deletes."""
    is_partial: bool = False
    compacted_instants: tuple[str, ...] = ()
    """The instants that the output of a log compaction stands for."""
    positions: RecordPositions | None = None

    @property
    def headers(self) -> dict[HeaderKey, str]:
        """The headers that a block of an inline log would have; positions are of another form there, and left out."""
        headers = {HeaderKey.INSTANT_TIME: self.instant, HeaderKey.SCHEMA: self.schema_json}
        if self.is_partial:
            headers[HeaderKey.IS_PARTIAL] = "true"
        if self.compacted_instants:
            headers[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(self.compacted_instants)
        return headers


def encode_footer(footer: NativeLogFooter) -> dict[str, str]:
    """The entries of the footer's key-value metadata."""
    values = {_VERSION_NAME: str(_VERSION)} | {key.name: value for key, value in footer.headers.items()}
    if footer.positions is not None:
        values[HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS.name] = footer.positions.base_instant
        values[HeaderKey.RECORD_POSITIONS.name] = footer.positions.text
    return {FOOTER_KEY: json.dumps(values, separators=(",", ":"), ensure_ascii=False)}


def decode_footer(entries: Mapping[str, str], name: NativeLogName, *, where: str) -> NativeLogFooter:
    """The footer of a file of rows or deletes; its positions are looked at when they are asked for.

    Raises `BrokenFile` and `Unsupported`.

    Args:
        entries: of the key-value metadata, at least those whose keys begin with `FOOTER_PREFIX`.
        where: how errors call the file.
    """
    if name.is_early:
        _check_early_kind(entries.get(_EARLY_KIND), name, where)
    values = _values(entries, where)
    _check_version(values.get(_VERSION_NAME), where)
    schema_json = values.get(HeaderKey.SCHEMA.name)
    if not schema_json:
        raise broken_footer(where, f"{FOOTER_KEY} has no {HeaderKey.SCHEMA.name}, which every native log has")
    compacted = values.get(HeaderKey.COMPACTED_BLOCK_TIMES.name)
    return NativeLogFooter(
        instant=_instant(values.get(HeaderKey.INSTANT_TIME.name, name.instant), HeaderKey.INSTANT_TIME, where),
        schema_json=schema_json,
        is_partial=values.get(HeaderKey.IS_PARTIAL.name, "").lower() == "true",
        compacted_instants=tuple(
            _instant(each, HeaderKey.COMPACTED_BLOCK_TIMES, where)
            for each in (compacted.split(",") if compacted else ())
        ),
        positions=_positions(values),
    )


def broken_footer(where: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"The native log {where} is broken in its footer.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Restore the file, or roll back the commit that wrote it.",
    )


def _values(entries: Mapping[str, str], where: str) -> dict[str, str]:
    """The values by their names, in whichever of the two forms they stand there."""
    start = len(_ENTRY_OF_ITS_OWN)
    values = {key[start:]: value for key, value in entries.items() if key.startswith(_ENTRY_OF_ITS_OWN)}
    text = values.pop(FOOTER_KEY[start:], None)
    if text is None:
        if not values:
            raise broken_footer(where, f"it has no entry {FOOTER_KEY}, which every native log of rows or deletes has")
        return values
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise broken_footer(where, f"{FOOTER_KEY} is not JSON") from None
    if not isinstance(found, dict):
        raise broken_footer(where, f"{FOOTER_KEY} is no JSON object")
    for key, value in found.items():
        if value is not None and not isinstance(value, str):
            raise broken_footer(where, f"{key} in {FOOTER_KEY} is not text")
        if key in values and values[key] != value:
            raise broken_footer(where, f"{key} is one thing in {FOOTER_KEY} and another in {_ENTRY_OF_ITS_OWN}{key}")
    return {key: value for key, value in found.items() if value is not None}


def _check_version(version: str | None, where: str) -> None:
    if version is None:
        return
    if _NUMBER.fullmatch(version.strip()) is None:
        raise broken_footer(where, f"its version is {version!r:.40}, which is no number")
    if int(version) > _VERSION:
        raise Unsupported(
            f"The native log {where} is of version {int(version)}.",
            why=f"This release reads versions up to {_VERSION}; what a newer one means is not known.",
            remedy="Compact the file group with the Hudi release that wrote it.",
        )


def _check_early_kind(said: str | None, name: NativeLogName, where: str) -> None:
    """The first names have no word for rows, so what the footer says must not be something else."""
    if said is None or _EARLY_KINDS.get(said) is name.kind:
        return
    raise broken_footer(
        where, f"{_EARLY_KIND} is {said!r:.40}, and the file has the name of one of {_OF_KIND[name.kind]}"
    )


_OF_KIND = {NativeLogKind.DATA: "rows", NativeLogKind.DELETES: "deletes", NativeLogKind.CHANGES: "changes"}


def _instant(text: str, key: HeaderKey, where: str) -> str:
    if _INSTANT.fullmatch(text) is None:
        raise broken_footer(where, f"{text!r:.40} in {key.name} is no instant")
    return text


def _positions(values: Mapping[str, str]) -> RecordPositions | None:
    """None unless both names are there: one alone says nothing, and Hudi then merges by keys."""
    base_instant = values.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS.name)
    text = values.get(HeaderKey.RECORD_POSITIONS.name)
    if base_instant is None or text is None:
        return None
    return RecordPositions(base_instant, text)
