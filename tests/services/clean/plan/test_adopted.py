"""How much is kept where no setting says so."""

from __future__ import annotations

from datetime import UTC

import pytest

from lakeward.services.clean.plan.adopted import RETAINED, adopt_retention
from lakeward.services.clean.plan.policy import HUDI_NAMES, CleanPolicy, CleanPolicyKind
from lakeward.table.timeline.cleans import StatedRetention
from tests.services.clean.plan.clean_cases import read_table
from tests.synthetic_table import minute

TIMELINE = read_table("done commit " + " ".join(str(number) for number in range(10, 310, 10))).snapshot().timeline
"""Thirty commits."""


def stated(kind: CleanPolicyKind, earliest: int | None, *, last: int = 300, at: int = 305) -> StatedRetention:
    named = "" if earliest is None else minute(earliest)
    return StatedRetention(minute(at), HUDI_NAMES[kind], named, minute(last))


@pytest.mark.parametrize(
    ("clean", "policy"),
    [
        (None, CleanPolicy()),
        (stated(CleanPolicyKind.COMMITS, 100), CleanPolicy(CleanPolicyKind.COMMITS, 21)),
        (stated(CleanPolicyKind.COMMITS, 100, last=200), CleanPolicy(CleanPolicyKind.COMMITS, 11)),
        (stated(CleanPolicyKind.COMMITS, 280), CleanPolicy()),
        (stated(CleanPolicyKind.COMMITS, 105), None),
        (stated(CleanPolicyKind.COMMITS, None), None),
        (stated(CleanPolicyKind.HOURS, 130), CleanPolicy(CleanPolicyKind.HOURS, 4)),
        (stated(CleanPolicyKind.HOURS, 290, last=300), CleanPolicy(CleanPolicyKind.HOURS, 1)),
        (stated(CleanPolicyKind.HOURS, 10), None),
        (stated(CleanPolicyKind.VERSIONS, None), None),
    ],
)
def test_what_the_writers_keep_is_kept(clean: StatedRetention | None, policy: CleanPolicy | None) -> None:
    """Keeps 1 and 2 of services/clean/plan/adopted."""
    adopted = adopt_retention(clean, TIMELINE, zone=UTC)
    assert adopted.policy == policy
    assert adopted.why
    assert adopted.is_of_writers == (policy not in (None, CleanPolicy()))


def test_hours_need_a_zone() -> None:
    """Keeps 2 of services/clean/plan/adopted: without it nothing tells how long ago a commit began."""
    assert adopt_retention(stated(CleanPolicyKind.HOURS, 130), TIMELINE, zone=None).policy is None


def test_a_clean_of_ours_hands_on_what_it_adopted() -> None:
    """It stands before the writers' own clean from then on, which will be archived."""
    first = adopt_retention(stated(CleanPolicyKind.COMMITS, 100), TIMELINE, zone=UTC)
    said = first.extra_metadata[RETAINED]
    ours = StatedRetention(minute(306), HUDI_NAMES[CleanPolicyKind.COMMITS], "", "", is_ours=True, adopted=said)
    again = adopt_retention(ours, TIMELINE, zone=UTC)
    assert again.policy == first.policy
    assert again.extra_metadata == first.extra_metadata
    assert not adopt_retention(None, TIMELINE, zone=UTC).extra_metadata, "Hudi's default needs no word"
