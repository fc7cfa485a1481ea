"""Two processes at one table, the one interrupted by the other at each of its storage calls.

For each ordered pair of services, and of a service and a writer, the first is stopped before its n-th call, the second
runs to its end (where it waits for the lock the first goes on, as in life), then the first goes on. That is every
interleaving with one preemption; with `LAKEWARD_RUNS=100000`, as `make interleavings` has it, it is made at every call,
else at some writes of each pair, spread from the first to the last. `test_two_preemptions` stops the second as well, at
calls drawn by a seed.

Every mistake that two services can make of each other's work shows in the model: rows that readers lose, a file that
goes while something needs it, an instant that changes, a hole in the timeline.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from functools import cache

import pytest

from lakeward.base.errors import AttemptLost, Conflict, LakewardError, LockHeld, NotFound, Refused, TryLater, UsageError
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run.cleaner import clean_and_purge
from lakeward.services.compaction.plan.compaction_type import CompactionType
from tests.called_storage import WRITES
from tests.life.faulty_memory import FaultyMemory
from tests.life.model import Life
from tests.life.small_table import BASE, without_threads
from tests.life.turns import Segment, Turns
from tests.runs import runs
from tests.services.clean.run.retiring import rules
from tests.simulation.reader import read_timeline

LEFT_ALONE = (Refused, TryLater, LockHeld, AttemptLost, Conflict, NotFound, UsageError)
"""How a process may end that finds another one's work: it did nothing, or took back what it did."""

Act = Callable[[Life, FaultyMemory], object]


def _write(life: Life, storage: FaultyMemory) -> None:
    life.last_number += 1
    _complete(life, storage, {0, 2, 3})


def _overwrite(life: Life, storage: FaultyMemory) -> None:
    life.last_number += 1
    _complete(life, storage, {1, 3}, replaces="p=1")


def _complete(life: Life, storage: FaultyMemory, keys: set[int], replaces: str | None = None) -> None:
    table = life.table
    write = table.begin(life.last_number, keys, replaces=replaces, storage=storage, wait=table.clock.sleep)
    yields = storage.before

    def before(call: str) -> None:
        yields(call)
        if call.startswith("create ") and call.endswith(("commit",)):
            life.expect(write)

    storage.before = before
    table.complete(write, storage=storage, wait=table.clock.sleep)


def _savepoint(life: Life, storage: FaultyMemory) -> None:
    life.table.savepoint(before_second_full(life), storage)


def retire_sources(life: Life, storage: FaultyMemory) -> None:
    """No query is waited for: the files go as soon as the listing says so."""
    how = rules(2, retires_by_anchors=True)
    clean_and_purge(life.table.serviced(storage), how, selected=lambda _: None, is_part=False)


ONE_COMMIT = CleanPolicy(CleanPolicyKind.COMMITS, 1)
ONE_VERSION = CleanPolicy(CleanPolicyKind.VERSIONS, 1)
ARCHIVE = ArchiveOptions(commits_min=1, commits_max=2, commits_cleaned=1, delta_commits=1, level_files=2)
ACTS: dict[str, Act] = {
    "full": lambda life, storage: life.table.compact(CompactionType.FULL, storage),
    "hybrid": lambda life, storage: life.table.compact(CompactionType.HYBRID, storage),
    "clean commits": lambda life, storage: life.table.clean(ONE_COMMIT, storage),
    "clean versions": lambda life, storage: life.table.clean(ONE_VERSION, storage),
    "archive": lambda life, storage: life.table.archive(ARCHIVE, storage),
    "roll back": lambda life, storage: life.table.roll_back(storage),
    "savepoint": _savepoint,
    "delete savepoint": lambda life, storage: life.table.delete_savepoint(min(life.saved), storage),
    "write": _write,
    "overwrite": _overwrite,
}
POLICIES = {
    "clean commits": ONE_COMMIT,
    "clean versions": ONE_VERSION,
    "retire": CleanPolicy(CleanPolicyKind.COMMITS, 2),
}
RETIRING: dict[str, Act] = {
    "retire": retire_sources,
    "log": lambda life, storage: life.table.compact(CompactionType.LOG, storage),
}
"""On a table of another kind, where logs have been merged."""
REPLACING: dict[str, Act] = {
    "cluster": lambda life, storage: life.table.cluster(storage, as_hudi=True),
    "expire": lambda life, storage: life.table.expire(storage),
}
"""On one in which nothing is pending, and a partition to which nothing was written for an hour."""
BESIDE_REPLACING = (*REPLACING, *(name for name in ACTS if name != "delete savepoint"))
BESIDE_RETIREMENT = (
    "retire",
    "log",
    "full",
    "clean commits",
    "clean versions",
    "archive",
    "roll back",
    "savepoint",
    "write",
)
PAIRS = [(one, other) for one in ACTS for other in ACTS]
PAIRS_REPLACING = [
    (one, other) for one in BESIDE_REPLACING for other in BESIDE_REPLACING if REPLACING.keys() & {one, other}
]


