"""How much is kept where no setting says so."""

from __future__ import annotations

from datetime import UTC

import pytest

from lakeward.services.clean.plan.adopted import RETAINED, adopt_retention
from lakeward.services.clean.plan.policy import HUDI_NAMES, CleanPolicy, CleanPolicyKind
from lakeward.table.timeline.cleans import CleanRetention
from tests.services.clean.plan.clean_cases import read_table
from tests.synthetic_table import minute

TIMELINE = read_table("done commit " + " ".join(str(number) for number in range(10, 310, 10))).snapshot().timeline
"""Thirty commits."""


def given(kind: CleanPolicyKind, earliest: int | None, *, last: int = 300, at: int = 305) -> CleanRetention:
    named = "" if earliest is None else minute(earliest)
    return CleanRetention(minute(at), HUDI_NAMES[kind], named, minute(last))


@pytest.mark.parametrize(
    ("clean", "policy"),
    [
        (None, CleanPolicy()),
        (given(CleanPolicyKind.COMMITS, 100), CleanPolicy(CleanPolicyKind.COMMITS, 21)),
        (given(CleanPolicyKind.COMMITS, 100, last=200), CleanPolicy(CleanPolicyKind.COMMITS, 11)),
        (given(CleanPolicyKind.COMMITS, 280), CleanPolicy()),
        (given(CleanPolicyKind.COMMITS, 105), None),
        (given(CleanPolicyKind.COMMITS, None), None),
        (given(CleanPolicyKind.HOURS, 130), CleanPolicy(CleanPolicyKind.HOURS, 4)),
        (given(CleanPolicyKind.HOURS, 290, last=300), CleanPolicy(CleanPolicyKind.HOURS, 1)),
        (given(CleanPolicyKind.HOURS, 10), None),
        (given(CleanPolicyKind.VERSIONS, None), None),
    ],
)
def test_what_the_writers_keep_is_kept(clean: CleanRetention | None, policy: CleanPolicy | None) -> None:
    """Keeps 1 and 2 of services/clean/plan/adopted."""
    adopted = adopt_retention(clean, TIMELINE, zone=UTC)
    assert adopted.policy == policy
    assert adopted.why
    assert adopted.is_of_writers == (policy not in (None, CleanPolicy()))


def test_hours_need_a_zone() -> None:
    """Keeps 2 of services/clean/plan/adopted: without it nothing says how long ago a commit began."""
    assert adopt_retention(given(CleanPolicyKind.HOURS, 130), TIMELINE, zone=None).policy is None


def test_a_clean_of_lakeward_hands_on_what_it_adopted() -> None:
    """It stands before the writers' own clean from then on, which will be archived."""
    first = adopt_retention(given(CleanPolicyKind.COMMITS, 100), TIMELINE, zone=UTC)
    said = first.extra_metadata[RETAINED]
    own = CleanRetention(minute(306), HUDI_NAMES[CleanPolicyKind.COMMITS], "", "", is_own=True, adopted=said)
    again = adopt_retention(own, TIMELINE, zone=UTC)
    assert again.policy == first.policy
    assert again.extra_metadata == first.extra_metadata
    assert not adopt_retention(None, TIMELINE, zone=UTC).extra_metadata, "Hudi's default needs no word"
