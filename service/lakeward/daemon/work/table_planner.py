"""What there is to do for one table, for all of its services: a snapshot in, decisions and a demand out.

    standing            which services may run at all, each by itself (`config/permitted_services.py`)
    services            what each of `services/services.py` has to do
    compaction          a decision for every file group; where only merging is refused, what goes with it all the same

Touches: the table, reading only: what a demand cannot find in the snapshot; the store, what indexes it has.
Keeps:   1. a service that is refused, or fails to answer, holds no other service of the table back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError
from lakeward.config.permitted_services import PermittedServices, permitted_services_of
from lakeward.config.settings import Writers
from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.work.observation import observe_plans
from lakeward.daemon.work.reports import PlanReport
from lakeward.daemon.work.table_cache import TableCache
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.format.timeline.instant import State, parse_instant_time
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.owner import Processes
from lakeward.protocol.pending.pending_work import PendingWork, pending_work
from lakeward.protocol.pending.stuck import is_begun_service
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.protocol.problem import problem_of
from lakeward.protocol.refusals.eligibility import TableService, refuse
from lakeward.protocol.serviced_table import ServicedTable, planned_at
from lakeward.services.compaction.plan.decision import PlanOutcome, Reason
from lakeward.services.compaction.plan.pay_back import look_in
from lakeward.services.service import Care, Service, ServiceDemand, StoredIndexes, TableFacts
from lakeward.services.services import NAMED, load_services, merging_service
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_COMPACTION = merging_service()

PLAN_EXPIRY_SECONDS = 6 * 3600.0
"""A pending plan of Lakeward that was not carried out is unscheduled after this, so that it holds no file group up."""


class Dispatchers(Protocol):
    """Dispatchers that run data jobs."""

    def at_once(self, input_bytes: int, memory_bytes: int) -> int:
        """How many operations, each of so much memory, of a job that reads so many bytes run at the same time."""

    def choose(self, input_bytes: int, *, memory_bytes: int, permit_bytes: int) -> Dispatcher:
        """The dispatcher for a plan that reads so many bytes; see `daemon/engines`."""

    def here(self, *, memory_bytes: int, permit_bytes: int) -> Dispatcher:
        """One of this machine, whichever plans run elsewhere."""


class TablePlanner:
    def __init__(
        self,
        *,
        open_storage: Callable[[str], tuple[Storage, str]],
        open_serviced: Callable[[ServedTable, Guard], ServicedTable],
        dispatchers: Dispatchers,
        processes: Processes,
        database: StoredIndexes,
        clock: Clock,
    ) -> None:
        self._open_storage = open_storage
        self._open_serviced = open_serviced
        self._dispatchers = dispatchers
        self._processes = processes
        self._database = database
        self._clock = clock

    def plan(
        self,
        table: ServedTable,
        cache: TableCache,
        snapshot: TableSnapshot,
        excluded: Mapping[GroupId, Reason],
        guard: Guard,
    ) -> PlanReport:
        """Raises `Refused` where no service of the table may run."""
        started, now = self._clock.monotonic(), self._clock.now()
        permitted = permitted_services_of(table.settings, snapshot, beside_writers=table.is_beside_writers)
        cache.put_storage_behind()
        if permitted.is_refused:
            stopped = (refusal for against in permitted.stopped.values() for refusal in against)
            refuse(table.base_path, tuple(dict.fromkeys(stopped)))
        services = self._service_demands(table, cache, snapshot, permitted, excluded, guard)
        outcome, pending = PlanOutcome((), ()), tuple(observe_plans(snapshot))
        if permitted.no_work:
            demand, pending = Demand(0, no_work=permitted.no_work), ()
        elif not permitted.may(TableService.COMPACTION):
            demand = self._demand_beside(table, cache, snapshot, permitted, excluded, now)
        else:
            guard()
            at = planned_at(snapshot, now)
            outcome = _COMPACTION.plan(snapshot, at, self._care(_COMPACTION, table, cache, excluded))
            demand = self._demand(table, cache, snapshot, outcome, excluded, now)
        demand = replace(demand, services=services, refused=permitted.texts)
        return PlanReport(outcome, pending, demand, now, self._clock.monotonic() - started)

    def _demand_beside(
        self,
        table: ServedTable,
        cache: TableCache,
        snapshot: TableSnapshot,
        permitted: PermittedServices,
        excluded: Mapping[GroupId, Reason],
        now: float,
    ) -> Demand:
        """What compaction brings with it, where only merging is refused: old plans, and the metadata table."""
        pending = self._work(table, snapshot, excluded) if permitted.may(TableService.UNSCHEDULING) else []
        return Demand(
            0,
            oldest_unmerged_at=None if cache.backlog is None else cache.backlog.oldest_unmerged_at,
            expired_plans=_expired(pending, snapshot, now),
        )

    def _demand(
        self,
        table: ServedTable,
        cache: TableCache,
        snapshot: TableSnapshot,
        outcome: PlanOutcome,
        excluded: Mapping[GroupId, Reason],
        now: float,
    ) -> Demand:
        pending = self._work(table, snapshot, excluded)
        # Those that expired are work, too: where one cannot be unscheduled, it is to be carried out.
        operations = [*outcome.operations, *(operation for work in pending for operation in work.plan.operations)]
        read_bytes, memory = sum(operation.read_bytes for operation in operations), table.settings.memory
        at_once = min(len(operations), self._dispatchers.at_once(read_bytes, memory))
        backlog = cache.backlog
        return Demand(
            operations=len(operations),
            read_bytes=read_bytes,
            write_bytes=sum(operation.write_bytes for operation in operations),
            benefit=float(sum(decision.numbers.get("saved_bytes", 0) for decision in outcome.decisions)),
            oldest_unmerged_at=backlog.oldest_unmerged_at if backlog is not None else None,
            due_by_objective_at=None if (left := outcome.objective_seconds_left) is None else now + left,
            due_by_price_at=None if math.isinf(look := look_in(outcome.decisions)) else now + look,
            expired_plans=_expired(pending, snapshot, now),
            memory_bytes=at_once * memory,
        )

    def _work(
        self, table: ServedTable, snapshot: TableSnapshot, excluded: Mapping[GroupId, Reason]
    ) -> list[PendingWork]:
        """Pending plans that are work: one of another engine that holds an excluded group is neither carried out nor
        unscheduled, nor is one that it may be carrying out; nor one of Lakeward's on version 6, where no plan is."""
        may_go = snapshot.config.version.has_logs_of_one_write
        pending = [
            work
            for work in pending_work(snapshot)
            if (work.is_own and may_go) or excluded.keys().isdisjoint(work.groups)
        ]
        if not any(is_begun_service(instant) for instant in snapshot.timeline.pending):
            return pending
        judge = self._judge(table)
        return [
            work
            for work in pending
            if judge.why_maybe_at_work(snapshot, work.instant, judge.liveness(work.instant)) is None
        ]

    def _care(
        self, service: Service[Any], table: ServedTable, cache: TableCache, excluded: Mapping[GroupId, Any]
    ) -> Care[Any]:
        return table.care_of(service, cache.memory(service.kind), excluded)

    def _judge(self, table: ServedTable) -> Judge:
        storage, base_path = self._open_storage(table.base_path)
        return Judge(
            storage,
            base_path,
            self._clock,
            self._processes,
            table.settings.silent_after,
            writers_stopped=table.locks.writers is Writers.STOPPED,
        )

    def facts(self, table: ServedTable, snapshot: TableSnapshot, guard: Guard | None) -> TableFacts:
        """
        Args:
            guard: stops what opens the table; None where nothing will.
        """
        storage, _ = self._open_storage(table.base_path)
        may_open = partial(self._open_serviced, table, guard) if table.is_serviced and guard else None
        return TableFacts(storage, snapshot, self._clock, may_open, self._database)

    def _service_demands(
        self,
        table: ServedTable,
        cache: TableCache,
        snapshot: TableSnapshot,
        permitted: PermittedServices,
        excluded: Mapping[GroupId, Reason],
        guard: Guard,
    ) -> Mapping[JobKind, ServiceDemand]:
        """What the services beside compaction have to do. What goes wrong in asking one is reported and holds nothing
        back; one that is refused is not asked."""
        facts = self.facts(table, snapshot, guard)

        def of(service: Service[Any]) -> Mapping[JobKind, ServiceDemand]:
            return service.demand(facts, self._care(service, table, cache, excluded))

        asked: dict[JobKind, Callable[[], Mapping[JobKind, ServiceDemand]]] = {}
        for service in load_services():
            is_wanted = service.kind in table.settings.services or not (service.kind in NAMED or permitted.no_work)
            if is_wanted and permitted.may(service.permission):
                asked[service.kind] = partial(of, service)
        demands: dict[JobKind, ServiceDemand] = {
            kind: ServiceDemand(False, f"Not done: {against[0].subject}. {against[0].why}")
            for kind, against in permitted.stopped.items()
            if kind not in permitted.texts and not permitted.no_work
        }
        for kind, ask in asked.items():
            try:
                demands |= ask()
            except LakewardError as error:
                demands[kind] = ServiceDemand(False, problem_of(error).text)
        return demands


def _expired(pending: Iterable[PendingWork], snapshot: TableSnapshot, now: float) -> tuple[str, ...]:
    """Instants of Lakeward's plans that waited for too long, where they can be unscheduled."""
    if not snapshot.config.version.has_logs_of_one_write:
        return ()
    return tuple(
        work.instant for work in pending if work.is_own and _age(work.instant, snapshot, now) > PLAN_EXPIRY_SECONDS
    )


def _age(instant: str, snapshot: TableSnapshot, now: float) -> float:
    """Seconds since a plan of Lakeward was requested. Where the zone is not known its time is no moment, and may be
    months back when it is new; but its file is as old as it is, or younger, in a copy."""
    if snapshot.zone.zone is not None:
        return now - parse_instant_time(instant, snapshot.zone.zone) / 1000
    requested = (each for each in snapshot.timeline.instants if (each.time, each.state) == (instant, State.REQUESTED))
    return now - max((snapshot.timeline.modified[each.file_name] for each in requested), default=now)
