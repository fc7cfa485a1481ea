"""The archived timeline of layout 2: names of its files, its manifests, and rows of instants as Parquet.

    <first instant>_<last instant>_<level>.parquet   rows of instants; the level is one digit
    manifest_<n>                                     JSON: all files of snapshot n, with their bytes
    _version_                                        the newest n, in digits, without a newline

A row is one completed instant: its requested and completion time, its completed action, the bytes of its completed
file, and of its plan: of the requested file for a compaction, log compaction or clean; for a replacecommit or
clustering of the inflight file, or of the requested one where that is empty; none for others.

Touches: nothing; the rows are written and read in `history_file`.
Source:  LSMTimeline, HoodieLSMTimelineManifest, MetadataConversionUtils.createLSMTimelineInstant (Hudi 1.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from lakeward.base.errors import BrokenFile
from lakeward.format.timeline.instant import Instant, State

if TYPE_CHECKING:
    pass

VERSION_FILE = "_version_"

_NAME = re.compile(r"([0-9]+)_([0-9]+)_([0-9])\.parquet")
_MANIFEST = re.compile(r"manifest_([0-9]{1,18})")


@dataclass(frozen=True, slots=True, order=True)
class HistoryFile:
    """A file of rows, as its name describes it."""

    first: str
    last: str
    level: int

    @property
    def name(self) -> str:
        return f"{self.first}_{self.last}_{self.level}.parquet"


@dataclass(frozen=True, slots=True)
class HistoryRow:
    time: str
    completion_time: str | None
    action: str
    """The completed one: commit for a compaction."""
    metadata: bytes | None
    """The completed file; None where that is empty."""
    plan: bytes | None


def parse_history_file(name: str) -> HistoryFile | None:
    """What a name says; None for what is no file of rows."""
    match = _NAME.fullmatch(name)
    return HistoryFile(match[1], match[2], int(match[3])) if match else None


def manifest_name(number: int) -> str:
    return f"manifest_{number}"


def parse_manifest_name(name: str) -> int | None:
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def dump_manifest(sizes: Mapping[HistoryFile, int]) -> bytes:
    """The manifest that names these files with their bytes, as Hudi prints it."""
    entries = [f'{{\n    "fileName" : "{file.name}",\n    "fileLen" : {size}\n  }}' for file, size in sizes.items()]
    return f'{{\n  "files" : [ {", ".join(entries)}{" " if entries else ""}]\n}}'.encode()


def parse_manifest(content: bytes, *, path: str) -> dict[HistoryFile, int]:
    """Files with their bytes, in the manifest's order. Raises `BrokenFile`.

    Args:
        path: of the manifest, for messages.
    """
    try:
        entries = [
            (str(each["fileName"]), int(each["fileLen"])) for each in orjson.loads(content or b'{"files":[]}')["files"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFile(f"{path} is not a manifest of archived instants.", why=str(error)) from error
    found = {}
    for name, size in entries:
        if (file := parse_history_file(name)) is None:
            raise BrokenFile(f"The manifest {path} names {name!r}, which is no history file.")
        found[file] = size
    return found


def plan_file(states: Sequence[Instant]) -> Iterator[Instant]:
    """The files of an instant whose bytes are its plan, best first: the first that is not empty counts.

    Args:
        states: the instant's files on the active timeline.
    """
    requested = next((each for each in states if each.state is State.REQUESTED), None)
    inflight = next((each for each in states if each.state is State.INFLIGHT), None)
    pending = requested or inflight
    if pending is None:
        return
    if pending.action in ("replacecommit", "clustering"):
        yield from (each for each in (inflight, requested) if each is not None)
    elif pending.action == "clean" or (pending.action in ("compaction", "logcompaction") and requested is not None):
        yield pending
