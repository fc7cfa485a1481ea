"""Logs that a log compaction of the layout `lsm_tree` merged retire: what readers see meanwhile, what holds them, who
ends it, and how they come back."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from lakeward.base.errors import Refused, TryLater
from lakeward.cli.services.clean_view import clean_as_json, render_clean
from lakeward.format.timeline.clean_plan import read_clean_plan
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.scan.past_snapshot import read_as_of
from lakeward.services.clean.plan.decision import LEFT_NOTHING
from lakeward.services.clean.plan.keeper import KeepReason
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run import retirement_run
from lakeward.services.clean.run.cleaner import FinishedClean
from lakeward.services.clean.run.purge import purge_quarantine
from lakeward.services.clean.run.undo import undo_clean
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.savepoint.run import create_savepoint, delete_savepoint
from lakeward.services.together.explaining.file_explanation import FileExplainer, FileFacts
from lakeward.storage.local import LocalStorage
from lakeward.table.quarantine import QuarantineKind, load_quarantine
from lakeward.table.watching.incremental_view import IncrementalView
from tests.clocks import SkippingClock
from tests.our_reader import scan, slice_rows
from tests.processes import ScriptedProcesses
from tests.services.bench import NOTHING, Bench
from tests.services.clean.run.cleaning import TIMELINE, completed_cleans
from tests.services.clean.run.retiring import RetiringTable, retiring_table, rules

HOUR = 3600.0


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> RetiringTable:
    """Four writes, a log compaction of three logs, and three writes."""
    table = retiring_table(tmp_path_factory.mktemp("merged") / "table")
    table.log_compact()
    for number in (5, 6, 7):
        table.upsert(number)
    return table


@pytest.fixture
def table(merged: RetiringTable, tmp_path: Path) -> RetiringTable:
    base = Path(shutil.copytree(merged.base, tmp_path / "table", copy_function=shutil.copy2))
    clock = SkippingClock()
    clock.slept = merged.clock.slept
    return replace(
        merged, base=base, clock=clock, rows=dict(merged.rows), past=dict(merged.past), processes=ScriptedProcesses()
    )


def retired(table: RetiringTable, **how: float) -> FinishedClean:
    (cleaned,) = table.clean(rules(**how))[0].cleans  # type: ignore[arg-type]
    assert cleaned.retires
    return cleaned


def merged_logs(table: RetiringTable) -> set[str]:
    ((compaction,),) = scan(table.base).log_compactions.values()
    return set(compaction.log_files)


def test_merged_logs_leave_the_listing_and_are_deleted_after_the_reader_window(table: RetiringTable):
    """Until then they stand in their places, and no new query opens one. Keeps 2 of services/clean/run/retirement_run,
    Keeps 3 of services/clean/plan/purge_rules, Keeps 4 of table/quarantine."""
    logs, merged = set(table.logs), merged_logs(table)
    table.clock.sleep(HOUR)  # what was written lies behind the window
    cleaned = retired(table, window=HOUR)
    assert cleaned.files == 3 and cleaned.kept_until is not None
    assert set(table.logs) == logs and set(table.slice.log_names) == logs - merged
    table.check()

    at = table.serviced()
    assert purge_quarantine(at, bytes_max=0, age_seconds_max=0.0) == ()
    table.clock.sleep(HOUR + 1)
    ((run),) = purge_quarantine(at, bytes_max=None)
    assert (run.run, run.files) == (cleaned.instant, 3)
    assert set(table.logs) == logs - merged
    table.check()
    assert table.clean() == (type(table.clean()[0])(), ())


def test_what_was_published_is_read_by_the_metadata_table_first(table: RetiringTable):
    """The files go after it, so that no reader of it opens one that is gone."""
    seen: list[bool] = []
    kept = set(table.logs)

    class Watched(LocalStorage):
        def remove(self, path: str) -> bool:
            if path.rpartition("/")[2] in kept:
                seen.append(bool(completed_cleans(table.base)))
            return super().remove(path)

    table.clean(storage=Watched())
    assert seen == [True] * 3


@pytest.mark.parametrize("by_event_time", [True, False], ids=["event time", "commit time"])
def test_every_retained_moment_reads_the_same(tmp_path: Path, by_event_time: bool):
    """From the earliest instant on all is as it was, with and without a metadata table; before it nothing is read in
    part."""
    table = retiring_table(tmp_path / "table", has_metadata_table=False, by_event_time=by_event_time)
    table.log_compact()
    for number in (5, 6, 7):
        table.upsert(number)
    cleaned = retired(table)
    table.check()
    for instant, rows in table.past.items():
        if instant < cleaned.earliest_retained:
            with pytest.raises(Refused, match="the earliest moment is"):
                as_of(table, instant)
        else:
            assert as_of(table, instant) == rows


def as_of(table: RetiringTable, instant: str) -> dict[str, str]:
    past = read_as_of(LocalStorage(), scan(table.base), instant, clock=table.clock)
    rows = [row for slice_ in past.latest_slices for row in slice_rows(table.base, past, slice_)]
    return {row["id"]: row["v"] for row in rows}


def test_a_retirement_is_undone_as_a_clean_is(table: RetiringTable):
    """Every log is listed again, with what was known of its columns; what was read before can be read again."""
    logs = set(table.logs)
    view = IncrementalView(LocalStorage(), str(table.base), timezone="UTC", clock=table.clock)
    view.refresh()
    cleaned = retired(table, keep=HOUR)
    view.refresh()
    assert view.snapshot() == scan(table.base)
    (run,) = load_quarantine(LocalStorage(), str(table.base)).runs
    assert run.kind is QuarantineKind.RETIRED and run.stats
    done = undo_clean(table.serviced(), cleaned.instant)
    assert len(done.plan.files) == 3
    assert set(table.slice.log_names) == set(table.logs) == logs
    view.refresh()
    assert view.snapshot() == scan(table.base), "the daemon sees what came back"
    assert load_quarantine(LocalStorage(), str(table.base)).runs == ()
    table.check()
    for instant, rows in table.past.items():
        assert as_of(table, instant) == rows
    assert retired(table).files == 3
    table.check()


def test_a_savepoint_holds_the_logs_of_its_slices(table: RetiringTable):
    """One that was made before the log compaction names them, and it can be gone back to. Keeps 1 of
    services/clean/run/retirement_run."""
    at = table.serviced()
    saved = create_savepoint(at, None, user="u", comment="c").instant
    assert table.clean()[0].cleans == ()
    delete_savepoint(table.serviced(), saved)
    assert retired(table).files == 3


def test_a_pending_plan_holds_the_logs_that_it_reads(table: RetiringTable):
    """A log compaction that another program scheduled names them all."""
    table.plan_log_compaction()
    assert table.clean()[0].cleans == ()
    table.check()


def test_a_plan_that_comes_before_the_clean_is_completed_holds_them(
    table: RetiringTable, monkeypatch: pytest.MonkeyPatch
):
    """It was made by a listing that still has them: the clean is given up, and the next one leaves them. Keeps 1 of
    services/clean/run/retirement_run, Keeps 4 of services/clean/plan/validity."""
    before = retirement_run.RetirementRun.prepare

    def prepare(run: retirement_run.RetirementRun) -> None:
        before(run)
        table.plan_log_compaction()

    with monkeypatch.context() as patched:
        patched.setattr(retirement_run.RetirementRun, "prepare", prepare)
        with pytest.raises(TryLater, match="pending-plan"):
            table.clean()
    table.check()
    assert completed_cleans(table.base) == {}
    (cleaned,) = table.clean()[0].cleans
    assert (cleaned.files, len(cleaned.kept)) == (0, 3)
    assert set(table.slice.log_names) == set(table.logs)


def test_a_log_whose_output_is_lost_before_the_clean_is_completed_stays(
    table: RetiringTable, monkeypatch: pytest.MonkeyPatch
):
    """Nothing else has its rows then. Keeps 1 of services/clean/run/retirement_run, Keeps 4 of
    services/clean/plan/validity."""
    ((compaction,),) = scan(table.base).log_compactions.values()
    before = retirement_run.RetirementRun.prepare

    def prepare(run: retirement_run.RetirementRun) -> None:
        before(run)
        for output in (table.base / "p").glob(f"*_{compaction.instant}_*"):
            output.unlink()

    with monkeypatch.context() as patched:
        patched.setattr(retirement_run.RetirementRun, "prepare", prepare)
        with pytest.raises(TryLater, match="no output of a log compaction stands for it"):
            table.clean()
    assert completed_cleans(table.base) == {}
    assert compaction.log_files <= set(table.logs)


def test_a_plan_that_names_a_log_which_retired_keeps_it_there(table: RetiringTable):
    """Its planner listed the storage: the log is not deleted before the plan is carried out, however long that takes,
    and then it is."""
    logs, merged = table.logs, merged_logs(table)
    retired(table, keep=1.0)
    instant = table.plan_log_compaction(logs)
    table.clock.sleep(HOUR)
    assert table.clean()[1] == () and table.logs == logs
    bench = Bench(table.base)
    bench.clock = table.clock
    (plan,) = bench.compactor(NOTHING).compact().plans
    assert plan.instant == instant and plan.completion_time is not None
    table.check()
    table.clean(rules(retain=20))
    assert merged.isdisjoint(table.logs)
    table.check()


def test_logs_that_another_engine_planned_to_merge_stay(tmp_path: Path):
    """Their output names them, and Hudi's log compaction would ignore it once they are gone."""
    table = retiring_table(tmp_path / "table", has_metadata_table=False)
    table.log_compact(foreign=True)
    for number in (5, 6, 7):
        table.upsert(number)
    assert table.clean()[0].cleans == ()
    table.check()


