"""The plan of a clustering that Hudi requested and left: the same groups, as Lakeward carries them out, or why it does
not.

    file groups of a group     become as many new ones as the plan says
    sort columns               the new file groups are sorted by them, the first counting most
    none                       the new file groups have ranges of the key, and each is in the order of its keys

Hudi's plan says which columns it sorts by, but not on which curve: its job says that when it carries the plan out.

Touches: nothing, so equal snapshots and requests give equal plans.
Keeps:   1. a file group is taken only as a whole group of the plan, by its newest slice;
         2. a strategy that Lakeward has not is refused by name, and so is a plan of which a file group is gone.
Source:  SparkSortAndSizeExecutionStrategy, MultipleSparkJobExecutionStrategy (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Collection

from lakeward.base.errors import Refused
from lakeward.base.quantities import format_count
from lakeward.format.timeline.replace_metadata import RequestedClustering, RequestedGroup
from lakeward.services.clustering.plan.hudi_plan import BY_KEY, SORT_COLUMNS
from lakeward.services.clustering.plan.layout import COLUMNS_MAX, ClusterMode, Layout
from lakeward.services.clustering.plan.pack_plan import (
    PackDecision,
    PackedGroup,
    PackPlan,
    PackReason,
    decision,
    not_to_touch,
    plan_of,
)
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_SORT_AND_SIZE = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"


def requested_layout(requested: RequestedClustering, *, instant: str) -> Layout:
    """What the new file groups get. Raises `Refused`."""
    columns = tuple(name.strip() for name in requested.parameters.get(SORT_COLUMNS, "").split(",") if name.strip())
    if requested.strategy != _SORT_AND_SIZE:
        raise _refused(instant, f"Its strategy is {requested.strategy or 'not named'}; Lakeward has {_SORT_AND_SIZE}.")
    if len(columns) > COLUMNS_MAX:
        raise _refused(instant, f"It sorts by {format_count(len(columns), 'column')}; Lakeward takes {COLUMNS_MAX}.")
    return Layout(ClusterMode.SORT, columns) if columns else BY_KEY


def plan_as_requested(snapshot: TableSnapshot, groups: Collection[RequestedGroup], *, instant: str) -> PackPlan:
    """Raises `Refused`.

    Args:
        instant: of the request, which may be pending still.
    """
    latest = {slice_.group_id: slice_ for slice_ in snapshot.latest_slices}
    chosen: list[PackedGroup] = []
    decisions: dict[GroupId, PackDecision] = {}
    for group in groups:
        for place in group.file_groups:
            if place not in latest:
                raise _refused(instant, f"File group {place[1]} of its plan is gone, or cannot be read.")
            slice_ = latest[place]
            found = None if snapshot.pending_clusterings.get(place) == instant else not_to_touch(snapshot, slice_)
            if found is not None:
                raise _refused(instant, f"File group {place[1]} of its plan is not to be taken: {found[1]}.")
            files = format_count(len(group.file_groups), "file group")
            decisions[place] = decision(slice_, PackReason.PACKED, f"{files} become {group.outputs}, as Hudi planned")
        slices = tuple(latest[place] for place in group.file_groups)
        chosen.append(PackedGroup(slices[0].partition_path, slices, group.outputs))
    return plan_of(chosen, decisions)


def _refused(instant: str, why: str) -> Refused:
    return Refused(
        f"Clustering {instant} is not carried out.",
        why=why,
        remedy=f"Let Hudi carry it out, or end it: lakeward rollback TABLE {instant}.",
    )
