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

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakeward.base.errors import TryLater
from lakeward.base.quantities import format_size
from lakeward.index.index_type import LookupType
from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.update_choice import UpdateDecision, UpdateReason, choose_update
from lakeward.protocol.job_report import WorkProblem
from lakeward.services.indexing.index_memory import IndexCare, IndexStatus
from lakeward.services.indexing.upkeep.tasks import IndexTasks, IndexUpdated, problem_with, update_index_at


@dataclass(slots=True)
class Updates:
    """What happened to the indexes that were due."""

    commits: int = 0
    """Commits that were taken in."""
    is_tidied: bool = False
    reasons: list[str] = field(default_factory=list)
    """What was found broken meanwhile, and is reported."""
    left: list[LookupType] = field(default_factory=list)
    """Indexes that lack commits still: another process changes them, or they have a problem."""
    problems: list[WorkProblem] = field(default_factory=list)

    @property
    def did_something(self) -> bool:
        return bool(self.commits) or self.is_tidied


def decide_update(index: IndexStatus, table: IndexCare) -> UpdateDecision:
    """Whether an index that Lakeward keeps is to be brought up to date now."""
    behind = index.behind or Staleness()
    against = _against(index, table)
    return choose_update(behind, index.unmerged, is_on=table.settings.update, now=table.clock.now(), against=against)


def _against(index: IndexStatus, table: IndexCare) -> UpdateReason | None:
    if not table.may_write:
        return UpdateReason.UNWRITTEN
    if index.behind is None:
        return UpdateReason.UNREADABLE
    return UpdateReason.OUT_OF_USE if index.out_of_use else None


def describe_due(indexes: Iterable[IndexStatus]) -> list[str]:
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


def update_indexes(indexes: Iterable[IndexStatus], tasks: IndexTasks) -> Updates:
    """Bring those up to date that were due at the plan. Raises what the guard and the engine raise."""
    done = Updates()
    for index in indexes:
        if index.update is None or not index.update.reason.is_due or index.behind is None:
            continue
        spec = tasks.spec(index.type)
        outcome = tasks.run(update_index_at, spec, input_bytes=index.behind.bytes, description="update of an index")
        if isinstance(outcome, IndexUpdated):
            done.commits += outcome.commits
            done.is_tidied = done.is_tidied or outcome.is_tidied
            done.reasons += [f"{index.name}: {each}" for each in outcome.notes]
            continue
        done.left.append(index.type)
        if not isinstance(outcome, TryLater):
            done.problems.append(problem_with(index.name, "brought up to date", outcome))
    return done
