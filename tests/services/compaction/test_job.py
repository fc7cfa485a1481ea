"""Compaction as a service: what it remembers of a table from one job to the next plan."""

from __future__ import annotations

from lakeward.services.compaction.job import CompactionMemory
from tests.synthetic_table import file_group, minute


def test_a_group_is_taken_whole_until_it_has_another_base() -> None:
    """What a compaction found in the logs of a slice holds for that slice, whatever comes into it."""
    memory = CompactionMemory()
    old, other = (file_group("p", f"{name}-0", base=(minute(10), 9), logs=[(minute(20), 1)]).slices[0] for name in "ab")
    memory.keep_whole({("p", "a-0")}, [old, other])
    assert memory.whole([old, other]) == {("p", "a-0")}
    new = file_group("p", "a-0", base=(minute(30), 9), logs=[]).slices[0]
    assert memory.whole([new, other]) == set()
    memory.keep_whole({("p", "b-0")}, [old, other])
    assert memory.whole([old, other]) == {("p", "a-0"), ("p", "b-0")}
