"""A decision from the words that it was written down in, by this release or another.

Touches: nothing.
Keeps:   1. what a later release decided, for a reason that this one does not know, is nothing that this one explains;
         2. a decision of another release with other figures is explained by choice and reason alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakeward.services.compaction.plan.decision import Choice, Decision, Reason
from lakeward.services.compaction.plan.explain import explain


class DecisionInWords(Protocol):
    @property
    def partition_path(self) -> str: ...
    @property
    def file_id(self) -> str: ...
    @property
    def choice(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def numbers(self) -> Mapping[str, int | float]: ...
    @property
    def instant(self) -> str | None: ...
    @property
    def instead_of(self) -> str | None: ...


def decision_of(words: DecisionInWords) -> Decision | None:
    """None where a later release wrote it down."""
    try:
        instead_of = Choice(words.instead_of) if words.instead_of is not None else None
        choice, reason = Choice(words.choice), Reason(words.reason)
    except ValueError:
        return None
    return Decision(words.partition_path, words.file_id, choice, reason, words.numbers, words.instant, instead_of)


def sentence_of(decision: Decision) -> str:
    """A sentence about a decision that was written down."""
    try:
        return explain(decision)
    except KeyError:
        return f"{decision.choice}: {decision.reason}."
