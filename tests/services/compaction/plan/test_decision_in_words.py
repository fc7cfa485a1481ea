"""Decisions that were written down."""

from __future__ import annotations

from dataclasses import replace

from lakeward.services.compaction.plan.decision import Choice, Decision, Reason
from lakeward.services.compaction.plan.decision_in_words import decision_of, sentence_of
from lakeward.services.compaction.plan.explain import explain
from lakeward.state.records import DecisionRecord

WORDS = DecisionRecord("p", "fg1", "NONE", "no-logs", {"base_bytes": 1000}, "t1", "FULL")
DECISION = Decision("p", "fg1", Choice.NONE, Reason.NO_LOGS, {"base_bytes": 1000}, "t1", Choice.FULL)


def test_what_this_release_decided() -> None:
    assert decision_of(WORDS) == DECISION
    assert decision_of(replace(WORDS, instead_of=None)) == replace(DECISION, instead_of=None)


def test_what_a_later_release_decided() -> None:
    """Keeps 1 of services/compaction/plan/decision_in_words."""
    for name in ("choice", "reason", "instead_of"):
        assert decision_of(replace(WORDS, **{name: "of-a-later-release"})) is None


def test_what_another_release_had_no_figure_for() -> None:
    """Keeps 2 of services/compaction/plan/decision_in_words."""
    assert sentence_of(DECISION) == explain(DECISION)
    assert sentence_of(replace(DECISION, choice=Choice.FULL, reason=Reason.LOG_RATIO)) == "FULL: log-ratio."
