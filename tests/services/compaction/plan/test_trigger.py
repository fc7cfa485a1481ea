"""Hudi's triggers, to the edge."""

from __future__ import annotations

from datetime import UTC

import pytest

from lakeward.format.timeline.instant import Instant, State
from lakeward.services.compaction.plan.slice_profile import profile_slice
from lakeward.services.compaction.plan.trigger import Ages, Firing, Trigger, TriggerStrategy, group_fires, table_fires
from lakeward.table.timeline.timeline import Timeline
from tests.synthetic_table import completed, file_group, log_compacted, minute, pending

NUM, AFTER_REQUEST, TIME, AND, OR = (
    TriggerStrategy.NUM_COMMITS,
    TriggerStrategy.NUM_COMMITS_AFTER_LAST_REQUEST,
    TriggerStrategy.TIME_ELAPSED,
    TriggerStrategy.NUM_AND_TIME,
    TriggerStrategy.NUM_OR_TIME,
)


def fire(
    strategy: TriggerStrategy, *instants: list[Instant], at: int = 60, commits: int = 5, minutes: int = 60
) -> Firing:
    timeline = Timeline(tuple(instant for each in instants for instant in each))
    return table_fires(Trigger(strategy, commits, minutes * 60), timeline, Ages(minute(at), UTC))


def deltas(*times: int) -> list[Instant]:
    return [instant for time in times for instant in completed(minute(time), "deltacommit")]


def test_the_defaults_are_hudis() -> None:
    """Five delta commits, or an hour where time is asked."""
    assert Trigger() == Trigger(NUM, 5, 3600)


def test_without_a_compaction_all_delta_commits_count() -> None:
    """Time runs from the first."""
    assert fire(NUM, deltas(1, 2, 3, 4)) == Firing(False, 4, 59 * 60)
    assert fire(NUM, deltas(1, 2, 3, 4, 5)) == Firing(True, 5, 59 * 60)


def test_an_empty_table_is_never_due() -> None:
    """Whatever is asked, and though no delta commit is enough."""
    for strategy in TriggerStrategy:
        assert fire(strategy, commits=0, minutes=0) == Firing(False, 0, 0)


def test_delta_commits_count_when_they_completed_after_the_compaction_was_requested() -> None:
    """One that was requested before it counts, one that completed before it does not."""
    compaction = completed(minute(10), "commit", minute(20))
    assert fire(NUM, compaction, completed(minute(5), "deltacommit", minute(11))).delta_commits == 1
    assert fire(NUM, compaction, completed(minute(5), "deltacommit", minute(10))).delta_commits == 0
    assert fire(NUM, compaction, completed(minute(12), "deltacommit", minute(13))).delta_commits == 1
    assert fire(NUM, compaction, pending(minute(12), "deltacommit")).delta_commits == 0


def test_after_a_request_delta_commits_count_when_they_were_requested_later() -> None:
    """Pending ones count, too; the request may itself be pending."""
    request = pending(minute(10), "compaction", State.REQUESTED)
    assert fire(AFTER_REQUEST, request, deltas(9, 11), pending(minute(12), "deltacommit")).delta_commits == 2
    assert fire(NUM, request, deltas(9, 11)).delta_commits == 2
    done = completed(minute(10), "commit", minute(20))
    assert fire(AFTER_REQUEST, done, completed(minute(9), "deltacommit", minute(30)), deltas(12)).delta_commits == 1
    assert fire(AFTER_REQUEST, deltas(1, 2)).delta_commits == 2


def test_time_runs_from_the_request_of_the_last_compaction() -> None:
    """It is counted in whole seconds, and reaching the bound is enough."""
    compaction = completed(minute(10), "commit", minute(20))
    assert fire(TIME, compaction, minutes=50) == Firing(True, 0, 3000)
    assert not fire(TIME, compaction, minutes=51).fires


def test_a_log_compaction_ends_the_count_as_a_compaction_does() -> None:
    """It is no delta commit, though it completes as one; a hybrid plan, LOG or not, completes as a compaction."""
    assert fire(NUM, deltas(1), log_compacted(minute(2))).delta_commits == 0
    assert fire(NUM, deltas(1), log_compacted(minute(2), minute(9)), deltas(3, 10)).delta_commits == 2
    assert fire(NUM, completed(minute(1), "commit"), log_compacted(minute(4)), deltas(2, 3, 5)) == Firing(
        False, 1, 56 * 60
    )
    assert fire(TIME, log_compacted(minute(4)), deltas(2), minutes=56).fires


def test_after_a_request_a_pending_log_compaction_ends_the_count() -> None:
    """Only there; else a plan counts once it is carried out, for it may be taken back."""
    request = pending(minute(10), "logcompaction", State.REQUESTED)
    assert fire(AFTER_REQUEST, request, deltas(9, 11)).delta_commits == 1
    assert fire(NUM, request, deltas(9, 11)).delta_commits == 2


@pytest.mark.parametrize(
    ("commits", "minutes", "both", "either"),
    [(2, 60, True, True), (2, 61, False, True), (3, 60, False, True), (3, 61, False, False)],
)
def test_two_conditions(commits: int, minutes: int, both: bool, either: bool) -> None:
    """NUM_AND_TIME wants both, NUM_OR_TIME one."""
    instants = completed(minute(0), "commit"), deltas(1, 2)
    assert fire(AND, *instants, commits=commits, minutes=minutes).fires == both
    assert fire(OR, *instants, commits=commits, minutes=minutes).fires == either


def test_a_file_group_counts_its_own() -> None:
    """The writes that have a log in its latest slice, and the time since that slice's base instant."""
    group = file_group("p", "g", base=(minute(10), 1), logs=[(minute(20), 1), (minute(21), 1)])
    profile = profile_slice(group.slices[0])
    ages = Ages(minute(60), UTC)
    assert group_fires(Trigger(NUM, 2, 0), profile, ages) == Firing(True, 2, 3000)
    assert group_fires(Trigger(AFTER_REQUEST, 3, 0), profile, ages).fires is False
    assert group_fires(Trigger(TIME, 0, 3000), profile, ages).fires is True


def test_an_instant_that_is_no_time_has_no_age() -> None:
    """Hudi reserves some, such as 00000000000001; nothing is known about when they were."""
    assert Ages(minute(60), UTC).seconds_since("00000000000001") == 0
