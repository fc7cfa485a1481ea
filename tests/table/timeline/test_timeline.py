"""From a listing of the timeline folder to instants, and to what must not be believed."""

from __future__ import annotations

from lakeward.format.timeline.instant import State
from lakeward.storage.storage import FileStatus
from lakeward.table.timeline.timeline import Timeline, read_timeline

A, B, C, D, E = (f"2026010100000{n}000" for n in range(5))


def timeline(*names: str, layout: int = 2, empty: tuple[str, ...] = ()) -> Timeline:
    files = [FileStatus(f"/t/.hoodie/timeline/{name}", 0 if name in empty else 9, 1.0, False) for name in names]
    return read_timeline(files, "/t", layout)


def as_text(timeline: Timeline) -> list[str]:
    instants = (*timeline.completed, *timeline.pending)
    return [f"{instant.time[-4]} {instant.action} {instant.state}" for instant in instants]


def test_an_instant_is_in_the_furthest_state_it_reached() -> None:
    """Files of all states stay; the furthest one counts, also where completion changes the action's name."""
    found = timeline(
        f"{A}.commit.requested", f"{A}.inflight", f"{A}_{B}.commit",
        f"{B}.compaction.requested", f"{B}.compaction.inflight", f"{B}_{C}.commit",
        f"{C}.logcompaction.requested", f"{C}_{D}.deltacommit",
        f"{D}.clustering.requested", f"{D}.clustering.inflight", f"{D}_{E}.replacecommit",
        f"{E}.deltacommit.requested", f"{E}.deltacommit.inflight",
    )  # fmt: skip

    assert as_text(found) == [
        "0 commit completed", "1 commit completed", "2 deltacommit completed", "3 replacecommit completed",
        "4 deltacommit inflight",
    ]  # fmt: skip
    assert found.completion_time(B) == C
    assert found.completion_time(E) is None


def test_layout_1_names_a_commit_that_is_inflight_without_its_action() -> None:
    """`<T>.inflight` is a commit, and properties and folders beside the timeline are no instants."""
    found = timeline(
        f"{A}.commit.requested", f"{A}.inflight", f"{B}.deltacommit", "hoodie.properties", "archived", layout=1
    )
    assert as_text(found) == ["1 deltacommit completed", "0 commit inflight"]
    assert not found.unknown


def test_a_savepoint_shares_its_time_with_the_commit_it_keeps() -> None:
    """The write is found by its time, whatever else bears it."""
    found = timeline(f"{A}_{B}.commit", f"{A}.savepoint.inflight", f"{A}_{C}.savepoint")
    instant = found.find(A)
    assert instant is not None and instant.action == "commit"
    assert found.completion_time(A) == B


def test_writes_may_be_archived_behind_a_savepoint() -> None:
    """The archiver leaves savepointed instants behind; holes follow them, which are not before the timeline's start."""
    found = timeline(f"{B}_{B}.commit", f"{B}_{C}.savepoint", f"{C}_{C}.clean", f"{E}_{E}.deltacommit")

    assert (found.first_write, found.first_visible_write, found.first_active_write) == (B, B, E)
    assert found.is_archived(D) and not found.is_archived(B) and not found.is_archived(E)
    assert found.is_before_start(A) and not found.is_before_start(D)


def test_readers_start_later_when_the_oldest_write_is_pending() -> None:
    """What readers see begins at the first completed write or pending compaction."""
    found = timeline(f"{A}.deltacommit.requested", f"{B}.compaction.requested", f"{C}_{D}.deltacommit")
    assert (found.first_active_write, found.first_visible_write) == (A, B)


def test_a_new_instant_must_beat_completion_times_too() -> None:
    """The latest time is the greatest of all requested and completion times, of every action."""
    assert timeline(f"{A}_{E}.deltacommit", f"{B}.clean.requested").latest_time == E
    assert timeline(f"{A}_{B}.deltacommit", f"{C}.rollback.inflight").latest_time == C
    assert timeline().latest_time is None


def test_legacy_instants_of_seconds_sort_as_their_last_millisecond() -> None:
    """Fourteen digits compare as if 999 followed."""
    assert timeline(f"{A[:14]}.deltacommit", f"{A}.commit", layout=1).latest_time == A[:14]


def test_an_empty_completed_file_is_broken() -> None:
    """Nothing can say what that instant did, so it is named."""
    name = f"{A}_{B}.deltacommit"
    (broken,) = timeline(name, empty=(name,)).broken
    assert broken.is_completed
    assert broken.file == f".hoodie/timeline/{name}"


def test_an_empty_plan_is_broken_but_an_empty_start_of_a_write_is_not() -> None:
    """Plans are written whole; the requested and inflight files of writes are empty by design."""
    plan = f"{B}.compaction.requested"
    normal = (f"{A}.deltacommit.requested", f"{A}.deltacommit.inflight", f"{C}.replacecommit.requested")

    (broken,) = timeline(plan, *normal, empty=(plan, *normal)).broken

    assert (broken.instant.time, broken.instant.state, broken.is_completed) == (B, State.REQUESTED, False)


def test_an_instant_completed_twice_is_broken() -> None:
    """In layout 2 the completed name holds the completion time, so creating it excludes no second one."""
    (broken,) = timeline(f"{A}_{B}.commit", f"{A}_{C}.commit").broken
    assert broken.is_completed
    assert f"{A}_{B}.commit" in broken.why


def test_a_clean_that_was_completed_twice_is_one() -> None:
    """Keeps 3 of table/timeline/timeline. Two engines that end one clean at the same moment both complete it; the first
    counts, in whatever order a listing has them, and nothing is broken."""
    for names in (f"{A}_{B}.clean", f"{A}_{C}.clean"), (f"{A}_{C}.clean", f"{A}_{B}.clean"):
        found = timeline(f"{A}.clean.requested", *names)
        assert found.broken == () and found.pending == () and len(found.instants) == 3
        assert [(each.time, each.completion_time) for each in found.completed] == [(A, B)]
        assert found.latest_time == C


def test_unknown_actions_are_named() -> None:
    """What has the form of an instant is understood or reported; temporary names of writers are neither."""
    found = timeline(
        f"{A}_{B}.upgrade",
        f"{A}.upgrade.requested",
        f"{A}_{B}.commit.0f8fad5b-d9cb-469f-a165-70867728950e",
        "notes.txt",
    )
    assert found.unknown == (f"{A}_{B}.upgrade", f"{A}.upgrade.requested")
