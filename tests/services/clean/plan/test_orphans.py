"""Which files that no reader sees may go: one file and the facts around it."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.services.clean.plan.orphans import OrphanDecision, OrphanFacts, OrphanProof, StrayFile, decide_orphans
from lakeward.table.stray_record import RecordedStray
from lakeward.table.timeline.timeline import Timeline
from tests.synthetic_table import TOKEN, completed, minute, pending

DAY = 86400.0
NOW = 10 * DAY
PATH = f"p/g_{TOKEN}_{minute(20)}.parquet"
OLD = StrayFile(PATH, 5, NOW - 3 * DAY)
TWICE = {PATH: RecordedStray(5, NOW - 2 * DAY)}
TIMELINE = (*completed(minute(10), "commit"), *completed(minute(30), "commit"))


def decide(file: StrayFile = OLD, *more: Any, instants: tuple[Any, ...] = TIMELINE, **facts: Any) -> OrphanDecision:
    said = OrphanFacts(now=NOW, age_seconds=DAY, **{"recorded": TWICE, **facts})
    (decision,) = decide_orphans([file], Timeline((*instants, *more)), said)
    return decision


def test_what_is_proved_and_old_may_go():
    """A rollback of its instant proves it, and so does that neither timeline has it."""
    assert decide().proof is OrphanProof.NO_INSTANT and decide().is_removable
    by_rollback = decide(rolled_back={minute(20): minute(25)}, history_problem="torn")
    assert (by_rollback.proof, by_rollback.by, by_rollback.is_removable) == (
        OrphanProof.ROLLED_BACK,
        minute(25),
        True,
    )


@pytest.mark.parametrize(
    ("facts", "keeper"),
    [
        ({"archived": {minute(20)}}, "archived"),
        ({"history_problem": "torn"}, "history-unreadable"),
        ({"instants": tuple(completed(minute(21), "commit"))}, "archived"),
        ({"instants": ()}, "archived"),
        ({"instants": (*TIMELINE, *pending(minute(20), "deltacommit"))}, "pending"),
        ({"instants": (*TIMELINE, *pending(minute(20), "compaction"))}, "pending"),
        ({"instants": (*TIMELINE, *completed(minute(20), "deltacommit"))}, "completed"),
    ],
)
def test_what_is_not_proved_stays(facts: dict[str, Any], keeper: str):
    """Whatever its age: an instant that is archived, or may be, or that is on the timeline. Keeps 1 of
    services/clean/plan/orphans."""
    decision = decide(**facts)
    assert decision.proof is None and keeper in decision.keepers
    assert not decision.is_removable and not decision.is_recordable


@pytest.mark.parametrize(
    ("facts", "keeper"),
    [
        ({"beating": {minute(20)}}, "heartbeat"),
        ({"marked": {minute(20)}}, "markers"),
        ({"named": {PATH}}, "named"),
        ({"listed": {PATH}}, "listed"),
    ],
)
def test_what_another_process_may_go_on_with_stays(facts: dict[str, Any], keeper: str):
    """A heartbeat, markers, a plan or savepoint, an entry in the metadata table. Keeps 2 of
    services/clean/plan/orphans."""
    for proved in ({}, {"rolled_back": {minute(20): minute(25)}}):
        decision = decide(**facts, **proved)
        assert [each.value for each in decision.keepers] == [keeper]
        assert not decision.is_removable and not decision.is_recordable


@pytest.mark.parametrize(
    ("file", "recorded", "keepers"),
    [
        (OLD, {}, ["recorded-lately"]),
        (OLD, {PATH: RecordedStray(5, NOW - DAY + 1)}, ["recorded-lately"]),
        (OLD, {PATH: RecordedStray(6, NOW - 2 * DAY)}, ["recorded-lately"]),
        (OLD, {PATH: RecordedStray(5, NOW - DAY)}, []),
        (StrayFile(PATH, 5, NOW - DAY + 1), TWICE, ["young"]),
    ],
)
def test_it_takes_two_looks_at_the_same_file(file: StrayFile, recorded: dict[str, RecordedStray], keepers: list[str]):
    """The age limit apart, and unchanged. Keeps 3 of services/clean/plan/orphans."""
    decision = decide(file, recorded=recorded)
    assert [each.value for each in decision.keepers] == keepers
    assert decision.is_removable is not bool(keepers) and decision.is_recordable