@cache
def prepared() -> Life:
    """A table on which every service has something to do."""
    life = Life()
    life.write(range(8))
    for key in range(4):
        life.write({key, key + 3})
    life.write({0, 2, 5})
    life.table.savepoint(sorted(life.past)[-1])
    life.note_savepoints()
    late = life.begin({1, 6})
    life.write({0, 3})
    life.table.compact(CompactionType.FULL)
    life.learn()
    life.complete(late)
    life.write(range(8))
    life.table.compact(CompactionType.FULL)
    life.learn()
    life.write(range(8))
    life.write({0, 1, 4, 5})
    life.table.compact(CompactionType.HYBRID)
    life.learn()
    life.overwrite("p=1")
    life.write({0, 2, 4})
    life.table.plan_by_hudi(lambda group: group[0] == "p=0")
    life.write({0, 1, 2})
    life.write({0, 1, 3})
    dead = life.begin({0, 1})
    life.table.die(dead)
    life.check()
    return life


@cache
def with_merged_logs() -> Life:
    """A table on which merged logs are to retire behind their anchors."""
    life = Life()
    life.write(range(8))
    for _ in range(4):
        life.write(range(8))
    life.table.compact(CompactionType.LOG)
    life.learn()
    for _ in range(3):
        life.write({0, 2, 4})
    life.table.die(life.begin({0, 1}))
    return life


@cache
def settled() -> Life:
    """A table of which one partition is to expire, and in which every service has something to do beside that."""
    life = Life()
    for _ in range(3):
        life.write(range(8))
        life.write({0, 1, 2, 3})
        life.table.compact(CompactionType.FULL)
        life.learn()
    life.write({1, 3, 5})
    life.table.clock.sleep(3600.0)
    life.write({0, 2, 4})
    life.table.compact(CompactionType.HYBRID)
    life.learn()
    life.write({0, 2})
    life.write({4, 6}, deletes=True)
    life.check()
    return life


def _table_for(names: Sequence[str]) -> Life:
    if RETIRING.keys() & {*names}:
        return with_merged_logs()
    return settled() if REPLACING.keys() & {*names} else prepared()


def before_second_full(life: Life) -> str:
    """An instant of which a clean may just be deleting the slices, and no savepoint holds any."""
    instants = read_timeline(life.table.storage, BASE)
    fulls = sorted(
        time for time, each in instants.completed.items() if any(action == "commit" for _, action, _ in each)
    )
    return max(time for time in life.past if time < fulls[1]) if fulls[1:] else max(life.past)


