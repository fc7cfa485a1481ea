"""A bucket file of a record index, as its manifest names it.

    data/<group>-<bucket>-<link>_<number>-<token>_<instant>.hfile
    data/.<group>-<bucket>-<link>_<number>-<token>_<instant>.log.1_0-0-0    deltas, each a block of this log
    data/<share>_<number>-<token>_<instant>.entries                  what a task puts into buckets; no manifest names it

*Group*, *bucket* and *link* say which file group of the index it is of: a bucket that was sealed goes on with its next
link. *Number* is that of the manifest which the attempt had read that wrote it.

Touches: nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from lakeward.index.manifest_form import DATA_FOLDER

_NAME = re.compile(r"\.?(\d+-\d+-)?\d+_(?P<number>\d+)-[0-9a-f]+_\w+\.(hfile|entries|log\.1_0-0-0)")


LOG_ENDING: Final = ".log.1_0-0-0"


class FileKind(StrEnum):
    BASE = "base"
    """What the index had of the bucket when it was built, or a FULL merge made of all older files of its file group."""
    MERGED = "merged"
    """What a LOG merge made of files that follow each other."""
    DELTA = "delta"
    """What one commit of the table did."""


class IndexGroup(NamedTuple):
    """A file group of the index."""

    group: int
    bucket: int
    link: int


@dataclass(frozen=True, slots=True)
class RecordFile:
    of: IndexGroup
    kind: FileKind
    path: str
    """Below the folder of the index."""
    size: int
    entries: int
    tombstones: int
    instant: str
    """The commit of a delta; of others the last one that is in it."""
    completed: str | None
    """When that commit became visible: known for a delta once it is settled, for others always."""
    instants: tuple[str, ...] = ()
    """The commits that entries of a merged file or a base file name, which were not settled when it was made."""
    offset: int = 0
    """Its first byte in the file: RFC-08's form has bucket files inline in a log, each the content of a block."""

    @property
    def stretch(self) -> tuple[str, int]:
        """Its identity among others, which may lie in the same file."""
        return self.path, self.offset

    @property
    def is_in_log(self) -> bool:
        return self.path.endswith(LOG_ENDING)

    @property
    def names(self) -> frozenset[str]:
        """The commits that the timeline must count for its entries to count."""
        return frozenset({self.instant} if self.kind is FileKind.DELTA else self.instants)


def file_path(of: IndexGroup, *, number: int, token: str, instant: str) -> str:
    return f"{DATA_FOLDER}/{of.group}-{of.bucket}-{of.link}_{number}-{token}_{instant}.hfile"


def log_path(of: IndexGroup, *, number: int, token: str, instant: str) -> str:
    """The path of a log of the file group, as Hudi names logs."""
    return f"{DATA_FOLDER}/.{of.group}-{of.bucket}-{of.link}_{number}-{token}_{instant}{LOG_ENDING}"


def stream_path(share: int, *, number: int, token: str, instant: str) -> str:
    """The path of the entries of a task, below the folder of the index."""
    return f"{DATA_FOLDER}/{share}_{number}-{token}_{instant}.entries"


def number_of(name: str) -> int | None:
    """The manifest that the attempt had read which wrote the file of this name; None where the name is none of
    Lakeward.
    """
    match = _NAME.fullmatch(name)
    return None if match is None else int(match["number"])
