"""Whether a merge pays. The decisions that follow are cases in `hybrid_compaction.cases`."""

from __future__ import annotations

import math
import os
import random

import pytest

from lakeward.base.errors import UsageError
from lakeward.base.quantities import DAY_SECONDS
from lakeward.config.settings import Settings
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.cost import full_cost, operation_seconds
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.plan.pay_back import (
    BASE_OF_LOG,
    ERASE_WITHIN,
    HORIZON,
    Cut,
    distinct_bytes,
    full_cut,
    log_cuts,
    read_seconds,
)
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.price import Price
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.slice_profile import SliceProfile, profile_slice
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.synthetic_table import completed, file_group, minute, snapshot_of

MIB = 1024 * 1024
SEED = int(os.environ.get("LAKEWARD_SEED", "20261201"))


def profile(*logs: tuple[int, int], merged: LogCompaction | None = None) -> SliceProfile:
    """A base of 64 MiB, and logs: their minutes with their MiB."""
    sizes = [(minute(at), size * MIB) for at, size in logs]
    group = file_group("p", "a", base=(minute(0), 64 * MIB), logs=sizes)
    return profile_slice(group.slices[0], () if merged is None else (merged,))


def test_it_pays_where_readers_save_more_in_half_of_its_age_than_it_takes() -> None:
    """Keeps 1 of services/compaction/plan/pay_back, with the cases "By cost"."""
    cost = full_cost(base_bytes=64 * MIB, log_bytes=MIB, logs=1)
    cut = Cut(Choice.FULL, cost, saved_seconds=2.0, age_seconds=100.0)
    enough = cost.core_seconds / (2.0 * HORIZON * 100.0)
    assert cut.gain(enough) == pytest.approx(0)
    assert cut.gain(enough * 1.01) > 0 > cut.gain(enough * 0.99)
    numbers = cut.numbers(40 / DAY_SECONDS)
    assert numbers["pays_back_seconds"] == round(cost.core_seconds / (2.0 * 40) * DAY_SECONDS)
    assert "pays_back_seconds" not in cut.numbers(0)


def test_merged_logs_cost_readers_their_opening_until_they_are_gone() -> None:
    """So a LOG saves less than its logs where they stay, and a FULL saves what the LOGs before it left, too."""
    sources = frozenset(f".a_{minute(at)}.log.1_0-0-0" for at in (1, 2))
    found = profile((1, 1), (2, 1), (3, 2), (4, 1), merged=LogCompaction(minute(3), sources))
    full = full_cut(found, age_seconds=60, reads_merged=False)
    assert full.saved_seconds == pytest.approx(read_seconds(3 * MIB, 4))
    assert full_cut(found, age_seconds=60, reads_merged=True).saved_seconds == pytest.approx(read_seconds(5 * MIB, 4))
    (stay,) = log_cuts(found, age_of=lambda log: 60, is_whole=False, sources_go=False)
    (go,) = log_cuts(found, age_of=lambda log: 60, is_whole=False, sources_go=True)
    assert [log.instant for log in go.run] == [minute(3), minute(4)]
    assert go.saved_seconds > stay.saved_seconds == 0, "two are opened less one, or one more than before"


def test_each_write_may_begin_a_log_compaction_of_two_or_more() -> None:
    found = profile((1, 4), (2, 2), (3, 1))
    cuts = list(log_cuts(found, age_of=lambda log: 60 * int(log.instant[-7:-5]), is_whole=False, sources_go=True))
    assert [len(cut.run) for cut in cuts] == [3, 2]
    assert [len(cut.run) for cut in log_cuts(found, age_of=lambda log: 0, is_whole=True, sources_go=True)] == [3]
    assert list(log_cuts(profile((1, 4)), age_of=lambda log: 0, is_whole=False, sources_go=True)) == []


