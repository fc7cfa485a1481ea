"""What makes a file slice dead and what keeps one, or a log of it that was merged, with the sentences that commands
say of it.

Touches: nothing.
Keeps:   everything that keeps a slice has its sentence, with when that ends or how to end it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.quantities import format_count, format_time


class DeadReason(StrEnum):
    """What makes a slice dead; each of these ids is one thing that was looked at. Scripts match on them."""

    BEFORE_EARLIEST = "before-earliest"
    """A newer slice of its file group serves every read as of the earliest instant, and after it."""
    BEYOND_VERSIONS = "beyond-versions"
    """Its file group has as many newer slices as the policy keeps."""
    REPLACED = "replaced"
    """Its file group was replaced, by the earliest instant or, by versions, at any time."""
    NOT_NEWEST = "not-newest"
    """Readers of the table as it is now read another slice."""
    NOT_PLANNED = "not-planned"
    """No pending plan of any kind reads it."""
    NOT_SAVEPOINTED = "not-savepointed"
    """No savepoint names a file of it."""
    NOT_READ = "not-read"
    """It was superseded before the reader window, and each consumer has read what superseded it."""


class KeepReason(StrEnum):
    """What keeps a slice. Scripts match on these ids."""

    NEWEST = "newest"
    """Readers of the table as it is now read it, logs that are superseded included."""
    TOO_FEW_COMMITS = "too-few-commits"
    """There is no earliest instant: too few commits, or none in the last hours."""
    RETAINED = "retained"
    """It is read as of an instant that the policy keeps."""
    REPLACED_LATELY = "replaced-lately"
    """Its file group was replaced by an instant that the policy keeps, so older reads need it."""
    PENDING_PLAN = "pending-plan"
    """A pending compaction, log compaction or clustering reads it, or may."""
    SAVEPOINT = "savepoint"
    """A savepoint names a file of it."""
    READER_WINDOW = "reader-window"
    """It was superseded so lately that a query may still read it."""
    CONSUMER = "consumer"
    """An incremental consumer has not read what superseded it, or its watermark is not known."""
    NO_EARLIEST = "no-earliest"
    """A log that was merged: by file versions nothing says since when all can be read, so it stays with its slice."""
    OTHER_ENGINE = "other-engine"
    """A log that a log compaction merged which another program planned: its output may be ignored without it."""
    QUARANTINED = "quarantined"
    """An earlier clean took it away: it stands in its place, as in object stores, until it is deleted for good."""
    NOT_ASKED_FOR = "not-asked-for"
    """Merged logs retire in the layout `default` only where `clean.retire_merged_logs` says so."""
    ANCHOR = "anchor"
    """Hudi's readers find the output of a log compaction by this log, and would ignore it without."""
    NAMES_LOGS = "names-logs"
    """An output that was merged names logs that are still there: without it they would be read again."""
    CAPTURES_CHANGES = "captures-changes"
    """The table captures changes, and Hudi's queries of changes open every log that a commit names."""
    NO_BASE = "no-base"
    """Its slice has no base file: what released readers do without its oldest log was not tried."""
    READS_OTHERWISE = "reads-otherwise"
    """Without it readers would not read the same blocks of the logs that stay."""
    NOT_TRIED = "not-tried"
    """Released readers of this table version, or of partial updates, were not tried without merged logs."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """One thing that keeps a slice, and the earliest end of it."""

    reason: KeepReason
    instant: str | None = None
    """The plan, savepoint or replacecommit that keeps it; the clean that took it away."""
    commits: int | None = None
    """It ends after so many more commits, at the earliest."""
    versions: int | None = None
    """It ends after so many more slices of its file group."""
    not_before: float | None = None
    """It ends at this moment, in seconds since the epoch, at the earliest."""
    consumer: str | None = None
    """The consumer that keeps it."""
    read_up_to: str | None = None
    """It ends once the consumer's watermark is this time, or later. None where its watermark is not known."""

    @property
    def sentence(self) -> str:
        """Why it keeps a file of the slice, and until when."""
        end = first_end([self])
        match self.reason:
            case KeepReason.NEWEST:
                return "Readers read it."
            case KeepReason.TOO_FEW_COMMITS:
                return f"The clean policy keeps it, since too few commits came since{end}."
            case KeepReason.RETAINED if self.versions is None:
                return f"The clean policy keeps it, since reads as of a commit that it retains need it{end}."
            case KeepReason.RETAINED:
                return f"The clean policy keeps it, since it retains versions{end}."
            case KeepReason.REPLACED_LATELY:
                return f"The clean policy keeps it, since reads as of before {self.instant} need it{end}."
            case KeepReason.PENDING_PLAN:
                return f"The pending plan of {self.instant} needs it, until that is carried out or unscheduled."
            case KeepReason.SAVEPOINT:
                return f"Savepoint {self.instant} pins it, until that is deleted."
            case KeepReason.READER_WINDOW:
                return f"It was superseded so lately that a query may still read it{end}."
            case KeepReason.CONSUMER if self.read_up_to is None:
                return f"Consumer {self.consumer} keeps it: how far that has read is not known."
            case KeepReason.CONSUMER:
                return f"Consumer {self.consumer} keeps it until it has read up to {self.read_up_to}."
            case KeepReason.NO_EARLIEST:
                return "The clean policy retains versions, so merged logs stay until their slice is superseded."
            case KeepReason.OTHER_ENGINE:
                return f"Another engine planned log compaction {self.instant}, so it stays with its slice."
            case KeepReason.QUARANTINED:
                return f"Clean {self.instant} took it away, and it stands until it is deleted{end}."
            case KeepReason.NOT_ASKED_FOR:
                return (
                    "In the layout default merged logs stay with their slice, unless clean.retire_merged_logs is set."
                )
            case KeepReason.ANCHOR:
                return (
                    f"It is the anchor of log compaction {self.instant}: readers would ignore that output without it. "
                    "It goes with its slice, or after the next log compaction."
                )
            case KeepReason.NAMES_LOGS:
                return (
                    f"Log compaction {self.instant} merged it, and logs that it names are still there; "
                    "it can go after them."
                )
            case KeepReason.CAPTURES_CHANGES:
                return "The table captures changes: Hudi's queries of changes open every log that a commit names."
            case KeepReason.NO_BASE:
                return "Its slice has no base file, so its merged logs stay until it is superseded."
            case KeepReason.READS_OTHERWISE:
                return "Without it readers would not read the same blocks of the logs that stay."
            case KeepReason.NOT_TRIED:
                return (
                    "Released readers of this table version, or of partial updates, were not tried without merged "
                    "logs, so these stay until their slice is superseded."
                )


