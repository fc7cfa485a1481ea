"""Histories that are replayed: what comes out can be added up by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from lakeward.base.errors import Refused
from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.cost import full_cost
from lakeward.services.compaction.plan.decision import PlanOutcome
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.pay_back import BASE_OF_LOG, distinct_bytes, read_seconds
from lakeward.services.compaction.plan.planner import HybridCompactionPlanGenerator, Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.simulation.replay import (
    KEPT_COMMITS,
    SPANS,
    SizedGroups,
    SizeModel,
    check_is_long_enough,
    measure_fit,
    replay,
)
from lakeward.services.compaction.simulation.trace import CommitAuthor, TracedCommit, TracedFile
from lakeward.table.snapshot import TableSnapshot
from tests.services.compaction.simulation.sized_history import MIB, at, base, compacts, log, traced, writes
from tests.synthetic_table import minute

HUDI = planner_of(CompactionType.FULL, GroupFilter(), {}, trigger=Trigger())
RFC_103 = planner_of(CompactionType.HYBRID, GroupFilter(), {}, trigger=Trigger())


SIX = traced(*(writes(hour, log(MIB)) for hour in range(1, 7)), hours=7)


def test_full_after_five_delta_commits() -> None:
    """Hudi's default: the base is written once, after the fifth, of which the first made it; readers pay for what lies
    between."""
    found = replay(SIX, planner=HUDI, model=SizeModel(), reads_per_day=24.0)
    assert (found.writer_bytes, found.compaction_bytes, found.compaction_read_bytes) == (6 * MIB, 100 * MIB, 104 * MIB)
    assert (found.fulls, found.logs, found.jobs) == (1, 0, 1)
    assert found.write_amplification == pytest.approx(1 + 100 / 6)
    assert found.job_seconds == full_cost(base_bytes=100 * MIB, log_bytes=4 * MIB, logs=4).core_seconds
    # A read in each hour: of 1, 2 and 3 logs, of none after the FULL, then of 1 and 2.
    reads = [read_seconds(logs * MIB, logs) for logs in (1, 2, 3, 0, 1, 2)]
    assert found.reader_seconds == pytest.approx(sum(reads), rel=1e-3)
    assert found.opened_max == 3
    assert found.mean(lambda span: span.opened) == pytest.approx(9 / 7, rel=1e-3)
    assert found.storage_bytes_max == 206 * MIB, "the base before it stays for some commits, with its logs"
    assert sum(span.seconds for span in found.spans) == pytest.approx(7 * 3600) and len(found.spans) == SPANS
    assert found.spans[-1].amplification == pytest.approx(1.02)


@pytest.mark.timeout(20)
def test_time_goes_on_in_each_window() -> None:
    """Spans share a window whose length they do not divide, and the replay ends: by fractions of
    milliseconds it stood still in one window of seventy for ever."""
    begins, length = 1_796_677_286_096, 15_103_679_912
    window = replace(SIX, commits=(), begins=begins, ends=begins + length)
    found = replay(window, planner=None, model=SizeModel(), reads_per_day=1.0)
    assert sum(span.seconds for span in found.spans) == pytest.approx(length / 1000)
    assert min(span.seconds for span in found.spans) == pytest.approx(length / 1000 / SPANS, abs=0.001)


def test_a_log_compaction_leaves_its_sources_to_be_opened() -> None:
    """RFC-103's rules take the five small logs into one; its bytes are those of distinct rows, by the model."""
    found = replay(SIX, planner=RFC_103, model=SizeModel(), reads_per_day=0.0)
    merged = round(distinct_bytes(5 * MIB, 100 * MIB / BASE_OF_LOG))
    assert (found.fulls, found.logs, found.compaction_bytes, found.reader_seconds) == (0, 1, merged, 0.0)
    assert found.opened_max == 7, "the output, its five sources, and the sixth log"


