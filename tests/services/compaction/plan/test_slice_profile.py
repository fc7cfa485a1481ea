"""Sizes, counts and live logs of a slice, from names and listings."""

from __future__ import annotations

from lakeward.services.compaction.plan.log_runs import files_of_run
from lakeward.services.compaction.plan.slice_profile import SliceProfile, profile_slice
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.synthetic_table import file_group, minute


def profile(
    logs: list[tuple[int, int]], *merged: tuple[int, tuple[int, ...]], late: tuple[int, ...] = ()
) -> SliceProfile:
    """`logs` are minutes with sizes; `merged` are outputs with their sources."""
    group = file_group("p", "g", base=(minute(1), 1000), logs=[(minute(time), size) for time, size in logs])
    compactions = [
        LogCompaction(minute(output), frozenset(f".g_{minute(source)}.log.1_0-0-0" for source in sources))
        for output, sources in merged
    ]
    return profile_slice(group.slices[0], compactions, late=frozenset(minute(time) for time in late))


def live(of: SliceProfile) -> list[str]:
    return [log.instant for log in of.live]


def test_sizes_and_counts() -> None:
    """Total, median and largest of the logs, and the writes they came from."""
    odd = profile([(2, 5), (3, 1), (4, 100)])
    assert (odd.base_bytes, odd.log_bytes, odd.median_log_bytes, odd.largest_log_bytes) == (1000, 106, 5, 100)
    assert odd.delta_commits == 3
    assert profile([(2, 5), (3, 2)]).median_log_bytes == 3.5
    empty = profile([])
    assert (empty.log_bytes, empty.median_log_bytes, empty.largest_log_bytes) == (0, 0, 0)


def test_logs_that_completed_too_late_are_not_there() -> None:
    """They are in no number and can be in no operation."""
    some = profile([(2, 5), (3, 7)], late=(3,))
    assert (some.log_bytes, len(some.log_files), some.delta_commits) == (5, 1, 1)


def test_an_output_is_live_in_its_sources_stead() -> None:
    """Keeps 2 of table/live_logs: at the place of the newest of them; it is no delta commit, its sources stay
    ones."""
    merged = profile([(2, 5), (3, 7), (4, 1), (5, 9)], (5, (2, 3)))
    assert live(merged) == [minute(5), minute(4)]
    assert [merged.place(log) for log in merged.live] == [minute(3), minute(4)]
    assert (merged.log_bytes, merged.delta_commits, len(merged.log_files)) == (10, 3, 4)
    assert [log.instant for log in merged.logs.superseded] == [minute(2), minute(3)]


def test_an_output_of_an_output_is_at_the_place_of_what_was_written() -> None:
    """The first output's own instant says nothing about its rows."""
    merged = profile([(2, 1), (3, 1), (4, 1), (10, 2), (20, 3)], (10, (2, 3)), (20, (2, 3, 4, 10)))
    assert live(merged) == [minute(20)]
    assert merged.place(merged.live[0]) == minute(4)


def test_an_output_without_its_sources_has_no_effect() -> None:
    """Keeps 1 of table/live_logs: A FULL took them into the base; what the output holds is there too."""
    late = profile([(4, 1), (5, 9)], (5, (2, 3)))
    assert live(late) == [minute(4)]
    assert [log.instant for log in late.logs.superseded] == [minute(5)]


def test_a_log_compaction_whose_output_is_not_in_the_slice_says_nothing() -> None:
    """It may have been rolled back, or lie in another slice: then its sources are live."""
    assert live(profile([(2, 5), (3, 7)], (5, (2, 3)))) == [minute(2), minute(3)]


def test_many_log_compactions_on_each_other_are_shown_in_no_time() -> None:
    """Each names all logs before it, outputs included, so following every path would take twice as long with each."""
    outputs = [(time, tuple(range(2, time))) for time in range(10, 90, 4)]
    stacked = profile([(time, 1) for time in range(2, 90)], *outputs)
    files = files_of_run(stacked, stacked.live)
    assert live(stacked)[0] == minute(86)
    assert files == stacked.log_files


def test_a_log_of_changes_is_neither_live_nor_superseded() -> None:
    """Keeps 1 of table/live_logs: no reader of rows opens it, and no write of rows put it there."""
    group = file_group(
        "p", "g", base=(minute(1), 1000), logs=[(minute(2), 5)], changes=[(minute(1), 700), (minute(3), 700)]
    )
    for compactions in ((), [LogCompaction(minute(9), frozenset())]):
        found = profile_slice(group.slices[0], compactions)
        assert (live(found), found.logs.superseded, found.log_bytes, found.delta_commits) == ([minute(2)], (), 5, 1)
        assert len(found.log_files) == 3
