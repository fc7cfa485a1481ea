"""Which files of the archived timeline are merged."""

from __future__ import annotations

from lakeward.format.timeline.history import HistoryFile
from lakeward.services.archive.plan.history_levels import plan_level_merge


def names(level: int, numbers: range, bytes_each: int = 1) -> dict[HistoryFile, int]:
    return {HistoryFile(f"{n}0", f"{n}9", level): bytes_each for n in numbers}


def test_the_oldest_files_of_a_level_go_into_the_next() -> None:
    """So many as a level may have go, in order, and named by their range. Keeps 1 and 2 of
    services/archive/plan/history_levels."""
    assert plan_level_merge(names(0, range(10, 12)), files=3) is None
    merge = plan_level_merge(names(0, range(10, 14)), files=3)
    assert merge is not None
    assert [file.first for file in merge.sources] == ["100", "110", "120"]
    assert merge.target == HistoryFile("100", "129", 1)
    higher = plan_level_merge({**names(0, range(30, 32)), **names(1, range(10, 13))}, files=3)
    assert higher is not None and higher.target == HistoryFile("100", "129", 2)


def test_large_files_are_passed_over() -> None:
    """A file that is as large as one may be stays; two that become too large are the last ones. Keeps 1 of
    services/archive/plan/history_levels."""
    sizes = {**names(0, range(10, 11), 200), **names(0, range(11, 15), 60)}
    merge = plan_level_merge(sizes, files=4, bytes_max=100)
    assert merge is not None and merge.target == HistoryFile("110", "129", 1)
    assert plan_level_merge(names(0, range(10, 14), 200), files=4, bytes_max=100) is None


def test_no_file_is_named_as_one_that_is_there() -> None:
    """A level has one digit, too. Keeps 2 of services/archive/plan/history_levels."""
    sizes = {**names(0, range(10, 12)), HistoryFile("100", "119", 1): 1}
    assert plan_level_merge(sizes, files=2) is None
    assert plan_level_merge(names(9, range(10, 14)), files=2) is None
