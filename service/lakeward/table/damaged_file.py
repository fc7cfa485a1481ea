"""A data file that is not what the commit that wrote it says: what is wrong with it, in words for an operator.

Touches: nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import DamagedFiles
from lakeward.format.file_name import parse_any_log


class DamageKind(StrEnum):
    """Stable names: they stand in JSON and in commits."""

    MISSING = "missing"
    """A completed instant names it, and it is not there."""
    OTHER_SIZE = "other-size"
    """It is shorter or longer than its commit says."""
    EMPTY = "empty"
    """It has no bytes at all, and its commit does not say how many it should have."""
    ORPHAN = "orphan"
    """Its instant is completed, and does not name it."""
    UNREADABLE = "unreadable"
    """A base file without a footer that can be read."""
    CORRUPT_BLOCK = "corrupt-block"
    """A stretch of a log that is no block, though its file is as long as its commit says."""
    OTHER_BLOCKS = "other-blocks"
    """A log with more or fewer blocks than its tail says, though it is as long as that says."""
    UNKNOWN_FORM = "unknown-form"
    """A log with a whole block of a kind or version that this release does not know."""
    WITHOUT_ANCHOR = "without-anchor"
    """An output of log compaction; none of the logs is there that would lead readers to it."""


_REMEDIES = {
    DamageKind.MISSING: "Restore the file from a copy, or wait until the storage has it again. `lakeward verify` says "
    "where the storage has it and only the metadata table does not list it.",
    DamageKind.ORPHAN: "Nothing shows whether its rows count. Find out which process wrote it after its instant "
    "completed, and move the file out of the table.",
    DamageKind.UNKNOWN_FORM: "Where a newer Hudi release writes this table, compact the file group with it. Otherwise "
    "restore the file from a copy.",
    DamageKind.WITHOUT_ANCHOR: "Restore the newest log that it stands for, from a copy or with `lakeward quarantine`.",
}
_REMEDY = "Restore the file from a copy, or wait until the storage has it again."


@dataclass(frozen=True, slots=True)
class DamagedFile:
    path: str
    """The path below the base path."""
    instant: str
    """The instant in whose name it was written."""
    kind: DamageKind
    expected_size: int | None = None
    """Bytes, by the write stat of its commit."""
    size: int | None = None
    """Bytes, by the listing; None for a file that is not there."""
    detail: str = ""
    """What a reader of the file said."""

    @property
    def is_log(self) -> bool:
        return parse_any_log(posixpath.basename(self.path), native=True) is not None

    @property
    def what(self) -> str:
        match self.kind:
            case DamageKind.MISSING:
                wrong = "is not listed, though its commit names it"
            case DamageKind.OTHER_SIZE:
                wrong = f"is {self.size} bytes long and not {self.expected_size}, as its commit says"
            case DamageKind.EMPTY:
                wrong = "is empty"
            case DamageKind.ORPHAN:
                wrong = "is named by no commit, though its instant is completed"
            case DamageKind.UNREADABLE | DamageKind.CORRUPT_BLOCK | DamageKind.OTHER_BLOCKS:
                wrong = f"is damaged: {self.detail}"
            case DamageKind.WITHOUT_ANCHOR:
                wrong = f"is read by no reader: {self.detail}"
            case DamageKind.UNKNOWN_FORM:
                wrong = f"cannot be read by this release: {self.detail}"
        return f"{self.path} of instant {self.instant} {wrong}"

    @property
    def remedy(self) -> str:
        return _REMEDIES.get(self.kind, _REMEDY)


def damaged_error(damage: Sequence[DamagedFile], *, file_group: tuple[str, str] | None = None) -> DamagedFiles:
    """What stops the work on a file group, or on all of them; `damage` has at least one file."""
    first, *others = damage
    more = f" {len(others)} more files are damaged, too." if others else ""
    return DamagedFiles(
        f"{first.what}.",
        why="Merged as it is, rows would be lost for good, or would count that no commit made." + more,
        remedy=first.remedy,
        file_group=file_group,
    )
