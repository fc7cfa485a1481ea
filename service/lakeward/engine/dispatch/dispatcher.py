"""A dispatcher runs work: a list of specs and a function go out, one outcome a spec comes back.

A dispatcher knows nothing of the work. Errors of our own tree are outcomes (running them again would fail again);
any other exception is left to the runner's retries.

Touches: nothing itself; the implementations run the work.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lakeward.base.errors import LakewardError, Refused
from lakeward.protocol.progress import Engine

if TYPE_CHECKING:  # `lakeward version` asks for versions, and opens no table
    from lakeward.protocol.serviced_table import ServicedTable

Spec = TypeVar("Spec")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Failure:
    """An operation that ended in an error of Lakeward."""

    index: int
    error: LakewardError


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    index: int
    result: Result


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is; the numbers never go down."""

    finished: int
    total: int


class Dispatcher(Protocol):
    @property
    def engine(self) -> Engine: ...

    @property
    def name(self) -> str:
        """For people: `Spark local[2]`, `2 processes of this machine`, `this process`."""

    @property
    def is_ready(self) -> bool:
        """Whether work can begin at once; else `probe` or `run` starts what it runs on, for some seconds."""

    @property
    def is_on_this_machine(self) -> bool:
        """Whether its tasks see the temporary files of this process."""

    @property
    def parallelism(self) -> int | None:
        """How many tasks it does at once, at most; None where that is not known before `probe`."""

    def run(
        self,
        task: Callable[[Spec, int], Result],
        specs: Sequence[Spec],
        *,
        description: str,
        on_progress: Callable[[Progress], None],
    ) -> list[Done[Result] | Failure]:
        """Run `task(spec, task attempt)` for each spec, each in a task of its own; outcomes in the order of specs."""

    def probe(self, guard: Callable[[], None] = lambda: None) -> None:
        """Refuse (`Refused`) when the machines that will run the work have other versions than this one.

        Args:
            guard: asked again and again until they answer; what it raises ends that. A cluster may have no machine to
                give, for hours.
        """


def make_ready(dispatcher: Dispatcher, table: ServicedTable) -> None:
    """Start what the work will run on, after a word of it, and see that it fits. Raises what `probe` and the guard
    raise."""
    if not dispatcher.is_ready:
        table.observer.step(f"starting {dispatcher.name}")
    dispatcher.probe(table.guard)


def raise_first(failures: Sequence[LakewardError]) -> None:
    """Raise the first, where there are any; the caller, which parks file groups, hears of the others beside it."""
    if failures:
        first, *others = failures
        first.beside = tuple(others)
        raise first


def results_of(outcomes: Sequence[Done[Result] | Failure]) -> list[Result]:
    """The results, in their order. Raises the first failure, as `raise_first` does."""
    raise_first([outcome.error for outcome in outcomes if isinstance(outcome, Failure)])
    return [outcome.result for outcome in outcomes if isinstance(outcome, Done)]


@dataclass(frozen=True, slots=True)
class Versions:
    """What must agree between the driver and the process that runs the work."""

    python: str
    packages: tuple[tuple[str, str], ...]


CHECKED_PACKAGES = ("lakeward", "pyarrow", "numba", "numpy", "fastavro")


def own_versions() -> Versions:
    return Versions(
        python=".".join(platform.python_version_tuple()[:2]),
        packages=tuple((name, version(name)) for name in CHECKED_PACKAGES),
    )


def check_versions(workers: Sequence[Versions], expected: Versions) -> None:
    for found in workers:
        if found != expected:
            raise Refused(
                "The executors run other versions than this process.",
                why=f"Here: {_format(expected)}. There: {_format(found)}.",
                remedy="Run driver and executors from the same image or archive (spark.archives).",
            )


def _format(versions: Versions) -> str:
    return ", ".join([f"Python {versions.python}", *(f"{name} {number}" for name, number in versions.packages)])
