"""What a clustering learns of the writers beside it."""

from __future__ import annotations

from lakeward.services.clustering.plan.pauses import BYTES_FIRST, BYTES_MAX, BYTES_MIN, WriterPauses

PATHS = ("p", "q")


def test_what_was_published_grows() -> None:
    """Keeps 2 and 3 of services/clustering/plan/pauses: it doubles up to a bound, and failures are forgotten."""
    pauses = WriterPauses().not_found("busy", 0.0)
    assert (pauses.given_up, pauses.until) == (1, 60.0)
    pauses = pauses.published()
    assert (pauses.given_up, pauses.until, pauses.why, pauses.bytes_max) == (0, 0.0, "", 2 * BYTES_FIRST)
    for _ in range(40):
        pauses = pauses.published()
    assert pauses.bytes_max == BYTES_MAX


def test_each_while_is_longer_and_ends() -> None:
    """Keeps 2 of services/clustering/plan/pauses: one minute, two, four, up to an hour."""
    pauses, whiles = WriterPauses(), []
    for _ in range(9):
        pauses = pauses.not_found("busy", 1000.0)
        whiles.append(pauses.until - 1000.0)
    assert whiles == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert pauses.next_try(1000.0) == 4600.0 and pauses.next_try(4600.0) is None


def test_a_partition_in_which_a_writer_was_met_rests() -> None:
    """Keeps 1 and 3 of services/clustering/plan/pauses: that one alone, and half as much is taken; what a clustering
    that found little took counts, not what it might have."""
    pauses = WriterPauses().met_writer("p", BYTES_FIRST, "met", 0.0)
    assert pauses.free(PATHS, 59.0) == {"q"} and pauses.free(PATHS, 60.0) == {"p", "q"}
    assert (pauses.bytes_max, pauses.until, pauses.given_up) == (BYTES_FIRST // 2, 0.0, 1)
    assert pauses.next_try(0.0) == 60.0
    again = pauses.published().met_writer("p", BYTES_MIN, "met", 100.0)
    assert again.free(PATHS, 219.0) == {"q"} and again.bytes_max == BYTES_MIN
    assert WriterPauses().met_writer(None, BYTES_FIRST, "met", 0.0).until == 60.0
