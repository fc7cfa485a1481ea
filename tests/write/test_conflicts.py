"""Which writes meet Lakeward's: Hudi's candidates, told apart by when they were requested and when they completed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakeward.format.timeline.instant import Instant, State, parse_instant
from lakeward.table.file_system_view import GroupId
from lakeward.table.timeline.timeline import Timeline
from lakeward.write.conflicts import SeenAtStart, Touched, find_conflict

OWN = "20260101000030000"
GROUP: GroupId = ("p", "4b64a59b-5222-4714-882f-87684788ebdd-0")


def timeline(*names: str) -> Timeline:
    found = [parse_instant(f"202601010000{name}", 2) for name in names]
    assert None not in found
    return Timeline(tuple(each for each in found if each is not None))


OWN_PENDING = "30000.deltacommit.inflight"
EARLIER = "10000_20260101000011000.deltacommit"


def conflict(
    before: Timeline,
    now: Timeline,
    touched: Mapping[str, Touched],
    *,
    groups: frozenset[GroupId] = frozenset({GROUP}),
    is_merge_on_read: bool = True,
    by_bucket: bool = False,
) -> str | None:
    def read(instant: Instant) -> Touched:
        return touched[instant.time]

    found = find_conflict(
        now,
        SeenAtStart.of(before),
        OWN,
        groups,
        is_merge_on_read=is_merge_on_read,
        by_bucket=by_bucket,
        touched=read,
    )
    return None if found is None else found.instant


SAME = Touched(frozenset({GROUP}), "UPSERT")
COMPACTED = Touched(frozenset({GROUP}), "COMPACT")


@pytest.mark.parametrize(
    ("completed", "touched", "meets"),
    [
        ("31000_20260101000032000.deltacommit", SAME, True),
        ("29000_20260101000032000.deltacommit", SAME, True),
        ("09000_20260101000032000.deltacommit", SAME, False),
        ("31000_20260101000032000.replacecommit", SAME, True),
        ("31000_20260101000032000.commit", COMPACTED, False),
        ("31000_20260101000032000.deltacommit", Touched(frozenset({("q", GROUP[1])})), False),
    ],
    ids=["later", "requested-before-ours", "older-than-last", "replaced", "compaction", "other-group"],
)
def test_what_completed_since_it_began(completed: str, touched: Touched, meets: bool) -> None:
    """What was requested after the newest complete write, and completed since; no compaction. Keeps 1 and 2 of
    write/conflicts."""
    time = f"202601010000{completed[:5]}"
    found = conflict(timeline(EARLIER), timeline(EARLIER, OWN_PENDING, completed), {time: touched})
    assert found == (time if meets else None)


@pytest.mark.parametrize(
    ("action", "operation", "meets"), [("deltacommit", "UPSERT", True), ("commit", "COMPACT", False)]
)
def test_what_was_pending_when_it_began(action: str, operation: str, meets: bool) -> None:
    """It is a candidate whatever its time, once it is complete; a compaction that was planned before Lakeward's meets
    nothing. Keeps 1 of write/conflicts."""
    pending = "compaction" if action == "commit" else action
    before = timeline(EARLIER, f"09000.{pending}.requested")
    now = timeline(EARLIER, OWN_PENDING, f"09000_20260101000032000.{action}")
    time = "20260101000009000"
    found = conflict(before, now, {time: Touched(frozenset({GROUP}), operation)})
    assert found == (time if meets else None)


@pytest.mark.parametrize(
    ("name", "meets"),
    [
        ("09000.clustering.requested", True),
        ("31000.replacecommit.inflight", True),
        ("29000.replacecommit.inflight", False),
        ("31000.deltacommit.inflight", False),
    ],
)
def test_what_is_still_pending(name: str, meets: bool) -> None:
    """Clusterings of any age, and replacements that were requested after Lakeward's."""
    time = f"202601010000{name[:5]}"
    found = conflict(timeline(EARLIER), timeline(EARLIER, OWN_PENDING, name), {time: SAME})
    assert found == (time if meets else None)


def test_a_commit_of_a_copied_on_write_table_is_a_write() -> None:
    """There the action says nothing of compactions."""
    now = timeline(EARLIER, "30000.inflight", "31000_20260101000032000.commit")
    assert conflict(timeline(EARLIER), now, {"20260101000031000": SAME}, is_merge_on_read=False)


def test_groups_are_shown_without_their_number() -> None:
    """Row writers leave the `-0` out."""
    other = Touched(frozenset({("p", GROUP[1].removesuffix("-0"))}))
    now = timeline(EARLIER, OWN_PENDING, "31000_20260101000032000.deltacommit")
    assert conflict(timeline(EARLIER), now, {"20260101000031000": other})


def test_buckets_meet_whatever_their_ids() -> None:
    """Two writers that open one bucket at a time have different ids for it."""
    other = Touched(frozenset({("p", "00000003-aaaa-4714-882f-87684788ebdd-0")}))
    own = frozenset({("p", "00000003-bbbb-4714-882f-87684788ebdd-0")})
    now = timeline(EARLIER, OWN_PENDING, "31000_20260101000032000.deltacommit")
    touched = {"20260101000031000": other}
    assert conflict(timeline(EARLIER), now, touched, groups=own, by_bucket=True)
    assert not conflict(timeline(EARLIER), now, touched, groups=own)


def test_a_write_remembers_the_greatest_requested_time() -> None:
    """Hudi's *last* uses the requested time, not by which one completed last."""
    seen = SeenAtStart.of(timeline("20000_20260101000021000.deltacommit", "10000_20260101000025000.deltacommit"))
    assert seen.last == "20260101000020000"
    assert State.COMPLETED not in {each.state for each in timeline(OWN_PENDING).instants}
