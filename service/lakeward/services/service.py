"""The contract of a table service: all that the daemon knows of one.

    demand     what there is to do, from what the last poll saw; asked at each plan, for each of its kinds of job
    run        does it, on a table that is open for one attempt
    jobs       its kinds of job: when each comes, and what it waits for
    shown      what it remembers of a table, for people

    memory     what it remembers of a table from one call to the next: one object, made when the daemon begins to watch
               the table, and forgotten with it: when another daemon has its lease, and after a restart. Jobs, plans
               and counts of storage share it on threads of their own, so each of its fields is assigned alone

A service is one folder, and one line in `services/services.py`.

Touches: nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lakeward.base.clock import Clock
from lakeward.base.errors import UsageError
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, KeptCost
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.section import SettingsSection
from lakeward.services.metric import ServiceMetric
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.protocol.serviced_table import ServicedTable

Rules = TypeVar("Rules", covariant=True)
S = TypeVar("S", bound=SettingsSection)
Asked = TypeVar("Asked", contravariant=True)

UNSAMPLED_MAX = 1000
"""Instants that wait for a sample; older ones have long been compacted again."""


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
    file_groups: int = 0
    """File groups that would be replaced."""
    read_bytes: int = 0
    """What the job would read and write of the table's rows, which counts in the daemon's budget."""
    write_bytes: int = 0
    quarantined_bytes: int = 0
    """What earlier ones took away and can still be brought back."""
    retired_log_bytes: int = 0
    """The part of it that is logs of slices that readers read, which stand in their places until they are deleted."""
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
    writes: bool = True
    """Whether it needs a statement about the table's other writers."""


OpenEntries = Callable[[str, str], AbstractContextManager[Any]]
"""Opens the entries of an index in a database (`index.external.entry_store.EntryStore`), from a base path and the
index's name. It can be pickled, and its representation may hold a password."""


@dataclass(frozen=True, slots=True)
class StoredIndexes:
    """The indexes of tables that are in the store's database."""

    commits: Callable[[str], Mapping[str, tuple[str | None, Mapping[str, str | None]]]]
    """What each index of the table at a base path has, by its name. Raises what the store raises."""
    open: OpenEntries = field(repr=False)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table as the last poll saw it."""

    storage: Storage
    snapshot: TableSnapshot
    clock: Clock
    open: Callable[[], ServicedTable] | None
    """Opens the table as a job would, for a demand that asks heartbeats; None where nothing may be written to it."""
    database: StoredIndexes


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of a table's properties: `Table version`, `9`."""

    label: str
    value: str


class Unsampled:
    """Instants of compactions of which no verification took a sample yet, oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instants: tuple[str, ...] = ()

    @property
    def instants(self) -> tuple[str, ...]:
        return self._instants

    def add(self, instants: Iterable[str]) -> None:
        with self._lock:
            self._instants = (*self._instants, *instants)[-UNSAMPLED_MAX:]

    def remove(self, instants: Collection[str]) -> None:
        """A sample of these was verified."""
        with self._lock:
            self._instants = tuple(instant for instant in self._instants if instant not in instants)


@dataclass(frozen=True, slots=True)
class JobOrder:
    """One job of a service, and what its work is done with."""

    kind: JobKind
    expired_plans: tuple[str, ...]
    """The plans that a plan expiry is about."""
    choose: Callable[[int], Dispatcher]
    """From the bytes that work reads to what runs it, within what the job may take."""
    task: Callable[[Callable[..., Any]], Callable[..., Any]]
    """From a task of a location, and of what else it takes, to the same one for this table."""
    scanned: Callable[[], TableSnapshot]
    """The table as of the last poll. Raises what reading it raises."""
    doubt: Callable[[], None]
    """Has the next poll read again what is known of the table: a file turned out to be damaged."""
    bytes_of: Callable[[int], int]
    """The bytes of so many of its file groups, on average."""
    table_bytes: int
    """The bytes of all of them, as of the last plan."""
    here: Callable[[], Dispatcher]
    """What runs work on this machine, whichever runs elsewhere."""
    database: StoredIndexes
    unsampled: Unsampled
    at_once: bool = False
    """An operator asks for it: what the daemon waits for is not waited for."""


def order_at_once(
    kind: JobKind, base_path: str, *, choose: Callable[[int], Dispatcher], scanned: Callable[[], TableSnapshot]
) -> JobOrder:
    """A job that an operator or a program waits for: no store is asked, and no poll has looked before."""
    return JobOrder(
        kind,
        (),
        choose=choose,
        task=lambda task: partial(task, base_path),
        scanned=scanned,
        doubt=lambda: None,
        bytes_of=lambda groups: 0,
        table_bytes=0,
        here=InProcessDispatcher,
        database=NO_DATABASE,
        unsampled=Unsampled(),
        at_once=True,
    )


def _no_entries(base_path: str, name: str) -> AbstractContextManager[Any]:
    raise UsageError(
        f"The index {name} is in a database, which is not named here.",
        remedy="Let the daemon keep it, or `lakeward index update` with --index-url.",
    )


NO_DATABASE = StoredIndexes(lambda base_path: {}, _no_entries)
"""The indexes of who has no store: none is known to be in a database."""


@dataclass(frozen=True, slots=True)
class Care(Generic[Rules]):
    """How one service goes about one table."""

    rules: Rules
    """The service's own settings of the table."""
    memory: Any
    """What the service remembers of the table, as its `new_memory` made it."""
    excluded: Mapping[GroupId, Any]
    """File groups that are parked or paused, with the reason of each."""
    selected: Callable[[Iterable[str]], Collection[str] | None]
    """The partitions of these that the configuration selects; None where it leaves none out."""
    planned_by: Mapping[str, str]
    """What a plan says of the process that made it."""
    may_write: bool
    """Something is said about the table's other writers."""
    costs: tuple[KeptCost, ...] = ()
    """What the newest jobs on the table took of which that was predicted, oldest first; none without a daemon."""
    learned: Any = None
    """How often readers read the table, for the service that asks; None where that is not known."""
    shadow: Rules | None = None
    """Other settings of the table, by which the service only says what it would do; None: there are none."""


