"""Reads of tables that engines reported."""

from __future__ import annotations

import random

import pytest

from lakeward.base.errors import UsageError
from lakeward.base.quantities import DAY_SECONDS
from lakeward.state.reads import PARTITIONS_MAX, READ_SECONDS
from lakeward.state.records import ReadsOfDay, Retention
from lakeward.state.store import Store, open_store
from tests.clocks import SettableClock

DAY = 20_000
AT = DAY * DAY_SECONDS


def record(
    store: Store, *paths: str, table: str = "t", requester: str = "bi", application: str = "a", at: float = AT
) -> int:
    return store.reads.record(table, paths, requester=requester, application=application, at=at)


def test_a_read_counts_once(store: Store) -> None:
    """Keeps 1 of state/reads: one requester, one application, one partition, ten minutes; however often it is
    reported, and beside others that are new."""
    assert record(store, "p", "q") == 2
    assert record(store, "p", "q", "r", at=AT + READ_SECONDS - 1) == 1
    assert record(store, "p", at=AT + READ_SECONDS) == 1
    assert record(store, "p", requester="other") == record(store, "p", application="b") == 1
    assert record(store, "p", table="u") == 1
    assert record(store, "p", at=AT + DAY_SECONDS) == 1
    assert store.reads.days("t", since_day=DAY) == (
        ReadsOfDay("p", DAY, 4),
        ReadsOfDay("p", DAY + 1, 1),
        ReadsOfDay("q", DAY, 1),
        ReadsOfDay("r", DAY, 1),
    )
    assert store.reads.days("t", since_day=DAY + 1) == (ReadsOfDay("p", DAY + 1, 1),)


def test_any_reads(store: Store) -> None:
    """Against a set of all that were reported."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance, known = random.Random(seed), set[tuple[str, str, int]]()
    for _ in range(40):
        paths = chance.sample("pqrs\udce4", chance.randrange(1, 4))
        requester, at = chance.choice("xy"), AT + READ_SECONDS * chance.randrange(4)
        new = {(path, requester, int(at)) for path in paths} - known
        assert record(store, *paths, requester=requester, at=at) == len(new), f"seed {seed}"
        known |= new
    assert sum(each.reads for each in store.reads.days("t", since_day=0)) == len(known), f"seed {seed}"


def test_partitions_of_a_day_are_bounded(store: Store) -> None:
    """Keeps 2 of state/reads. What is refused counts nothing, and nothing of it is known."""
    paths = [str(number) for number in range(PARTITIONS_MAX)]
    assert record(store, *paths) == PARTITIONS_MAX
    for _ in range(2):
        with pytest.raises(UsageError, match="more than 2000 partitions of t"):
            record(store, "0", "one more", at=AT + READ_SECONDS)
    assert record(store, "0", at=AT + READ_SECONDS) == 1
    assert record(store, "one more", at=AT + DAY_SECONDS) == record(store, "one more", table="u") == 1


def test_reads_are_forgotten(store: Store, url: str, clock: SettableClock) -> None:
    """Keeps 1 of state/store, for them; and those of another base path are of another table."""
    trimming = open_store(url, clock=clock, retention=Retention(read_days=3))
    store.observations.watch("t", "/lake/t", AT)
    record(store, "p")
    record(store, "p", at=AT + DAY_SECONDS)
    trimming.trim(AT + 3 * DAY_SECONDS)
    assert len(store.reads.days("t", since_day=0)) == 2
    assert record(store, "p", at=AT + DAY_SECONDS) == 0, "it is still known"
    assert trimming.trim(AT + 4 * DAY_SECONDS).rows["read_days"] == 1
    store.observations.watch("t", "/lake/other", AT)
    assert store.reads.days("t", since_day=0) == ()
    trimming.close()
