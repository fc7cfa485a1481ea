"""What a clean would delete of a table as it is now: the settings and what is outside of the table, put to the rules.

Touches: storage, reading only: the consumers' watermarks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lakeward.clock import Clock
from lakeward.execute.clean.watermarks import read_watermarks
from lakeward.plan.clean.consumer import WatermarkPlace
from lakeward.plan.clean.decision import CleanOutcome, SliceDecision
from lakeward.plan.clean.due import find_overdue
from lakeward.plan.clean.planner import plan_clean
from lakeward.plan.clean.policy import READER_WINDOW_SECONDS, CleanPolicy
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class CleanOptions:
    policy: CleanPolicy
    reader_window: float = READER_WINDOW_SECONDS
    """Seconds for which a query may run."""
    consumers: Mapping[str, WatermarkPlace] = field(default_factory=dict)
    """Names of the incremental consumers, each with the place of its watermark."""


def choose(
    snapshot: TableSnapshot,
    options: CleanOptions,
    *,
    clock: Clock,
    partitions: Collection[str] | None = None,
    excluded: Collection[GroupId] = (),
) -> CleanOutcome:
    """A decision for each slice of the snapshot.

    Args:
        partitions: only these, as for `plan_clean`.
        excluded: not these.
    """
    return plan_clean(
        snapshot,
        options.policy,
        now=clock.now(),
        partitions=partitions,
        excluded=excluded,
        reader_window=options.reader_window,
        watermarks=read_watermarks(options.consumers, snapshot.config, clock=clock),
    )


def choose_overdue(
    snapshot: TableSnapshot,
    options: CleanOptions,
    *,
    after: int,
    clock: Clock,
    partitions: Collection[str] | None = None,
    excluded: Collection[GroupId] = (),
) -> tuple[SliceDecision, ...]:
    """The slices that could have gone for `after` commits; the rest as for `choose`."""
    return find_overdue(
        snapshot,
        options.policy,
        after=after,
        now=clock.now(),
        partitions=partitions,
        excluded=excluded,
        reader_window=options.reader_window,
        watermarks=read_watermarks(options.consumers, snapshot.config, clock=clock),
    )
