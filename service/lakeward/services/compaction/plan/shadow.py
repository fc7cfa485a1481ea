"""What the policy `cost` would decide, beside what is decided, while it does not act yet.

    decided by rfc-103    decided by cost      the decision that is recorded
    FULL small-base       NONE does-not-pay    FULL small-base, and among its numbers the other and its price

Touches: nothing.
Keeps:   1. what is done, and why, is what it was without.
See:     docs/decisions/0176-shadow-first.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakeward.base.quantities import format_duration
from lakeward.services.compaction.plan.decision import Choice, Decision, PlanOutcome

_BY_COST = "by_cost_"
_PRICES = ("reads_per_day", "core_seconds", "read_saved_seconds", "pays_back_seconds")
"""Numbers of the other decision that are recorded, too."""


def with_shadow(outcome: PlanOutcome, by_cost: PlanOutcome) -> PlanOutcome:
    """
    Args:
        by_cost: what that policy decided of the same snapshot.
    """
    others = {(each.partition_path, each.file_id): each for each in by_cost.decisions}
    return replace(outcome, decisions=tuple(_beside(each, others) for each in outcome.decisions))


def _beside(decision: Decision, others: Mapping[tuple[str, str], Decision]) -> Decision:
    other = others[decision.partition_path, decision.file_id]
    if "reads_per_day" not in other.numbers:  # neither policy may touch it
        return decision
    found = {f"{_BY_COST}{name}": other.numbers[name] for name in _PRICES if name in other.numbers}
    return replace(decision, numbers={**decision.numbers, f"{_BY_COST}{other.choice.lower()}": 1, **found})


def shadow_sentence(numbers: Mapping[str, int | float]) -> str:
    """The end of a sentence about a decision that has both; empty where it has one."""
    choice = next((each for each in Choice if f"{_BY_COST}{each.lower()}" in numbers), None)
    if choice is None:
        return ""
    back = numbers.get(f"{_BY_COST}pays_back_seconds")
    price = "" if back is None else f", as a merge pays back in {format_duration(back)}"
    return f"; the policy cost, which does not act yet, would choose {choice}{price}"