def test_what_was_really_done_has_the_sizes_that_were() -> None:
    """Keeps 1 of services/compaction/simulation/replay: whatever the model says; a log that completed while the
    compaction ran stays on the new base."""
    trace = traced(
        *(writes(hour, log(MIB), log(2 * MIB, 1)) for hour in (1, 2)),
        TracedCommit(at(2.5), at(3.5), CommitAuthor.COMPACTION, (base(77), base(5 * MIB, 1))),
        writes(4, log(MIB)),
        hours=5,
    )
    late = replace(trace, commits=(*trace.commits[:3], writes(3, log(MIB)), *trace.commits[3:]))
    found = replay(late, planner=None, model=SizeModel(), reads_per_day=0.0)
    assert (found.compaction_bytes, found.compaction_read_bytes) == (77 + 5 * MIB, 106 * MIB)
    assert (found.fulls, found.jobs) == (2, 1)
    assert found.spans[-1].opened == 2 and found.opened_max == 5


def test_log_compactions_merge_what_their_plans_named() -> None:
    """Without a plan it is all that was there when they began."""
    four = [writes(hour, log(MIB)) for hour in range(1, 5)]
    named = TracedFile(0, 11, False, 0.0, tuple(commit.began for commit in four[:3]))
    for file, opened in ((named, 5), (replace(named, sources=()), 5)):
        found = replay(traced(*four, compacts(5, file), hours=6), planner=None, model=SizeModel(), reads_per_day=0.0)
        assert (found.logs, found.compaction_bytes, found.spans[-1].opened) == (1, 11, opened)
    read = [
        replay(traced(*four, compacts(5, file), hours=6), planner=None, model=SizeModel(), reads_per_day=0.0)
        for file in (named, replace(named, sources=()))
    ]
    assert [each.compaction_read_bytes for each in read] == [3 * MIB, 4 * MIB]


@dataclass
class Asked:
    """A planner that chooses nothing, and keeps what it was asked."""

    options: HybridOptions = field(default_factory=HybridOptions)
    snapshots: list[tuple[str, TableSnapshot]] = field(default_factory=list)

    def generate(self, snapshot: TableSnapshot, *, at: str, **others: object) -> PlanOutcome:
        self.snapshots.append((at, snapshot))
        return HybridCompactionPlanGenerator(replace(self.options, log_size_threshold=10**12)).generate(snapshot, at=at)


def test_a_planner_is_asked_with_what_was_there() -> None:
    """Keeps 2 of services/compaction/simulation/replay: after each commit, compactions that were made left out."""
    trace = traced(writes(1, log(MIB)), compacts(1.5, base(50 * MIB)), writes(2, log(MIB), log(3 * MIB, 1)), hours=3)
    asked = Asked()
    replay(trace, planner=Planner(asked), model=SizeModel(), reads_per_day=0.0)  # type: ignore[arg-type]
    seen = [
        (time, [(slice_.base_bytes, len(slice_.log_files)) for slice_ in snapshot.latest_slices])
        for time, snapshot in asked.snapshots
    ]
    assert seen == [
        (f"{minute(60)[:-1]}1", [(100 * MIB, 1)]),
        (f"{minute(120)[:-1]}1", [(100 * MIB, 2), (0, 1)]),
    ]


def test_time_alone_makes_a_group_due() -> None:
    """An objective of a day is kept while nothing is written, and its trigger does not fire."""
    planner = planner_of(CompactionType.HYBRID, GroupFilter(), {}, objective=DAY_SECONDS, trigger=Trigger())
    found = replay(traced(writes(1, log(MIB)), hours=60), planner=planner, model=SizeModel(), reads_per_day=DAY_SECONDS)
    assert (found.fulls, found.jobs) == (1, 1)
    days = found.reader_seconds / read_seconds(MIB, 1) / DAY_SECONDS
    assert 0.9 <= days < 1
    without = replay(traced(writes(1, log(MIB)), hours=60), planner=RFC_103, model=SizeModel(), reads_per_day=0.0)
    assert without.jobs == 0


