"""A clean that looks only at what was written to since an earlier one deletes what a look at everything would."""

from __future__ import annotations

import random
from datetime import UTC
from pathlib import Path

import pytest

from lakeward.format.timeline.clean_metadata import VERSION, CleanedPartition, CleanMetadata, write_clean_metadata
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.protocol.refusals.eligibility import TableService, find_refusals
from lakeward.services.clean.plan.decision import LEFT_NOTHING, CleanOutcome
from lakeward.services.clean.plan.incremental import Base, base_of, find_writes, is_usable, partitions_of
from lakeward.services.clean.plan.policy import CleanOptions, CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run.clean_choice import CleanChoice
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.clocks import SettableClock, SkippingClock
from tests.runs import runs
from tests.services.clean.plan.clean_cases import read_table
from tests.synthetic_table import minute
from tests.table.table_history import TableHistory

COMMITS, HOURS, VERSIONS = CleanPolicyKind.COMMITS, CleanPolicyKind.HOURS, CleanPolicyKind.VERSIONS
CHOICES = [
    CleanOptions(CleanPolicy(COMMITS, 1), reader_window=0),
    CleanOptions(CleanPolicy(COMMITS, 3), reader_window=0),
    CleanOptions(CleanPolicy(COMMITS, 1), reader_window=20),
    CleanOptions(CleanPolicy(HOURS, 1), reader_window=0),
]
DAY = parse_instant_time("20260101000000000", UTC) / 1000


