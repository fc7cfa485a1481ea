"""What the other services make of the logs of changes that compactions left: they come and go with their slice."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from lakeward.cli.configured_table import open_table
from lakeward.cli.look.explain_command import explanation_of
from lakeward.format.file_name import CDC_SUFFIX, parse_any_data_file
from lakeward.format.timeline.compaction_plan import read_compaction_plan, write_compaction_plan
from lakeward.format.timeline.instant import format_instant_time, parse_instant_time
from lakeward.services.clean.run.orphans import look
from lakeward.services.clean.run.undo import undo_clean
from lakeward.services.savepoint.run import create_savepoint
from lakeward.services.together.inspection import inspect_table
from lakeward.storage.local import LocalStorage
from lakeward.table.timeline.savepoints import read_savepoints
from tests.clocks import SkippingClock
from tests.crash.capturing import capture_changes, change_logs
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.bench import NOTHING, Bench
from tests.services.clean.run.cleaning import clean, data_files
from tests.services.clean.run.test_orphans import stray_instant, table_at
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.together.restore.run.test_restore import LAST, THIRD, but_restores, go_back, without


def compact(bench: Bench) -> tuple[str, str]:
    """Its instant, and when it completed. A minute passes."""
    (plan,) = bench.compactor().compact().plans
    assert plan.completion_time is not None
    bench.clock.sleep(60.0)
    return plan.instant, plan.completion_time


def write_last_again(base: Path, after: str) -> str:
    """The last commit of the golden table as if it had come after that time. Returns its instant."""
    golden = copy_golden("v9", base.with_name("golden"))
    completed = next((golden / DATA_TIMELINE).glob(f"{LAST}_*")).name.partition(".")[0].partition("_")[2]
    milliseconds = parse_instant_time(after, UTC)
    times = {old: format_instant_time(milliseconds + 1 + n, UTC) for n, old in enumerate((LAST, completed))}
    for path in golden.rglob(f"*{LAST}*"):
        name, content = str(path.relative_to(golden)), path.read_bytes()
        for old, new in times.items():
            name, content = name.replace(old, new), content.replace(old.encode(), new.encode())
        (base / name).write_bytes(content)
        os.utime(base / name, (milliseconds / 1000, milliseconds / 1000))
    return times[LAST]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, str, str]]:
    """A table with two compactions that captured changes and a delta commit between, and these three instants."""
    base = without(copy_golden("v9", tmp_path_factory.mktemp("captured") / "table"), LAST)
    capture_changes(base)
    bench = Bench(base)
    bench.clock.slept = -600.0
    first, completed = compact(bench)
    write = write_last_again(base, completed)
    second, _ = compact(bench)
    return base, (first, write, second)


@pytest.fixture
def instants(captured: tuple[Path, tuple[str, str, str]]) -> tuple[str, str, str]:
    return captured[1]


@pytest.fixture
def base(captured: tuple[Path, tuple[str, str, str]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(captured[0], tmp_path / "table", copy_function=shutil.copy2))


def of(base: Path, *written_by: str) -> set[str]:
    """The data files that carry these instants."""
    names = {path: parse_any_data_file(path[2:], native=False) for path in data_files(base)}
    return {path for path, name in names.items() if name is not None and name.instant in written_by}


def test_a_clean_takes_it_with_its_slice_and_an_undo_brings_it_back(base: Path, instants: tuple[str, str, str]) -> None:
    """The slice that is left has its own; what is kept for an undo has all of them."""
    first, _, second = instants
    before = data_files(base)
    assert len(change_logs(base)) == 2 and len(of(base, first, second)) == 4
    (cleaned,) = clean(base, LocalStorage(), keep_seconds=3600.0).cleans
    assert data_files(base) == of(base, second) and len(change_logs(base)) == 1
    undo_clean(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), cleaned.instant)
    assert data_files(base) == before
    clean(base, LocalStorage())
    assert data_files(base) == of(base, second)
    assert read_rows(base)


def test_a_restore_takes_it_with_its_compaction(base: Path, instants: tuple[str, str, str], tmp_path: Path) -> None:
    """To the commit before the second compaction, and to that before both."""
    for gone, target in ((instants[2:], instants[1]), (instants, THIRD)):
        expected = without(Path(shutil.copytree(base, tmp_path / target)), *gone)
        go_back(base, target)
        assert but_restores(base) == but_restores(expected)
        assert read_rows(base) == read_rows(expected)


def test_a_savepoint_pins_it(base: Path, instants: tuple[str, str, str]) -> None:
    """The savepoint of a compaction names it beside the base file, as Hudi's does."""
    table = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
    create_savepoint(table, instants[0], user="ann", comment="why")
    snapshot = scan(base)
    (savepoint,) = read_savepoints(LocalStorage(), str(base), snapshot.config, snapshot.timeline)
    assert {f"p/{name}" for name in savepoint.files["p"]} >= of(base, instants[0])
    clean(base, LocalStorage())
    assert of(base, instants[0]) == {path for path in data_files(base) if instants[0] in path} != set()


def test_a_report_says_it_from_logs_of_rows(base: Path) -> None:
    """`totals` says how many of the logs are of changes; none of them waits to be merged."""
    report = inspect_table(LocalStorage(), str(base), timezone="UTC", clock=SkippingClock())
    names = {log["name"]: log["size"] for of in report["file_groups"][0]["slices"] for log in of["log_files"]}
    sizes = [names[name] for name in change_logs(base)]
    assert (report["totals"]["log_files"], report["totals"]["change_logs"]) == (5, 2)
    assert report["totals"]["change_log_bytes"] == sum(sizes) > 0
    assert report["backlog"]["log_files"] == 0


def test_explain_names_it_among_the_files_of_its_compaction(base: Path, instants: tuple[str, str, str]) -> None:
    """It is distinguished from logs of rows there."""
    explained = explanation_of(open_table(str(base), None, timezone="UTC"))
    files = {file.path: file for file in explained.instant(instants[2]).files}
    assert files.keys() == of(base, instants[2])
    assert [file.is_change_log for path, file in sorted(files.items())] == [True, False]


def test_one_of_no_instant_is_an_orphan(base: Path) -> None:
    """It is found by its name, as any other data file."""
    (known, _) = change_logs(base)
    instant = stray_instant(base)
    stray = known.replace(known.split("_")[1].partition(".")[0], instant)
    (base / "p" / stray).write_bytes(b"stray")
    (decision,) = look(table_at(base, LocalStorage()), age_seconds=0.0)
    assert (decision.file.path, decision.proof) == (f"p/{stray}", "no-instant")


def test_a_plan_is_carried_out_that_does_not_name_it(base: Path, instants: tuple[str, str, str]) -> None:
    """Lakeward's do, as Hudi's do; but there is nothing in it that another plan would have to merge."""
    rows, second = read_rows(base), instants[2]
    requested = base / DATA_TIMELINE / f"{second}.compaction.requested"
    plan = read_compaction_plan(requested.read_bytes(), file=requested.name)
    (operation,) = plan.operations
    logs = tuple(name for name in operation.log_files if not name.endswith(CDC_SUFFIX))
    assert len(logs) == len(operation.log_files) - 1
    without(base, second)
    requested.write_bytes(write_compaction_plan(replace(plan, operations=(replace(operation, log_files=logs),))))

    (done,) = Bench(base).compactor(NOTHING).compact().plans

    assert (done.instant, read_rows(base)) == (second, rows)
    assert len(of(base, second)) == 2
