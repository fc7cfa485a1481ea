"""Histories of a table of two file groups, in megabytes and hours."""

from __future__ import annotations

from lakeward.services.compaction.simulation.trace import CommitAuthor, Trace, TracedCommit, TracedFile

MIB = 1024 * 1024
HOUR = 3600 * 1000
BEGINS = 1_767_225_600_000
"""The first moment of 2026."""


def at(hours: float) -> int:
    return BEGINS + round(hours * HOUR)


def writes(hours: float, *files: TracedFile) -> TracedCommit:
    return TracedCommit(at(hours) - 1000, at(hours), CommitAuthor.WRITER, files)


def compacts(hours: float, *files: TracedFile) -> TracedCommit:
    return TracedCommit(at(hours) - 1000, at(hours), CommitAuthor.COMPACTION, files)


def base(size: int, group: int = 0) -> TracedFile:
    return TracedFile(group, size, True)


def log(size: int, group: int = 0, inserts: float = 0.0) -> TracedFile:
    return TracedFile(group, size, False, inserts)


def traced(*commits: TracedCommit, hours: float, bases: int = 100 * MIB, **fields: object) -> Trace:
    """A table of two groups; the first one has a base."""
    before = writes(-1, base(bases))
    groups = (("p", "f-0"), ("p", "f-1"))
    properties = {
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    }
    return Trace(groups, (before, *commits), BEGINS, at(hours), properties)


HISTORY = traced(
    *(writes(hour, log(MIB)) for hour in range(1, 8)),
    compacts(8, base(100 * MIB)),
    *(writes(hour, log(MIB)) for hour in range(9, 17)),
    hours=18,
)
"""Fifteen writes of 1 MiB over a base of 100 MiB, and FULL after the seventh."""
