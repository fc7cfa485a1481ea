"""Which files of the archived timeline are merged into one of the next level: sizes in, files in and one name out.

As soon as a level has so many files, its oldest go into one file of the next level, until that is as large as a file
may be; a file that is as large already is passed over. The levels are looked at from the lowest on.

Touches: nothing.
Keeps:   1. what is merged is of one level, at least two files, consecutive in their order;
         2. the result covers their range, and is named like no file that is there.
Source:  LSMTimelineWriter.doCompact and getCandidateFiles (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeward.format.timeline.history import HistoryFile

FILE_BYTES_MAX = 128 * 1024 * 1024
"""How large the files that are merged may be together. Hudi allows a GB; we hold what they become in memory."""

_LEVEL_MAX = 9
"""A level is one digit."""


@dataclass(frozen=True, slots=True)
class LevelMerge:
    sources: tuple[HistoryFile, ...]
    """In their order: rows of the first come first."""
    target: HistoryFile


def plan_level_merge(
    sizes: Mapping[HistoryFile, int], *, files: int, bytes_max: int = FILE_BYTES_MAX
) -> LevelMerge | None:
    """None where no level has files enough."""
    for level in range(_LEVEL_MAX):
        members = sorted((file for file in sizes if file.level == level), key=lambda file: file.name)
        if len(members) < files:
            continue
        sources = _candidates(members, sizes, files, bytes_max)
        if len(sources) < 2:
            continue
        first, last = min(file.first for file in sources), max(file.last for file in sources)
        target = HistoryFile(first, last, level + 1)
        if target not in sizes:
            return LevelMerge(sources, target)
    return None


def _candidates(
    members: Sequence[HistoryFile], sizes: Mapping[HistoryFile, int], files: int, bytes_max: int
) -> tuple[HistoryFile, ...]:
    found: list[HistoryFile] = []
    taken = 0
    for file in members:
        taken += sizes[file]
        found.append(file)
        if len(found) == files:
            break
        if taken > bytes_max:
            if len(found) > 1:
                break
            found, taken = [], 0
    return tuple(found)