KEPT_SLICES = {
    KeepReason.TOO_FEW_COMMITS: "no commit is old enough for them to go",
    KeepReason.RETAINED: "read as of what the policy keeps",
    KeepReason.REPLACED_LATELY: "replaced by {name}, which the policy keeps",
    KeepReason.PENDING_PLAN: "needed by the pending plan of {name}, until it is done",
    KeepReason.SAVEPOINT: "pinned by the savepoint of {name}, until it is deleted",
    KeepReason.READER_WINDOW: "superseded so lately that a query may still read them",
    KeepReason.CONSUMER: "consumer {name} has not read what superseded them, or its watermark is not known",
    KeepReason.NO_EARLIEST: "merged logs, which stay with their slices by file versions",
    KeepReason.OTHER_ENGINE: "merged by log compaction {name} of another engine",
    KeepReason.QUARANTINED: "taken away by clean {name} already, they stand until they are deleted",
    KeepReason.NOT_ASKED_FOR: "merged logs, which stay with their slices unless clean.retire_merged_logs is set",
    KeepReason.ANCHOR: "readers find the output of log compaction {name} by them",
    KeepReason.NAMES_LOGS: "merged by log compaction {name}; logs that they name are still there",
    KeepReason.CAPTURES_CHANGES: "merged logs of a table that captures changes",
    KeepReason.NO_BASE: "merged logs of slices without a base file",
    KeepReason.READS_OTHERWISE: "merged logs without which readers would not read the same blocks",
    KeepReason.NOT_TRIED: "merged logs of a table version whose readers were not tried without them",
}
"""What is said of several slices with the same reason; `name` is the consumer or the instant that keeps them."""


def first_end(keepers: Collection[Keeper], *, first: str = "it") -> str:
    """When what these keep can go, of the first of them: `; it can go after 2 more commits`. Empty where none says."""
    commits, versions, times = (
        [value for keeper in keepers if (value := getattr(keeper, name)) is not None]
        for name in ("commits", "versions", "not_before")
    )
    if commits:
        return f"; {first} can go after {format_count(min(commits), 'more commit')}"
    if versions:
        return f"; {first} can go after {format_count(min(versions), 'more slice')} of its file group"
    if times:
        return f"; {first} can go from {format_time(min(times))} on"
    if marks := [keeper.read_up_to for keeper in keepers if keeper.read_up_to is not None]:
        return f"; {first} can go once it has read up to {min(marks)}"
    return ""
