"""What an index has seen of a timeline of layout 1, whose instants do not say when they completed.

There a write may begin before another one and complete after it, and no time up to which an index has all says that it
lacks the first. So the index knows each instant that it has.

    writes          those that were complete on the active timeline, when it was looked at last
    undoing         the same of rollbacks and restores, which a restore takes from the timeline without a word
    start           the first write there, pending ones among them
    counts_before   the first completed write there: to readers what is older completed, whatever happened to it
    archive         where the archive ended before that timeline was listed

What is on the active timeline and is not among these came since. What came and was archived since is in the
archive behind its end.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.table.timeline.archived_log import ArchiveEnd


@dataclass(frozen=True, slots=True)
class SeenTimeline:
    writes: frozenset[str] = frozenset()
    undoing: frozenset[str] = frozenset()
    start: str | None = None
    counts_before: str | None = None
    archive: ArchiveEnd = field(default_factory=ArchiveEnd)

    def has(self, instant: str) -> bool:
        return instant in self.writes or instant in self.undoing

    @property
    def document(self) -> dict[str, Any]:
        return {
            "writes": sorted(self.writes),
            "undoing": sorted(self.undoing),
            "start": self.start,
            "counts_before": self.counts_before,
            "archive": [self.archive.number, self.archive.size],
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any] | None) -> SeenTimeline | None:
        """None of a timeline that shows when its instants completed."""
        if document is None:
            return None
        archive = ArchiveEnd(*document["archive"])
        writes, undoing = frozenset(document["writes"]), frozenset(document["undoing"])
        return cls(writes, undoing, document["start"], document["counts_before"], archive)
