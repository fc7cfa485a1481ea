"""An index on trial compared with the one that writes use, by the daemon: whether that is due, and the part of the job
that does it.

    plan    which two the table says, and what is not compared yet -> due by the age of it, by commits, by bytes, as
            updates are; but only where both have all commits, or get them by the same job
    job     one task for the next commits; what it found goes where `lakeward index tee` puts it

What is found is counted with the table (`index/tee`); only an operator cuts over.

Touches: the folder of `index/tee`; the table and both indexes, reading, through a task.
Keeps:   1. nothing is compared below a table that may not be written to, nor by an index that lacks commits, is out of
            use, or is not known here;
         2. a comparison that fails keeps no update and no check back, and is reported; that another process compares,
            or
            chooses, is no failure, and no commit is counted twice.
See:     docs/decisions/0086-two-indexes-side-by-side.md
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from lakeward.base.errors import BrokenFile, Conflict, LakewardError, Refused, TryLater, Unsupported
from lakeward.base.quantities import format_count
from lakeward.index.index import Indexed
from lakeward.index.index_type import IndexType, LookupType
from lakeward.index.key_changes.table_commits import staleness
from lakeward.index.tee import Tee, read_tee
from lakeward.index.update_choice import choose_update
from lakeward.protocol.index.choices import publish_compared
from lakeward.protocol.job_report import WorkProblem
from lakeward.protocol.problem import problem_of
from lakeward.services.indexing.index_memory import IndexCare, TeeStatus
from lakeward.services.indexing.upkeep.tasks import IndexTasks, TeeSpec, compare_tee_at, problem_with
from lakeward.table.snapshot import TableSnapshot

_WITHOUT_ENTRIES = (IndexType.SIMPLE, IndexType.BLOOM)
"""They are the table's own files, and lack nothing."""


@dataclass(slots=True)
class Comparisons:
    """What happened to the comparison that was due."""

    commits: int = 0
    keys: int = 0
    wrong: int = 0
    """Locations of which the shadow was wrong."""
    reasons: list[str] = field(default_factory=list)
    problems: list[WorkProblem] = field(default_factory=list)


def find_tee(table: IndexCare, snapshot: TableSnapshot) -> TeeStatus | None:
    """The index on trial, after this plan found the indexes and what happens to each."""
    try:
        tee = read_tee(table.storage, snapshot.base_path)
        if tee.primary is None or tee.shadow is None:
            return None
        behind = staleness(table.storage, snapshot, Indexed(tee.through), clock=table.clock)
    except (BrokenFile, Refused, Unsupported) as error:
        return TeeStatus(Tee(), against=problem_of(error).text)
    against = _against(tee.primary, tee.shadow, table)
    due = None if against else choose_update(behind, 0, now=table.clock.now())
    return TeeStatus(tee, behind, due, against)


def _against(primary: LookupType, shadow: LookupType, table: IndexCare) -> str:
    if not table.may_write:
        return "Nothing is said about the table's writers."
    if not table.settings.update:
        return "index.update is false, so that `lakeward index tee` is left to you."
    known = {index.type: index for index in table.memory.indexes}
    for kind in (primary, shadow):
        if kind in _WITHOUT_ENTRIES:
            continue
        index = known.get(kind)
        if index is None:
            return f"The index {kind} is not known to this daemon."
        if index.out_of_use:
            return f"The index {kind} is out of use."
        if not kind.is_own:
            continue
        if index.behind is None:
            return f"What the index {kind} lacks is unknown."
        if index.behind.commits and not (index.update is not None and index.update.reason.is_due):
            return f"The index {kind} lacks commits, and is brought up to date first."
    return ""


def is_comparison_due(tee: TeeStatus | None) -> bool:
    return tee is not None and tee.due is not None and tee.due.reason.is_due


def describe_comparison(tee: TeeStatus) -> str:
    """A few words for what is to be compared."""
    lacks = format_count(tee.behind.commits, "commit")
    return f"The index {tee.shadow_name} is to be compared with the index {tee.tee.primary} for {lacks}"


def compare_tee(table: IndexCare, tasks: IndexTasks, *, left: Collection[LookupType]) -> Comparisons:
    """Compare both where that was due at the plan. Raises what the guard and the engine raise.

    Args:
        left: indexes that were to be brought up to date before, and lack commits still.
    """
    done, status = Comparisons(), table.memory.tee
    if status is None or not is_comparison_due(status):
        return done
    if any(kind in status.chosen for kind in left if kind.is_own):
        return done
    try:
        # As of now: the command, or another daemon, may have compared since the plan.
        held = read_tee(table.storage, table.base_path)
    except LakewardError as error:
        done.problems.append(_problem(status, error))
        return done
    if held.primary is None or held.shadow is None or (held.primary, held.shadow) != status.chosen:
        return done
    spec = TeeSpec(tasks.spec(held.primary), tasks.spec(held.shadow), held.through, held.number)
    found = tasks.run(compare_tee_at, spec, input_bytes=status.behind.bytes, description="comparison of two indexes")
    try:
        if isinstance(found, LakewardError):
            raise found
        if not found.commits:
            return done
        held = publish_compared(table.storage, table.base_path, held, found.commits)
    except (Conflict, TryLater):
        return done
    except LakewardError as error:
        done.problems.append(_problem(status, error))
        return done
    table.memory.tee = replace(status, tee=held)
    done.commits = len(found.commits)
    done.keys = sum(commit.keys for commit in found.commits)
    done.wrong = sum(commit.shadow_wrong for commit in found.commits)
    done.reasons += found.differences
    return done


def _problem(status: TeeStatus, error: LakewardError) -> WorkProblem:
    return problem_with(f"{status.shadow_name}, on trial,", "compared", error)
