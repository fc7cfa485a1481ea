"""Lakeward's own indexes of one table, and its cache of filters, brought up to date by the daemon: which are due, and
the part of the job that does it.

    plan    what an index lacks -> due, or when, or what prevents it (`index/update_choice`)
    job     each that is due: one task, on the engine that plans of what it lacks run on; of one in a database in a
            process of this machine, which alone is given the address

What one index fails with is reported, and the others go on. Another process that changes the index at the same time is
no failure: what was indexed stays, and the next job goes on behind it.

Touches: the indexes, through tasks; the table, reading.
Keeps:   1. nothing is brought up to date that the plan did not find due, nor below a table that may not be written to;
         2. what goes wrong with one index keeps no other one back, and is reported with its name.
See:     docs/decisions/0084-the-daemon-keeps-indexes-at-pace.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lakeward.base.errors import TryLater
from lakeward.base.quantities import format_size
from lakeward.daemon.jobs.index.running import index_spec, problem_with, run_task
from lakeward.daemon.jobs.index.tasks import IndexUpdated, RunIndexUpdate
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import IndexStatus
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.update_choice import UpdateDecision, UpdateReason, choose_update
from lakeward.protocol.job_report import WorkProblem
from lakeward.protocol.lock.table_lock import Guard
from lakeward.services.indexing.settings import IndexSettings


@dataclass(slots=True)
class Updates:
    """What happened to the indexes that were due."""

    commits: int = 0
    """Commits that were taken in."""
    is_tidied: bool = False
    reasons: list[str] = field(default_factory=list)
    """What was found broken meanwhile, and is reported."""
    left: list[IndexType] = field(default_factory=list)
    """Indexes that lack commits still: another process changes them, or what stands among the problems."""
    problems: list[WorkProblem] = field(default_factory=list)

    @property
    def did_something(self) -> bool:
        return bool(self.commits) or self.is_tidied


def decide_update(index: IndexStatus, table: ServedTable, *, now: float) -> UpdateDecision:
    """Whether an index that Lakeward keeps is to be brought up to date now."""
    behind, is_on = index.behind or Staleness(), table.settings.section(IndexSettings).update
    return choose_update(behind, index.unmerged, is_on=is_on, now=now, against=_against(index, table))


def _against(index: IndexStatus, table: ServedTable) -> UpdateReason | None:
    if not table.is_serviced:
        return UpdateReason.UNWRITTEN
    if index.behind is None:
        return UpdateReason.UNREADABLE
    return UpdateReason.OUT_OF_USE if index.out_of_use else None


def told_due(indexes: Iterable[IndexStatus]) -> list[str]:
    """A few words for each index that is to be brought up to date."""
    found = []
    for index in indexes:
        if index.update is None or not index.update.reason.is_due or index.behind is None:
            continue
        if index.update.reason is UpdateReason.FILES:
            found.append(f"The index {index.name} has {index.unmerged} files in a bucket that wait for a merge")
        else:
            lacks = f"{index.behind.commits:,} commits of {format_size(index.behind.bytes)}"
            found.append(f"The index {index.name} lacks {lacks}")
    return found


def update_indexes(
    base_path: str,
    table: ServedTable,
    indexes: Iterable[IndexStatus],
    *,
    choose: Callable[[int], Dispatcher],
    here: Dispatcher,
    run_update: RunIndexUpdate,
    store_url: str,
    guard: Guard,
) -> Updates:
    """Bring those up to date that were due at the plan. Raises what the guard and the engine raise.

    Args:
        choose: the dispatcher for work that reads so many bytes.
        here: one of this machine.
        run_update: called where the work runs; has its own access to the storage.
    """
    done = Updates()
    for index in indexes:
        if index.update is None or not index.update.reason.is_due or index.behind is None:
            continue
        spec = index_spec(index.type, base_path, table, store_url)
        dispatcher = here if spec.is_outside else choose(index.behind.bytes)
        outcome = run_task(dispatcher, run_update, spec, description="update of an index", guard=guard)
        if isinstance(outcome, IndexUpdated):
            done.commits += outcome.commits
            done.is_tidied = done.is_tidied or outcome.is_tidied
            done.reasons += [f"{index.name}: {each}" for each in outcome.told]
            continue
        done.left.append(index.type)
        if not isinstance(outcome, TryLater):
            done.problems.append(problem_with(index.name, "brought up to date", outcome))
    return done
