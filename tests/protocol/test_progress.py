"""The figures of a merge: one definition for the terminal, the page and JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.protocol.progress import RATE_SECONDS, Merged, MergePace

MIB = 2**20
HALF = Merged(1, 4, 50 * MIB, 100 * MIB, 20 * MIB)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """What is slow now is not hidden by what was fast; in the first seconds, and where nothing moves, none is shown."""
    pace, state = MergePace(is_within_slices=True), replace(HALF, input_bytes_total=10_000 * MIB)
    rates = []
    for at in range(40):
        done = 100 * MIB * at if at <= 20 else 2000 * MIB + 10 * MIB * (at - 20)
        rates.append(pace.of(replace(state, input_bytes=done), float(at)))
    assert [each.bytes_per_second for each in rates[:3]] == [None, None, None]
    assert rates[3].bytes_per_second == 100 * MIB and rates[3].seconds_left == 97.0
    assert rates[39].bytes_per_second == 10 * MIB
    assert rates[39].seconds_left == pytest.approx(7810 / (2190 / 39)), "that uses more than the last seconds"
    stopped = [pace.of(replace(state, input_bytes=2190 * MIB), 40.0 + at) for at in range(int(RATE_SECONDS) + 1)]
    assert stopped[-1].bytes_per_second == 0.0 and stopped[-1].seconds_left is None


def test_reports_of_many_a_second_cost_no_more() -> None:
    """The pace keeps a few samples a second, however often it is asked."""
    pace = MergePace(is_within_slices=True)
    for number in range(20_000):
        shown = pace.of(replace(HALF, input_bytes=number * 1000), number / 1000)
    assert shown.bytes_per_second == pytest.approx(1_000_000, rel=0.05)
    assert len(pace._read._seen) < 60


def test_where_all_is_read_the_rest_is_named() -> None:
    """First writing, whose end is not known before, then verifying, whose end is."""
    pace, all_read = MergePace(is_within_slices=True), replace(HALF, input_bytes=100 * MIB)
    assert (HALF.doing, all_read.doing) == ("merging", "writing")
    for at in range(5):
        writing = pace.of(replace(all_read, output_bytes=(20 + at) * MIB), float(at))
    assert (writing.bytes_per_second, writing.seconds_left) == (MIB, None)
    for at in range(5, 15):
        verifying = pace.of(replace(all_read, output_bytes=24 * MIB, verified_bytes=(at - 4) * MIB), float(at))
    assert verifying.sentence == (
        "verifying, 100%: read 100.0 MiB, wrote 24.0 MiB, verified 10.0 MiB, 1.0 MiB/s, 1 of 4 slices, 14 s left"
    )
    assert (verifying.doing, verifying.bytes_per_second, verifying.seconds_left) == ("verifying", MIB, 14.0)
    assert replace(all_read, operations=4, verified_bytes=1).doing == "merging"


def test_whole_slices_say_nothing_of_the_time_before_there_are_two() -> None:
    """Only what is finished is known of tasks on other machines; the view says so."""
    pace = MergePace(is_within_slices=False)
    elsewhere = replace(HALF, is_within_slices=False, output_bytes=0)
    pace.of(replace(elsewhere, operations=0, input_bytes=0), 0.0)
    first = pace.of(replace(elsewhere, operations=1, input_bytes=25 * MIB), 60.0)
    assert (first.bytes_per_second, first.seconds_left) == (None, None)
    second = pace.of(replace(elsewhere, operations=2), 100.0)
    assert second.seconds_left == 100.0
    assert second.sentence == (
        "merging, 50%: read 50.0 MiB of 100.0 MiB (finished slices only), 512.0 KiB/s, 2 of 4 slices, 1 min left"
    )


def test_the_sentence_leaves_out_what_is_not_known() -> None:
    assert HALF.sentence == "merging, 50%: read 50.0 MiB of 100.0 MiB, wrote 20.0 MiB, 1 of 4 slices"
