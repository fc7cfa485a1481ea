"""What a snapshot and a timeline give the store: the plans that are pending, and what was carried out.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.format.timeline.compaction_plan import CompactionOperation
from lakeward.format.timeline.instant import Instant, State
from lakeward.state.records import JobRecord, ObservedOperation, ObservedPlan
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.service_instants import PLANNED_BY, PLANNED_BY_SERVICE, PLANNED_BY_STORE, ServiceInstant
from lakeward.table.timeline.timeline import Timeline


def observe_plans(snapshot: TableSnapshot) -> tuple[ObservedPlan, ...]:
    """The pending plans of a table, Lakeward's and those of other services, oldest first."""
    pending = {instant.time: instant for instant in snapshot.timeline.pending}
    plans = []
    for time, plan in sorted(snapshot.plans.items()):
        instant = pending[time]
        extra = plan.extra_metadata
        plans.append(
            ObservedPlan(
                instant=time,
                action=instant.action,
                state=instant.state.value,
                operations=tuple(_observe(operation, instant.action) for operation in plan.operations),
                requested_at=_requested_at(snapshot.timeline, instant),
                planned_by=extra.get(PLANNED_BY),
                planned_by_service=extra.get(PLANNED_BY_SERVICE),
                planned_by_store=extra.get(PLANNED_BY_STORE),
            )
        )
    return tuple(plans)


def observe_jobs(table: str, timeline: Timeline, services: Iterable[ServiceInstant]) -> tuple[JobRecord, ...]:
    """What Lakeward carried out and the active timeline still shows, oldest first. How, the timeline does not say."""
    completed = {(instant.time, instant.comparable_action): instant for instant in timeline.completed}
    jobs = []
    for service in services:
        if service.planned_by is None or service.state is not State.COMPLETED:
            continue
        ended = completed.get((service.time, "deltacommit" if service.action == "logcompaction" else "commit"))
        jobs.append(
            JobRecord(
                id=f"timeline:{table}:{service.time}",
                table=table,
                service="compaction",
                began_at=service.requested_at,
                instant=service.time,
                ended_at=timeline.modified.get(ended.file_name) if ended is not None else service.requested_at,
                result="committed",
                from_timeline=True,
            )
        )
    return tuple(jobs)


def _observe(operation: CompactionOperation, action: str) -> ObservedOperation:
    return ObservedOperation(
        partition_path=operation.partition_path,
        file_id=operation.file_id,
        kind=operation.operation_type or ("LOG" if action == "logcompaction" else "FULL"),
        base_instant=operation.base_instant,
        log_files=len(operation.log_files),
        read_bytes=operation.read_bytes,
        write_bytes=operation.write_bytes,
    )


def _requested_at(timeline: Timeline, pending: Instant) -> float | None:
    for instant in timeline.instants:
        if (instant.time, instant.comparable_action) == (pending.time, pending.comparable_action):
            return timeline.modified.get(instant.file_name)  # by state, so the first is the request
    return None
