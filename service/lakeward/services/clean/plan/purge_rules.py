"""Which runs of the quarantine are to be deleted for good: by their age, or because it holds too much.

Touches: nothing.
Keeps:   1. a run whose manifest cannot be read, or that is being brought back, is never among them;
         2. by the cap the oldest go first, and no more than need be;
         3. no log that retired is purged, whatever is asked, while a query may run that began before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakeward.table.quarantine import QuarantinedRun


class PurgeReason(StrEnum):
    """Scripts match on these ids."""

    AGE = "age"
    """It was kept for as long as it was to be."""
    CAP = "cap"
    """The quarantine holds more than it may, and this is the oldest."""
    BEGUN = "begun"
    """A process died while it deleted it, or before it set anything aside."""


PURGED_BECAUSE = {
    PurgeReason.AGE: "kept for long enough",
    PurgeReason.CAP: "the quarantine held more than it may, and this was the oldest in it",
    PurgeReason.BEGUN: "a process died over it",
}


@dataclass(frozen=True, slots=True)
class DueRun:
    run: QuarantinedRun
    reason: PurgeReason


def find_due(
    runs: Sequence[QuarantinedRun], *, now: float, bytes_max: int | None, age_seconds_max: float | None = None
) -> tuple[DueRun, ...]:
    """The runs to delete, oldest first.

    Args:
        runs: oldest first.
        now: seconds since the epoch.
        bytes_max: what the quarantine may hold; None: whatever there is.
        age_seconds_max: delete what is older, whatever was said when it was set aside.
    """
    due: dict[str, DueRun] = {}
    for run in runs:
        if run.problem is not None or run.undone_by is not None:
            continue
        if now < run.not_before and not run.is_purging:
            continue
        is_old = age_seconds_max is not None and now - run.since >= age_seconds_max
        if run.is_purging or not run.manifests:
            due[run.run] = DueRun(run, PurgeReason.BEGUN)
        elif is_old or now >= run.keep_until:
            due[run.run] = DueRun(run, PurgeReason.AGE)
    held = sum(run.bytes for run in runs if run.run not in due)
    for run in runs:
        if bytes_max is None or held <= bytes_max:
            break
        if run.run not in due and run.problem is None and run.undone_by is None and now >= run.not_before:
            due[run.run] = DueRun(run, PurgeReason.CAP)
            held -= run.bytes
    return tuple(due[run.run] for run in runs if run.run in due)
