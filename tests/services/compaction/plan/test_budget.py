"""What fits into one plan."""

from __future__ import annotations

from lakeward.services.compaction.plan.budget import BUDGET_BYTES, within_budget


def test_the_default_is_hudis() -> None:
    """hoodie.compaction.target.io is 512000, and its megabytes are MiB."""
    assert BUDGET_BYTES == 512000 * 1024 * 1024


def test_operations_are_taken_in_order_while_they_fit() -> None:
    """Keeps 1 and 2 of services/compaction/plan/budget: A budget that is met to the byte is met; a later one that fits
    is not kept out by one that does not."""
    assert within_budget({0: 4, 1: 6, 2: 1}, [0, 1, 2], 10) == [0, 1]
    assert within_budget({0: 4, 1: 7, 2: 1}, [0, 1, 2], 10) == [0, 2]
    assert within_budget({0: 4, 1: 7, 2: 1}, [2, 1, 0], 10) == [2, 1]


def test_the_first_is_taken_whatever_its_size() -> None:
    """It would wait forever otherwise."""
    assert within_budget({0: 99, 1: 1}, [0, 1], 10) == [0]
    assert within_budget({}, [], 10) == []
