"""What is merged of a file group of the index: FULL, LOG or nothing, with the reason, in the planner's words.

    FULL    all of its files become a base file; keys that are gone go where nothing older has them
    LOG     some that follow each other become one; keys that are gone stay

Only files of commits that completed before all that is not indexed yet may be merged: of a later one that comes in
after it, it would not be known which of the two is the newer.

Touches: nothing.
Keeps:   1. a merge takes files that follow each other in the order of completion, and FULL the oldest one, too;
         2. equal files give equal choices.
Source:  RFC-08, compaction of buckets; RFC-103, hybrid plans
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakeward.index.record.record_file import FileKind, RecordFile


class MergeType(StrEnum):
    FULL = "FULL"
    LOG = "LOG"


class MergeReason(StrEnum):
    """The planner has the same for file slices."""

    NO_LOGS = "no-logs"
    FEW_LOGS = "few-logs"
    NO_BASE = "no-base"
    LOG_RATIO = "log-ratio"
    MANY_SMALL_LOGS = "many-small-logs"


@dataclass(frozen=True, slots=True)
class MergeOptions:
    logs_max: int = 8
    """Files beside the base file that a lookup asks; as many are merged."""
    log_ratio: float = 0.25
    """Their entries by those of the base file, from which on it is rewritten, once there are half as many files as
    may be."""
    entries_published: int = 4_000_000
    """Entries that are merged until a manifest says so, of however many file groups."""


MERGE_OPTIONS: Final = MergeOptions()


@dataclass(frozen=True, slots=True)
class MergeDecision:
    type: MergeType | None
    reason: MergeReason
    files: Sequence[RecordFile] = ()
    """What is merged, newest first."""


def choose_merge(files: Sequence[RecordFile], options: MergeOptions) -> MergeDecision:
    """
    Args:
        files: of one file group those that may be merged, newest first.
    """
    logs = [file for file in files if file.kind is not FileKind.BASE]
    has_base = len(logs) < len(files)
    if not logs:
        return MergeDecision(None, MergeReason.NO_LOGS)
    is_large = has_base and sum(log.entries for log in logs) >= options.log_ratio * files[-1].entries
    if is_large and 2 * len(logs) >= options.logs_max:
        return MergeDecision(MergeType.FULL, MergeReason.LOG_RATIO, files)
    if len(logs) < options.logs_max:
        return MergeDecision(None, MergeReason.FEW_LOGS)
    if not has_base:
        return MergeDecision(MergeType.FULL, MergeReason.NO_BASE, files)
    # A log that was merged before is left as it is until those on top of it are half as large: so an entry is merged
    # as often as the logarithm of their number says, and not each time.
    chosen = 1
    size = logs[0].entries
    while chosen < len(logs) and (logs[chosen].kind is FileKind.DELTA or logs[chosen].entries <= 2 * size):
        size += logs[chosen].entries
        chosen += 1
    if chosen < 2:
        return MergeDecision(None, MergeReason.FEW_LOGS)
    return MergeDecision(MergeType.LOG, MergeReason.MANY_SMALL_LOGS, logs[:chosen])
