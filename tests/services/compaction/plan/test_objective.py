"""When the objective makes file groups due; what a plan then does are cases in `hybrid_compaction.cases`."""

from __future__ import annotations

import os
import random
from collections import Counter

from lakeward.services.compaction.plan.objective import SLOTS, due_seconds

DAY = 86400.0


def test_a_group_is_due_within_the_last_tenth_and_with_time_to_spare() -> None:
    """Keeps 1 of services/compaction/plan/objective: whenever its record was committed and however long the objective
    is."""
    seed = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = random.Random(seed)
    for _ in range(3000):
        objective = chance.choice([60.0, 120.0, 3600.0, DAY, 30 * DAY, chance.uniform(1.0, DAY)])
        since = chance.randrange(1_700_000_000, 1_900_000_000)
        due = due_seconds(("p", str(chance.random())), since=since, objective=objective)
        assert 0.9 * objective <= due < 0.97 * objective + 1


def test_groups_of_one_commit_are_spread() -> None:
    """Keeps 2 of services/compaction/plan/objective: a hundred groups fall due at a few moments, each a part of
    them."""
    groups = [("p", f"{number:04}-0") for number in range(100)]
    due = [due_seconds(group, since=1_800_000_000, objective=DAY) for group in groups]
    assert due == [due_seconds(group, since=1_800_000_000, objective=DAY) for group in groups]
    moments = Counter(due)
    assert len(moments) == SLOTS and max(moments.values()) < 30
    assert sorted(moments) == list(range(min(due), max(due) + 1, 864))


def test_groups_of_many_commits_gather() -> None:
    """A table that is written every minute has no plan of its own for each minute of the next day."""
    moments = {
        since + due_seconds(("p", f"{since}-0"), since=since, objective=DAY)
        for since in range(1_800_000_000, 1_800_086_400, 60)
    }
    assert len(moments) <= 110


def test_a_name_that_is_no_text_has_a_moment() -> None:
    """Partition paths are bytes on storage."""
    assert due_seconds(("\udcff", "a-0"), since=0, objective=DAY) > 0
