"""What the sentences promise; how each reads is in `hybrid_compaction.cases`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakeward
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.compaction.plan.explain import explain
from tests.services.compaction.plan.planner_cases import read_cases, read_table

CODE = Path(lakeward.__file__).parent
EXPLAIN = CODE / "services" / "compaction" / "plan" / "explain.py"
CASES = Path(__file__).with_name("hybrid_compaction.cases")


def test_one_sentence() -> None:
    """One line, one full stop, no number that an operator cannot read."""
    for case in read_cases(CASES)[1]:
        for decision in read_table(case.table).plan().decisions:
            sentence = explain(decision)
            assert sentence.endswith(".") and sentence.count(". ") == 0 and "\n" not in sentence
            assert sentence.startswith(decision.choice.value)


@pytest.mark.slow
def test_the_reasons_that_code_gives_are_those_that_explain_names() -> None:
    """Keeps of services/compaction/plan/explain: a reason that no code gives has no sentence, and one that is given has
    one."""
    given = {name for path in CODE.rglob("*.py") if path != EXPLAIN for name in reasons_given(path)}
    assert given == reasons_in_matches(EXPLAIN) == set(Reason.__members__)


def reasons_given(path: Path) -> Iterator[str]:
    """The members of `Reason` that a file uses otherwise than to compare with them."""
    tree = ast.parse(path.read_text())
    compared = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.MatchValue) for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) not in compared and (name := reason_named_by(node)) is not None:
            yield name


def reasons_in_matches(path: Path) -> set[str]:
    cases = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.MatchValue)]
    return {name for value in cases if (name := reason_named_by(value)) is not None}


def reason_named_by(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason":
        return node.attr
    return None
