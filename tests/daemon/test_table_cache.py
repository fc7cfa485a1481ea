"""The cache of one table: what outlives a call, for how long, and how much of it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

from lakeward.daemon.table_cache import COMMITTED_MAX, TableCache, TableCaches
from tests.synthetic_table import file_group, minute


def test_a_call_that_is_late_brings_nothing_back() -> None:
    """Keeps 1 of daemon/table_cache. The table was forgotten while a call was under way; the next call starts empty."""
    caches = TableCaches()
    late = caches.of("orders")
    late.add_committed(["1"])
    caches.forget("orders")
    late.add_committed(["2"])
    late.keep_newest_foreign(None)
    assert caches.find("orders") is None
    assert caches.of("orders").committed == () and not caches.of("orders").foreign_is_known
    assert caches.of("orders") is caches.of("orders")


def test_threads_lose_nothing_of_each_other() -> None:
    """Keeps 2 of daemon/table_cache. While one call adds what it committed, another one of the table does so too."""
    cache = TableCache()
    other = Thread(target=cache.add_committed, args=(["other"],))

    def slowly() -> Iterator[str]:
        yield "one"
        other.start()
        other.join(0.05)  # it ends here only where nothing holds it back
        yield "two"

    cache.add_committed(slowly())
    other.join()
    assert cache.committed == ("one", "two", "other")


def test_it_is_bounded() -> None:
    """Keeps 3 of daemon/table_cache. The newest instants stay; a sample removes those it was taken from, and what a
    job committed meanwhile stays."""
    cache = TableCache()
    cache.add_committed(str(number) for number in range(COMMITTED_MAX + 5))
    assert len(cache.committed) == COMMITTED_MAX and cache.committed[0] == "5"
    sampled = cache.committed
    cache.add_committed(["new"])
    cache.remove_committed(sampled)
    assert cache.committed == ("new",)
    cache.keep_metadata_plans({"1.commit": object()})
    taken = cache.metadata_plans()
    taken.clear()
    assert len(cache.metadata_plans()) == 1, "a call changes its own copy"


def test_a_group_is_taken_whole_until_it_has_another_base() -> None:
    """What a compaction found in the logs of a slice holds for that slice, whatever comes into it."""
    cache = TableCache()
    old, other = (file_group("p", f"{name}-0", base=(minute(10), 9), logs=[(minute(20), 1)]).slices[0] for name in "ab")
    cache.keep_whole({("p", "a-0")}, [old, other])
    assert cache.whole([old, other]) == {("p", "a-0")}
    new = file_group("p", "a-0", base=(minute(30), 9), logs=[]).slices[0]
    assert cache.whole([new, other]) == set()
    cache.keep_whole({("p", "b-0")}, [old, other])
    assert cache.whole([old, other]) == {("p", "a-0"), ("p", "b-0")}
