"""Free the file groups of a compaction or log compaction whose process died: what its attempt left goes.

    compaction       its files -> .inflight -> heartbeat; the plan stays, and the next compaction carries it out
    log compaction   the same, and then its plan

No rollback is on the timeline afterwards: nothing of the attempt counts while the instant is pending, and Hudi needs
none to carry the plan out. Hudi's own rollback of a compaction deletes every log of the slices that it was about to
open, those of completed commits too (1.2.0); here a file goes only if its name carries the instant.

Touches: files of the instant, in the table and in its metadata table, through `commit` and under the table lock.
Keeps:   1. what goes carries the instant in its name, and lies in a file group of its plan;
         2. stopped anywhere in between, the plan is still there: the next run does the rest, or, where nothing else is
            left, a compaction carries it out.
"""

from __future__ import annotations

from lakeward.format.timeline.rollback_plan import RollbackPlan
from lakeward.protocol.attempts.orphan_files import find_moved_in
from lakeward.protocol.life_cycle import settle
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.pending.pending_work import PendingWork, pending_work
from lakeward.protocol.pending.rollback import RollbackDecision, Step
from lakeward.protocol.serviced_table import ServicedTable, label
from lakeward.table.snapshot import TableSnapshot


def plan_release(table: ServicedTable, snapshot: TableSnapshot, decision: RollbackDecision) -> RollbackPlan:
    """The files that would go now."""
    work = _work(snapshot, decision)
    files: dict[str, list[str]] = {}
    native = snapshot.config.version.has_native_logs
    for path in sorted(find_moved_in(table.storage, table.base_path, work.instant, work.groups, native=native)):
        partition, _, name = path.removeprefix(table.base_path).lstrip("/").rpartition("/")
        files.setdefault(partition, []).append(name)
    return RollbackPlan(work.instant, decision.action, {partition: tuple(names) for partition, names in files.items()})


def release(table: ServicedTable, snapshot: TableSnapshot, decision: RollbackDecision, fence: Fence) -> bool:
    """False where the attempt had stated its intent: then it was one of Lakeward's, and is complete now. Under the
    lock.
    """
    work = _work(snapshot, decision)
    attempt, judged = table.attempt(snapshot, work.instant, work.action), table.liveness(work.instant)
    fence()
    if not settle(table, attempt, work.groups, judged.owner, check_intent=_fits, fence=fence):
        return False
    what = "released, its plan stays"
    if decision.step is Step.UNSCHEDULE:
        fence()
        attempt.unschedule()
        what = "unscheduled"
    table.observer.step(f"{label(work.action)} {work.instant} {what}: {decision.why}")
    return True


def _work(snapshot: TableSnapshot, decision: RollbackDecision) -> PendingWork:
    return next(work for work in pending_work(snapshot) if work.instant == decision.instant)


def _fits() -> None:
    """The table's own slices are closed by the plan; its metadata table judges for itself."""
