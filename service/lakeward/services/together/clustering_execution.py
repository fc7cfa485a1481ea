"""Carry out a clustering that Hudi requested and left: its groups become new file groups as a clustering of Lakeward's.

    no lock   the request is read: groups, sort columns; what Lakeward cannot do is refused
    lock      the request is rolled back, with what an attempt at it left; a living one is refused
    no lock   a clustering of Lakeward's, of these groups (`services/clustering/run/clusterer.py`)

Hudi's own instant is not completed, since two engines could carry it out at once: no heartbeat, and nothing on the
timeline, keeps a job of Hudi's from beginning a request that another engine works on. Rolled back, it is gone for that
job, and writers may update the file groups again, whatever comes of the clustering.

Touches: the table, through rollback and clustering.
Keeps:   1. nothing is written where the request is no clustering, is refused, or may be at work;
         2. where the clustering ends without a result, no file group is left that writers refuse to update.
See:     docs/decisions/0141-pending-clusterings-are-carried-out.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeward.base.errors import LakewardError, UsageError
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.format.timeline.instant import State, instant_file_name
from lakeward.format.timeline.replace_metadata import read_requested_clustering
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clustering.plan.hudi_plan import HudiPlanKeys
from lakeward.services.clustering.plan.pack_options import PackOptions, PlanOfHudi
from lakeward.services.clustering.plan.requested_plan import requested_layout
from lakeward.services.clustering.run.clusterer import ClusteringReport, cluster, preview_clustering
from lakeward.services.rollback.run.roll_back import find_decision, roll_back_writes
from lakeward.table.timeline.instant_content import InstantContents


def preview_execution(table: ServicedTable, instant: str) -> ClusteringReport:
    """What `execute_clustering` would do now, by an attempt that is not at work. Writes nothing."""
    return ClusteringReport(preview_clustering(table, _options(table, instant)))


def execute_clustering(
    table: ServicedTable,
    instant: str,
    choose_dispatcher: Callable[[int], Dispatcher],
    run_task: Callable[..., Any],
) -> ClusteringReport:
    """Raises `UsageError` where the instant is no pending clustering, `Refused` for one that Lakeward does not carry
    out, `TryLater` where it may be at work, and what `cluster` raises."""
    options = _options(table, instant)
    preview_clustering(table, options)
    find_decision(table, instant, accepts_left=False)
    roll_back_writes(table, [instant], asked=instant)
    try:
        return cluster(table, options, choose_dispatcher, run_task)
    except LakewardError as error:
        error.add_note(
            f"The request {instant} is rolled back, so writers may update its file groups; `lakeward cluster TABLE` "
            "plans a clustering of its own."
        )
        raise


def _options(table: ServicedTable, instant: str) -> PackOptions:
    snapshot = table.snapshot(only=(), service=TableService.CLUSTERING)
    layout = snapshot.config.layout
    if not any(each.time == instant and each.action == "clustering" for each in snapshot.timeline.pending):
        raise UsageError(
            f"No clustering is pending at {instant}.",
            why="It is completed, rolled back, another action, or was never there.",
            remedy="`lakeward inspect` shows what is pending.",
        )
    name = instant_file_name(instant, "clustering", State.REQUESTED, layout)
    contents = InstantContents(table.storage, table.base_path, snapshot.config, snapshot.timeline)
    requested = read_requested_clustering(contents.read(name), file=name)
    if requested is None or not requested.groups:
        raise UsageError(
            f"The plan of clustering {instant} names no file group.",
            remedy=f"There is nothing to carry out; lakeward rollback TABLE {instant} ends it.",
        )
    return PackOptions(
        target_bytes=HudiPlanKeys().target_file_bytes,
        layout=requested_layout(requested, instant=instant),
        requested=PlanOfHudi(instant, requested.groups),
    )