def test_time_alone_makes_a_merge_pay() -> None:
    """What lies unmerged long enough pays by cost, and nothing need be written for that: the daemon plans again."""
    settings = {"planner.policy": "cost", "planner.reads": "2/hour"}
    planner = planner_of(CompactionType.HYBRID, GroupFilter(), settings, trigger=Trigger())
    trace = traced(writes(1, log(8 * MIB)), hours=60)
    found = replay(trace, planner=planner, model=SizeModel(), reads_per_day=48.0)
    assert (found.fulls, found.jobs) == (1, 1)
    # A read saves 1.03 s and a FULL of 108 MiB takes 3.3 s, so that it pays when half of the base's age has 3.2 reads.
    hours = found.reader_seconds / read_seconds(8 * MIB, 1) / 2
    assert 1.2 < hours <= 1.5, "the base was made two hours before the log"


def test_a_clustering_is_the_same_for_all() -> None:
    """It takes groups away with their logs, and its bytes are no compaction's."""
    clusters = TracedCommit(at(2), at(2) + 1, CommitAuthor.CLUSTERING, (base(40 * MIB, 1),), (0,))
    trace = traced(writes(1, log(MIB)), clusters, hours=3)
    for planner in (None, HUDI):
        found = replay(trace, planner=planner, model=SizeModel(), reads_per_day=0.0)
        assert (found.clustering_bytes, found.compaction_bytes, found.service_bytes) == (40 * MIB, 0, 40 * MIB)
        assert found.spans[-1].opened == 0 and found.spans[-1].storage_bytes == 141 * MIB


def test_storage_is_counted_by_state() -> None:
    """Bases, logs, logs that a LOG merged, and what was replaced; together they are what lies there."""
    found = replay(SIX, planner=RFC_103, model=SizeModel(), reads_per_day=0.0)
    last, merged = found.spans[-1], round(distinct_bytes(5 * MIB, 100 * MIB / BASE_OF_LOG))
    assert (last.base_bytes, last.log_bytes) == (100 * MIB, merged + MIB)
    assert (last.superseded_bytes, last.replaced_bytes) == (5 * MIB, 0)
    full = replay(SIX, planner=HUDI, model=SizeModel(), reads_per_day=0.0).spans[-1]
    assert (full.base_bytes, full.log_bytes, full.superseded_bytes) == (100 * MIB, 2 * MIB, 0)
    assert full.replaced_bytes == 104 * MIB and full.storage_bytes == 206 * MIB


def test_writes_beside_a_job() -> None:
    """A commit that was on its way while its own file group was merged is counted, for as long as both ran; one of
    another group is not. The job takes what its model says; what happened, from its plan to its commit."""
    six = SIX.commits
    seconds = full_cost(base_bytes=100 * MIB, log_bytes=4 * MIB, logs=4).core_seconds
    late = TracedCommit(at(4) + 1001, at(4.5), CommitAuthor.WRITER, (log(MIB),))
    other = replace(late, files=(log(MIB, 1),))
    for commit, writes_beside in ((late, 1), (other, 0)):
        trace = replace(SIX, commits=(*six[:5], commit, *six[5:]))
        found = replay(trace, planner=HUDI, model=SizeModel(), reads_per_day=0.0)
        assert found.longest_job_seconds == pytest.approx(seconds, rel=0.02)
        assert found.writes_beside == writes_beside
        assert found.beside_seconds == pytest.approx(writes_beside * (seconds - 1), abs=0.01)
    job = TracedCommit(at(4.2), at(4.4), CommitAuthor.COMPACTION, (base(100 * MIB),))
    happened = replace(SIX, commits=(*six[:5], job, replace(late, began=at(4.3)), *six[5:]))
    found = replay(happened, planner=None, model=SizeModel(), reads_per_day=0.0)
    assert (found.longest_job_seconds, found.writes_beside) == (720.0, 1)
    assert found.beside_seconds == pytest.approx(360.0)


