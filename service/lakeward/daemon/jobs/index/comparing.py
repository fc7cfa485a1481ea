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

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, Conflict, LakewardError, Refused, TryLater, Unsupported
from lakeward.daemon.jobs.index.running import index_spec, problem_with, run_task
from lakeward.daemon.jobs.index.tasks import RunTeeComparison, TeeSpec
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import IndexStatus, TeeStatus
from lakeward.daemon.table_cache import TableCache
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.index.index import Indexed
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import staleness
from lakeward.index.tee import Tee, read_tee
from lakeward.index.update_choice import choose_update
from lakeward.protocol.index.choices import publish_compared
from lakeward.protocol.job_report import WorkProblem
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.problem import problem_of
from lakeward.services.indexing.settings import IndexSettings
from lakeward.storage.storage import Storage
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


def find_tee(
    storage: Storage, table: ServedTable, snapshot: TableSnapshot, indexes: Iterable[IndexStatus], *, clock: Clock
) -> TeeStatus | None:
    """
    Args:
        indexes: as this plan found them, with what happens to each.
    """
    try:
        tee = read_tee(storage, snapshot.base_path)
        if tee.primary is None or tee.shadow is None:
            return None
        behind = staleness(storage, snapshot, Indexed(tee.through), clock=clock)
    except (BrokenFile, Refused, Unsupported) as error:
        return TeeStatus(Tee(), against=problem_of(error).text)
    against = _against(tee.primary, tee.shadow, {index.type: index for index in indexes}, table)
    due = None if against else choose_update(behind, 0, now=clock.now())
    return TeeStatus(tee, behind, due, against)


def _against(primary: IndexType, shadow: IndexType, known: dict[IndexType, IndexStatus], table: ServedTable) -> str:
    if not table.is_serviced:
        return "Nothing is said about the table's writers."
    if not table.settings.section(IndexSettings).update:
        return "index.update is false, so that `lakeward index tee` is left to you."
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


def told_comparison(tee: TeeStatus) -> str:
    """A few words for what is to be compared."""
    lacks = f"{tee.behind.commits:,} commit{'' if tee.behind.commits == 1 else 's'}"
    return f"The index {tee.shadow_name} is to be compared with the index {tee.tee.primary} for {lacks}"


def compare_tee(
    storage: Storage,
    base_path: str,
    table: ServedTable,
    cache: TableCache,
    *,
    choose: Callable[[int], Dispatcher],
    here: Dispatcher,
    run_comparison: RunTeeComparison,
    store_url: str,
    left: Collection[IndexType],
    guard: Guard,
) -> Comparisons:
    """Compare both where that was due at the plan. Raises what the guard and the engine raise.

    Args:
        choose: the dispatcher for work that reads so many bytes.
        here: one of this machine.
        run_comparison: called where the work runs; has its own access to the storage.
        left: indexes that were to be brought up to date before, and lack commits still.
    """
    done, status = Comparisons(), cache.tee
    if status is None or not is_comparison_due(status):
        return done
    if any(kind in status.chosen for kind in left if kind.is_own):
        return done
    try:
        # As of now: the command, or another daemon, may have compared since the plan.
        held = read_tee(storage, base_path)
    except LakewardError as error:
        done.problems.append(_problem(status, error))
        return done
    if held.primary is None or held.shadow is None or (held.primary, held.shadow) != status.chosen:
        return done
    primary, shadow = (index_spec(kind, base_path, table, store_url) for kind in (held.primary, held.shadow))
    spec = TeeSpec(primary, shadow, held.through, held.number)
    dispatcher = here if spec.is_outside else choose(status.behind.bytes)
    found = run_task(dispatcher, run_comparison, spec, description="comparison of two indexes", guard=guard)
    try:
        if isinstance(found, LakewardError):
            raise found
        if not found.commits:
            return done
        held = publish_compared(storage, base_path, held, found.commits)
    except (Conflict, TryLater):
        return done
    except LakewardError as error:
        done.problems.append(_problem(status, error))
        return done
    cache.keep_tee(replace(status, tee=held))
    done.commits = len(found.commits)
    done.keys = sum(commit.keys for commit in found.commits)
    done.wrong = sum(commit.shadow_wrong for commit in found.commits)
    done.reasons += found.differences
    return done


def _problem(status: TeeStatus, error: LakewardError) -> WorkProblem:
    return problem_with(f"{status.shadow_name}, on trial,", "compared", error)
