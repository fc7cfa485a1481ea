"""The life cycle of an attempt, as every service runs it once it has claimed an instant.

    no lock   the service works: its results are staged, and the heartbeat beats
    no lock   it waits for the writers that would fail for its commit
    lock      the service holds its plan against the table as it is now, stages its commit, and the attempt publishes
    no lock   what is no longer needed goes
    failure   under the lock: the attempt is rolled back, or rolled forward where it has stated its intent; one whose
              instant must not vanish beside writers is completed, and its commit is empty

A service brings its plan, its work and its commit; the rest is `protocol/attempts/attempt.py`.

Touches: the table, through the attempt and the service.
Keeps:   1. a failed attempt leaves its plan, where that was promised, and nothing else;
         2. nothing that happens after the commit makes a service fail;
         3. one that is given up is complete, and empty, where the service says so, and rolled back where that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol

from lakeward.base.errors import Cancelled, LakewardError
from lakeward.base.quantities import format_instant
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.attempts.heartbeat import INTERVAL_SECONDS
from lakeward.protocol.lock.table_lock import Fence, Renewal
from lakeward.protocol.owner import Owner
from lakeward.protocol.progress import Count, Phase
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.table.file_system_view import GroupId


class Unpublished(Enum):
    """Why a service has no publication now."""

    NOTHING_LEFT = auto()
    """Nothing of its plan is right any more."""
    HELD_BACK = auto()
    """A writer came between, which is to be waited for."""


class ServiceRun(Protocol):
    """What differs between services. It keeps what it made until it is asked for its publication."""

    @property
    def attempt(self) -> Attempt: ...

    @property
    def name(self) -> str:
        """For people: `compaction 2026…`."""

    @property
    def groups(self) -> Sequence[GroupId]:
        """The file groups of its plan."""

    def work(self) -> None:
        """Make the results. Not under the lock."""

    def await_writers(self) -> None:
        """Return once no writer is to be waited for. Not under the lock."""

    def prepare(self) -> None:
        """Do of the commit what needs no lock."""

    def publication(self, fence: Fence) -> Publication | Unpublished:
        """What is still right, with its commit staged. Under the lock, while the attempt is still alive. Raises
        `Conflict`."""

    def check_intent(self) -> None:
        """Raise `Conflict` where what the attempt, or a dead one at its instant, is about to publish fits no more."""


GiveUp = Callable[[Fence], Publication | None]


def run_attempt(table: ServicedTable, service: ServiceRun, *, give_up: GiveUp | None = None) -> str | None:
    """Returns the completion time; None where nothing of the plan is right any more, and the attempt is still alive.

    Args:
        give_up: under the lock, the empty publication that ends an attempt which failed; None: it is rolled back.
    """
    attempt = service.attempt
    try:
        with Renewal(attempt.beat, interval_seconds=INTERVAL_SECONDS):
            with table.measured(Phase.MERGE):
                service.work()
            table.observer.step(f"{service.name} has done its work, committing")
            with table.measured(Phase.YIELD):
                service.await_writers()
            with table.measured(Phase.COMMIT):
                completion_time = _publish(table, service)
    except BaseException as error:
        _abort(table, service, error, give_up)
        raise
    if completion_time is None:
        return None
    table.observer.step(f"{service.name} committed at {format_instant(completion_time)}")
    try:
        attempt.clear()
    except (LakewardError, OSError) as error:
        table.observer.step(f"{service.name} left something behind: {error}")
    return completion_time


def settle(
    table: ServicedTable,
    attempt: Attempt,
    groups: Sequence[GroupId],
    *judged: Owner | None,
    check_intent: Callable[[], None],
    fence: Fence,
) -> bool:
    """Roll attempts at an instant back; or forward, where one has stated its intent, which gives False. Under the lock.

    Args:
        judged: whose heartbeats go with them, beside this process's (None: another engine's).
    """
    if not attempt.fence_off():
        check_intent()
        attempt.roll_forward(fence=fence)
        attempt.clear(*judged)
        return False
    attempt.roll_back(groups, fence=fence)
    attempt.end(*judged)
    table.observer.counted(Count.ROLLED_BACK_ATTEMPT)
    return True


def _publish(table: ServicedTable, service: ServiceRun) -> str | None:
    service.prepare()
    while True:
        with table.locked() as fence:
            publication = service.publication(fence)
            if isinstance(publication, Publication):
                return service.attempt.publish(publication, fence=fence)
        if publication is Unpublished.NOTHING_LEFT:
            return None
        with table.measured(Phase.YIELD):
            service.await_writers()


def _end_by_nothing(table: ServicedTable, service: ServiceRun, give_up: GiveUp, fence: Fence) -> None:
    """Complete the attempt by an empty commit; where that fails it is rolled back."""
    try:
        if (empty := give_up(fence)) is not None:
            service.attempt.publish(empty, fence=fence)
            table.observer.step(f"{service.name} was given up, and its commit is empty")
    except (LakewardError, OSError) as error:
        table.observer.step(f"{service.name} could not be ended by an empty commit: {error}")


def _abort(table: ServicedTable, service: ServiceRun, error: BaseException, give_up: GiveUp | None) -> None:
    attempt = service.attempt
    try:
        with table.locked(to_roll_back=True) as fence:
            if give_up is not None and attempt.is_own() and attempt.files.find_completed() is None:
                _end_by_nothing(table, service, give_up, fence)
            if not attempt.is_own():
                attempt.end()
            elif attempt.files.find_completed() is not None:
                attempt.clear()
            else:
                rolled_back = settle(table, attempt, service.groups, check_intent=service.check_intent, fence=fence)
                if rolled_back and isinstance(error, KeyboardInterrupt | Cancelled):
                    name = f"{service.name[:1].upper()}{service.name[1:]}"
                    after = "; its plan stays, and the next run carries it out." if attempt.keeps_plan else "."
                    error.add_note(f"{name} was rolled back{after}")
    except (LakewardError, OSError) as second:
        error.add_note(f"What the attempt left could not be removed ({second}); the next run removes it.")
