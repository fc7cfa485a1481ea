"""The cache of one table: what outlives a call, for how long, and how much of it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

from lakeward.daemon.work.table_cache import TableCache, TableCaches
from lakeward.services.service import UNSAMPLED_MAX


def test_a_call_that_is_late_brings_nothing_back() -> None:
    """Keeps 1 of daemon/work/table_cache. The table was forgotten while a call was under way; the next call starts
    empty."""
    caches = TableCaches()
    late = caches.of("orders")
    late.unsampled.add(["1"])
    caches.forget("orders")
    late.unsampled.add(["2"])
    late.keep_newest_foreign(None)
    assert caches.find("orders") is None
    assert caches.of("orders").unsampled.instants == () and not caches.of("orders").foreign_is_known
    assert caches.of("orders") is caches.of("orders")


def test_threads_lose_nothing_of_each_other() -> None:
    """Keeps 2 of daemon/work/table_cache. While one call adds what it committed, another one of the table does so
    too."""
    cache = TableCache()
    other = Thread(target=cache.unsampled.add, args=(["other"],))

    def slowly() -> Iterator[str]:
        yield "one"
        other.start()
        other.join(0.05)  # it ends here only where nothing holds it back
        yield "two"

    cache.unsampled.add(slowly())
    other.join()
    assert cache.unsampled.instants == ("one", "two", "other")


def test_it_is_bounded() -> None:
    """Keeps 3 of daemon/work/table_cache. The newest instants stay; a sample removes those it was taken from, and what
    a job committed meanwhile stays."""
    cache = TableCache()
    cache.unsampled.add(str(number) for number in range(UNSAMPLED_MAX + 5))
    assert len(cache.unsampled.instants) == UNSAMPLED_MAX and cache.unsampled.instants[0] == "5"
    sampled = cache.unsampled.instants
    cache.unsampled.add(["new"])
    cache.unsampled.remove(sampled)
    assert cache.unsampled.instants == ("new",)
