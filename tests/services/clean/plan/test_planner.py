"""The cleaner's rules are cases in `clean.cases`; here they are run, and what text cannot say is tested."""

from __future__ import annotations

import os
from datetime import UTC
from pathlib import Path

import pytest

from lakeward.base.errors import Refused, TryLater
from lakeward.base.paths import join
from lakeward.format.timeline.clean_plan import Retained, read_clean_plan, write_clean_plan
from lakeward.format.timeline.instant import Instant, State, format_instant_time, parse_instant_time
from lakeward.protocol.refusals.eligibility import TableService, find_refusals
from lakeward.services.clean.plan.decision import LEFT_NOTHING, SAVEPOINTED_TIMESTAMPS, SliceDecision
from lakeward.services.clean.plan.keeper import DeadReason
from lakeward.services.clean.plan.planner import find_earliest_retained, plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.plan.reader_protection import ReaderProtection, Watermark
from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import FileGroup, FileSlice
from lakeward.table.snapshot import take_snapshot
from lakeward.table.timeline.timeline import Timeline
from tests.clocks import SkippingClock
from tests.runs import runs
from tests.services.clean.plan.clean_cases import format_outcome, read_table
from tests.services.compaction.plan.planner_cases import Case, read_cases
from tests.synthetic_table import minute
from tests.table.table_history import TableHistory

CASES = Path(__file__).with_name("clean.cases")


@pytest.mark.parametrize("case", read_cases(CASES)[1], ids=lambda case: case.rule)
def test_case(case: Case) -> None:
    """Keeps 1, 2, 3, 4, 5 and 6 of services/clean/plan/planner, and Keeps 7 and 9 of services/clean/plan/planner:
    the rule that the case is named for."""
    assert format_outcome(read_table(case.table).plan()) == case.expected


def test_cases_are_written_as_the_code_would_write_them() -> None:
    """The file of cases is exactly what LAKEWARD_REWRITE_CASES=1 makes of it, so a rewrite shows only what changed."""
    head, cases = read_cases(CASES)
    blocks = [
        f"== {case.rule}\n{case.table}\n----\n{format_outcome(read_table(case.table).plan())}\n" for case in cases
    ]
    written = "\n".join([head.rstrip("\n") + "\n", *blocks])
    if "LAKEWARD_REWRITE_CASES" in os.environ:
        CASES.write_text(written)
    assert CASES.read_text() == written


def test_what_holds_for_every_clean() -> None:
    """Keeps 1 and 2 of services/clean/plan/planner, whatever the policy: what readers see, a plan names or a savepoint
    names stays."""
    for case in read_cases(CASES)[1]:
        table = read_table(case.table)
        snapshot, outcome = table.snapshot(), table.plan()
        dead = {name for decision in outcome.dead for name in decision.file_names}
        named = {
            name
            for plan in snapshot.plans.values()
            for operation in plan.operations
            for name in (operation.base_file, *operation.log_files)
        }
        pinned = {path.rpartition("/")[2] for paths in snapshot.savepointed.values() for path in paths}
        read = {
            name
            for group in snapshot.file_groups
            for slice_ in group.read_slices
            for name in (slice_.base_file and slice_.base_file.name, *(log.name.text for log in slice_.log_files))
        }
        assert dead.isdisjoint(named | pinned | read), case.rule


def test_a_decision_is_death_or_a_reason_to_stay() -> None:
    """Keeps 1 of services/clean/plan/decision: neither both nor none."""
    slice_ = next(iter(read_table("group a 10").groups.values())).slices[0]
    for keepers, dead_by in (((), ()), ((object(),), (DeadReason.REPLACED,))):
        with pytest.raises(AssertionError):
            SliceDecision(slice_, keepers, dead_by)  # type: ignore[arg-type]


TABLE = """policy commits 1
done commit 10 20 30
savepoint 10 b@10
savepoint 5 b@10
group a 10 +11 20 30
group q/c 10 20 30"""