class TableRules(Protocol):
    """What the configuration says of a table."""

    def section(self, of: type[S]) -> S:
        """The section of a service."""

    @property
    def as_hudi_has_it(self) -> Mapping[str, str]:
        """What its sections say by Hudi's keys, for a service that uses what another one is given."""


class Service(Protocol[Asked]):
    """What a service says where it says nothing else: no settings, no memory, no demand, and nothing to show."""

    @property
    def kind(self) -> JobKind: ...

    @property
    def permission(self) -> TableService:
        """What a table may refuse."""

    @property
    def jobs(self) -> Mapping[JobKind, JobTraits]:
        """Its kinds of job."""

    is_of_merges: bool = False
    """It is about what merges make: there is nothing of it where a table leaves no work."""
    metrics: Sequence[ServiceMetric] = ()
    """What it measures."""

    def is_asked_for(self, table: Any) -> bool:
        """Whether an operator asked for it; else that a table (`config.settings.TableSettings`) cannot have it is
        nothing to report."""
        return True

    def rules(self, table: Any) -> Any:
        """The settings that it takes, of a table (`config.settings.TableSettings`). Raises `UsageError`."""
        return None

    def rules_at_once(self, table: Any) -> Any:
        """The same, for a job that an operator asks for."""
        return self.rules(table)

    def new_memory(self) -> object:
        """What it remembers of a table that it has not seen before."""
        return None

    def demand(self, facts: TableFacts, care: Care[Asked]) -> Mapping[JobKind, ServiceDemand]:
        """What there is to do, by its kinds of job; one that is not there comes by itself. Writes nothing. Raises what
        reading the table raises."""
        return {}

    def run(self, table: ServicedTable, care: Care[Asked], order: JobOrder) -> JobReport:
        """Do what is due by then. Raises what went wrong; nothing is published after an error."""

    def preview(self, table: ServicedTable, care: Care[Asked], order: JobOrder) -> Any:
        """What `run` would do, as the service's own value. Writes nothing. Raises what reading the table raises."""
        return None

    def shown(self, memory: Any) -> Sequence[Fact]:
        """What it remembers of a table, in lines of the table's page; what is due is shown by the daemon."""
        return ()

    def concerns(self, memory: Any) -> Sequence[str]:
        """What in it an operator should know first, each in a few words."""
        return ()


class MergingService(Service[Any], Protocol):
    """The service whose work is chosen file group by file group."""

    def plan(self, snapshot: TableSnapshot, at: str, care: Care[Any]) -> Any:
        """
        Args:
            at: the time that an instant of the plan would have.
        """


class CountingService(Service[Any], Protocol):
    """The service that says what holds a table's storage."""

    states: Sequence[str]
    """What a file can be held by, as charts stack it."""

    def count(self, facts: TableFacts, care: Care[Any]) -> Mapping[str, int]:
        """The bytes of each state. Goes over all files of the table. Raises what reading the table raises."""
