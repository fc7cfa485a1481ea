"""How often readers scan partitions, learned from counted reads; and that a planner in the loop does not run in
circles."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.explain import explain
from lakeward.services.compaction.plan.learned_reads import (
    DAYS_MAX,
    SILENT_DAYS,
    WHOLE_TABLE,
    LearnedReads,
    day_of_time,
    learn,
)
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.state.reads import digest_of_read
from lakeward.state.records import ReadsOfDay
from tests.synthetic_table import completed, file_group, minute, snapshot_of

MIB = 1024 * 1024
TODAY = 20_000


def days(*reads: int, until: int = TODAY, path: str = "p") -> list[ReadsOfDay]:
    """Reads of days in a row, the last of which is `until`."""
    return [ReadsOfDay(path, until + 1 - len(reads) + place, count) for place, count in enumerate(reads)]


def test_nothing_is_learned_from_less_than_a_day_or_from_silence() -> None:
    """Keeps 1 of services/compaction/plan/learned_reads."""
    assert learn([], today=TODAY) is None
    assert learn(days(500, 500), today=TODAY) is None, "the first day and today are not whole"
    assert learn(days(500, 500, 500), today=TODAY) is not None
    assert learn(days(500, 500, 500), today=TODAY + SILENT_DAYS - 1) is not None
    assert learn(days(500, 500, 500), today=TODAY + SILENT_DAYS) is None
    assert learn(days(*[1] * 9, until=TODAY - DAYS_MAX), today=TODAY) is None


def test_an_even_rate_is_learned_within_days() -> None:
    """What is assumed weighs as much as one day; a partition that nothing reads falls to a tenth of it in three
    weeks."""
    for rate in (20, 200, 2000):
        found = learn(days(*[rate] * 6), today=TODAY)
        assert found is not None
        assert rate / 1.5 < found.per_day("p") < rate
        assert (found.reads, found.days) == (4 * rate, 4)
    found = learn(days(*[200] * 23), today=TODAY)
    assert found is not None
    assert found.per_day("p") == pytest.approx(200, rel=0.1)
    assert found.per_day("q") == pytest.approx(0.1, rel=0.2)


def test_reads_of_the_whole_table_are_of_each_partition_and_new_ones_count_more() -> None:
    found = learn([*days(*[9] * 9), *days(*[20] * 9, path=WHOLE_TABLE)], today=TODAY)
    assert found is not None
    assert found.per_day("p") == pytest.approx(found.per_day("q") * 29 / 20, rel=0.05)
    rising, falling = (learn(days(*counts), today=TODAY) for counts in (range(20), range(20, 0, -1)))
    assert rising is not None and falling is not None
    assert rising.per_day("p") > 1.2 * falling.per_day("p")


def test_the_sentence_says_what_was_learned_from_what() -> None:
    """The numbers are in JSON, too; what an operator says comes before what was learned."""
    learned = learn(days(*[200] * 12), today=TODAY)
    snapshot = snapshot_of([file_group("p", "a", base=(minute(0), MIB), logs=[(minute(1), MIB)])], [])
    planner = planner_of(CompactionType.HYBRID, GroupFilter(), {"planner.policy": "cost"})
    (decision,) = planner.learning(learned)(snapshot, minute(60), {}).decisions
    assert decision.numbers["reads_learned"] == 2000 and decision.numbers["reads_learned_days"] == 10
    assert "reads a day (learned from 2,000 reads of the table in the last 10 days)" in explain(decision)
    said = planner_of(CompactionType.HYBRID, GroupFilter(), {"planner.policy": "cost", "planner.reads": "7/day"})
    (decision,) = said.learning(learned)(snapshot, minute(60), {}).decisions
    assert decision.numbers["reads_per_day"] == 7 and "reads_learned" not in decision.numbers
    rules = planner_of(CompactionType.HYBRID, GroupFilter(), {})
    assert rules.learning(learned) is rules


WRITES = 1000
EVERY_MINUTES = 30
FIRST_DAY = 20_454
"""2026-01-01, in days since the epoch."""


@dataclass
class Loop:
    """A file group that is written to, its readers, and a planner that learns from them."""

    requests_count: bool
    """What each file of a read asks for is counted, as in an access log, in place of reads."""
    merges: bool = True
    base: tuple[str, int] = (minute(0), 64 * MIB)
    logs: list[tuple[str, int]] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)
    rates: list[float] = field(default_factory=list)
    """Learned, at the end of each day."""
    merges_at: list[int] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _learned: LearnedReads | None = None

    def run(self, seed: int) -> None:
        chance = random.Random(seed)
        planner = planner_of(CompactionType.FULL, GroupFilter(), {"planner.policy": "cost"})
        for number in range(1, WRITES + 1):
            at = EVERY_MINUTES * number
            self.logs.append((minute(at), int(MIB * 2 ** chance.uniform(-3, 1))))
            for requester in range(6):
                if chance.random() < 0.2:
                    self._read(f"bi-{requester}", FIRST_DAY * DAY_SECONDS + 60 * at)
            if at % 1440 < EVERY_MINUTES:
                today = FIRST_DAY + at // 1440
                found = [ReadsOfDay("p", day, reads) for day, reads in self.counts.items()]
                self._learned = learn(found, today=today)
                self.rates += [self._learned.per_day("p")] if self._learned else []
            if not self.merges:
                continue
            snapshot = snapshot_of(
                [file_group("p", "a", base=self.base, logs=self.logs)],
                [instant for time, _ in self.logs for instant in completed(time, "deltacommit")],
            )
            outcome = planner.learning(self._learned)(snapshot, minute(at + 1), {})
            if outcome.operations:
                self.base, self.logs = (minute(at + 2), self.base[1]), []
                self.merges_at.append(number)

    def _read(self, requester: str, at: float) -> None:
        read = digest_of_read("t", "p", requester=requester, application="dashboard", at=at)
        for request in range(1 + len(self.logs)):
            identity = f"{read} {request}" if self.requests_count else read
            if identity not in self._seen:
                self._seen.add(identity)
                self.counts[day_of_time(at)] += 1


def test_a_planner_that_learns_from_reads_does_not_run_in_circles() -> None:
    """1,000 writes: what is learned is the same to the last read whether or not anything is merged, and merges come
    evenly. Counting requests, it follows how many files there are, which is what the planner itself makes of them."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    loop, alone = Loop(requests_count=False), Loop(requests_count=False, merges=False)
    loop.run(seed)
    alone.run(seed)
    assert loop.rates == alone.rates and len(loop.rates) > 15, f"seed {seed}"
    settled = loop.rates[5:]
    assert max(settled) < 1.5 * min(settled), f"seed {seed}"
    merges = [sum(start < at <= start + 200 for at in loop.merges_at) for start in range(200, WRITES, 200)]
    assert min(merges) > 0 and max(merges) < 1.5 * min(merges), f"seed {seed}: {merges}"

    requests, without = Loop(requests_count=True), Loop(requests_count=True, merges=False)
    requests.run(seed)
    without.run(seed)
    assert without.rates[-1] > 5 * requests.rates[-1], f"seed {seed}"
