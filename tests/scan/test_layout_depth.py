"""Depth and overlap of file groups by the ranges of a column."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeward.scan.layout_depth import GroupRange, estimate_clustering, measure_depth


def ranges(*ends: tuple[object, object] | None, partition: str = "p") -> list[GroupRange]:
    return [GroupRange(partition, 100, each) for each in ends]


def test_the_example_of_the_header() -> None:
    """Four file groups, of which three share a value."""
    found = measure_depth(ranges(("a", "g"), ("d", "m"), ("f", "h"), ("l", "z")))
    assert found is not None
    assert (found.mean_depth, found.depth_max, found.mean_overlap) == ((3 + 3 + 3 + 2) / 4, 3, (2 + 3 + 2 + 1) / 4)
    assert found.histogram == ((1, 0), (2, 1), (4, 3))
    # Ends a d f g h l m z lie in 1, 2, 3, 3, 2, 2, 2, 1 ranges.
    assert (found.groups_read, found.groups_of, found.bytes_share) == (2.0, 4.0, 0.5)


def test_partitions_are_apart() -> None:
    """Equal ranges in two partitions share nothing; what is read is a share of a partition."""
    found = measure_depth([*ranges((1, 5), (6, 9), partition="a"), *ranges((1, 5), partition="b")])
    assert found is not None
    assert (found.depth_max, found.mean_overlap, found.groups_read) == (1, 0.0, 1.0)
    assert found.bytes_share == (4 * 0.5 + 2 * 1.0) / 6


def test_a_range_that_is_not_known_holds_everything() -> None:
    """Keeps 2 of scan/layout_depth."""
    found = measure_depth(ranges((1, 2), (3, 4), None))
    assert found is not None
    assert (found.known, found.groups, found.depth_max, found.mean_depth, found.groups_read) == (2, 3, 2, 2.0, 2.0)
    assert found.mean_overlap == (1 + 1 + 2) / 3
    assert measure_depth(ranges(None, None)) is None
    # A partition of which nothing is known, beside one of which something is.
    beside = measure_depth([*ranges((1, 2)), *ranges(None, None, partition="q")])
    assert beside is not None and (beside.depth_max, beside.mean_overlap) == (2, 2 / 3)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=40))
def test_they_are_those_of_comparing_each_pair(spans: list[tuple[int, int]]) -> None:
    """Keeps 1 of scan/layout_depth."""
    ends = [(low, low + length) for low, length in spans]
    found = measure_depth(ranges(*ends))
    assert found is not None
    depths = [max(sum(low <= at <= high for low, high in ends) for at in {*range(own[0], own[1] + 1)}) for own in ends]
    overlaps = [sum(low <= own[1] and own[0] <= high for low, high in ends) - 1 for own in ends]
    values = {value for pair in ends for value in pair}
    reads = [sum(low <= value <= high for low, high in ends) for value in values]
    assert found.mean_depth == sum(depths) / len(ends) and found.depth_max == max(depths)
    assert found.mean_overlap == sum(overlaps) / len(ends)
    assert abs(found.groups_read - sum(reads) / len(values)) < 1e-9
    assert sum(groups for _, groups in found.histogram) == len(ends)


def test_the_estimate_is_of_the_target_that_clustering_has() -> None:
    """A partition becomes as many file groups as hold it at the target's size, and a filter reads the side of a cube of
    them."""
    sizes = [("p", 60)] * 8 + [("q", 10)]
    by_one, by_two = (estimate_clustering(sizes, columns, target_bytes=120) for columns in (1, 2))
    assert (by_one.bytes, by_one.groups_before, by_one.groups_after, by_one.groups_read) == (490, 9, 5, 1.0)
    assert (by_two.groups_after, by_two.groups_read) == (5, 1.5)
    assert estimate_clustering(sizes, 1, target_bytes=480).groups_after == 2
