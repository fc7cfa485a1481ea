"""When the metadata table's services are due before its writers would have to do them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakeward.format.timeline.instant import Instant, parse_instant
from lakeward.services.metadata.plan.due_before_writers import (
    WRITERS_LIMIT,
    MetadataTrigger,
    count_delta_commits,
    metadata_trigger,
    writers_limit,
)
from lakeward.table.metadata.compact_after import AUTO
from lakeward.table.timeline.timeline import Timeline

BUILD = "00000000000000000"


def at(minute: int) -> str:
    return f"20260101{minute // 60:02}{minute % 60:02}00000"


def instant(name: str) -> Instant:
    found = parse_instant(name, 2)
    assert found is not None, name
    return found


def delta(minute: int, completed: int | None = None) -> Instant:
    return instant(f"{at(minute)}_{at(minute if completed is None else completed)}.deltacommit")


def pending(minute: int) -> Instant:
    return instant(f"{at(minute)}.deltacommit.inflight")


def compaction(minute: int) -> Instant:
    return instant(f"{at(minute)}_{at(minute)}.commit")


def built() -> Instant:
    return instant(f"{BUILD}_{at(0)}.deltacommit")


def timeline(*found: Instant | Sequence[Instant]) -> Timeline:
    flat = [each for one in found for each in ([one] if isinstance(one, Instant) else one)]
    return Timeline(tuple(flat))


def deltas(first: int, number: int) -> list[Instant]:
    return [delta(first + each) for each in range(number)]


def test_all_count_until_the_first_compaction():
    """Initial builds among them, as with Hudi, whose count of a new table starts at one for each of its partitions."""
    assert count_delta_commits(timeline(built(), deltas(1, 3), pending(9))) == 5


def test_they_count_by_completion_and_pending_ones_by_request():
    """Keeps 1 of services/metadata/plan/due_before_writers: since the last compaction was requested: one that was under
    way then and completed later counts, one that still is does not."""
    assert count_delta_commits(timeline(delta(1), delta(4, 7), pending(3), compaction(5), delta(8), pending(9))) == 3


def limit(*found: Instant | Sequence[Instant], own: Sequence[int] = ()) -> int:
    shown = timeline(*found)
    by_writers = {each.time for each in shown.completed if each.action == "commit"} - {at(minute) for minute in own}
    return writers_limit(shown, by_writers)


def test_the_limit_is_hudis_default_where_nothing_shows_another():
    """It is so on a timeline, too, that was archived so far that only one compaction is left, with what came after
    it."""
    assert limit(deltas(1, 30)) == limit(deltas(1, 3), compaction(10), deltas(11, 4)) == WRITERS_LIMIT == 10


@pytest.mark.parametrize("number", [1, 2, 5, 9, 10])
def test_the_fewest_that_a_writer_waited_for_lower_it(number: int):
    """One such compaction is enough, on a timeline that shows all that came before it."""
    assert limit(compaction(0), deltas(1, number), compaction(50), deltas(51, 40), compaction(99)) == number
    assert limit(built(), deltas(1, number), compaction(50)) == min(10, number + 1)


def test_two_that_came_later_raise_it():
    """One may have been late for a reason of its own, such as writers that did not write."""
    once = [compaction(0), *deltas(1, 30), compaction(50)]
    assert limit(once) == 10
    assert limit(once, deltas(51, 24), compaction(99)) == 24


def test_what_we_compacted_says_nothing():
    """Keeps 2 of services/metadata/plan/due_before_writers: it would lower the limit each time, down to one."""
    assert limit(compaction(0), deltas(1, 3), compaction(10), deltas(11, 10), compaction(30), own=[10]) == 10


def due_from(limit: int) -> int:
    shown = timeline(compaction(0), deltas(1, limit), compaction(200), deltas(201, limit), compaction(900))
    return metadata_trigger(shown, after=AUTO, by_writers={at(200), at(900)}).after


@pytest.mark.parametrize("limit", [2, 3, 4, 5, 9, 10, 24, 100])
def test_they_are_due_before_the_limit(limit: int):
    """Keeps 3 of services/metadata/plan/due_before_writers: with room for a write, its clean and our own compaction
    where the limit leaves any."""
    after = due_from(limit)
    assert 1 <= after < limit
    assert limit - after == min(4, limit // 2)
    assert due_from(1) == 1


def test_a_setting_is_taken_as_it_is():
    """Whatever the timeline shows."""
    found = metadata_trigger(timeline(compaction(0), deltas(1, 7)), after=8, by_writers={at(0)})
    assert found == MetadataTrigger(7, at(0), after=8, limit=None, may_clean=True)
    assert not found.is_due
    assert metadata_trigger(timeline(deltas(1, 8)), after=8, by_writers=()).is_due


def test_a_clean_may_find_something():
    """It may where there are more commits than it keeps files for, or some of them were archived, however few are
    left."""

    def may_clean(*found: Instant | Sequence[Instant]) -> bool:
        return metadata_trigger(timeline(*found), after=8, by_writers=()).may_clean

    assert not may_clean(built(), deltas(1, 19))
    assert may_clean(built(), deltas(1, 20))
    assert may_clean(deltas(1, 2))


def test_why_names_what_it_rests_on():
    """An operator may find that on the timeline."""
    why = metadata_trigger(timeline(compaction(0), deltas(1, 7)), after=AUTO, by_writers=()).why
    assert why == (
        f"delta commits since its compaction {at(0)}: 7; compacted from 6 on, since its next writer would have to from "
        "10 on"
    )
