"""A day of a table beside Hudi's default: what its compactions wrote and took, and what Hudi's would have.

    since when Hudi's default would have merged last -> replayed with Hudi's default -> the figures of the day
                                                     -> replayed as it happened      -> the figures of the day

Hudi's default merges all logs of all file groups after five delta commits. So nothing has to be known of the days
before but when it would have merged last (`Carried`): all logs before that are in bases. Both sides have the prices of
the planner's model, and keep what was replaced for the same ten commits.

Touches: nothing.
Keeps:   1. days one after another add up to what one replay of all of them says, within what bases grow by otherwise:
            each day takes them as they really were;
         2. figures of a day follow from the trace and from what the day before carried over.
See:     docs/decisions/0185-what-a-month-saved.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.simulation.replay import (
    OnStep,
    ReplayedFigures,
    SizeModel,
    measure_fit,
    replay,
)
from lakeward.services.compaction.simulation.trace import Trace


def hudi_default() -> Planner:
    """FULL of each file group with logs, after five delta commits."""
    return planner_of(CompactionType.FULL, GroupFilter(), {}, trigger=Trigger())


@dataclass(frozen=True, slots=True)
class Carried:
    """What a day needs of the days before it."""

    merged_at: int
    """When Hudi's default would have merged last: milliseconds since the epoch."""
    inserted: int = 0
    updated: int = 0
    grown: int = 0
    """What compactions have shown of how bases grow (`SizeModel`)."""

    def as_json(self) -> Mapping[str, int]:
        model = {"inserted": self.inserted, "updated": self.updated, "grown": self.grown}
        return {"merged_at": self.merged_at, **model}


@dataclass(frozen=True, slots=True)
class SideOfDay:
    """What one way to compact takes in a day."""

    written_bytes: int
    job_seconds: float
    """Core-seconds."""
    reader_seconds: float | None
    """Core-seconds for logs; None where partitions have several read rates."""
    storage_bytes: float
    """On average."""


@dataclass(frozen=True, slots=True)
class DayBesideHudi:
    happened: SideOfDay
    hudi: SideOfDay
    real_bytes: int
    modelled_bytes: int
    """What the day's compactions wrote, and what the model of sizes says that they did."""
    carried: Carried


def compare_day(
    trace: Trace, carried: Carried, *, begins: int, reads_per_day: float | None, on_step: OnStep = lambda done: None
) -> DayBesideHudi:
    """
    Args:
        trace: from `carried.merged_at` to the end of the day.
        begins: when the day did, in milliseconds.
        reads_per_day: how often each partition is read; None where that differs.
    """
    assert trace.begins == carried.merged_at <= begins <= trace.ends, "Hudi's default begins where it merged last"
    known = SizeModel(None, carried.inserted, carried.updated, carried.grown)
    fit = measure_fit(trace, model=known, counts_from=begins)
    happened, hudi = (
        replay(
            trace,
            planner=planner,
            model=fit.model,
            reads_per_day=reads_per_day or 0.0,
            on_step=on_step,
            counts_from=begins,
            begins_merged=planner is not None,
        )
        for planner in (None, hudi_default())
    )
    model, merged_at = fit.model, hudi.last_job_at
    return DayBesideHudi(
        _side(happened, reads_per_day),
        _side(hudi, reads_per_day),
        fit.real_bytes,
        fit.modelled_bytes,
        Carried(
            carried.merged_at if merged_at is None else min(merged_at, trace.ends),
            model.inserted,
            model.updated,
            model.grown,
        ),
    )


def _side(figures: ReplayedFigures, reads_per_day: float | None) -> SideOfDay:
    return SideOfDay(
        figures.compaction_bytes,
        figures.job_seconds,
        None if reads_per_day is None else figures.reader_seconds,
        figures.mean(lambda span: span.storage_bytes),
    )
