"""The card of a job: what it says at which moment."""

from __future__ import annotations

from dataclasses import asdict, replace

from lakeward.base.quantities import DAY_SECONDS
from lakeward.config.job_card import PayBack, card_of, detail_of
from lakeward.protocol.job_report import JobCost, JobReport, JobResult, ReadLoad
from lakeward.state.records import CostRecord

NOW = 1_800_000_000.0
MIB = 1024 * 1024
MERGED = JobCost(
    {"pays-back": 3, "over-cap": 1},
    before=ReadLoad(66, 900 * MIB, 62, 180 * MIB, 24.36, 400 * MIB),
    after=ReadLoad(4, 740 * MIB, point_bytes=220 * MIB),
    saved_seconds_a_day=48.72,
    predicted_seconds=20.0,
    task_seconds=30.0,
    cpu_seconds=24.0,
    written={"t9": 3, "t10": 1},
    rewritten={"t1": 4},
)
DETAIL = detail_of(JobReport(JobResult.COMMITTED, cost=MERGED), {"merge": 30.0, "lock_wait": 8.25, "claim": 0.01})
COST = CostRecord(
    *("j1", "orders", "compaction", "2027-01", NOW, "committed", 42.0),
    waited_seconds=8.25,
    predicted_seconds=20.0,
    cpu_seconds=24.0,
    task_seconds=30.0,
    saved_seconds_a_day=48.72,
    detail=DETAIL,
)
PAYS_AT = NOW + 24.0 / 48.72 * DAY_SECONDS


def later(at: float, **rewritten: int) -> CostRecord:
    return CostRecord(
        f"k{at}", "orders", "compaction", "2027-01", at, "committed", 1.0, detail={"rewritten": rewritten}
    )


def test_a_card_says_why_what_it_took_and_what_readers_have_of_it() -> None:
    lines = dict(card_of(COST, (), now=NOW).lines())
    assert lines == {
        "Why": "3 pays-back, 1 over-cap",
        "Took": "42 s, of which it waited 8.2 s",
        "Phases": "merge 30 s, lock wait 8.2 s",
        "Files": "66 files of 900.0 MiB before, 4 files of 740.0 MiB after",
        "A full query": "opened 62 logs and merged 180.0 MiB, 24.4 core-seconds before; "
        "opened 0 logs, 0 core-seconds after",
        "A query of one key": "opened 16.5 files and read 100.0 MiB before; opened 1 file and read 55.0 MiB after",
        "Predicted": "20 core-seconds",
        "Actual": "24 CPU seconds, 1.2 times what was predicted",
        "Pays back": "at 2027-01-15 19:49:21 UTC, as readers save 48.7 core-seconds a day",
    }
    assert dict(card_of(COST, (), now=NOW).lines(size=lambda size: f"{size:.0f} bytes"))["Files"].startswith(
        f"66 files of {900 * MIB} bytes before"
    )


def test_a_card_of_an_older_release_says_nothing_of_one_key() -> None:
    """It did not record it, and 0 bytes would be wrong."""
    old = {key: {**DETAIL[key], "point_bytes": 0} for key in ("before", "after")}
    for kept in (old, {key: {k: v for k, v in of.items() if k != "point_bytes"} for key, of in old.items()}):
        lines = dict(card_of(replace(COST, detail={**DETAIL, **kept}), (), now=NOW).lines())
        assert "A query of one key" not in lines and "A full query" in lines


def test_it_pays_back_once_readers_have_saved_what_it_took() -> None:
    """Keeps 1 of config/job_card: to the second; where CPU seconds are not known, seconds of the clock count,
    and are called that."""
    for now, state in ((PAYS_AT - 1, PayBack.OPEN), (PAYS_AT + 1, PayBack.PAID)):
        card = card_of(COST, (), now=now)
        assert (card.pay_back, card.pays_back_at, card.did_not_pay) == (state, PAYS_AT, False)
    by_clock = card_of(replace(COST, cpu_seconds=None), (), now=NOW)
    assert by_clock.pays_back_at == NOW + 30.0 / 48.72 * DAY_SECONDS
    assert dict(by_clock.lines())["Actual"] == "30 seconds of its tasks by the clock, 1.5 times what was predicted"
    assert "which is past" in dict(card_of(COST, (), now=PAYS_AT + 1).lines())["Pays back"]


def test_what_was_merged_again_before_did_not_pay_back() -> None:
    """Keeps 2 of config/job_card: all of it, by jobs that ended later; what is left of it goes on to pay."""
    some, others, rest = later(NOW + 10, t9=2), later(NOW + 20, t10=1, t7=9), later(NOW + 30, t9=1)
    early = later(NOW - 10, t9=3, t10=1)
    assert card_of(COST, (early, some, others), now=NOW + 100).pay_back is PayBack.OPEN
    card = card_of(COST, (early, some, others, rest), now=NOW + 100)
    assert (card.pay_back, card.rewritten_at, card.did_not_pay) == (PayBack.REWRITTEN, NOW + 30, True)
    assert dict(card.lines())["Pays back"] == (
        "it did not: all was merged again at 2027-01-15 08:00:30 UTC, before 2027-01-15 19:49:21 UTC"
    )
    too_late = (some, others, later(PAYS_AT + 5, t9=1))
    assert card_of(COST, too_late, now=PAYS_AT + 6).pay_back is PayBack.PAID


def test_what_saves_readers_nothing_never_pays_back() -> None:
    card = card_of(replace(COST, saved_seconds_a_day=0.0), (), now=NOW)
    assert (card.pay_back, card.pays_back_at, card.did_not_pay) == (PayBack.NEVER, None, True)
    assert dict(card.lines())["Pays back"] == "never: readers save nothing"


def test_a_service_without_a_model_shows_its_seconds_alone() -> None:
    plain = CostRecord("j1", "orders", "clean", "2027-01", NOW, "committed", 9.0, detail={"phases": {"look": 1.0}})
    card = card_of(plain, (later(NOW + 1, t9=1),), now=NOW)
    assert dict(card.lines()) == {"Took": "9 s", "Phases": "look 1 s"}
    assert (card.pay_back, card.did_not_pay, card.times_predicted) == (None, False, None)


def test_json_has_every_figure() -> None:
    found = card_of(COST, (), now=NOW).as_json()
    assert (found["predicted_core_seconds"], found["cpu_seconds"], found["task_seconds"]) == (20.0, 24.0, 30.0)
    assert (found["pay_back"], found["pays_back_time"]) == ("open", "2027-01-15T19:49:21.576Z")
    assert found["before"] == asdict(MERGED.before) and found["after"] == asdict(MERGED.after)
    assert found["reasons"] == {"pays-back": 3, "over-cap": 1} and found["phases"]["lock_wait"] == 8.25
    assert "written" not in found and found["rewritten_at"] is None
