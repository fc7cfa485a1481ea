"""An index grows where it is full, in the way that was chosen, and says why."""

import pytest

from lakeward.index.record.index_growth import GroupLoad, OpenGroup, Scaling, ScalingWay, Seal, grow


@pytest.mark.parametrize(
    "entries, done",
    [
        ([10, 99, 0], None),
        ([10, 100, 0], (Seal(0, 1, "100 entries of 100"),)),
        ([120, 99, 100], (Seal(0, 0, "120 entries of 100"), Seal(0, 2, "100 entries of 100"))),
        ([99, 99, 99], None),
    ],
)
def test_sealing(entries, done):
    """Only buckets whose file group is full get another, however full the others are."""
    assert grow([GroupLoad(0, entries)], Scaling(ScalingWay.SEAL, entries_max=100)) == done


@pytest.mark.parametrize(
    "entries, done",
    [
        ([79, 79, 79], None),
        ([80, 80, 80], OpenGroup(3, 5, "mean load 80% of 80%")),
        ([40, 100, 90], OpenGroup(3, 5, "bucket 1 has 100 entries of 100")),
        ([0, 99, 0], None),
    ],
)
def test_opening_a_group(entries, done):
    """At four fifths of the mean, or when one bucket is full; with as many buckets as all before it."""
    assert grow([GroupLoad(1, [100, 100]), GroupLoad(2, entries)], Scaling(ScalingWay.GROUP, entries_max=100)) == done
