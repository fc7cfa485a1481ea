"""Hudi's keys of partition TTL."""

from __future__ import annotations

import pytest

from lakeward.base.errors import UsageError
from lakeward.services.ttl.plan.options import DAYS, MAX, SELECTED, TYPE, AgeBy, TtlOptions, ttl_options_of


def test_hudis_keys() -> None:
    """-1 days, Hudi's default, means that no partition expires; an operator's own words win."""
    hudi = {TYPE: "KEEP_BY_CREATION_TIME", DAYS: "7", MAX: "3", SELECTED: "a/b, c"}
    found = ttl_options_of(hudi)
    assert found == TtlOptions(7 * 86400.0, AgeBy.CREATED, "yyyy-MM-dd", 3, frozenset({"a/b", "c"}))
    assert ttl_options_of({DAYS: "-1"}).keep is None
    assert ttl_options_of(hudi, keep=60.0, by=AgeBy.DATE).by is AgeBy.DATE


@pytest.mark.parametrize("hudi", [{"hoodie.partition.ttl.inline": "true"}, {TYPE: "OTHER"}, {DAYS: "x"}])
def test_what_is_not_known_is_refused(hudi: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        ttl_options_of(hudi)
