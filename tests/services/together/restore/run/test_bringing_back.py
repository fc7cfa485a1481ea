"""A table goes back to a commit whose files a clean has set aside: they are brought back first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.format.timeline.clean_plan import CleanPlan, write_clean_plan
from lakeward.format.timeline.instant import State
from lakeward.services.together.restore.run.restore import preview_restore
from lakeward.services.together.restore.run.restore_preparation import BroughtBack
from lakeward.storage.local import LocalStorage
from lakeward.table.quarantine import load_quarantine
from tests.crash.compacting import everything, is_leftover
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.metadata_golden import DATA_TIMELINE, timeline
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import clean, compacted, completed_cleans, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.together.restore.run.test_restore import LATER, go_back, without

HOUR = 3600.0


def commits(base: Path) -> list[str]:
    return [
        each.time
        for each in timeline(base, DATA_TIMELINE)
        if each.state is State.COMPLETED and each.action in ("commit", "deltacommit")
    ]


def then(table: Path, folder: Path) -> Path:
    """The table as of its second commit."""
    return without(Path(shutil.copytree(table, folder)), *commits(table)[2:])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return compacted("v9", tmp_path / "table")


def test_what_a_clean_set_aside_is_used(table: Path, tmp_path: Path) -> None:
    """Keeps 1 of services/together/restore/run/restore_preparation: as if there had never been a clean. A dry run says
    which one is undone, and writes nothing; where nothing of it is needed it stays as it is."""
    target, newest = commits(table)[1], commits(table)[-1]
    expected = then(table, tmp_path / "expected")
    taken = len(data_files(table))
    size = sum((table / path).stat().st_size for path in data_files(table) if newest not in path)
    (cleaned,) = clean(table, LocalStorage(), keep_seconds=HOUR).cleans
    assert read_rows(table) != read_rows(expected)
    before = everything(table)
    shown = preview_restore(serviced_table(str(table), LocalStorage(), ScriptedProcesses()), target)
    assert everything(table) == before
    assert shown.brought_back == (BroughtBack(cleaned.instant, taken - 1, size),)
    assert go_back(table, newest).planned.brought_back == ()
    assert everything(table) == before

    done = go_back(table, target)

    assert done.planned == shown
    assert data_files(table) == data_files(expected)
    assert read_rows(table) == read_rows(expected)
    assert load_quarantine(LocalStorage(), str(table)).runs == ()
    assert [each.extra_metadata.get("lakeward.undoes") for each in completed_cleans(table).values()] == [
        None,
        cleaned.instant,
    ]


def test_after_an_undo_by_hand(table: Path) -> None:
    """The clean does not count any more."""
    from lakeward.services.clean.run.undo import undo_clean

    (cleaned,) = clean(table, LocalStorage(), keep_seconds=HOUR).cleans
    undo_clean(serviced_table(str(table), LocalStorage(), ScriptedProcesses()), cleaned.instant)
    done = go_back(table, commits(table)[1])
    assert done.restore is not None and done.planned.brought_back == ()


def test_what_is_gone_for_good_is_named(table: Path) -> None:
    """Keeps 2 of services/together/restore/run/restore_preparation: the clean, and why it cannot be undone; nothing is
    written."""
    (cleaned,) = clean(table, LocalStorage()).cleans
    before = everything(table)
    with pytest.raises(Refused, match="not all of its files are there") as error:
        go_back(table, commits(table)[1])
    assert f"Clean {cleaned.instant} took files away since, and cannot be undone" in error.value.why
    assert "deleted at once" in error.value.why
    assert [path for path in everything(table) if not is_leftover(path)] == before


def test_a_clean_that_died_while_it_set_files_aside(table: Path, tmp_path: Path) -> None:
    """It is ended as it was begun, and then undone; another pending one is not ended."""
    target = commits(table)[1]
    expected = then(table, tmp_path / "expected")
    unhurt = FaultyStorage()
    clean(Path(shutil.copytree(table, tmp_path / "trial")), unhurt, keep_seconds=HOUR)
    moves = [n for n, call in enumerate(unhurt.calls) if call.startswith("move ") and "/p/" in call]
    processes = ScriptedProcesses()
    with pytest.raises(Killed):
        clean(table, FaultyStorage(Fault(FaultKind.KILL, moves[len(moves) // 2])), processes, keep_seconds=HOUR)
    processes.kill_all()
    (begun,) = load_quarantine(LocalStorage(), str(table)).runs
    needed = next(path.name for path in (table / "p").glob(f"*{commits(table)[-1]}*"))
    plan = write_clean_plan(CleanPlan(None, target, {"p": (needed,)}, policy="KEEP_LATEST_COMMITS"), root=str(table))
    (table / DATA_TIMELINE / f"{LATER}.clean.requested").write_bytes(plan)

    done = go_back(table, target, processes=processes)

    assert [each.clean for each in done.planned.brought_back] == [begun.run]
    assert done.planned.cleans == (LATER,)
    assert data_files(table) == data_files(expected)
    assert read_rows(table) == read_rows(expected)
