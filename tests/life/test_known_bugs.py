"""Bugs that Hudi had, planted in this code one at a time: what the model demands must not hold then.

    14365   completion times of archived instants were not found, and logs were put into the wrong slice
    19290   a clean took logs that a pending compaction was to read
    7826    a pull request: a write that completed after it was found pending had no heartbeat any more, so it was taken
            for dead and rolled back
    4863    a compaction was rolled back, and then completed with what it had written before
    7503    two processes carried out one plan of a compaction: the second rolled back what the first was writing
    6938    a replacecommit was archived before its files were cleaned: they were read again
    10325   archived instants were deleted out of order: readers met a hole
    8783    a pull request: a write that is pending for long was passed by the archiver, and counted as committed

and one that has no number: a savepoint that Hudi makes while a clean is under way, whose files the clean then deletes.

Of the issues that 15 names, 9019 (a pending compaction that never ends holds the archiver) is no mistake that a mutant
could make: it is the price of what 8783 demands, and `lakeward unschedule` is what is done about it (decision 0009).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from lakeward.base.errors import AttemptLost, LockHeld, Refused, TryLater
from lakeward.protocol.attempts import attempt
from lakeward.protocol.attempts.folder_fencing import FolderFencing
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.transition import TimelineFiles
from lakeward.services.archive.plan import archive_plan
from lakeward.services.archive.plan.archive_plan import KeptFor
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run import archiver
from lakeward.services.clean.plan import planner, validity
from lakeward.services.clean.plan.keeper import Keeper, KeepReason
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run import clean_run
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.rollback.run import roll_back
from lakeward.table import file_system_view
from tests.life.faulty_memory import FaultyMemory
from tests.life.model import Broken, Life
from tests.life.small_table import BASE, without_threads
from tests.processes import ScriptedProcesses

ALL_BUT_ONE = ArchiveOptions(commits_min=1, commits_max=2, commits_cleaned=1, delta_commits=1)
ONE_VERSION = CleanPolicy(CleanPolicyKind.VERSIONS, 1)

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _no_threads() -> Iterator[None]:
    with without_threads():
        yield


def compact(life: Life) -> None:
    life.table.compact(CompactionType.FULL)
    life.learn()
    life.check()


def clean(life: Life) -> None:
    life.will_clean(ONE_VERSION)
    life.table.clean(ONE_VERSION)
    life.learn()
    life.check()


def archive(life: Life) -> None:
    assert life.table.archive(ALL_BUT_ONE).archived
    life.learn()
    life.check()


def late_log(life: Life) -> None:
    """A log that was requested before its base file, and completed after it."""
    life.write(range(8))
    late = life.begin({0, 1})
    life.write({4, 2})
    compact(life)
    life.complete(late)


def guess_archived_times(patch: Patch) -> None:
    def guessed(history: Any, instant: str) -> str | None:
        return history._completed.get(instant) or (instant if instant in history._archived else None)

    patch.setattr(file_system_view._History, "completion_time", guessed)


def archived_late_log(life: Life) -> None:
    late_log(life)
    for key in range(4, 7):  # of the same file groups, and not what the late one wrote
        life.write({key})
    archive(life)
    compact(life)


def clean_by_requested_times(patch: Patch) -> None:
    """A cleaner that uses requested times, as Hudi's did, and asks a plan for its base instant only, not for the files
    that it names."""

    def requested(history: Any, instant: str) -> str | None:
        return instant if history.is_completed(instant) else None

    def held(slice_: Any, holds: Any) -> Iterator[Keeper]:
        for hold in holds:
            if slice_.base_instant >= hold.from_instant:
                yield Keeper(KeepReason.PENDING_PLAN, hold.instant)

    cleaned = Life.will_clean

    def from_now_on(life: Life, policy: CleanPolicy) -> None:
        cleaned(life, policy)
        patch.setattr(file_system_view._History, "completion_time", requested)
        patch.setattr(planner, "_held", held)
        patch.setattr(validity, "_named_by", lambda *_: None)

    patch.setattr(Life, "will_clean", from_now_on)


def planned_late_log(life: Life) -> None:
    late_log(life)
    assert life.table.plan_by_hudi() is not None
    life.learn(late="")
    clean(life)


def judge_once(patch: Patch) -> None:
    """What was pending at first is what is rolled back; the timeline is not read again."""
    snapshot = roll_back._snapshot
    seen: dict[int, Any] = {}  # with the table, so that its id is no other's
    patch.setattr(roll_back, "_snapshot", lambda table: seen.setdefault(id(table), (snapshot(table), table))[0])
    patch.setattr(TimelineFiles, "check_uncompleted", lambda files: None)


def completed_while_judged(life: Life) -> None:
    """A write completes just before one of the looks at its heartbeat."""
    life.write(range(8))
    late = life.begin({0, 1})
    look = f" {heartbeat_path(BASE, late.instant)}"
    tried = FaultyMemory(life.copy().table.storage)
    life.copy().table.roll_back(tried)
    for number in range(1, sum(call.endswith(look) for call in tried.calls) + 1):
        other = life.copy()
        storage = FaultyMemory(other.table.storage)
        looks = iter(range(1, number + 1))

        def before(call: str, life: Life = other, looks: Iterator[int] = looks, number: int = number) -> None:
            if call.endswith(look) and next(looks, None) == number:
                life.complete(life.table.live[0])

        storage.before = before
        other.table.roll_back(storage)
        other.learn()
        other.check()


def let_fenced_attempts_publish(patch: Patch) -> None:
    patch.setattr(FolderFencing, "_put_aside", lambda *given, **options: None)
    patch.setattr(attempt, "delete_staged", lambda *given: None)


def rolled_back_while_it_completes(life: Life) -> None:
    """The process of a compaction is taken for dead just before it completes it, and an operator unschedules it."""
    life.write(range(8))
    life.write({0, 1})
    storage = FaultyMemory(life.table.storage)

    def before(call: str) -> None:
        if call.startswith("link ") and call.endswith(".commit"):
            life.table.processes.kill_all()
            life.table.unschedule()

    storage.before = before
    with suppress(AttemptLost):
        life.table.compact(CompactionType.FULL, storage)
    life.learn()
    life.check()


def take_the_living_for_dead(patch: Patch) -> None:
    let_fenced_attempts_publish(patch)
    patch.setattr(ScriptedProcesses, "is_provably_dead", lambda processes, owner: True)


def carried_out_twice(life: Life) -> None:
    """Another process compacts, too, just before the first completes the plan."""
    life.write(range(8))
    life.write({0, 1})
    assert life.table.plan_by_hudi() is not None
    storage = FaultyMemory(life.table.storage)

    def before(call: str) -> None:
        if call.startswith("link ") and call.endswith(".commit"):
            storage.before = lambda call: None
            with suppress(LockHeld, TryLater):
                life.table.compact(CompactionType.FULL)

    storage.before = before
    try:
        with suppress(AttemptLost):
            life.table.compact(CompactionType.FULL, storage)
        life.learn()
    except Refused as error:
        raise Broken("the table can be serviced no more") from error
    life.check()


def archive_uncleaned(patch: Patch) -> None:
    patch.setattr(archive_plan, "_for_replaced_files", lambda timeline, facts: iter(()))


def overwritten(life: Life) -> None:
    life.write(range(8))
    life.overwrite("p=0")
    for key in range(4):
        life.write({key})
    life.table.archive(ALL_BUT_ONE)
    life.check()
    clean(life)
    life.write({1})
    archive(life)


def delete_newest_first(patch: Patch) -> None:
    delete = archiver._ArchiveRun._delete
    patch.setattr(archiver._ArchiveRun, "_delete", lambda run, batch, fence: delete(run, batch[::-1], fence))


def many_writes(life: Life) -> None:
    for key in range(5):
        life.write({key})
    archive(life)


def pass_pending(patch: Patch) -> None:
    limits = archive_plan._limits

    def without_pending(*given: Any) -> Iterator[archive_plan.Limit]:
        passed = (KeptFor.PENDING, KeptFor.RETENTION, KeptFor.UNCOMMITTED_FILES)
        return (limit for limit in limits(*given) if limit.reason not in passed)

    patch.setattr(archive_plan, "_limits", without_pending)


def long_write(life: Life) -> None:
    life.write(range(8))
    life.write({0})
    late = life.begin({1})
    for key in range(4):
        life.write({key})
    life.table.archive(ALL_BUT_ONE)
    life.check()
    life.complete(late)
    life.check()


def delete_whatever_appears(patch: Patch) -> None:
    patch.setattr(clean_run.CleanRun, "_check_still_dead", lambda run: None)


def saved_while_cleaned(life: Life) -> None:
    """Hudi makes a savepoint just after a clean was claimed, before the first deletion."""
    life.write(range(8))
    saved = life.write({0, 1}).instant
    compact(life)
    storage = FaultyMemory(life.table.storage)

    def before(call: str) -> None:
        if storage.calls and storage.calls[-1].endswith(".clean.inflight"):
            storage.before = lambda call: None
            life.table.savepoint_by_hudi(saved)

    storage.before = before
    life.will_clean(ONE_VERSION)
    with suppress(TryLater):
        life.table.clean(ONE_VERSION, storage)
    assert storage.before is not before
    life.learn()
    life.check()


@pytest.mark.parametrize(
    ("history", "mutant"),
    [
        pytest.param(archived_late_log, guess_archived_times, id="14365"),
        pytest.param(planned_late_log, clean_by_requested_times, id="19290"),
        pytest.param(completed_while_judged, judge_once, id="7826"),
        pytest.param(rolled_back_while_it_completes, let_fenced_attempts_publish, id="4863"),
        pytest.param(carried_out_twice, take_the_living_for_dead, id="7503"),
        pytest.param(overwritten, archive_uncleaned, id="6938"),
        pytest.param(many_writes, delete_newest_first, id="10325"),
        pytest.param(long_write, pass_pending, id="8783"),
        pytest.param(saved_while_cleaned, delete_whatever_appears, id="a savepoint beside a clean"),
    ],
)
def test_a_known_bug_is_caught(
    history: Callable[[Life], None], mutant: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    """The model holds with this code, and does not with that mistake in it."""
    history(Life())
    mutant(monkeypatch)
    with pytest.raises(Broken):
        history(Life())