def test_merged_logs_shrink_towards_the_rows_of_the_base() -> None:
    """Each key is kept once: small logs hardly overlap, large ones are no more than all rows; without a base nothing is
    known."""
    rows = 64 * MIB / BASE_OF_LOG
    assert distinct_bytes(0, rows) == 0
    assert distinct_bytes(MIB, rows) == pytest.approx(MIB, rel=0.01)
    assert distinct_bytes(rows, rows) == pytest.approx(rows * (1 - 1 / math.e))
    assert distinct_bytes(100 * rows, rows) == pytest.approx(rows)
    assert distinct_bytes(100 * MIB, 0) == 100 * MIB
    (cut,) = log_cuts(profile((1, 64), (2, 128)), age_of=lambda log: 60, is_whole=True, sources_go=True)
    left = distinct_bytes(192 * MIB, rows)
    assert cut.saved_seconds == pytest.approx(read_seconds(192 * MIB, 2) - read_seconds(left, 1))


@pytest.mark.parametrize(
    ("planner", "given", "kept"),
    [
        ({}, {}, DAY_SECONDS),
        ({"planner.policy": "cost", "planner.reads": "20/hour"}, {}, ERASE_WITHIN),
        ({"planner.policy": "cost", "planner.reads": "20/hour"}, {"objective": "2d"}, 2 * DAY_SECONDS),
        ({"planner.policy": "cost"}, {}, ERASE_WITHIN),
        ({"planner.policy": "rfc-103", "planner.reads": "20/hour"}, {}, DAY_SECONDS),
    ],
)
def test_what_pays_has_a_month_where_no_objective_is_given(
    planner: dict[str, str], given: dict[str, str], kept: float
) -> None:
    settings = Settings.model_validate({"defaults": {"planner": planner, **given}})
    assert settings.table("t", "/t").objective_kept == kept


@pytest.mark.parametrize(
    ("settings", "reads"),
    [
        ({}, None),
        ({"planner.reads": "200/day"}, None),
        ({"planner.policy": "cost"}, 1.0),
        ({"planner.policy": "cost", "planner.reads": "3/hour"}, 72.0),
        ({"planner.policy": "cost", "planner.reads": "3.5/week"}, 0.5),
    ],
)
def test_how_often_is_said_by_the_operator(settings: dict[str, str], reads: float | None) -> None:
    snapshot = snapshot_of([file_group("p", "a", base=(minute(0), MIB), logs=[(minute(1), MIB)])], [])
    outcome = planner_of(CompactionType.HYBRID, GroupFilter(), settings)(snapshot, minute(60), {})
    assert outcome.decisions[0].numbers.get("reads_per_day") == reads


def test_the_price_begins_where_the_operator_says() -> None:
    assert planner_of(CompactionType.HYBRID, GroupFilter(), {"planner.price": "2.5"}).options.price == Price(2.5)
    for text in ("0", "21", "-1", "dear", "nan"):
        with pytest.raises(UsageError, match=r"planner\.price cannot be"):
            planner_of(CompactionType.HYBRID, GroupFilter(), {"planner.price": text})