def groups() -> SizedGroups:
    return SizedGroups(SIX.groups, SIX.config, SizeModel())


def test_what_was_replaced_stays_for_some_commits() -> None:
    found = groups()
    found.write_base(0, at=at(0), size=100)
    found.write_log(0, began=at(1), at=at(1), update_bytes=10, insert_bytes=0)
    found.full(0, began=at(2))
    for number in range(KEPT_COMMITS):
        assert found.storage_bytes == 210, number
        found.committed(at(3 + number))
    assert found.storage_bytes == 100


def test_memory_does_not_grow_with_commits() -> None:
    """Keeps 3 of services/compaction/simulation/replay: of the delta commits as many are known as a trigger counts,
    and the first, from which time counts."""
    found = SizedGroups(SIX.groups, SIX.config, SizeModel(), deltas_max=2000)
    for number in range(9000):
        found.committed(at(number))
    instants = found.timeline().instants
    assert 2000 <= len(instants) <= 4001
    assert instants[0].time == minute(0)


def test_the_oldest_log_is_known_through_merges() -> None:
    """The planner is not asked as long as none can be due, so this must be right."""
    found = groups()
    assert found.oldest is None
    for hour, group in ((1, 0), (2, 1), (3, 0)):
        found.write_log(group, began=at(hour), at=at(hour), update_bytes=10, insert_bytes=0)
    assert found.oldest == at(1)
    found.log(0, began=at(4), at=at(4), run=found.groups[0].live)
    assert found.oldest == at(1), "the records of a LOG are as old as they were"
    found.full(0, began=at(5))
    assert found.oldest == at(2)
    found.drop(1)
    assert found.oldest is None


def test_a_timeline_that_is_too_short() -> None:
    with pytest.raises(Refused, match="of /t is too short: 6 delta commits with logs since 2026-01-01") as refused:
        check_is_long_enough(SIX, "/t")
    assert "--last" in refused.value.remedy
    check_is_long_enough(traced(*(writes(hour, log(MIB)) for hour in range(1, 11)), hours=11), "/t")


def test_the_model_learns_from_what_was_before() -> None:
    """Bases grow by half of what is inserted: the first FULL is judged by what is assumed, the second by what the first
    has shown."""
    trace = traced(
        writes(1, log(20 * MIB, inserts=1.0)),
        compacts(2, base(110 * MIB)),
        writes(3, log(40 * MIB, inserts=0.5)),
        compacts(4, base(120 * MIB)),
        hours=5,
    )
    fit = measure_fit(trace)
    first = 100 * MIB + 20 * MIB * BASE_OF_LOG
    assert fit.real_bytes == 230 * MIB
    assert fit.modelled_bytes == pytest.approx(first + first + 10 * MIB, abs=4)
    assert fit.model.growth == 0.5 and fit.model.drift == 0.0
    assert fit.is_close and fit.factor == pytest.approx(fit.modelled_bytes / fit.real_bytes)


def test_writers_that_call_all_rows_updates() -> None:
    trace = traced(writes(1, log(20 * MIB)), compacts(2, base(104 * MIB)), hours=3)
    model = measure_fit(trace).model
    assert (model.growth, model.drift) == (BASE_OF_LOG, 0.2)


def test_a_model_that_is_far_off_says_so() -> None:
    """One that nothing was there to judge by says that, too."""
    far = measure_fit(traced(writes(1, log(MIB)), compacts(2, base(130 * MIB)), hours=3))
    assert far.factor == pytest.approx(100 / 130) and not far.is_close
    near = measure_fit(traced(writes(1, log(MIB)), compacts(2, base(115 * MIB)), hours=3))
    assert near.is_close
    none = measure_fit(SIX)
    assert none.factor is None and not none.is_close