def test_the_plan_names_the_dead_files_by_partition() -> None:
    """Base file and logs by their names, the earliest instant, the last commit, Hudi's name of the policy, and the
    savepoints that there were: by these Hudi's next clean sees that one is gone."""
    plan = read_table(TABLE).plan().plan({"by": "us"})

    assert plan.files == {
        "p": (f"a_0-0-0_{minute(10)}.parquet", f".a_{minute(11)}.log.1_0-0-0"),
        "q": (f"c_0-0-0_{minute(10)}.parquet",),
    }
    assert plan.earliest_retained == Retained(minute(30), "commit", "COMPLETED")
    assert (plan.last_completed, plan.policy) == (minute(30), "KEEP_LATEST_COMMITS")
    assert plan.extra_metadata == {
        "by": "us",
        SAVEPOINTED_TIMESTAMPS: f"{minute(5)},{minute(10)}",
        LEFT_NOTHING: "true",
    }
    assert read_clean_plan(write_clean_plan(plan, root="file:/t"), root="file:/t", file="f") == plan


def test_a_plan_that_readers_alone_hinder_is_to_be_tried_later() -> None:
    """A replaced group stays for queries, so by versions nothing goes until they are done, and no operator need act."""
    lines = "policy versions 1\nwindow 60\nnow 100\ndone commit 10 20\ndone replacecommit 90\ngroup a 10 20\ngroup o 10"
    with pytest.raises(TryLater, match="No clean is planned yet"):
        read_table(f"{lines}\nreplaced o by 90").plan().plan({})
    assert read_table(lines).plan().plan({}).files


HOUR = 3600.0


Three = tuple[float, float, float]


def earliest_of(hours: int, *, ages: Three, files: Three) -> int | None:
    """Which of three commits is the earliest by hours, so many hours old by names in UTC and by their files' times."""
    now = 1_790_000_000.0
    names = [format_instant_time(round((now - age * HOUR) * 1000), UTC) for age in ages]
    instants = [Instant(time, "commit", State.COMPLETED, time, f"{time}_{time}.commit") for time in names]
    modified = {each.file_name: now - age * HOUR for each, age in zip(instants, files, strict=True)}
    timeline = Timeline(tuple(instants), modified=modified)
    policy = CleanPolicy(CleanPolicyKind.HOURS, hours)
    found = find_earliest_retained(timeline, policy, now=now, zone=None)
    return None if found is None else instants.index(found)


@pytest.mark.parametrize(
    ("ages", "files", "earliest"),
    [
        # Up to 12 hours more than asked for: the writers may be where the clocks show least.
        ((40, 35, 1), (40, 35, 1), 1),
        ((50, 40, 1), (50, 40, 1), 2),
        # A copy of half an hour ago is young.
        ((90, 80, 70), (0.5, 0.5, 0.5), 0),
        # The second is one of Lakeward's, an hour old and named after the commit before it, of months ago.
        ((2000, 1999, 0), (2000, 1, 0), 1),
        ((2000, 1999, 1998), (2000, 1999, 1998), None),
    ],
)
def test_hours_without_a_zone(ages: Three, files: Three, earliest: int | None) -> None:
    """A commit is as old as its name and its file are at least. Keeps 8 of services/clean/plan/planner."""
    assert earliest_of(24, ages=ages, files=files) == earliest


@pytest.mark.parametrize(("files", "held"), [((9, 8, 7), 3), ((9, 0.5, 7), 1), ((0.5, 0.5, 0.5), 0), ((9, 8, 0.1), 2)])
def test_the_reader_window_without_a_zone(files: tuple[float, ...], held: int) -> None:
    """What came with a young file, or after one, is held for an hour. Keeps 2 of
    services/clean/plan/reader_protection."""
    now = 1_790_000_000.0
    names = [format_instant_time(round((now - 90 * 24 * HOUR) * 1000) + n, UTC) for n in range(3)]
    instants = [Instant(time, "commit", State.COMPLETED, time, f"{time}_{time}.commit") for time in names]
    modified = {each.file_name: now - age * HOUR for each, age in zip(instants, files, strict=True)}
    timeline = Timeline(tuple(instants), modified=modified)
    readers = ReaderProtection(timeline, window=HOUR, watermarks=(), now=now, zone=None)
    assert [bool([*readers.keepers(name)]) for name in names] == [n >= held for n in range(3)]


