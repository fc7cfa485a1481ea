"""Puts together what the daemon shows of itself: the status of everything, and the detail of one table.

A detail is of the moment of its status. The store and the snapshot are read after it, so they may be ahead:

    status at t10, a job runs; t11 the job ends, and the store has it; t12 the store is read
    With both taken as they come, the page would have the job twice, running and ended.

Touches: the store, for a detail; nothing, for a status.
Keeps:   1. what the store has of after the status is left out of a detail;
         2. all figures of a detail's files are of one snapshot, and a decision that was taken on others is left out;
         3. what holds the table is what the status says; the store only adds who said it, and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lakeward.base.errors import BrokenFile
from lakeward.base.quantities import DAY_SECONDS, format_time, month_begun
from lakeward.config.job_card import Card, card_of
from lakeward.daemon.scheduling.table_state import Hold, TableState
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import (
    DayTotal,
    EventStatus,
    GroupStatus,
    HoldStatus,
    InstantMark,
    Limitation,
    PlanStatus,
    SettingLine,
    StorageSample,
    TablePage,
    TableStatus,
)
from lakeward.daemon.work.observation import observe_plans
from lakeward.format.timeline.instant import Instant, parse_instant_time
from lakeward.services.compaction.plan.decision import Decision, decide_frozen
from lakeward.services.compaction.plan.decision_in_words import decision_of
from lakeward.services.service import Fact
from lakeward.services.services import NAMED, load_services
from lakeward.state.records import (
    ControlKind,
    ControlRecord,
    CostRecord,
    JobRecord,
    ObservedPlan,
    ParkedRecord,
    TargetKind,
)
from lakeward.state.store import Store
from lakeward.table.backlog import GroupBacklog, backlog_of, backlog_of_group
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

JOBS_SHOWN = 50
EVENTS_SHOWN = 50
INSTANTS_SHOWN = 300
DAYS_SHOWN = 30
MONTHS_SHOWN = 3
"""Months whose costs a page has, this one included; `lakeward costs` has those of 400 days."""


def limitations(
    *,
    store_problem: str | None,
    spark_problem: str | None,
    discovery_problems: Iterable[str],
    tables: Iterable[ServedTable],
    configured: bool,
) -> tuple[Limitation, ...]:
    """What this daemon cannot do now, most important first."""
    found: list[Limitation] = []
    if store_problem is not None:
        found.append(
            Limitation(
                f"The store does not answer, so no lease can be renewed. {store_problem}",
                "Bring the store back; work goes on by itself.",
            )
        )
    if spark_problem is not None:
        found.append(
            Limitation(f"Spark is not available. {spark_problem}", "Check spark.master and spark.conf, and Java.")
        )
    silent = sum(table.locks.why_nothing_is_written is not None for table in tables)
    if silent:
        found.append(
            Limitation(
                f"{silent} table{'s are' if silent != 1 else ' is'} planned and not changed, because nothing is said "
                "about other writers.",
                'Set locks.writers to "share" or "stopped".',
            )
        )
    found += [Limitation(problem, "Correct [discovery], or the folder.") for problem in discovery_problems]
    if not configured:
        found.append(Limitation("No table is configured.", "Set discovery.roots, or [[tables]] with a path."))
    return tuple(found)


def table_detail(
    status: TableStatus,
    snapshot: TableSnapshot | None,
    store: Store,
    *,
    at: float,
    settings: Sequence[SettingLine] = (),
    cores: int = 1,
) -> TablePage:
    """Asks the store.

    Args:
        snapshot: None before the first scan.
        at: when the status was made.
        settings: those that are in force.
        cores: how many this process may use.
    """
    if snapshot is not None:
        status = replace(status, backlog=backlog_of(snapshot))
    name = status.name
    planning, records = store.observations.decided(name)
    held = _holds(status, store, at)
    holds = {hold.file_group: hold for hold in held if hold.file_group is not None}
    decisions = {(each.partition_path, each.file_id): decision_of(each) for each in records}
    ended = _ended(status, store, at)
    return TablePage(
        table=status,
        at=at,
        facts=_facts(status, snapshot),
        plans=tuple(_plan(plan) for plan in _pending(status, snapshot, store) if plan.state != "completed"),
        groups=_groups(snapshot, decisions, holds),
        ended=ended,
        events=tuple(
            EventStatus(event.at, event.kind, event.text)
            for event in store.events.latest(name, EVENTS_SHOWN)
            if event.at <= at
        ),
        holds=tuple(held),
        planned_at=None if planning is None else min(planning.planned_at, at),
        storage=tuple(StorageSample(each.at, each.bytes) for each in store.observations.storage(name) if each.at <= at),
        cards=_cards(ended, store, at),
        months=store.jobs.monthly_costs(name, since=month_begun(at, before=MONTHS_SHOWN - 1)),
        beside_hudi=store.compared_days.months(name, since=month_begun(at, before=MONTHS_SHOWN - 1)),
        examination=store.observations.examinations([name]).get(name),
        timeline=() if snapshot is None else _instants(snapshot, name, store),
        days=_days(store.jobs.spent_since(name, at - DAYS_SHOWN * DAY_SECONDS), at),
        settings=tuple(settings),
        cores=cores,
    )


def _instants(snapshot: TableSnapshot, name: str, store: Store) -> tuple[InstantMark, ...]:
    """The newest instants whose names are times, oldest first; none where the zone of these is not known."""
    timeline, zone = snapshot.timeline, snapshot.zone.zone
    known: list[tuple[float, Instant]] = []
    if zone is None:
        return ()
    for instant in (*timeline.completed, *timeline.pending):
        try:
            known.append((parse_instant_time(instant.time, zone) / 1000, instant))
        except BrokenFile:
            continue
    known.sort(key=lambda each: each[0])
    known = known[-INSTANTS_SHOWN:]
    own = store.jobs.instants(name, known[0][0] - DAY_SECONDS) if known else frozenset()
    return tuple(
        InstantMark(each.time, each.comparable_action, each.state.value, at, each.time in own) for at, each in known
    )


def _days(costs: Sequence[CostRecord], at: float) -> tuple[DayTotal, ...]:
    of_days: dict[float, list[CostRecord]] = {}
    for cost in costs:
        if cost.ended_at <= at:
            of_days.setdefault(cost.ended_at // DAY_SECONDS * DAY_SECONDS, []).append(cost)
    return tuple(
        DayTotal(
            day,
            len(of_day),
            sum(cost.read_bytes for cost in of_day),
            sum(cost.written_bytes for cost in of_day),
            sum(cost.actual_seconds or 0.0 for cost in of_day),
            sum(cost.saved_seconds_a_day or 0.0 for cost in of_day),
        )
        for day, of_day in sorted(of_days.items())
    )


def _pending(status: TableStatus, snapshot: TableSnapshot | None, store: Store) -> Iterable[ObservedPlan]:
    if snapshot is None:
        return store.observations.plans(status.name)
    return () if status.no_work else observe_plans(snapshot)


def _ended(status: TableStatus, store: Store, at: float) -> tuple[JobRecord, ...]:
    """Jobs that had ended by the time of the status, the newest first."""
    last = () if status.last_job is None else (status.last_job,)
    ended = {job.id: job for job in last}  # the store may not have it yet
    for job in store.jobs.latest(status.name, JOBS_SHOWN):
        if job.ended_at is not None and job.ended_at <= at:
            ended[job.id] = job
    for running in status.running:
        ended.pop(running.id, None)
    return tuple(sorted(ended.values(), key=lambda job: job.began_at, reverse=True))


def _cards(ended: Sequence[JobRecord], store: Store, at: float) -> Mapping[str, Card]:
    if not ended:
        return {}
    table = ended[0].table
    costs = [cost for cost in store.jobs.costs(table, [job.id for job in ended]).values() if cost.ended_at <= at]
    oldest = min((cost.ended_at for cost in costs), default=at)
    later = [cost for cost in store.jobs.costs_since(table, oldest) if cost.ended_at <= at]
    return {cost.job_id: card_of(cost, later, now=at) for cost in costs}


def _holds(status: TableStatus, store: Store, at: float) -> list[HoldStatus]:
    outlook = status.outlook
    parked = {record.file_group: record for record in store.controls.parked(at) if record.table == status.name}
    paused = [_pause(control) for control in store.controls.in_force(at) if _pauses(control, status)]
    found = [_hold(hold, parked.get(None), status.name) for hold in outlook.holds if hold.state in _SHOWN]
    if outlook.state in _NOT_SERVICED_HERE:  # what holds it, the daemon that services it knows
        found += [_parked(record) for record in parked.values()]
        found += paused
        return sorted(found, key=lambda hold: _HOLDS.index(hold.kind))
    for group in outlook.parked_groups:
        record = parked.get(group.file_group)
        since = 0.0 if record is None else record.parked_at
        found.append(HoldStatus("parked", status.name, group.file_group, group.reason, since, group.until))
    for hold in outlook.holds:
        if hold.state is TableState.PAUSED:
            said = [pause for pause in paused if pause.file_group is None]
            found += said or [HoldStatus("paused", status.name, None, hold.reason, 0.0, hold.until)]
    for file_group in outlook.paused_groups:
        said = [pause for pause in paused if pause.file_group == file_group]
        found += said or [HoldStatus("paused", status.name, file_group, "Paused by an operator.", 0.0, None)]
    return sorted(found, key=lambda hold: _HOLDS.index(hold.kind))


def _hold(hold: Hold, parked: ParkedRecord | None, table: str) -> HoldStatus:
    if hold.state is TableState.PARKED and parked is not None:
        return _parked(parked)
    return HoldStatus(hold.state.value, table, None, hold.reason, 0.0, hold.until)


def _parked(record: ParkedRecord) -> HoldStatus:
    return HoldStatus("parked", record.table, record.file_group, record.reason, record.parked_at, record.until)


_NOT_SERVICED_HERE = (TableState.WAITING, TableState.DISABLED)
_SHOWN = (TableState.REFUSED, TableState.PARKED, TableState.BACKING_OFF, TableState.SHADOW)
_HOLDS = ("refused", "parked", "backing-off", "paused", "shadow")
"""What went wrong comes first."""


def _pauses(control: ControlRecord, status: TableStatus) -> bool:
    if control.kind is not ControlKind.PAUSE:
        return False
    return control.target == (status.served.settings.group if control.target_kind is TargetKind.GROUP else status.name)


def _pause(control: ControlRecord) -> HoldStatus:
    return HoldStatus(
        "paused", control.target, control.file_group, control.reason, control.at, control.until, control.by
    )


def _facts(status: TableStatus, snapshot: TableSnapshot | None) -> tuple[Fact, ...]:
    facts = [Fact("Base path", status.served.base_path), Fact("Group", status.served.settings.group)]
    if snapshot is not None:
        config = snapshot.config
        facts += [
            Fact("Table version", str(config.version)),
            Fact("Merge mode", str(config.merge_mode)),
            Fact("Record key", ", ".join(config.record_key_fields)),
            Fact("Partitions", str(len(snapshot.partitions))),
            Fact("Time zone of instants", f"{snapshot.zone.name} ({snapshot.zone.source.value})"),
        ]
    for service in load_services():
        if service.kind in status.demands:
            facts += service.shown(status.remembered.get(service.kind))
    facts += _facts_of_services(status)
    if (until := status.served.shadow_until) is not None:
        facts.append(Fact("Policy cost", f"in shadow until {format_time(until)}, its decisions are only recorded"))
    facts.append(Fact("Services", ", ".join(status.served.settings.services)))
    return tuple(facts)


def _facts_of_services(status: TableStatus) -> Iterator[Fact]:
    """What the services beside compaction have to do, and what prevents them."""
    troubles = {trouble.service: trouble for trouble in status.outlook.service_troubles}
    for service, text in status.outlook.refused.items():
        yield Fact(service.value.capitalize(), f"refused: {text}")
    for service, demand in status.demands.items():
        if service not in NAMED:
            continue
        words = [demand.why] if demand.why else []
        if (trouble := troubles.get(service)) is not None:
            times = "once" if trouble.failures == 1 else f"{trouble.failures} times"
            words.append(f"failed {times}, next try at {format_time(trouble.retry_at)}")
            words += [trouble.text] if trouble.text else []
        facts = "; ".join(word.rstrip(".") for word in words)
        yield Fact(service.value.capitalize(), facts or "nothing is due")


def _groups(
    snapshot: TableSnapshot | None, decisions: Mapping[GroupId, Decision | None], holds: Mapping[GroupId, HoldStatus]
) -> tuple[GroupStatus, ...]:
    if snapshot is None:
        return ()
    found = []
    for group in snapshot.file_groups:
        group_id = (group.partition_path, group.file_id)
        backlog = backlog_of_group(group, snapshot.log_compactions.get(group_id, ()))
        decision = decisions.get(group_id)
        if decision is not None and any(
            decision.numbers.get(name, number) != number for name, number in backlog.numbers.items()
        ):
            decision = None  # the file group has changed since
        found.append(GroupStatus(*group_id, len(group.slices), backlog, decision, holds.get(group_id)))
    # Of these only the decision is known, which needs no plan.
    for decision in decide_frozen(snapshot.frozen):
        group_id = (decision.partition_path, decision.file_id)
        found.append(GroupStatus(*group_id, 0, GroupBacklog(0, 0, 0, 0, 0), decision, holds.get(group_id)))
    return tuple(found)


def _plan(plan: ObservedPlan) -> PlanStatus:
    return PlanStatus(
        plan.instant,
        plan.action,
        plan.requested_at or 0.0,
        len(plan.operations),
        plan.planned_by_service or plan.planned_by or "another engine",
    )
