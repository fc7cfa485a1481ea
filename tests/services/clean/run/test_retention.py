"""How much a clean keeps where no setting says so: what cleans on the timeline say is read and held to."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.format.timeline.clean_metadata import VERSION, CleanedPartition, CleanMetadata, write_clean_metadata
from lakeward.services.clean.plan.adopted import RETAINED
from lakeward.services.clean.plan.policy import CleanOptions, CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run.clean_choice import CleanChoice, find_retention
from lakeward.storage.local import LocalStorage
from lakeward.table.timeline.service_instants import PLANNED_BY
from tests.clocks import SkippingClock
from tests.our_reader import scan
from tests.services.clean.run.cleaning import TIMELINE, compacted

STORAGE = LocalStorage()


def put_clean(base: Path, instant: str, policy: str, *, earliest: str, last: str = "", **extra: str) -> None:
    metadata = CleanMetadata(
        VERSION,
        {"p": CleanedPartition()},
        instant=instant,
        earliest_retained=earliest,
        last_completed=last,
        policy=policy,
        extra_metadata=extra,
    )
    for state in ("requested", "inflight"):
        (base / TIMELINE / f"{instant}.clean.{state}").write_bytes(b"plan" if state == "requested" else b"")
    (base / TIMELINE / f"{instant}_{int(instant) + 1}.clean").write_bytes(write_clean_metadata(metadata))


def test_the_newest_clean_of_another_engine_says_how_much_is_kept(tmp_path: Path) -> None:
    """Keeps 2 of services/clean/run/clean_choice: one of Lakeward's says nothing, unless it says what it adopted; a
    setting wins."""
    base = compacted("v9", tmp_path / "table")
    commits = [each.time for each in scan(base).timeline.completed_writes]

    def policy(options: CleanOptions | None = None) -> CleanPolicy | None:
        return find_retention(STORAGE, scan(base), options or CleanOptions()).policy

    assert policy() == CleanPolicy()
    put_clean(base, "20270101000000000", "KEEP_LATEST_FILE_VERSIONS", earliest="")
    assert policy() is None
    with pytest.raises(Refused, match="how many"):
        CleanChoice(STORAGE, str(base), CleanOptions(), clock=SkippingClock()).outcome(scan(base))
    one = CleanPolicy(CleanPolicyKind.VERSIONS, 1)
    assert policy(CleanOptions(one)) == one
    put_clean(base, "20270102000000000", "KEEP_LATEST_COMMITS", earliest=commits[0], last=commits[-1])
    assert policy() == CleanPolicy(), "it kept fewer than Hudi's default"
    put_clean(base, "20270103000000000", "KEEP_LATEST_COMMITS", earliest="", **{PLANNED_BY: "lakeward"})
    assert policy() == CleanPolicy(), "Lakeward's is passed over"
    own = {PLANNED_BY: "lakeward", RETAINED: "commits 24"}
    put_clean(base, "20270104000000000", "KEEP_LATEST_COMMITS", earliest="", **own)
    assert policy() == CleanPolicy(CleanPolicyKind.COMMITS, 24)


def test_a_plan_says_what_it_adopted(tmp_path: Path) -> None:
    """The next clean of Lakeward keeps as much, when the writers' own is archived."""
    base = compacted("v9", tmp_path / "table")
    own = {PLANNED_BY: "lakeward", RETAINED: "versions 1"}
    put_clean(base, "20270104000000000", "KEEP_LATEST_FILE_VERSIONS", earliest="", **own)
    options = CleanOptions(reader_window=0)
    plan = CleanChoice(STORAGE, str(base), options, clock=SkippingClock()).plan(scan(base))
    assert plan is not None and plan.extra_metadata[RETAINED] == "versions 1"
