"""An index in a store outside of the table answers with the newest commit that counts, whatever came meanwhile."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused, TryLater, Unsupported
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index import Indexed, record_locations
from lakeward.index.location import LOCATIONS
from lakeward.index.settlement import settled_first
from lakeward.storage.local import LocalStorage
from lakeward.table.timeline.timeline import Timeline
from tests.clocks import SettableClock, SkippingClock
from tests.runs import runs
from tests.synthetic_table import completed, file_group, minute, pending, snapshot_of

STORAGE = LocalStorage()
GROUPS = [(partition_path, file_id) for partition_path in "pq" for file_id in ("a-0", "b-0", "c-0")]
T1, T2, T3, T4, T5 = (minute(number) for number in range(1, 6))

Change = tuple[str, str | None, str | None]
"""Key, partition path and file id."""


def batch(*changes: Change) -> pa.RecordBatch:
    columns = [*zip(*changes, strict=True), [None] * len(changes)] if changes else [[]] * 4
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=LOCATIONS)


def index_of(entries, counted: Mapping[str, str] = {}, groups=GROUPS, limit=None) -> ExternalIndex:
    return ExternalIndex(entries, counted, frozenset(groups), limit=limit or RateLimit(None, clock=SkippingClock()))


def put(entries, instant: str, *changes: Change, completed: str | None = None) -> None:
    index_of(entries).update(instant, [batch(*changes)], completed=completed)


def answers(index: ExternalIndex, keys: Iterable[str], partitions=None) -> list[Change]:
    found = record_locations(STORAGE, index, pa.array(list(keys), pa.string()), partitions)
    assert found.schema == LOCATIONS
    return sorted(tuple(row.values())[:3] for row in found.to_pylist())


def test_the_location_before_stays_until_the_timeline_decides(make_entries):
    """While a commit is pending, failed or rolled back, the location before it is the answer, and its own once it
    counts; an instant that became visible last is the newest, whatever its time."""
    entries = make_entries(True)()
    put(entries, T1, ("k1", "p", "a-0"), ("k2", "p", "a-0"), completed=T1)
    put(entries, T3, ("k1", "q", "b-0"), ("k2", None, None), ("k3", "q", "b-0"))

    before = [("k1", "p", "a-0"), ("k2", "p", "a-0")]
    assert answers(index_of(entries, {T1: T1}), ["k1", "k2", "k3"]) == before
    assert answers(index_of(entries, {T1: T1, T3: T4}), ["k1", "k2", "k3"]) == [("k1", "q", "b-0"), ("k3", "q", "b-0")]
    put(entries, T2, ("k1", "p", "c-0"), completed=T5)
    assert answers(index_of(entries, {T1: T1, T2: T5, T3: T4}), ["k1"]) == [("k1", "p", "c-0")]
    assert answers(index_of(entries, {}), ["k1", "k2", "k3"]) == []

    index_of(entries).rollback(T3)
    assert answers(index_of(entries, {T1: T1, T3: T4}), ["k1", "k2", "k3"]) == before
    index_of(entries).rollback(T3)


def test_a_crash_between_batches_is_harmless(make_entries):
    """What was put of a commit that is not whole counts for nothing, also after a restart; done again, with other
    places, the commit is what was put then; and a commit that was whole stays so while it is put again."""
    open_entries = make_entries(True)
    put(open_entries(), T1, ("k1", "p", "a-0"), completed=T1)
    counted = {T1: T1, T2: T2}

    def dying(*changes):
        yield batch(*changes)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_of(open_entries()).update(T2, dying(("k1", "q", "b-0"), ("k2", "q", "b-0")), completed=T2)
    assert answers(index_of(open_entries(), counted), ["k1", "k2"]) == [("k1", "p", "a-0")]
    assert index_of(open_entries(), counted).indexed() == Indexed(T1, frozenset({T1}))

    put(open_entries(), T2, ("k1", "q", "c-0"), completed=T2)
    assert answers(index_of(open_entries(), counted), ["k1", "k2"]) == [("k1", "q", "c-0")]
    with pytest.raises(KeyboardInterrupt):
        index_of(open_entries()).update(T2, dying(("k1", "q", "b-0")), completed=T2)
    assert answers(index_of(open_entries(), counted), ["k1"]) == [("k1", "q", "c-0")]
    put(open_entries(), T2, ("k2", "q", "c-0"), completed=T2)
    assert answers(index_of(open_entries(), counted), ["k1", "k2"]) == [("k1", "p", "a-0"), ("k2", "q", "c-0")]
    assert index_of(open_entries(), counted).indexed() == Indexed(T2, frozenset({T1, T2}))


def test_writers_beside_others(make_entries):
    """A writer ends neither what follows the table nor another writer, and is ended by none of them; another try at
    its own commit ends the one before. A try that died goes once its instant is on the timeline no more."""
    entries = make_entries(True)()
    one, other = (entries.begin(instant, beside_others=True) for instant in (T2, T3))
    follower = entries.begin(T1)
    for attempt, key in ((one, "k2"), (other, "k3"), (follower, "k1")):
        entries.put(attempt, batch((key, "p", "a-0")))
    entries.finish(follower, T1)
    entries.finish(one, None)
    again = entries.begin(T3, beside_others=True)
    with pytest.raises((AssertionError, TryLater)):
        entries.finish(other, None)
    assert entries.commits() == (None, {T1: T1, T2: None})
    assert list(entries.begun_beside_others()) == [T3]
    assert answers(index_of(entries, {T1: T1, T2: T2, T3: T3}), ["k1", "k2", "k3"]) == [
        ("k1", "p", "a-0"),
        ("k2", "p", "a-0"),
    ]

    pending_there = Timeline((*completed(T1, "commit"), *completed(T2, "commit"), *pending(T3, "commit")))
    index_of(entries, {T1: T1, T2: T2}).tidy(pending_there, through=T1)
    assert list(entries.begun_beside_others()) == [T3]
    entries.put(again, batch(("k3", "p", "b-0")))
    rolled_back = Timeline((*completed(T1, "commit"), *completed(T2, "commit"), *completed(T4, "rollback")))
    index_of(entries, {T1: T1, T2: T2}).tidy(rolled_back, through=T1)
    assert list(entries.begun_beside_others()) == []
    assert {key for each in entries.scan() for key in each.column(0).to_pylist()} == {"k1", "k2"}


def test_what_a_batch_says_twice(make_entries):
    """A batch that is put again, and a key that comes several times, are put once: located if it is so in one."""
    entries = make_entries(True)()
    attempt = entries.begin(T1)
    for changes in (
        batch(("k1", None, None), ("k1", "p", "a-0"), ("k2", "p", "a-0")),
        batch(("k1", "p", "a-0"), ("k2", None, None), ("k3", None, None)),
    ):
        entries.put(attempt, changes)
        entries.put(attempt, changes)
    entries.put(attempt, batch())
    entries.finish(attempt, T1)
    entries.finish(attempt, T1)

    index = index_of(entries, {T1: T1})
    assert answers(index, ["k1", "k2", "k3"]) == [("k1", "p", "a-0"), ("k2", "p", "a-0")]
    assert [each.num_rows for each in entries.scan()] == [3]


def test_a_key_in_several_partitions(make_entries):
    """A key that is one in its partition has a location in each, is gone from one of them or from all, and only
    the partitions that are asked for are given."""
    entries = make_entries(False)()
    counted = {T1: T1, T2: T2, T3: T3}
    put(entries, T1, ("k1", "p", "a-0"), ("k1", "q", "b-0"), ("k2", "q", "b-0"), completed=T1)
    assert answers(index_of(entries, counted), ["k1"]) == [("k1", "p", "a-0"), ("k1", "q", "b-0")]
    assert answers(index_of(entries, counted), ["k1", "k2"], ["q"]) == [("k1", "q", "b-0"), ("k2", "q", "b-0")]

    put(entries, T2, ("k1", "p", None), ("k2", "p", "c-0"), completed=T2)
    after = [("k1", "q", "b-0"), ("k2", "p", "c-0"), ("k2", "q", "b-0")]
    assert answers(index_of(entries, counted), ["k1", "k2"]) == after
    put(entries, T3, ("k1", None, None), ("k2", None, None), ("k2", "q", "c-0"), completed=T3)
    assert answers(index_of(entries, counted), ["k1", "k2"]) == [("k2", "q", "c-0")]
    assert answers(index_of(entries, {T1: T1, T2: T2}), ["k1", "k2"]) == after


def test_a_location_without_its_file_group_is_none(make_entries):
    """A group that is gone has no key of the table; the location before is not given either, for the commit counts."""
    entries = make_entries(True)()
    put(entries, T1, ("k1", "p", "a-0"), completed=T1)
    put(entries, T2, ("k1", "q", "b-0"), completed=T2)

    assert answers(index_of(entries, {T1: T1, T2: T2}, [("p", "a-0"), ("p", "b-0")]), ["k1"]) == []


def test_settled_commits_keep_one_entry_a_key(make_entries):
    """A key has one entry of the commits that were archived, and none where it is gone; they count without being asked
    for, and what completed before them is refused."""
    entries = make_entries(True)()
    for instant, changes in (
        (T1, [("k1", "p", "a-0"), ("k2", "p", "a-0"), ("k3", "p", "a-0")]),
        (T2, [("k1", "q", "b-0"), ("k2", None, None)]),
        (T3, [("k1", "p", "c-0")]),
    ):
        put(entries, instant, *changes, completed=instant)
    timeline = Timeline(tuple(completed(T3, "deltacommit")))
    index = index_of(entries, {T1: T1, T2: T2, T3: T3})
    index.tidy(timeline, through=T3)

    assert entries.commits() == (T2, {T3: T3})
    assert index.indexed() == Indexed(T3, frozenset({T3})) and index.indexed().has(T1, T1)
    assert sum(each.num_rows for each in entries.scan()) == 3, "k1 of T2 and T3, and k3"
    keys = ["k1", "k2", "k3"]
    assert answers(index_of(entries, {T3: T3}), keys) == [("k1", "p", "c-0"), ("k3", "p", "a-0")]
    assert answers(index_of(entries), keys) == [("k1", "q", "b-0"), ("k3", "p", "a-0")]
    with pytest.raises(Refused, match=f"cannot take in the commit {T4} any more"):
        index.update(T4, [], completed=T1)
    index.rollback(T1)
    assert answers(index_of(entries), ["k3"]) == [("k3", "p", "a-0")], "what is settled is never forgotten"


def test_tidying_forgets_what_was_rolled_back(make_entries):
    """A commit that is nowhere on the timeline goes; one that is pending stays, and counts once it is complete."""
    entries = make_entries(True)()
    for instant in (T1, T2, T3):
        put(entries, instant, (f"k-{instant}", "p", "a-0"))
    group = file_group("p", "a-0", base=(T1, 1), logs=[])
    snapshot = snapshot_of([group], [*completed(T1, "deltacommit", T4), *pending(T3, "deltacommit")])
    index = ExternalIndex.of(entries, STORAGE, snapshot, limit=RateLimit(None, clock=SkippingClock()))
    assert index.indexed() == Indexed(None, frozenset({T1, T2, T3}))
    index.tidy(snapshot.timeline, through=T4)

    assert entries.commits() == (None, {T1: None, T3: None})
    snapshot = snapshot_of([group], [*completed(T1, "deltacommit", T4), *completed(T3, "deltacommit", T5)])
    index = ExternalIndex.of(entries, STORAGE, snapshot, limit=RateLimit(None, clock=SkippingClock()))
    assert answers(index, [f"k-{T1}", f"k-{T3}"]) == [(f"k-{T1}", "p", "a-0"), (f"k-{T3}", "p", "a-0")]


def test_a_group_that_was_replaced_is_no_answer(make_entries):
    """Its keys' entries stay, for nothing is taken in of it: no writer uses them, and they are locations again once
    a restore brings the group back."""
    entries = make_entries(True)()
    put(entries, T1, ("k1", "p", "a-0"), ("k2", "p", "b-0"), completed=T1)
    old, new = (file_group("p", name, base=(T1, 1), logs=[]) for name in ("a-0", "b-0"))
    instants = completed(T1, "deltacommit")
    limit = RateLimit(None, clock=SkippingClock())
    replaced = snapshot_of([new], instants, replaced={("p", "a-0"): T2}, replaced_groups=(old,))

    assert answers(ExternalIndex.of(entries, STORAGE, replaced, limit=limit), ["k1", "k2"]) == [("k2", "p", "b-0")]
    restored = ExternalIndex.of(entries, STORAGE, snapshot_of([old, new], instants), limit=limit)
    assert answers(restored, ["k1", "k2"]) == [("k1", "p", "a-0"), ("k2", "p", "b-0")]


def test_what_came_after_the_timeline_was_read_is_not_forgotten(make_entries):
    """A commit that another process takes in meanwhile, and that began after the snapshot was taken, is on no timeline
    of the snapshot and was not rolled back: forgotten, it would be passed over by the commit after it."""
    entries = make_entries(True)()
    put(entries, T1, ("k1", "p", "a-0"), completed=T2)
    timeline = Timeline(tuple(completed(T1, "deltacommit", T2)))
    put(entries, T3, ("k1", "q", "b-0"), completed=T4)
    index_of(entries, {T1: T2}).tidy(timeline, through=T4)

    assert entries.commits() == (None, {T1: T2, T3: T4})


def test_what_is_settled_first():
    """Only a beginning of the commits in the order in which they became visible: up to the first that is on the active
    timeline, or later than the index is whole."""
    timeline = Timeline(tuple(completed(T1, "commit", T4)))
    assert settled_first({T2: T2, T3: T3, T1: T4, T5: T5}, timeline, through=T5) == [T2, T3]
    assert settled_first({T2: T2, T3: T3}, timeline, through=T2) == [T2]
    assert settled_first({T2: T5, T3: T3}, timeline, through=T3) == [T3]


def test_requests_are_limited():
    """So many keys a second are asked for and put, by the clock; without a limit nothing is waited for."""
    clock = SettableClock()
    limit = RateLimit(100, clock=clock)
    limit.take(50)
    assert clock.monotonic() == 0
    limit.take(200)
    assert clock.monotonic() == 0.5
    limit.take(1)
    assert clock.monotonic() == 2.5
    clock.sleep(60)
    limit.take(1)
    limit.take(1)
    assert clock.monotonic() == 62.51
    RateLimit(None, clock=clock).take(10**9)
    assert clock.monotonic() == 62.51


def test_every_key_and_entry_counts_for_the_limit(make_entries):
    """Lookups, lists and changes alike."""
    clock = SettableClock()
    entries = make_entries(True)()
    index = index_of(entries, {T1: T1}, limit=RateLimit(10, clock=clock))
    index.update(T1, [batch(*((f"k{number}", "p", "a-0") for number in range(30)))], completed=T1)
    assert clock.monotonic() == 0
    assert len(answers(index, ["k1", "k2", "unknown"])) == 2
    assert clock.monotonic() == 3
    assert sum(found.num_rows for found in index.look_up(STORAGE, None, None)) == 30
    assert clock.monotonic() == pytest.approx(3.3)


def test_it_does_not_travel_to_tasks(make_entries):
    """Executors have no credentials of a database, and are given none."""
    with pytest.raises(Unsupported, match="not by Spark's tasks"):
        pickle.dumps(index_of(make_entries(True)()))


@pytest.mark.parametrize("is_global", [True, False], ids=["global", "partition"])
@pytest.mark.parametrize("seed", range(runs(6)))
def test_any_history(make_entries, is_global, seed):
    """Keys come, move, go and come back in commits that complete in any order, die between batches, are rolled back,
    archived and put again: the answers are those of a dict, for each key and of the list of all."""
    chance = random.Random(seed)
    print(f"{seed=} {is_global=}")
    open_entries = make_entries(is_global)
    keys = [f"k{number}ä" for number in range(12)]
    minutes = itertools.count(1)
    history: dict[str, tuple[str | None, list[Change]]] = {}  # by instant: when it completed, and what it did
    order: list[str] = []  # completed, by completion
    settled = 0

    def some_changes():
        chosen = chance.sample(keys, chance.randint(1, len(keys)))
        changes: list[Change] = []
        for key in chosen:
            if chance.random() < 0.25:
                changes.append((key, None if is_global or chance.random() < 0.5 else chance.choice("pq"), None))
            else:
                changes.append((key, *chance.choice(GROUPS)))
                if not is_global and chance.random() < 0.3:
                    other = "q" if changes[-1][1] == "p" else "p"
                    changes.append((key, other, "b-0"))
        return changes

    def counted():
        return {instant: history[instant][0] for instant in order[settled:]}

    def expected():
        places: dict[str, dict[str | None, str]] = {key: {} for key in keys}
        for instant in order:
            changes = history[instant][1]
            for key, partition_path, file_id in sorted(changes, key=lambda change: change[2] is not None):
                if is_global or partition_path is None:
                    places[key] = {}
                if file_id is None:
                    places[key].pop(partition_path, None)
                else:
                    places[key][partition_path] = file_id
        return sorted((key, path, file_id) for key in keys for path, file_id in places[key].items())

    def dying(changes):
        yield batch(*changes[:1])
        raise KeyboardInterrupt

    for _ in range(25):
        step = chance.choice(["commit", "commit", "begin", "complete", "roll back", "die", "archive", "again"])
        waiting = [instant for instant, (completed_at, _) in history.items() if completed_at is None]
        index = index_of(open_entries(), counted())
        if step in ("commit", "begin", "die"):
            instant, changes = minute(next(minutes)), some_changes()
            at = minute(next(minutes)) if step == "commit" else None
            if step == "die":
                with pytest.raises(KeyboardInterrupt):
                    index.update(instant, dying(changes), completed=at)
                continue
            index.update(instant, [batch(*changes[:3]), batch(*changes[3:])], completed=at)
            history[instant] = (at, changes)
            order += [instant] if at else []
        elif step == "complete" and waiting:
            history[waiting[0]] = (minute(next(minutes)), history[waiting[0]][1])
            order.append(waiting[0])
        elif step == "roll back" and (reach := waiting + order[settled:]):
            gone = chance.choice(reach)
            if chance.random() < 0.5:
                index.rollback(gone)
            del history[gone]
            order = [instant for instant in order if instant != gone]
        elif step == "archive" and len(order) > settled:
            archived = chance.randint(1, len(order) - settled)
            active = [*order[settled + archived :], *waiting]
            index.tidy(Timeline(tuple(each for at in active for each in completed(at, "commit"))), through=minute(9999))
            settled += archived
        elif step == "again" and order[settled:]:
            instant = chance.choice(order[settled:])
            index.update(instant, [batch(*history[instant][1])], completed=history[instant][0])
        index = index_of(open_entries(), counted())
        assert answers(index, keys) == expected()
        listed = [row for each in index.look_up(STORAGE, None, None) for row in each.to_pylist()]
        assert sorted(tuple(row.values())[:3] for row in listed) == expected()
