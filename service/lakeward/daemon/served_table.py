"""A table in the care of this daemon: what it is called, where it is, and how it is to be serviced.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakeward.config.settings import LockSettings, Settings, TableSettings, Writers
from lakeward.config.window import Window
from lakeward.daemon.scheduling.schedule import Schedule
from lakeward.protocol.job_kind import JobKind
from lakeward.services.compaction.plan.learned_reads import LearnedReads
from lakeward.services.compaction.plan.planner import is_by_cost, shadow_seconds_of, without_cost
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.service import Care, Service
from lakeward.state.records import CostRecord
from lakeward.table.file_system_view import GroupId

_IN_SHADOW = frozenset({JobKind.COMPACTION})
"""Services that say what they would do under other settings."""

COSTS_MAX = 50
"""Costs of jobs that are remembered, of each table."""


@dataclass(frozen=True, slots=True)
class ServedTable:
    name: str
    base_path: str
    settings: TableSettings
    watched_since: float
    """The time since which the store knows the table, in seconds since the epoch."""
    serviced_since: float | None = None
    """The time since which it knows the table with a statement about its writers; None: nothing is said yet."""
    shown_as: str = ""
    """Its short name on pages and in metrics, which it keeps while it is watched; empty for its name."""
    costs: tuple[CostRecord, ...] = ()
    """What its newest jobs took of which that was predicted, oldest first."""
    learned: LearnedReads | None = None
    """How often readers read it, as reads showed that were reported."""
    cost_since: float | None = None
    """When it was first to be planned by cost, where another policy planned it before; None: none did."""
    shadow_settings: TableSettings | None = None
    """What the configuration says while cost does not act yet; `settings` is what does."""

    @property
    def locks(self) -> LockSettings:
        assert self.settings.locks is not None, "Settings.table completes the locks"
        return self.settings.locks

    @property
    def is_serviced(self) -> bool:
        """Something is said about its writers, so that it may be written to."""
        return self.locks.why_nothing_is_written is None

    @property
    def is_beside_writers(self) -> bool:
        """Nothing says that no writer is at work."""
        return self.locks.writers is not Writers.STOPPED

    @property
    def group_filter(self) -> GroupFilter:
        return GroupFilter(partitions=self.settings.partitions, excluded_partitions=self.settings.exclude_partitions)

    def care_of(
        self,
        service: Service[Any],
        memory: object,
        excluded: Mapping[GroupId, Any],
        planned_by: Mapping[str, str] | None = None,
    ) -> Care[Any]:
        """How a service goes about this table."""
        selected = self.group_filter.selected_partitions
        return Care(
            service.rules(self.settings),
            memory,
            excluded,
            selected,
            planned_by or {},
            self.is_serviced,
            self.costs,
            self.learned,
            service.rules(self.shadow_settings) if self.shadow_settings and service.kind in _IN_SHADOW else None,
        )

    @property
    def shadow_until(self) -> float | None:
        """When cost begins to act; None: it does, or is not to."""
        if self.shadow_settings is None or self.cost_since is None:
            return None
        return self.cost_since + shadow_seconds_of(self.shadow_settings.planner)

    @property
    def wanted(self) -> TableSettings:
        """What the configuration says of it."""
        return self.shadow_settings or self.settings

    @property
    def is_by_cost(self) -> bool:
        """It is to be planned by cost, now or later."""
        return is_by_cost(self.wanted.planner)

    def at(self, now: float, settings: TableSettings | None = None) -> ServedTable:
        """The table by then: cost acts where its time in shadow is over.

        Args:
            settings: what the configuration says of it, where that may have changed.
        """
        wanted, since = settings or self.wanted, self.cost_since
        table = replace(self, settings=wanted, shadow_settings=None)
        if since is None or not table.is_by_cost or now >= since + shadow_seconds_of(wanted.planner):
            return table
        acting = wanted.model_copy(update={"planner": without_cost(wanted.planner)})
        return replace(table, settings=acting, shadow_settings=wanted)

    def with_cost(self, cost: CostRecord) -> ServedTable:
        """The table once a job has ended."""
        return self if cost.predicted_seconds is None else replace(self, costs=(*self.costs, cost)[-COSTS_MAX:])

    @property
    def schedule(self) -> Schedule:
        """What the scheduler needs to know."""
        settings = self.settings
        return Schedule(
            enabled=settings.enabled,
            group=settings.group,
            services=frozenset(JobKind(service) for service in settings.services),
            interval=settings.interval,
            objective=settings.objective_kept,
            windows=tuple(Window.parse(window) for window in settings.windows),
            shadow=self.locks.why_nothing_is_written,
            foreign_services=settings.foreign_services,
            memory_bytes=settings.memory,
        )


def served_table(
    settings: Settings, name: str, base_path: str, *, watched_since: float, serviced_since: float | None = None
) -> ServedTable:
    return ServedTable(name, base_path, settings.table(name, base_path), watched_since, serviced_since)