@pytest.mark.parametrize("text", ["200", "often", "-1/day", "1/century", "nan/day"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"planner\.reads cannot be"):
        planner_of(CompactionType.HYBRID, GroupFilter(), {"planner.reads": text})


@pytest.mark.parametrize(
    ("price", "reason"),
    [(Price(), Reason.PAYS_BACK), (Price(1000.0), Reason.DOES_NOT_PAY), (Price(1.0, is_off=True), Reason.SMALL_BASE)],
)
def test_what_merges_take_on_the_table_is_what_they_cost(price: Price, reason: Reason) -> None:
    """At a price too high nothing pays; where the model does not hold at all, the rules of RFC-103 decide."""
    snapshot = snapshot_of([file_group("p", "a", base=(minute(0), MIB), logs=[(minute(1), MIB)])], [])
    settings = {"planner.policy": "cost", "planner.reads": "2000/day"}
    planner = planner_of(CompactionType.HYBRID, GroupFilter(), settings).priced(price)
    (decision,) = planner(snapshot, minute(600), {}).decisions
    assert decision.reason is reason
    expected = full_cost(base_bytes=MIB, log_bytes=MIB, logs=1, price=price.factor)
    assert decision.numbers.get("price", 1.0) == price.factor
    assert decision.numbers["core_seconds"] == round(expected.core_seconds, 3)
    assert expected.core_seconds == pytest.approx(price.factor * operation_seconds(2 * MIB))


COST = {"planner.policy": "cost", "planner.reads": "2000/day"}
FIVE = {"hoodie.compact.inline.max.delta.commits": "5"}


@pytest.mark.parametrize(
    ("settings", "price", "reason"),
    [
        (COST, Price(), Reason.PAYS_BACK),
        (COST, Price(1.0, is_off=True), Reason.TABLE_TRIGGER),
        (COST | FIVE, Price(), Reason.TABLE_TRIGGER),
        ({"planner.policy": "rfc-103"}, Price(), Reason.TABLE_TRIGGER),
        ({}, Price(), Reason.TABLE_TRIGGER),
    ],
)
def test_what_pays_is_asked_after_each_commit(settings: dict[str, str], price: Price, reason: Reason) -> None:
    """Hudi's own trigger of 5 delta commits is that of the rules of RFC-103 alone; one that an operator sets holds."""
    group = file_group("p", "a", base=(minute(0), MIB), logs=[(minute(1), MIB)])
    snapshot = snapshot_of([group], completed(minute(1), "deltacommit"))
    planner = planner_of(CompactionType.HYBRID, GroupFilter(), settings, trigger=Trigger()).priced(price)
    (decision,) = planner(snapshot, minute(600), {}).decisions
    assert decision.reason is reason


def test_after_a_plan_what_pays_is_asked_without_another_commit() -> None:
    """What a plan left, for its budget or its age, needs no write."""
    group = file_group("p", "a", base=(minute(0), 512 * MIB), logs=[(minute(1), MIB)])
    snapshot = snapshot_of([group], [*completed(minute(1), "deltacommit"), *completed(minute(2), "commit")])
    planner = planner_of(CompactionType.HYBRID, GroupFilter(), COST, trigger=Trigger())
    reasons = [planner(snapshot, minute(at), {}).decisions[0].reason for at in (9, 600)]
    assert reasons == [Reason.DOES_NOT_PAY, Reason.PAYS_BACK]


def test_log_compactions_are_priced_only_where_one_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions and operations are those of pricing each, whatever is read, and whether sources of a LOG stay."""
    chance = random.Random(SEED)
    prices: list[int] = []
    for _ in range(150):
        groups = []
        for number in range(6):
            first = chance.randrange(10, 1900)
            logs = [
                (minute(first + place * chance.choice((0, 1, 9))), chance.choice((1000, MIB, 9 * MIB)))
                for place in range(chance.randrange(1, 30))
            ]
            size = chance.choice((0, MIB, 64 * MIB, 4096 * MIB))
            groups.append(file_group("p", f"{number}", base=(minute(first - 9), size) if size else None, logs=logs))
        settings = {"planner.policy": "cost", "planner.reads": f"{chance.choice((0, 1, 40, 900, 20_000))}/day"}
        planner = planner_of(CompactionType.HYBRID, GroupFilter(), settings, sources_retire=chance.random() < 0.5)
        snapshot = snapshot_of(groups, [])
        found = planner(snapshot, minute(2500), {})
        with monkeypatch.context() as patch:
            patch.setattr(Cut, "may_beat", lambda *others: True)
            plain = planner(snapshot, minute(2500), {})
        assert found == plain, f"seed {SEED}"
        prices += [decision.choice is Choice.LOG for decision in found.decisions]
    assert 10 < sum(prices) < len(prices) - 10, "some are LOG, and some are not"
