"""The comparison of two indexes of a table where the daemon's work runs: its spec, the task, and what that gives back.

Touches: the table and both indexes, reading; for one in a database that, whose address its spec has.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.base.clock import SystemClock
from lakeward.daemon.jobs.index.tasks import TOLD, IndexSpec, judged_opener, taken
from lakeward.index.tee import ComparedCommit
from lakeward.storage.opening import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakeward.services.indexing.judge.tee_check import TeeMoment
    from lakeward.table.file_system_view import GroupId


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


def compare_tee_at(location: str, spec: TeeSpec, task_attempt: int) -> TeeCompared:
    """Compare both for the next commits of the table at `location`. Raises what `check_tee` does."""
    from lakeward.services.indexing.judge.tee_check import TeeMoment, check_tee

    storage, base_path = open_storage(location)
    with ExitStack() as databases:
        first, second = (
            databases.enter_context(judged_opener(storage, base_path, each)) for each in (spec.primary, spec.shadow)
        )

        def moment_now() -> TeeMoment:
            snapshot = taken(storage, base_path, spec.primary)
            return TeeMoment(snapshot, first(snapshot), second(snapshot))

        found = check_tee(storage, moment_now, after=spec.after, seed=spec.seed, clock=SystemClock())
    told = (
        f"{each.key}: {spec.primary.type} says {_told(each.first)}, {spec.shadow.type} says {_told(each.second)}; "
        + (f"its row is in {_told(each.rows)}" if each.rows else "no row of it was found")
        for each in found.differences[:TOLD]
    )
    return TeeCompared(found.commits, tuple(told))


def _told(groups: Iterable[GroupId]) -> str:
    return " and ".join(f"{file_id} of {path or 'the table'}" for path, file_id in groups) or "nowhere"


RunTeeComparison = Callable[[TeeSpec, int], TeeCompared]
