from __future__ import annotations

from lakeward.daemon.scheduling.tracked_table import Parking

ONE, TWO = ("p=1", "f1"), ("p=1", "f2")


def test_counts_in_a_row():
    """Failures of a group count until a job went well without it."""
    parking = Parking()
    assert [parking.count(ONE), parking.count(TWO), parking.count(ONE)] == [1, 1, 2]

    parking.forgive_all_but({TWO})

    assert [parking.count(ONE), parking.count(TWO)] == [1, 2]


def test_half_open_after_its_time():
    """After its time a group is not parked, and one more failure is one too many."""
    parking = Parking()
    parking.park(ONE, "torn", until=10.0)
    assert parking.next_expiry() == 10.0
    assert parking.expire(9.9, failures_max=3) == []

    assert [group.file_group for group in parking.expire(10.0, failures_max=3)] == [ONE]
    assert parking.parked == {}
    assert parking.count(ONE) == 3


def test_unparked_without_blame():
    """A group that an operator unparks starts from nothing; one that was not parked is not unparked."""
    parking = Parking()
    parking.count(ONE)
    parking.park(ONE, "torn", until=10.0)

    assert parking.unpark(ONE)
    assert not parking.unpark(ONE)
    assert parking.count(ONE) == 1
