"""Whether the daemon brings an index of Lakeward's up to date now, or when, or why not: its choice for one index.

    against it     the settings say so, nothing may be written, it is out of use, what it lacks cannot be known
    due            by the age of what it lacks, by commits, by bytes; or its files wait for a merge, which writers that
                   add their own commits leave to the next update
    not yet        what it lacks is young and little: it waits, so that one update takes several commits in

A lookup covers what an index lacks (`index/overlay`), so that nothing is wrong while it waits.

Touches: nothing; it loads no kernels.
Keeps:   1. an index that lacks anything is due, or says when it will be, or what prevents it;
         2. equal facts give equal choices.
See:     docs/decisions/0084-the-daemon-keeps-indexes-at-pace.md
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lakeward.index.record.merge_choice import MERGE_OPTIONS

if TYPE_CHECKING:
    from lakeward.index.key_changes.table_commits import Staleness

BYTES_MAX: Final = 64 * 1024 * 1024
"""A quarter of what a lookup covers: commits that wrote so much are taken in at once."""

SECONDS_MAX: Final = 60.0
"""So long the first of the commits that an index lacks may wait, so that one update takes several in."""

COMMITS_MAX: Final = 8


class UpdateReason(StrEnum):
    OFF = "off"
    UNWRITTEN = "unwritten"
    OUT_OF_USE = "out-of-use"
    UNREADABLE = "unreadable"
    CURRENT = "current"
    YOUNG = "young"
    AGE = "age"
    COMMITS = "commits"
    BYTES = "bytes"
    FILES = "files"

    @property
    def is_due(self) -> bool:
        return self in (UpdateReason.AGE, UpdateReason.COMMITS, UpdateReason.BYTES, UpdateReason.FILES)

    @property
    def text(self) -> str:
        """A few words; empty where there is nothing to be said."""
        if self.is_due:
            return "due"
        return _TEXTS.get(self, "")


_TEXTS = {
    UpdateReason.OFF: "not brought up to date, index.update is false",
    UpdateReason.UNWRITTEN: "not brought up to date, nothing is said about the table's writers",
    UpdateReason.OUT_OF_USE: "not brought up to date, it is out of use",
    UpdateReason.UNREADABLE: "not brought up to date",
    UpdateReason.YOUNG: "taken in soon",
}


@dataclass(frozen=True, slots=True)
class UpdateDecision:
    reason: UpdateReason
    due_at: float | None = None
    """When it falls due though nothing changes; None: it is, or does not by time."""


def choose_update(
    behind: Staleness, unmerged: int, *, is_on: bool = True, now: float, against: UpdateReason | None = None
) -> UpdateDecision:
    """
    Args:
        is_on: `index.update`.
        unmerged: files that a lookup of one key asks beside the base file.
        now: when it was behind by so much.
        against: what is known to prevent it.
    """
    if not is_on:
        return UpdateDecision(UpdateReason.OFF)
    if against is not None:
        return UpdateDecision(against)
    if behind.bytes >= BYTES_MAX:
        return UpdateDecision(UpdateReason.BYTES)
    if behind.commits >= COMMITS_MAX:
        return UpdateDecision(UpdateReason.COMMITS)
    # In a zone that is not known a commit has no age, and waits for nothing.
    if behind.commits and (behind.seconds >= SECONDS_MAX or not behind.seconds):
        return UpdateDecision(UpdateReason.AGE)
    if unmerged >= MERGE_OPTIONS.logs_max:
        return UpdateDecision(UpdateReason.FILES)
    if behind.commits:
        return UpdateDecision(UpdateReason.YOUNG, now + SECONDS_MAX - behind.seconds)
    return UpdateDecision(UpdateReason.CURRENT)
