"""The last folder of a base path, as a name."""

from __future__ import annotations

from lakeward.config.short_name import find_by_short_name

TABLES = {"orders": "/lake/old_orders", "/lake/trips": "/lake/trips/", "/a/orders": "/a/orders", "s3://b/x": "s3://b/x"}


def test_which_table_a_short_name_means() -> None:
    """A name goes before a short one; what several tables could be called is said of all of them."""
    assert find_by_short_name("orders", TABLES) == ("orders",)
    assert find_by_short_name("old_orders", TABLES) == ("orders",)
    assert find_by_short_name("trips", TABLES) == ("/lake/trips",)
    assert find_by_short_name("x", TABLES) == ("s3://b/x",)
    assert find_by_short_name("y", TABLES) == ()
    assert find_by_short_name("trips", {"a": "/a/trips", "b": "/b/trips"}) == ("a", "b")
