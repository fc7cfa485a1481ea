"""One piece of work of a kind at a time."""

from __future__ import annotations

from lakeward.daemon.loop.under_way import SingleFlight


def test_one_is_under_way_at_a_time() -> None:
    """Keeps 1 of daemon/loop/under_way. The next one begins after the result of the first, good or bad."""
    flight = SingleFlight()
    assert flight.begin() and flight.is_under_way
    assert not flight.begin() and not flight.begin()
    flight.end()
    assert not flight.is_under_way and flight.begin()


def test_what_was_asked_for_meanwhile_is_said_once() -> None:
    """Keeps 2 of daemon/loop/under_way. The work that `end` asks for stands for all calls that came in between."""
    flight = SingleFlight()
    flight.begin()
    assert not flight.end()
    flight.begin()
    flight.begin()
    flight.begin()
    assert flight.end() and flight.begin() and not flight.end()