def test_another_engine_that_ends_a_clean_deletes_no_log(table: RetiringTable, monkeypatch: pytest.MonkeyPatch):
    """Hudi's writers carry out any pending clean, and delete first: the plan names no file that they would."""
    monkeypatch.setattr(retirement_run.RetirementRun, "work", _die)
    with pytest.raises(KeyboardInterrupt):
        table.clean()
    (requested,) = (
        path
        for path in (table.base / TIMELINE).iterdir()
        if (instant := parse_instant(path.name, 2)) and (instant.action, instant.state) == ("clean", State.REQUESTED)
    )
    plan = read_clean_plan(requested.read_bytes(), root=f"file:{table.base}", file=requested.name)
    assert plan.files == {} and {*plan.retired["p"]} == merged_logs(table)


def _die(*given: object) -> None:
    raise KeyboardInterrupt


def test_a_slice_goes_before_any_log_retires(table: RetiringTable):
    """Two cleans, of which the first one does not say that nothing is left. Keeps 3 of services/clean/plan/decision."""
    bench = Bench(table.base)
    bench.clock = table.clock
    bench.compactor(planner_of(CompactionType.FULL, GroupFilter(), {})).compact()
    for number in range(10, 14):
        table.upsert(number)
    table.log_compact()
    for number in range(14, 17):
        table.upsert(number)
    first, second = table.clean()[0].cleans
    assert (first.retires, second.retires, second.files) == (False, True, 4)
    said = {name.partition("_")[0]: clean.extra_metadata for name, clean in completed_cleans(table.base).items()}
    assert LEFT_NOTHING not in said[first.instant] and LEFT_NOTHING in said[second.instant]
    table.check()


