"""When a clean is due: what could have gone for so many commits. Tables are written as in `clean.cases`."""

from __future__ import annotations

import pytest

from lakeward.services.clean.plan.due import find_overdue, newest_clean
from tests.services.clean.plan.clean_cases import read_table
from tests.services.clean.plan.test_planner import CASES
from tests.services.compaction.plan.planner_cases import read_cases
from tests.synthetic_table import minute

COMMITS = """
policy commits 2
done commit 10 20 30 40 50
group a 10 20 30 40 50
"""
HOURS = """
policy hours 1
now 150
done commit 10 20 80 90 100
group a 10 20 80 90 100
"""
VERSIONS = """
policy versions 1
done commit 10 20 30 40 50
group a 10 20 30 40 50
group b 10 50
"""
REPLACED = """
policy versions 1
done commit 10 20 30
done replacecommit 40
group a 10
group b 10 20 30
replaced a by 40
"""


@pytest.mark.parametrize(
    ("text", "after", "overdue"),
    [
        (COMMITS, 1, {"a 10", "a 20"}),
        (COMMITS, 2, {"a 10"}),
        (COMMITS, 3, set()),
        (COMMITS, 9, set()),
        (HOURS, 1, {"a 10", "a 20"}),
        (HOURS, 2, {"a 10"}),
        (HOURS, 3, set()),
        (HOURS, 4, set()),
        (VERSIONS, 1, {"a 10", "a 20", "a 30", "a 40", "b 10"}),
        (VERSIONS, 2, {"a 10", "a 20", "a 30"}),
        (VERSIONS, 4, {"a 10"}),
        (VERSIONS, 5, set()),
        (REPLACED, 1, {"a 10", "b 10", "b 20"}),
        (REPLACED, 2, {"b 10", "b 20"}),
    ],
)
def test_what_is_overdue(text: str, after: int, overdue: set[str]) -> None:
    """A slice is overdue when it was dead so many commits ago, the newest one included."""
    table = read_table(text.strip())
    found = find_overdue(table.snapshot(), table.policy, after=after, now=table.now)
    times = {minute(number): str(number) for number in range(0, 100, 10)}
    assert {f"{each.slice.file_id} {times[each.slice.base_instant]}" for each in found} == overdue


def test_what_is_overdue_is_dead() -> None:
    """Keeps 1 and 2 of services/clean/plan/due, for every case of the cleaner: with 1 all that is dead is overdue, with
    more a part of it, and the less the more."""
    for case in read_cases(CASES)[1]:
        table = read_table(case.table)
        if table.partitions is not None:
            continue
        outcome = table.plan()
        dead = {each.file_names for each in outcome.dead} | {each.file_names for each in outcome.retiring}
        before = dead
        for after in range(1, 5):
            overdue = find_overdue(
                table.snapshot(),
                table.policy,
                after=after,
                now=table.now,
                reader_window=table.window,
                watermarks=table.watermarks,
                left_in_place=table.left_in_place,
                retires_by_anchors=table.retires_by_anchors,
            )
            found = {each.file_names for each in overdue}
            assert found == dead if after == 1 else found <= before, case.rule
            before = found


def test_what_is_excluded_is_not_overdue() -> None:
    """Neither a file group that is parked or paused, nor a partition that is left out."""
    table = read_table(VERSIONS.strip())
    snapshot = table.snapshot()
    found = find_overdue(snapshot, table.policy, after=1, now=0.0, excluded=[("p", "a")])
    assert {each.slice.file_id for each in found} == {"b"}
    assert not find_overdue(snapshot, table.policy, after=1, now=0.0, partitions=["q"])


def test_commits_are_counted_from_the_newest_clean() -> None:
    """It may be any engine's: who cleans at each commit leaves nothing to us."""
    timeline = read_table("done commit 10 20 30\ndone clean 25\npending clean 40").snapshot().timeline
    assert newest_clean(timeline) == minute(25)
    assert timeline.commits_since(newest_clean(timeline)) == 1
    assert timeline.commits_since("") == 3
