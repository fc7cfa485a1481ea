"""A check of an index as one task, which a process of its own carries out, or an executor.

What the check needs beyond its spec is imported by the task: with Numba and its kernels, which a daemon that hands its
work over never has.

Touches: what the check touches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.clock import SystemClock
from lakeward.index.index_type import IndexType
from lakeward.storage.opening import open_storage
from lakeward.table.listing import ListingSource
from lakeward.verify.index_check_result import CheckSize, IndexCheck

if TYPE_CHECKING:
    from lakeward.verify.index_check import Moment


@dataclass(frozen=True, slots=True)
class IndexCheckSpec:
    index_type: IndexType
    size: CheckSize
    timezone: str | None
    """The operator's word for a table whose instants are in local time."""
    listing: ListingSource


def check_index_at(location: str, spec: IndexCheckSpec, task_attempt: int) -> IndexCheck:
    """The check of the table at `location`, which reads it twice where something is found."""
    from lakeward.index.opening import open_index
    from lakeward.table.snapshot import take_snapshot
    from lakeward.verify.index_check import Moment, check_index

    storage, base_path = open_storage(location)
    clock = SystemClock()

    def moment_now() -> Moment:
        snapshot = take_snapshot(storage, base_path, timezone=spec.timezone, clock=clock, listing=spec.listing)
        return Moment(snapshot, open_index(storage, snapshot, spec.index_type, clock=clock, is_judged=True))

    return check_index(storage, moment_now, spec.size)
