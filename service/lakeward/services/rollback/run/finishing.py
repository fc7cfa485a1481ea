"""A write of Lakeward whose process died is fenced off; where it had stated its intent it is completed by that, if it
fits.

    t0 A checks conflicts, states its intent and dies; t1 its lock runs out, a Hudi writer commits to the same file
    group; t2 B. Both commits would stand, and of two base files of a group the rows of one would be lost.

So B compares what A is about to complete with what completed since A stated its intent.

Touches: the heartbeat of the instant, the attempt's folder, and what the intent names; under the table lock.
Keeps:   1. an attempt of Lakeward that was not complete can publish nothing once this has said False;
         2. what completed since on a file group of the write keeps it from being completed.
"""

from __future__ import annotations

from lakeward.base.errors import Conflict
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import is_before, parse_instant
from lakeward.protocol.attempts.attempt_files import COMMIT_FILE, attempt_folder
from lakeward.protocol.attempts.heartbeat import find_intent
from lakeward.protocol.attempts.heartbeat_line import CommitIntent
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.pending.rollback import RollbackDecision, Step
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import WriteAction
from lakeward.storage.storage import join
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.instant_content import InstantContents


def finish_write(table: ServicedTable, snapshot: TableSnapshot, decision: RollbackDecision, fence: Fence) -> bool:
    """True where the write is complete now. False: it is another engine's, or was fenced off before it stated an
    intent. Raises `Conflict`."""
    action = next((each for each in WriteAction if each.pending == decision.action), None)
    judged = table.liveness(decision.instant)
    if decision.step is not Step.ROLL_BACK or action is None or judged.owner is None:
        return False
    attempt = table.write_attempt(snapshot, decision.instant, action)
    fence()
    if attempt.fence_off():
        return False
    intent = find_intent(table.storage, table.base_path, decision.instant)
    assert intent is not None, "what cannot be fenced off has stated its intent"
    _check_fits(table, snapshot, decision.instant, intent)
    attempt.roll_forward(fence=fence)
    attempt.clear(judged.owner)
    table.observer.step(
        f"{decision.action} {decision.instant} was about to be published when its process died: completed"
    )
    return True


def _check_fits(table: ServicedTable, snapshot: TableSnapshot, instant: str, intent: CommitIntent) -> None:
    staged = join(attempt_folder(table.base_path, instant, intent.attempt), COMMIT_FILE)
    layout = snapshot.config.layout
    groups = read_commit_metadata(table.storage.read(staged), file=staged, layout=layout).file_groups
    stated = parse_instant(intent.completed, layout)
    since = stated.completion_time if stated is not None else None
    contents = InstantContents(table.storage, table.base_path, snapshot.config, snapshot.timeline)
    for each in snapshot.timeline.completed_writes:
        if each.completion_time is None or since is None or not is_before(since, each.completion_time):
            continue
        theirs = read_commit_metadata(contents.read(each.file_name), file=each.file_name, layout=layout)
        if met := groups & theirs.file_groups:
            raise Conflict(
                f"{instant} was about to be published when its process died, and fits the table no more.",
                why=f"{each.file_name} wrote to {min(met)[1]} since.",
                remedy="Let a Hudi writer of the table roll it back, and write its rows again.",
                file_group=min(met),
            )
