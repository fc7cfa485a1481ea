"""What is done to an index where the daemon's work runs, a process of this machine or an executor: one that Lakeward
keeps is brought up to date, and any that can be wrong is compared with the rows, or the files, that it is of.

What a task needs beyond its spec (`work`) is imported by it: with Arrow and kernels, which the daemon's process never
has. So specs and results are plain values.

Touches: the index, and the table, reading; for one in a database that, whose address the spec has.
Keeps:   1. the address of the store, which may hold a password, is in no representation, and goes to no executor: an
         index in a database is a task of this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

from lakeward.base.errors import LakewardError, TaskFailed
from lakeward.base.named_key import plain_key
from lakeward.engine.dispatch.dispatcher import Failure
from lakeward.index.index_type import IndexType, LookupType
from lakeward.index.record.record_options import RECORD_OPTIONS, RecordOptions
from lakeward.index.tee import ComparedCommit
from lakeward.protocol.job_report import WorkProblem
from lakeward.protocol.problem import problem_of
from lakeward.protocol.progress import Engine
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.indexing.judge.check_result import CheckSize
from lakeward.services.indexing.judge.confidence import excluded_rate
from lakeward.services.indexing.settings import IndexSettings
from lakeward.services.service import JobOrder, OpenEntries
from lakeward.table.listing_source import ListingSource

if TYPE_CHECKING:
    from lakeward.services.indexing.judge.check_result import IndexCheck
    from lakeward.services.indexing.judge.filter_cache_check import FilterCacheCheck

NAMED_MAX: Final = 3
"""So many findings are listed in an event."""


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """Which index of a table, and how to open it and the table."""

    type: LookupType
    timezone: str | None
    """The time zone that the operator gave for a table whose instants are in local time."""
    listing: ListingSource
    record: RecordOptions = RECORD_OPTIONS
    open_entries: OpenEntries | None = field(default=None, repr=False)
    """For an index in a database alone."""

    @property
    def is_outside(self) -> bool:
        """In a database: a task of this machine alone."""
        return self.type is IndexType.POSTGRES


@dataclass(frozen=True, slots=True)
class IndexCheckSpec:
    index: IndexSpec
    size: CheckSize

    @property
    def is_outside(self) -> bool:
        return self.index.is_outside


@dataclass(frozen=True, slots=True)
class IndexUpdated:
    commits: int
    """Commits of the table that were taken in."""
    is_tidied: bool
    """Something was settled, forgotten or merged."""
    notes: tuple[str, ...] = ()
    """What was found broken meanwhile, in sentences: the first ones."""


@dataclass(frozen=True, slots=True)
class IndexChecked:
    """What a check found."""

    checked: int
    """Rows and entries that were looked at."""
    wrong: int = 0
    excluded_rate: float | None = None
    """The share that fewer are wrong than, with the confidence of the check, where none was."""
    summary: str = ""
    """What is wrong, as the end of a sentence; empty where nothing is."""
    faults: tuple[str, ...] = ()
    """The first ones, and what was found broken; `lakeward index verify` names more."""

    @classmethod
    def of_rows(cls, check: IndexCheck) -> Self:
        drawn = [each for each in (check.rows, check.entries) if each is not None]
        rates = [each.excluded_rate for each in drawn if each.excluded_rate is not None]
        return cls(
            sum(each.checked for each in drawn),
            check.wrong,
            None if check.wrong else max(rates, default=None),
            check.summary if check.wrong else "",
            tuple(f"{plain_key(fault.key)}: {fault.what}" for fault in check.faults[:NAMED_MAX]),
        )

    @classmethod
    def of_cache(cls, check: FilterCacheCheck, confidence: float) -> Self:
        wrong = len(check.wrong)
        faults = [*(f"{entry.path}: {entry.what}" for entry in check.wrong), *check.broken]
        return cls(
            check.checked,
            wrong,
            None if wrong or not check.checked else excluded_rate(check.checked, check.of, confidence),
            check.summary if wrong else "",
            tuple(faults[:NAMED_MAX]),
        )


@dataclass(frozen=True, slots=True)
class TeeSpec:
    primary: IndexSpec
    shadow: IndexSpec
    after: str | None
    """Commits are compared that completed after this time."""
    seed: int

    @property
    def is_outside(self) -> bool:
        """One of them is in a database: a task of this machine alone."""
        return self.primary.is_outside or self.shadow.is_outside


@dataclass(frozen=True, slots=True)
class TeeCompared:
    commits: tuple[ComparedCommit, ...]
    """The next ones, in order of completion."""
    differences: tuple[str, ...]
    """The first of the keys of which the two said different things, each with where its rows are."""


def _work() -> ModuleType:
    """What runs in the process of the task alone: who hands tasks out does not load it."""
    from lakeward.services.indexing.upkeep import work

    return work


def update_index_at(location: str, spec: IndexSpec, task_attempt: int) -> IndexUpdated:
    """Bring the index of the table at `location` up to date. Raises what `update_and_tidy` and `update_filter_cache`
    do."""
    done: IndexUpdated = _work().update(location, spec)
    return done


def check_index_at(location: str, spec: IndexCheckSpec, task_attempt: int) -> IndexChecked:
    """Compare the index of the table at `location` with its rows, in use or not; both are read twice where something is
    found. Entries of the cache of filters are held against footers and logs, which never change."""
    done: IndexChecked = _work().check(location, spec)
    return done


def look_through_at(location: str, spec: IndexSpec, task_attempt: int) -> None:
    """Look through the commits of the table at `location` for doubled keys, and remember it. Raises what
    `check_inserts` does."""
    _work().look_through(location, spec)


def compare_tee_at(location: str, spec: TeeSpec, task_attempt: int) -> TeeCompared:
    """Compare both indexes for the next commits of the table at `location`. Raises what `check_tee` does."""
    done: TeeCompared = _work().compare(location, spec)
    return done


class _Spec(Protocol):
    @property
    def is_outside(self) -> bool: ...


S = TypeVar("S", bound=_Spec)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class IndexTasks:
    """Runs tasks of one job: on the engine that plans of as much input run on, or on this machine."""

    table: ServicedTable
    settings: IndexSettings
    order: JobOrder
    engines: list[Engine] = field(default_factory=list)
    """The engines that were chosen for tasks."""

    def spec(self, type_: LookupType) -> IndexSpec:
        options, database = self.table.options, self.order.database
        opens = database.open if type_ is IndexType.POSTGRES else None
        return IndexSpec(type_, options.timezone, options.listing, self.settings.record.options, opens)

    def run(
        self, task: Callable[[str, S, int], R], spec: S, *, input_bytes: int, description: str
    ) -> R | LakewardError:
        """One task, which may fail. Raises what the guard raises, and what says that the engine died."""
        if spec.is_outside:
            dispatcher = self.order.here()
        else:
            dispatcher = self.order.choose(input_bytes)
            self.engines.append(dispatcher.engine)
        guard = self.table.guard
        dispatcher.probe(guard)
        try:
            (outcome,) = dispatcher.run(
                self.order.task(task), [spec], description=description, on_progress=lambda progress: guard()
            )
        except TaskFailed as error:
            return error
        return outcome.error if isinstance(outcome, Failure) else outcome.result


def problem_with(index: str, what: str, error: LakewardError) -> WorkProblem:
    """What one index failed with, by its name.

    A file group that the error names is the index's trouble alone: compaction judges it by itself.

    Args:
        index: its name.
        what: what was not done.
    """
    problem = problem_of(error)
    return WorkProblem(problem.kind, f"The index {index} was not {what}. {problem.text}")