def test_an_output_of_outputs_retires_the_outputs(table: RetiringTable):
    """Whatever is left of an earlier log compaction, the last output reads alone."""
    retired(table)
    table.log_compact()
    for number in (8, 9, 10):
        table.upsert(number)
    assert retired(table).files == 4
    table.check()
    assert len(table.logs) == 4


def test_a_retired_log_that_came_back_by_hand_is_no_trouble(table: RetiringTable):
    """A crash or a person may leave one there: who lists it reads the same rows, and the next clean lets it retire."""
    before = {name: (table.base / "p" / name).read_bytes() for name in table.logs}
    retired(table)
    for name in set(before) - set(table.logs):
        (table.base / "p" / name).write_bytes(before[name])
    replace(table, has_metadata_table=False).check()


def test_nothing_retires_in_the_layout_default(table: RetiringTable):
    """Hudi's reader would ignore the output where it meets nothing of what that merged."""
    properties = table.base / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("lsm_tree", "default").replace("LSM_TREE", "DEFAULT"))
    assert scan(table.base).log_compactions
    assert all(not clean.retires for clean in table.clean()[0].cleans)


def test_what_readers_need_waits(table: RetiringTable):
    """Nothing retires by fewer commits than are kept, nor within the reader window after the log compaction."""
    assert table.clean(rules(retain=20))[0].cleans == ()
    assert table.clean(rules(window=HOUR))[0].cleans == ()
    table.clock.sleep(HOUR)
    assert retired(table, window=HOUR).files == 3


def test_the_dry_run_says_what_retires_and_what_waits(table: RetiringTable):
    """Both with their bytes; `explain --file` says of a log what it waits for."""
    snapshot = scan(table.base)
    for retain, retires in ((2, True), (20, False)):
        policy = CleanPolicy(CleanPolicyKind.COMMITS, retain)
        outcome = plan_clean(snapshot, policy, now=table.clock.now())
        console = Console(record=True, width=200, file=io.StringIO())
        render_clean(outcome, console)
        text, document = console.export_text(), clean_as_json(outcome)
        found = {each["file"] for each in document["retiring" if retires else "retiring_later"]}
        assert found == merged_logs(table) and bool(document["retiring"]) == retires
        assert ("3 logs of 9.0 kB would go" in text or "To retire" in text) == retires
        assert ("Merged and waiting, too-few-commits: 3 logs" in text) != retires
        path = f"p/{min(found)}"
        explained = FileExplainer(snapshot, outcome, FileFacts()).explain(path)
        expected = KeepReason.NEWEST if retires else KeepReason.TOO_FEW_COMMITS
        assert [each.reason for each in explained.keepers] == [expected]