def test_without_a_zone_the_reader_window_keeps_everything_of_young_names() -> None:
    """Keeps 2 of services/clean/plan/reader_protection: the clocks of the writers may show just that."""
    timeline = read_table("done commit 10 20 30").snapshot().timeline
    readers = ReaderProtection(timeline, window=1, watermarks=(), now=1e9, zone=None)
    assert [(each.reason, each.not_before) for each in readers.keepers(minute(10))] == [("reader-window", None)]
    assert readers.move_back(timeline.completed_writes[-1]) is None
    empty = ReaderProtection(Timeline(()), window=0, watermarks=[Watermark("lost", None)], now=0, zone=UTC)
    assert [each.consumer for each in empty.keepers(minute(10))] == ["lost"]


def test_a_clean_that_did_not_see_all_names_no_earliest_instant() -> None:
    """Hudi's next clean would not look again at what this one left out."""
    plan = read_table(f"{TABLE}\nonly p").plan().plan({})
    assert plan.earliest_retained is None
    assert plan.files


REPLACED = """done commit 10 20
done replacecommit 30 40 50
group a 10 20
group q/old 10
replaced q/old by {by}"""


@pytest.mark.parametrize(
    ("lines", "by", "is_planned"),
    [
        ("policy commits 1", 30, True),  # it goes
        ("policy commits 1", 50, True),  # it stays, and so does its replacecommit
        ("policy commits 1\nonly p", 30, False),
        ("policy commits 1\nonly p", 50, False),
        ("policy versions 1\nonly p", 30, False),
        ("policy versions 1", 30, True),
        ("policy versions 1\npending compaction 60 q/old from 10 10", 30, False),
        ("policy hours 1\nnow 105\npending compaction 25 q/old from 10 10", 30, False),
        ("policy versions 1\nsavepoint 10 q/old@10", 30, True),  # as with Hudi: the archiver stops at savepoints
    ],
)
def test_no_replaced_file_outlives_its_replacecommit(lines: str, by: int, is_planned: bool) -> None:
    """Keeps 2 of services/clean/plan/decision: Hudi archives replacecommits before the earliest instant of the last
    clean, or before the clean where that names none, and would then read again what they replaced."""
    outcome = read_table(f"{REPLACED.format(by=by)}\ngroup b 10 20 30 40 50\n{lines}").plan()
    assert any(outcome.dead)
    if is_planned:
        assert outcome.hindrance is None
        assert outcome.plan({}).files
    else:
        with pytest.raises(Refused, match="No clean is planned"):
            outcome.plan({})


