"""How long something was seen unchanged."""

from __future__ import annotations

from lakeward.protocol.times.stillness import NAMES_MAX, Stillness


def test_what_changes_begins_again() -> None:
    """Time counts from the first look at what it is now, for each name by itself. Keeps 1 of
    protocol/times/stillness."""
    stillness = Stillness()
    assert stillness.seconds("a", 1, monotonic=100.0) == 0.0
    assert stillness.seconds("b", 1, monotonic=105.0) == 0.0
    assert stillness.seconds("a", 1, monotonic=110.0) == 10.0
    assert stillness.seconds("a", 2, monotonic=120.0) == 0.0
    assert stillness.seconds("a", 1, monotonic=130.0) == 0.0
    assert stillness.seconds("b", 1, monotonic=130.0) == 25.0


def test_what_it_remembers_is_bounded() -> None:
    """What was asked for longest ago is forgotten, and watched again. Keeps 2 of protocol/times/stillness."""
    stillness = Stillness()
    for name in range(NAMES_MAX + 1):
        stillness.seconds(str(name), 1, monotonic=0.0)
    assert stillness.seconds(str(NAMES_MAX), 1, monotonic=5.0) == 5.0
    assert stillness.seconds("0", 1, monotonic=5.0) == 0.0
