"""The contract of a table service: all that the daemon knows of one.

    demand     what there is to do, from what the last poll saw; asked at each plan
    run        does it, on a table that is open for one attempt
    traits     when its jobs come, and what they wait for

    memory     what it remembers of a table from one call to the next: one object, made when the daemon begins to watch
               the table, and forgotten with it: when another daemon has its lease, and after a restart. Jobs, plans
               and counts of storage share it on threads of their own, so each of its fields is assigned alone

A service is one folder, and one line in `services/services.py`.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from lakeward.base.clock import Clock
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport
from lakeward.protocol.section import SettingsSection
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

Rules = TypeVar("Rules", covariant=True)
S = TypeVar("S", bound=SettingsSection)
Asked = TypeVar("Asked", contravariant=True)


@dataclass(frozen=True, slots=True)
class ServiceDemand:
    """What a plan says of one service beside compaction."""

    is_due: bool
    why: str = ""
    """What there is to do, or a sentence about what prevents it; empty where there is nothing to say."""
    files: int = 0
    """Files that would be deleted."""
    bytes: int = 0
    instants: int = 0
    """Instants that would be rolled back, or archived."""
    quarantined_bytes: int = 0
    """What earlier ones took away and can still be brought back."""
    due_at: float | None = None
    """When it falls due though nothing changes; None: it is, or does not by time."""


@dataclass(frozen=True, slots=True)
class JobTraits:
    """What the scheduler has to know of a kind of job."""

    rank: int
    """Among jobs that wait: recovery first, verification last."""
    waits_for_window: bool = False
    """Whether it waits for one of the table's windows."""
    takes_memory: bool = False
    """Whether it takes the table's memory permit; a compaction takes what its plan says, where it says so."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table as the last poll saw it."""

    storage: Storage
    snapshot: TableSnapshot
    clock: Clock
    open: Callable[[], ServicedTable] | None
    """Opens the table as a job would, for a demand that asks heartbeats; None where nothing may be written to it."""


@dataclass(frozen=True, slots=True)
class Care(Generic[Rules]):
    """How one service goes about one table."""

    rules: Rules
    """The service's own settings of the table."""
    memory: Any
    """What the service remembers of the table, as its `new_memory` made it."""
    excluded: Collection[GroupId]
    """File groups that are parked or paused."""
    selected: Callable[[Iterable[str]], Collection[str] | None]
    """The partitions of these that the configuration selects; None where it leaves none out."""
    planned_by: Mapping[str, str]
    """What a plan says of the process that made it."""


class TableRules(Protocol):
    """What the configuration says of a table."""

    def section(self, of: type[S]) -> S:
        """The section of a service."""

    @property
    def as_hudi_has_it(self) -> Mapping[str, str]:
        """What its sections say by Hudi's keys, for a service that uses what another one is given."""


class Service(Protocol[Asked]):
    @property
    def kind(self) -> JobKind: ...

    @property
    def traits(self) -> JobTraits: ...

    def rules(self, table: TableRules) -> Any:
        """The settings that it takes, of a table. Raises `UsageError`."""

    def new_memory(self) -> object:
        """What it remembers of a table that it has not seen before."""

    def demand(self, facts: TableFacts, care: Care[Asked]) -> ServiceDemand:
        """What there is to do. Writes nothing. Raises what reading the table raises."""

    def run(self, table: ServicedTable, care: Care[Asked]) -> JobReport:
        """Do what is due by then. Raises what went wrong; nothing is published after an error."""
