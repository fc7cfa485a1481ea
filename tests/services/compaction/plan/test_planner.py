"""From words to a planner."""

from __future__ import annotations

import pytest

from lakeward.base.errors import UsageError
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import merge_settings, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter


def test_a_later_layer_wins_also_under_another_name() -> None:
    """Two keys of one setting never stand side by side after a merge."""
    below = {"planner.budget": "1GiB", "planner.log_ratio": "1"}
    above = {"hoodie.compaction.target.io": "5"}
    assert merge_settings(below, above) == {"planner.log_ratio": "1", "hoodie.compaction.target.io": "5"}
    assert merge_settings(above, below) == below
    assert merge_settings(below, {}, {"planner.log_ratio": "2"}) == {"planner.budget": "1GiB", "planner.log_ratio": "2"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.compaction.target.io", "lots"),
        ("hoodie.compaction.target.io", "-1"),
        ("hoodie.compaction.logfile.num.threshold", "1.5"),
        ("planner.log_ratio", "nan"),
        ("planner.log_ratio", "-1"),
        ("planner.log_ratio", "half"),
    ],
)
def test_numbers_that_make_no_sense(key: str, value: str) -> None:
    """Are refused with what would."""
    with pytest.raises(UsageError, match="Write a"):
        planner_of(CompactionType.HYBRID, GroupFilter(), {key: value})