def play(names: Sequence[str], schedule: Sequence[Segment]) -> list[list[str]]:
    """One interleaving. The calls of each process."""
    life = _table_for(names).copy()
    before = max(read_timeline(life.table.storage, BASE).completed)
    saved = min(life.saved, default="")
    if "delete savepoint" in names:
        life.forgotten |= {path for path in life.completed if f"/{saved}_" in path and ".savepoint" in path}

    if "retire" in names:
        life.will_clean(POLICIES["retire"])  # afterwards an archiver has left too few commits to see it

    def body(name: str) -> Callable[[FaultyMemory], object]:
        return lambda storage: {**ACTS, **RETIRING, **REPLACING}[name](life, storage)

    sleeps_on = not REPLACING.keys().isdisjoint(names)
    turns = Turns(life.table.storage, [body(name) for name in names], schedule, sleeps_on=sleeps_on)
    beat = life.table.clock.beat

    def slept() -> None:
        beat()
        turns.sleeping()

    life.table.clock.beat = slept
    try:
        errors = turns.run()
        for error in errors:
            if error is not None and not isinstance(error, LEFT_ALONE):
                raise error
        life.table.clock.beat = beat
        if "delete savepoint" in names:
            life.unsave(saved)
        life.note_savepoints()
        for name in names:
            if name in POLICIES:
                life.will_clean(POLICIES[name])
        life.learn(late=before)
        life.check()
        # And the next process ends what is pending.
        if "overwrite" in names:  # plans of what was overwritten are an operator's to remove
            life.table.unschedule()
            life.learn(late="")
        life.table.compact(CompactionType.FULL)
        life.learn()
        life.will_clean(ONE_VERSION)
        life.table.clean(ONE_VERSION)
        life.check()
    except BaseException as error:
        error.add_note(f"play({list(names)}, {list(schedule)}) repeats this run")
        for other in turns.actors:
            if isinstance(other.error, LakewardError):
                error.add_note(f"{names[other.number]} ended with {other.error!r}")
        raise
    return [actor.storage.calls for actor in turns.actors]


def points(calls: Sequence[str], number: int, pair: int) -> list[int]:
    """The calls to interrupt before: all, or so many of the writes, other ones for each pair."""
    if number >= len(calls):
        return list(range(1, len(calls)))
    writes = [at for at, call in enumerate(calls) if at and call.split()[0] in WRITES]
    return sorted({writes[(pair * 7 + each * len(writes) // number) % len(writes)] for each in range(number)})


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_one_preemption(name: str) -> None:
    """Nothing is lost, whatever the other one does meanwhile, and the next process ends what is pending."""
    with without_threads():
        calls = play([name], [])[0]
        for pair, other in enumerate(ACTS):
            for at in points(calls, runs(1), pair):
                play([name, other], [(0, at), (1, 0)])


@pytest.mark.slow
@pytest.mark.turns(15)
def test_one_preemption_of_what_replaces() -> None:
    """No row is lost, and none is there twice, where file groups are clustered, or a partition expires, whichever of
    the two is interrupted. Without an interruption each does its work."""
    with without_threads():
        for name in REPLACING:
            # t0 it has planned, and waits for its lock; t1 a write completes; t2 its instant is put on the timeline.
            play([name, "write"], [])
            assert any(f" {BASE}/.hoodie/timeline/" in call and "replacecommit" in call for call in play([name], [])[0])
        calls: dict[str, list[str]] = {}
        for pair, names in enumerate(PAIRS_REPLACING):
            if names[0] not in calls:
                calls[names[0]] = play(names, [])[0]
            if any(call.split()[0] in WRITES for call in calls[names[0]]):
                for at in points(calls[names[0]], runs(1), pair):
                    play(names, [(0, at), (1, 0)])


@pytest.mark.slow
def test_logs_that_retire() -> None:
    """Nothing is lost where merged logs go behind their anchors, whichever of the two is interrupted."""
    with without_threads():
        assert any(call.startswith("remove ") and ".log." in call for call in play(["retire"], [])[0])
        for pair, other in enumerate(BESIDE_RETIREMENT):
            for names in [("retire", other)] if other == "retire" else [("retire", other), (other, "retire")]:
                calls = play([names[0]], [])[0] if names[0] in RETIRING else play(names, [])[0]
                for at in points(calls, runs(1), pair):
                    play(names, [(0, at), (1, 0)])


@pytest.mark.slow
def test_two_preemptions() -> None:
    """The same where the other one is interrupted as well. LAKEWARD_SEED chooses others."""
    chance = random.Random(int(os.environ.get("LAKEWARD_SEED", "0")))
    with without_threads():
        length = {name: len(play([name], [])[0]) for name in (*ACTS, *REPLACING)}
        for _ in range(runs(15)):
            one, other = chance.choice([*PAIRS, *PAIRS_REPLACING])
            play([one, other], [(0, chance.randrange(1, length[one])), (1, chance.randrange(1, length[other]))])


def test_a_schedule_is_a_run() -> None:
    """The same schedule does the same, call for call."""
    with without_threads():
        schedule = [(0, 20), (1, 30)]
        assert play(["full", "clean commits"], schedule) == play(["full", "clean commits"], schedule)
