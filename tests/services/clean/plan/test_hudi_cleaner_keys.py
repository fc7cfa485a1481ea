"""Hudi's keys for its cleaner give the policy that Hudi would follow."""

from __future__ import annotations

import pytest

from lakeward.base.errors import UsageError
from lakeward.services.clean.plan.hudi_cleaner_keys import clean_policy_of, is_incremental
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind

COMMITS, VERSIONS, HOURS = CleanPolicyKind.COMMITS, CleanPolicyKind.VERSIONS, CleanPolicyKind.HOURS


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        ({}, CleanPolicy(COMMITS, 10)),
        ({"hoodie.clean.commits.retained": "4"}, CleanPolicy(COMMITS, 4)),
        ({"hoodie.cleaner.commits.retained": "4"}, CleanPolicy(COMMITS, 4)),
        ({"hoodie.cleaner.commits.retained": "4", "hoodie.clean.commits.retained": "5"}, CleanPolicy(COMMITS, 5)),
        ({"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"}, CleanPolicy(VERSIONS, 3)),
        (
            {"hoodie.cleaner.policy": "keep_latest_by_hours", "hoodie.clean.hours.retained": "48"},
            CleanPolicy(HOURS, 48),
        ),
        ({"hoodie.clean.hours.retained": "48"}, CleanPolicy(COMMITS, 10)),
    ],
)
def test_hudis_keys(settings: dict[str, str], policy: CleanPolicy) -> None:
    """Keeps 1 of services/clean/plan/hudi_cleaner_keys: newer names, older ones, and numbers that the policy does not
    read."""
    assert clean_policy_of(settings) == policy


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"hoodie.clean.incremental.enabled": "FALSE"}, False),
        ({"hoodie.cleaner.incremental.mode": "false"}, False),
        ({"hoodie.cleaner.incremental.mode": "false", "hoodie.clean.incremental.enabled": "true"}, True),
    ],
)
def test_incremental_cleaning_is_on_unless_it_is_turned_off(settings: dict[str, str], expected: bool) -> None:
    """Hudi's key and its older name; neither says anything of the policy."""
    assert is_incremental(settings) == expected
    assert clean_policy_of(settings) == CleanPolicy(COMMITS, 10)
    with pytest.raises(UsageError, match="cannot be 'yes'"):
        is_incremental({"hoodie.clean.incremental.enabled": "yes"})


def test_what_is_said_besides_wins() -> None:
    """A policy said in its own words takes its own number from the settings, unless that is said too."""
    settings = {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.hours.retained": "48"}
    assert clean_policy_of(settings, kind=HOURS) == CleanPolicy(HOURS, 48)
    assert clean_policy_of(settings, kind=HOURS, retain=2) == CleanPolicy(HOURS, 2)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"hoodie.clean.policy": "KEEP_NOTHING"}, "hoodie.clean.policy cannot be 'KEEP_NOTHING'."),
        ({"hoodie.clean.commits.retained": "0"}, "hoodie.clean.commits.retained cannot be '0'."),
        ({"hoodie.clean.hours.retained": "a day"}, "hoodie.clean.hours.retained cannot be 'a day'."),
        ({"hoodie.clean.commit.retained": "1"}, "There is no setting hoodie.clean.commit.retained."),
    ],
)
def test_what_hudi_would_not_take(settings: dict[str, str], what: str) -> None:
    """Keeps 2 of services/clean/plan/hudi_cleaner_keys: none of it is guessed at."""
    with pytest.raises(UsageError) as caught:
        clean_policy_of(settings)
    assert caught.value.what == what
