"""A choice is asked where something may be dead, and what is: the cleaner then lists these partitions and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.format.timeline.clean_metadata import VERSION, CleanMetadata, write_clean_metadata
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.services.clean.plan.consumer import parse_place
from lakeward.services.clean.plan.decision import LEFT_NOTHING
from lakeward.services.clean.plan.policy import CleanOptions, CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run.clean_choice import CleanChoice
from lakeward.services.clean.run.cleaner import Cleaner, CleanReport, Where
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.timeline.cleans import UNDOES
from tests.clocks import SettableClock, SkippingClock
from tests.faults import FaultyStorage
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import completed_cleans, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.table.table_history import TableHistory

A, B = "aaaaaaaa-0", "bbbbbbbb-0"
OPTIONS = CleanOptions(CleanPolicy(CleanPolicyKind.COMMITS, 1), reader_window=0)


@pytest.fixture
def history(tmp_path: Path) -> TableHistory:
    """A partition with four slices, written last, and one with three."""
    history = TableHistory(tmp_path / "t", seed=1)
    for _ in range(3):
        history.rewrite("p=1", A)
        history.rewrite("p=2", B)
    history.rewrite("p=1", A)
    return history


def choice(history: TableHistory, options: CleanOptions = OPTIONS) -> CleanChoice:
    return CleanChoice(LocalStorage(), str(history.base), options, clock=SkippingClock())


def clean(history: TableHistory, storage: FaultyStorage, where: Where | None = None) -> CleanReport:
    chosen = choice(history)

    def choose(snapshot: TableSnapshot) -> CleanPlan | None:
        outcome = chosen.outcome(snapshot)
        return outcome.plan({}) if any(outcome.dead) else None

    table = serviced_table(str(history.base), storage, ScriptedProcesses())
    return Cleaner(table, {}).clean(choose, where or chosen.where)


def seen(history: TableHistory) -> TableSnapshot:
    return take_snapshot(LocalStorage(), str(history.base), clock=SkippingClock())


def listed(storage: FaultyStorage) -> set[str]:
    """The partitions that were listed before the first deletion."""
    calls = storage.calls[: next(n for n, call in enumerate(storage.calls) if call.startswith("remove "))]
    return {call.rpartition("/")[2] for call in calls if call.startswith("list ") and "/p=" in call}


def test_the_second_clean_lists_what_was_written_to(history: TableHistory) -> None:
    """The first left nothing and says so; what goes is what a look at everything finds."""
    everywhere, somewhere = FaultyStorage(), FaultyStorage()
    clean(history, everywhere)
    assert listed(everywhere) == {"p=1", "p=2"}
    assert [LEFT_NOTHING in each.extra_metadata for each in completed_cleans(history.base).values()] == [True]

    for _ in range(2):
        history.rewrite("p=1", A)
    snapshot = seen(history)
    dead = {f"p=1/{name}" for each in choice(history).outcome(snapshot).dead for name in each.file_names}
    before = data_files(history.base)
    clean(history, somewhere)
    assert listed(somewhere) == {"p=1"}
    assert dead and before - data_files(history.base) == dead


def test_what_was_committed_meanwhile_makes_it_look_everywhere(history: TableHistory) -> None:
    """The timeline is listed again with the files: what is dead by it may lie elsewhere."""
    storage, asked = FaultyStorage(), []

    def where(snapshot: TableSnapshot) -> frozenset[str]:
        asked.append(snapshot.partitions)
        return frozenset(["p=1"] if len(asked) == 1 else ["p=1", "p=2"])

    (cleaned,) = clean(history, storage, where).cleans
    assert asked == [(), ("p=1",)]
    assert listed(storage) == {"p=1", "p=2"} and cleaned.files == 4


def test_it_is_turned_off(history: TableHistory) -> None:
    """With `hoodie.clean.incremental.enabled=false` everything is looked at."""
    clean(history, FaultyStorage())
    history.rewrite("p=1", A)
    snapshot = seen(history)
    assert choice(history).where(snapshot) == {"p=1"}
    off = CleanOptions(OPTIONS.policy, reader_window=0, is_incremental=False)
    assert choice(history, off).where(snapshot) is None


def test_a_clean_that_cannot_be_read_is_no_base(history: TableHistory) -> None:
    """Everything is looked at; the timeline's own checks say that it is broken."""
    clean(history, FaultyStorage())
    (file,) = (history.base / ".hoodie/timeline").glob("*_*.clean")
    file.write_bytes(b"torn")
    history.rewrite("p=1", A)
    snapshot = seen(history)
    assert choice(history).where(snapshot) is None


def test_a_clean_that_was_undone_is_no_base(history: TableHistory) -> None:
    """What it took away is back, in partitions that nothing was written to since; an older base stands."""
    clean(history, FaultyStorage())
    for _ in range(2):
        history.rewrite("p=2", B)
    (cleaned,) = clean(history, FaultyStorage()).cleans
    assert choice(history).where(seen(history)) == set(), "nothing was written since"
    undo = CleanMetadata(version=VERSION, earliest_retained="x", extra_metadata={UNDOES: cleaned.instant})
    (history.timeline / "20991231000000000_20991231000001000.clean").write_bytes(write_clean_metadata(undo))
    assert choice(history).where(seen(history)) == {"p=1", "p=2"}, "from the first clean on"


def test_one_choice_is_of_one_moment(history: TableHistory, tmp_path: Path) -> None:
    """Keeps 1 of services/clean/run/clean_choice: where and what are asked one after the other, while time passes and
    consumers read on."""
    file, clock = tmp_path / "watermark", SettableClock(1_000_000_000.0)
    commits = sorted((history.base / ".hoodie/timeline").glob("*_*"))
    file.write_text(commits[2].name.partition("_")[2].partition(".")[0])
    options = CleanOptions(OPTIONS.policy, reader_window=60, consumers={"daily": parse_place(f"file:{file}")})
    chosen = CleanChoice(LocalStorage(), str(history.base), options, clock=clock)
    snapshot = seen(history)
    chosen.where(snapshot)
    before = chosen.outcome(snapshot)
    clock.step(1e9)
    file.write_text(commits[-1].name.partition("_")[2].partition(".")[0])
    assert chosen.outcome(snapshot) == before
    assert CleanChoice(LocalStorage(), str(history.base), options, clock=clock).outcome(snapshot) != before
