"""A table that is serviced for thousands of commits: what it holds stays bounded, and every row is right.

CI has time for some hundred; `LAKEWARD_RUNS=10000` (`make long-life`) runs as many.
"""

from __future__ import annotations

import random

import pytest

from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.compaction.plan.compaction_type import CompactionType
from tests.life.model import Life
from tests.life.small_table import BASE, TIMELINE, Kind, SmallTable, without_threads
from tests.runs import runs

COMMITS = 200
RETAINED = 10
EVERY = 5
"""Commits from one round of services to the next."""
SECONDS = 60.0
"""From one commit to the next."""

FILES_MAX = 250
"""Data files. Where a round compacts no log of a file group its slice is kept whole, so there are mostly 40 to 90 of
them and now and then more: up to 144 were seen in 3,300 commits."""
TIMELINE_MAX = 220
"""Files of the active timeline: three for each of some 40 commits, and as many of the services beside them."""
METADATA_MAX = 300
"""Files of the metadata table and its timeline: up to 213 were seen in 4,000 commits."""
FEW, HUDIS, ALONE = (4, 6), (20, 30), None
"""Commits of the metadata table that its writers keep, at least and at most. Of few, Hudi's cleaner deletes nothing.
ALONE: none of its writers archives."""


def bytes_of_data(life: Life) -> tuple[int, int]:
    """Files and bytes of the table's partitions."""
    storage = life.table.storage
    sizes = [status.size for partition in life.table.partitions for status in storage.list(f"{BASE}/{partition}")]
    return len(sizes), sum(sizes)


def metadata_files(life: Life) -> int:
    """Files of the metadata table, those of its timeline among them."""
    metadata, storage = life.table.metadata, life.table.storage
    return len(storage.names(metadata.timeline)) + len(storage.names(f"{metadata.path}/files"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (Kind.MERGE_ON_READ, FEW),
        (Kind.WITH_METADATA, ALONE),
        pytest.param(Kind.WITH_METADATA, FEW, marks=pytest.mark.wide),
        pytest.param(Kind.WITH_METADATA, HUDIS, marks=pytest.mark.wide),
    ],
)
def test_storage_is_bounded(kind: Kind, kept: tuple[int, int] | None) -> None:
    """After every round there is no more than after the first few, whatever was written meanwhile."""
    chance = random.Random(1)
    life = Life(SmallTable(kind))
    life.table.storage.watch = lambda change, path: None  # held against the model after each round
    policy = CleanPolicy(CleanPolicyKind.COMMITS, RETAINED)
    early = 0
    with without_threads():
        life.write(range(life.table.keys))
        for number in range(1, runs(COMMITS) + 1):
            life.write(chance.sample(range(life.table.keys), 3))
            life.table.clock.sleep(SECONDS)
            if number % EVERY:
                continue
            life.table.compact(chance.choice([CompactionType.HYBRID, CompactionType.FULL]))
            life.learn()
            life.will_clean(policy)
            life.table.clean(policy)
            life.learn()
            life.table.archive(ArchiveOptions())
            if life.table.metadata.is_there:
                if kept is not None:
                    life.table.metadata.archive(*kept)
                life.table.service_metadata()
                assert metadata_files(life) <= METADATA_MAX, (number, metadata_files(life))
            life.check()
            instants = len(life.table.storage.names(TIMELINE))
            assert instants <= TIMELINE_MAX, (number, instants)
            files, size = bytes_of_data(life)
            early = max(early, size) if number <= 20 * EVERY else early
            assert files <= FILES_MAX and (number <= 20 * EVERY or size <= 2 * early), (number, files, size)
