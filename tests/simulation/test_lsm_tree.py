"""A table of the layout `lsm_tree`, with everything that happens to its logs in an order by chance."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.runs import runs
from tests.simulation.lsm_tree import LsmTree

STEPS = 60


@pytest.mark.slow
@pytest.mark.turns(19)
def test_queries_read_what_they_listed(tmp_path: Path) -> None:
    """Whatever retires, is cleaned or compacted meanwhile: a query that runs no longer than the reader window finds the
    rows that were there when it listed the table, and a reader that lists now those that are there now."""
    first = int(os.environ.get("LAKEWARD_SEED") or secrets.randbelow(1_000_000))
    done = Counter[str]()
    for seed in range(first, first + runs(1)):
        print(f"LAKEWARD_SEED={seed}")
        done += LsmTree(tmp_path / str(seed), Random(seed)).live(STEPS).done
    print(dict(done))


@pytest.mark.wide
def test_each_thing_happens(tmp_path: Path) -> None:
    """Or the test above proves nothing."""
    done = Counter[str]()
    for seed in range(2):
        done += LsmTree(tmp_path / str(seed), Random(seed)).live(STEPS).done
    assert all(done[each] for each in ("LOG", "FULL", "retired", "cleaned", "purged runs", "queries", "archived")), done