class CleanedHistory(TableHistory):
    """A life in which cleans of Lakeward, whole ones and others, come in between."""

    def __init__(self, base: Path, seed: int) -> None:
        super().__init__(base, seed, native=seed % 4 == 1)
        self.choosing = random.Random(seed)
        del self.steps["break"]  # a table that is refused shows nothing
        del self.steps["clean"]  # what that leaves is no clean's
        more = {"cleaned": (8, self.clean_by_rule), "rewrite": (24, self.rewrite_some_group)}
        # What is pending for long holds everything up.
        self.steps |= more | {name: (12, self.steps[name][1]) for name in ("complete", "start plan", "complete plan")}

    def rewrite_some_group(self) -> None:
        snapshot = self.snapshot()
        busy = {*snapshot.pending_compactions, *snapshot.pending_log_compactions}
        if free := [group for group in self._groups() if group not in busy]:
            self.rewrite(*self.choosing.choice(free))

    def snapshot(self, partitions: frozenset[str] | None = None) -> TableSnapshot:
        return take_snapshot(LocalStorage(), str(self.base), clock=SkippingClock(), partitions=partitions)

    def choice(self, options: CleanOptions) -> CleanChoice:
        # Hours are counted from a moment at which the last twenty seconds lie within them.
        later = 3600 - 20 if options.policy.kind is HOURS else 1
        return CleanChoice(LocalStorage(), str(self.base), options, clock=SettableClock(DAY + self.clock + later))

    def clean_by_rule(self) -> None:
        options = self.choosing.choice([*CHOICES, CleanOptions(CleanPolicy(VERSIONS, 1), reader_window=0)])
        chosen = self.choice(options)
        snapshot = self.snapshot()
        kind = self.choosing.choice(["incremental", "incremental", "whole", "some partitions"])
        if kind == "incremental":
            snapshot = self.snapshot(chosen.where(snapshot))
        some = self.choosing.sample(snapshot.partitions, len(snapshot.partitions) // 2)
        outcome = chosen.outcome(snapshot, some if kind == "some partitions" else None)
        if any(outcome.dead) and outcome.hindrance is None:
            self.carry_out(outcome.plan({}))

    def carry_out(self, plan: CleanPlan) -> None:
        for partition, names in plan.files.items():
            for name in names:
                (self.base / partition / name).unlink()
        data = CleanMetadata(
            version=VERSION,
            partitions={path: CleanedPartition(deleted=names) for path, names in plan.files.items()},
            earliest_retained=plan.earliest_retained.time if plan.earliest_retained else "",
            policy=plan.policy,
            extra_metadata=plan.extra_metadata,
        )
        self._service("clean", write_clean_metadata(data))


def dead(outcome: CleanOutcome) -> set[tuple[str, ...]]:
    return {(each.slice.partition_path, *each.file_names) for each in outcome.dead}


def narrowed(history: CleanedHistory, everything: TableSnapshot, options: CleanOptions) -> bool:
    """Whether a look at fewer partitions was enough; that both looks agree is checked."""
    chosen = history.choice(options)
    if (where := chosen.where(everything)) is None:
        return False
    whole, part = chosen.outcome(everything), chosen.outcome(history.snapshot(where))
    assert dead(part) == dead(whole), (options, sorted(where), history.log)
    assert (part.hindrance is None, part.earliest) == (whole.hindrance is None, whole.earliest), history.log
    return where < set(everything.partitions)


def live(history: CleanedHistory, steps: int) -> int:
    """After each step both looks are held against each other. Returns how often one at fewer partitions was enough."""
    looks = 0
    for _ in range(steps):
        history.step()
        everything = history.snapshot()
        assert not find_refusals(everything, TableService.CLEANING)
        looks += sum(narrowed(history, everything, options) for options in CHOICES)
    return looks


@pytest.mark.parametrize("seed", range(runs(4)))
def test_a_look_at_some_partitions_is_as_good_as_one_at_all(tmp_path: Path, seed: int) -> None:
    """Keeps 1 of services/clean/plan/incremental: after each step of a random life, by each policy and with a reader
    window."""
    live(CleanedHistory(tmp_path / "t", seed), 60)


def test_fewer_partitions_are_looked_at(tmp_path: Path) -> None:
    """In a life with cleans most looks are at some partitions, so the test above is one."""
    assert live(CleanedHistory(tmp_path / "t", seed=2), 60) > 50


TABLE = """policy commits 1
done commit 10 20 30 40
group a 10 20 30 40
"""
PLANNED = "policy hours 1\nnow 95\npending compaction 41 b from {0} {0}\ngroup b 10 20 40"
LEFT = [
    ("", True),
    ("frozen b", False),
    ("only p", False),
    ("policy versions 1", False),
    ("policy hours 1\nnow 95\npending deltacommit 41", True),
    ("policy hours 1\nnow 95\npending deltacommit 25", False),
    (PLANNED.format(10), False),
    (PLANNED.format(40), True),
    ("savepoint 10 a@10", True),
    ("window 30\nnow 50", True),
    ("window 60\nnow 50", False),
]


@pytest.mark.parametrize(("lines", "is_left"), LEFT)
def test_a_plan_says_whether_it_leaves_nothing(lines: str, is_left: bool) -> None:
    """Keeps 2 of services/clean/plan/incremental: what is superseded and stays for a plan, frozen groups, partitions
    that were not looked at and writes that may complete late are something."""
    outcome = read_table(TABLE + lines).plan()
    assert outcome.leaves_nothing == is_left or not outcome.is_whole
    if any(outcome.dead):
        assert (LEFT_NOTHING in outcome.plan({}).extra_metadata) == is_left


def test_files_of_no_instant_are_something_left() -> None:
    """They count as committed once the timeline starts after them, and then something is superseded by them."""
    table = read_table(f"{TABLE}pending deltacommit 41")
    for instant, is_left in ((41, True), (39, False)):
        table.fields["uncommitted_files"] = {f"p/a_0-0-0_{minute(instant)}.parquet": None}
        snapshot = table.snapshot()
        assert (instant, table.plan().leaves_nothing) == (instant, is_left), snapshot.uncommitted_files


METADATA = CleanMetadata(version=VERSION, earliest_retained=minute(20), extra_metadata={LEFT_NOTHING: "true"})
BASE = Base(minute(20), frozenset())


def test_which_clean_is_a_base() -> None:
    """Keeps 2 of services/clean/plan/incremental: one that says so, names its earliest instant and deleted all that it
    named."""
    assert base_of(METADATA) == BASE
    others: list[dict[str, object]] = [
        {"earliest_retained": ""},
        {"extra_metadata": {}},
        {"partitions": {"p": CleanedPartition(deleted=("a",), failed=("b",))}},
    ]
    for other in others:
        fields = {name: getattr(METADATA, name) for name in CleanMetadata.__slots__} | other
        assert base_of(CleanMetadata(**fields)) is None, other


@pytest.mark.parametrize(
    ("lines", "base", "is_usable_"),
    [
        ("done commit 10 20 30", BASE, True),
        ("done commit 20 30", BASE, True),
        ("done commit 30 40", BASE, False),
        ("done commit 10 30\npending deltacommit 20", BASE, False),
        ("done commit 10 20 30\ndone restore 35", BASE, False),
        ("done commit 10 20 30\nsavepoint 10 a@10", Base(minute(20), frozenset({minute(10)})), True),
        ("done commit 10 20 30\nsavepoint 20 a@10", Base(minute(20), frozenset({minute(10)})), False),
        ("done commit 20 40 50\nsavepoint 20 a@20", BASE, False),  # what lay between was archived past the savepoint
    ],
)
def test_when_a_base_can_be_trusted(lines: str, base: Base, is_usable_: bool) -> None:
    """All writes since it are on the timeline, nothing was restored, and its savepoints are all there."""
    assert is_usable(base, read_table(lines).snapshot().timeline) == is_usable_


def test_partitions_of_writes() -> None:
    """What was written from the base's earliest instant on and before Lakeward's, and replaced by these; a write of
    which nothing is known makes everything a candidate."""
    timeline = read_table("done commit 10 20 30 40 50").snapshot().timeline
    earliest = timeline.completed_writes[-1]
    writes = find_writes(BASE, timeline, earliest)
    assert [write.time for write in writes] == [minute(20), minute(30), minute(40)]
    written = {minute(20): ["p"], minute(30): ["q"], minute(40): []}
    replaced = {("r", "a"): minute(40), ("s", "b"): minute(10)}
    assert partitions_of(writes, written=written, replaced=replaced) == {"p", "q", "r"}
    assert partitions_of(writes, written={minute(20): ["p"]}, replaced={}) is None
