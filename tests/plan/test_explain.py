"""What the sentences promise; how each reads is in `hybrid_compaction.cases`."""

from __future__ import annotations

from pathlib import Path

from lakeward.plan.explain import explain
from lakeward.plan.full_compaction import plan_full_compaction
from lakeward.plan.selection import GroupFilter
from tests.plan.planner_cases import read_cases, read_table
from tests.synthetic_table import file_group, minute, snapshot_of

CASES = Path(__file__).with_name("hybrid_compaction.cases")


def test_one_sentence() -> None:
    """One line, one full stop, no number that nobody can read."""
    for case in read_cases(CASES)[1]:
        for decision in read_table(case.table).plan().decisions:
            sentence = explain(decision)
            assert sentence.endswith(".") and sentence.count(". ") == 0 and "\n" not in sentence
            assert sentence.startswith(decision.choice.value)


def test_a_decision_of_full_compaction_has_its_sentence() -> None:
    """It rests on fewer numbers."""
    groups = [file_group("p", "a", base=(minute(1), 9), logs=[(minute(2), 1)])]
    (decision,) = plan_full_compaction(snapshot_of(groups, []), GroupFilter()).decisions
    assert explain(decision) == "FULL, base and logs into a new base: it was asked for, and there is 1 log of 1 B."