@pytest.mark.parametrize("seed", range(runs(24)))
def test_what_a_clean_promises_can_still_be_read(tmp_path: Path, seed: int) -> None:
    """Keeps 1 and 2 of services/clean/plan/planner, over random lives of a table: as of each commit from the earliest
    instant on, and as it is now, every file that a reader opens stays; so does what a plan names or a savepoint pins.
    So it is in tables with native logs, too."""
    history = TableHistory(tmp_path / "t", seed, native=seed % 3 == 1)
    del history.steps["break"], history.steps["clean"]  # a table that is refused, or already clean, shows nothing
    for _ in range(40):
        history.step()
    snapshot = take_snapshot(LocalStorage(), str(history.base), clock=SkippingClock())
    assert not find_refusals(snapshot, TableService.CLEANING)
    latest = snapshot.timeline.latest_time
    assert latest is not None
    now = parse_instant_time(latest, UTC) / 1000 + 3600 - 20
    groups = [*snapshot.file_groups, *(each for each in snapshot.replaced_groups if isinstance(each, FileGroup))]
    for policy in (
        *(CleanPolicy(CleanPolicyKind.COMMITS, retain) for retain in (1, 2, 5)),
        *(CleanPolicy(CleanPolicyKind.VERSIONS, retain) for retain in (1, 2)),
        CleanPolicy(CleanPolicyKind.HOURS, 1),
    ):
        outcome = plan_clean(snapshot, policy, now=now)
        dead = {path for decision in outcome.dead for path in paths_of(decision.slice)}
        instants = [commit.time for commit in snapshot.timeline.completed_writes] if outcome.earliest else []
        earliest = outcome.earliest.time if outcome.earliest else ""
        needed = {path for paths in snapshot.savepointed.values() for path in paths}
        for group in groups:
            replaced = snapshot.replaced.get((group.partition_path, group.file_id))
            if replaced is None:
                needed |= {path for slice_ in group.read_slices for path in paths_of(slice_)}
            for instant in instants:
                if instant >= earliest and (replaced is None or replaced > instant):
                    seen = next((each for each in group.slices if each.base_instant <= instant), None)
                    needed |= set() if seen is None else paths_of(seen)
        for plan in snapshot.plans.values():
            for operation in plan.operations:
                names = (*operation.log_files, *([operation.base_file] if operation.base_file else ()))
                needed |= {join(operation.partition_path, name) for name in names}
        assert dead.isdisjoint(needed), (policy, history.log)


@pytest.mark.parametrize("seed", range(runs(12)))
def test_what_readers_need_stays(tmp_path: Path, seed: int) -> None:
    """Keeps 1, 2 and 3 of services/clean/plan/reader_protection, over random lives of a table: every file that a query
    opens which began within the window stays, and every file as of each commit that a consumer has not read."""
    history = TableHistory(tmp_path / "t", seed, native=seed % 3 == 1)
    del history.steps["break"], history.steps["clean"]
    for _ in range(40):
        history.step()
    snapshot = take_snapshot(LocalStorage(), str(history.base), clock=SkippingClock())
    timeline, latest = snapshot.timeline, snapshot.timeline.latest_time
    assert latest is not None
    now = parse_instant_time(latest, UTC) / 1000 + 1
    visible = {write.time: timeline.visible_at(write.time) for write in timeline.completed_writes}
    groups = [*snapshot.file_groups, *(each for each in snapshot.replaced_groups if isinstance(each, FileGroup))]

    def view(moment: str) -> set[str]:
        """Files that a query opens which begins at that moment."""
        seen = set()
        for group in groups:
            replaced = snapshot.replaced.get((group.partition_path, group.file_id))
            if replaced is not None and visible[replaced] <= moment:
                continue
            there = (each for each in group.slices if each.base_file and visible.get(each.base_instant, "") <= moment)
            seen |= {path for slice_ in [next(there, None)] if slice_ for path in paths_of(slice_)}
        return seen

    for window in (5, 40):
        start = format_instant_time(round((now - window) * 1000), UTC)
        began = {start, *(moment for moment in visible.values() if moment >= start)}
        for policy in (CleanPolicy(CleanPolicyKind.COMMITS, 1), CleanPolicy(CleanPolicyKind.VERSIONS, 1)):
            outcome = plan_clean(snapshot, policy, now=now, reader_window=window)
            unread = plan_clean(snapshot, policy, now=now, watermarks=[Watermark("daily", start)])
            for each in (outcome, unread):
                dead = {path for decision in each.dead for path in paths_of(decision.slice)}
                for moment in began:
                    assert dead.isdisjoint(view(moment)), (policy, window, moment, history.log)
            lost = plan_clean(snapshot, policy, now=now, watermarks=[Watermark("lost", None)])
            assert not any(lost.dead)
            assert lost.earliest is None


def paths_of(slice_: FileSlice) -> set[str]:
    base = set() if slice_.base_file is None else {slice_.base_file.path}
    return base | {log.path for log in slice_.log_files}
