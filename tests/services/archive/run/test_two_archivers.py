"""Our archiver and another one, that goes step by step as Hudi's does, over one timeline: one of them stops in every
place, and the other goes on. No instant is lost, and what was written twice, our merge of levels makes one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError
from lakeward.format.timeline.history import HistoryFile, HistoryRow, dump_manifest, manifest_name, parse_manifest_name
from lakeward.format.timeline.history_file import decode_rows, encode_rows
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.services.archive.run import archiver as archiving
from tests.crash.compacting import age_temporary_files
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden, expected_rows
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses
from tests.runs import spread
from tests.services.archive.run.archiving import all_instants, archive, archived_rows, completed, folder_of, history_of

LOCK = FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0)
GOES = 2
"""How many of the golden table's commits may go."""


@pytest.fixture(autouse=True)
def batches_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that levels are merged, too."""
    monkeypatch.setattr(archiving, "BATCH_INSTANTS", 1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table")


@pytest.fixture
def rows(table: Path, tmp_path: Path) -> dict[str, HistoryRow]:
    """What the archive says of each commit that may go, by its time."""
    whole = Path(shutil.copytree(table, tmp_path / "whole"))
    archive(whole)
    (file,) = history_of(whole).sizes
    with (Path(folder_of(whole)) / file.name).open("rb") as source:
        return {row.time: row for row in decode_rows(source, path=file.name)}


def hudis_steps(base: Path, rows: dict[str, HistoryRow]) -> Iterator[str]:
    """What Hudi's archiver does, up to the step that is named. It does not ask what the archive has already."""
    timeline, folder = base / ".hoodie" / "timeline", Path(folder_of(base))
    instants = [each.time for each in completed(base) if each.time in rows]
    if not instants:
        return
    folder.mkdir(exist_ok=True)
    history = history_of(base)
    file = HistoryFile(instants[0], instants[-1], 0)
    content = encode_rows(rows[time] for time in instants)
    if file not in history.sizes:
        (folder / file.name).write_bytes(content)
    yield "rows"
    # It finds the newest version by `_version_`, and takes what is in its way.
    said = int((folder / "_version_").read_text()) if (folder / "_version_").exists() else highest(folder)
    manifest = folder / manifest_name(said + 1)
    manifest.write_bytes(dump_manifest({**history.sizes, file: len(content)}))
    yield "manifest"
    (folder / "_version_").unlink(missing_ok=True)
    yield "no version"
    (folder / "_version_").write_text(str(said + 1))
    yield "version"
    files = [(path, parse_instant(path.name, 2)) for path in sorted(timeline.iterdir())]
    for is_completed in (False, True):
        for path, instant in files:
            if (
                instant is None
                or instant.time not in instants
                or (instant.state is State.COMPLETED) is not is_completed
            ):
                continue
            path.unlink(missing_ok=True)
            yield f"deleted {path.name}"


def highest(folder: Path) -> int:
    return max((n for path in folder.iterdir() if (n := parse_manifest_name(path.name)) is not None), default=0)


def hudi_archives(base: Path, rows: dict[str, HistoryRow], steps: int | None = None) -> None:
    for number, _ in enumerate(hudis_steps(base, rows), 1):
        if number == steps:
            return


def check(base: Path, before: set[tuple[str, str, str | None]]) -> None:
    """True at every moment."""
    assert all_instants(base) == before
    assert read_rows(base) == expected_rows("v9")


def check_in_the_end(base: Path, before: set[tuple[str, str, str | None]], rows: dict[str, HistoryRow]) -> None:
    archive(base, lock=LOCK)
    check(base, before)
    assert [row[0] for row in archived_rows(base)] == sorted(rows)
    assert not {each.time for each in completed(base)} & set(rows)


def test_hudi_dies_after_any_of_its_steps_and_own_goes_on(table: Path, rows: dict[str, HistoryRow]) -> None:
    """What it left is used, or passed over. Keeps 4 of services/archive/run/archiver."""
    before, steps = all_instants(table), 0
    assert len(rows) == GOES
    for number, step in enumerate(list(hudis_steps(Path(shutil.copytree(table, table.with_name("trial"))), rows)), 1):
        base = Path(shutil.copytree(table, table.with_name(f"died-{number}")))
        hudi_archives(base, rows, number)
        check(base, before)
        try:
            check_in_the_end(base, before, rows)
        except BaseException as error:
            error.add_note(f"it died after: {step}")
            raise
        steps = number
    assert steps == 4 + 3 * GOES


EVERY = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.wide)])
"""Which of our calls: CI has time for each fifth."""


@EVERY
def test_hudi_archives_between_any_two_of_our_calls(table: Path, rows: dict[str, HistoryRow], every: int) -> None:
    """Our lock is taken from us there; Lakeward's archiver stops at its next fence, or has lost nothing by going on.
    Keeps 1 and 3 of services/archive/run/archiver."""
    before = all_instants(table)

    def meanwhile(base: Path) -> None:
        (base / ".hoodie" / ".locks" / "lock").unlink(missing_ok=True)
        shutil.rmtree(base / ".hoodie" / "lock", ignore_errors=True)
        (base / ".hoodie" / "lock").unlink(missing_ok=True)
        hudi_archives(base, rows)

    at_each_call(table, before, rows, meanwhile, every)


@EVERY
def test_own_dies_at_any_call_and_hudi_goes_on(table: Path, rows: dict[str, HistoryRow], every: int) -> None:
    """It archives what it finds on the timeline a second time, and our next run ends it. Keeps 4 of
    services/archive/run/archiver."""
    before = all_instants(table)
    at_each_call(table, before, rows, None, every)


def at_each_call(
    table: Path,
    before: set[tuple[str, str, str | None]],
    rows: dict[str, HistoryRow],
    meanwhile: Callable[[Path], None] | None,
    every: int,
) -> None:
    """Stop Lakeward's at each of these calls: something happens before it, or, where that is None, our process dies at
    it."""
    unhurt = FaultyStorage()
    archive(Path(shutil.copytree(table, table.with_name("unhurt"))), unhurt, lock=LOCK)
    for call in spread(range(0, len(unhurt.calls), every)):
        base, processes = Path(shutil.copytree(table, table.with_name("struck"))), ScriptedProcesses()
        dies = meanwhile is None
        storage = FaultyStorage(Fault(FaultKind.KILL, call)) if dies else _Interrupted(call, partial(meanwhile, base))
        try:
            with suppress(LakewardError, OSError, Killed):
                archive(base, storage, processes, lock=LOCK)
            check(base, before)
            processes.kill_all()
            age_temporary_files(base)
            hudi_archives(base, rows)
            check(base, before)
            check_in_the_end(base, before, rows)
        except BaseException as error:
            error.add_note(f"at call {call}: {unhurt.calls[call]}")
            raise
        shutil.rmtree(base)


class _Interrupted(FaultyStorage):
    """Lets something happen before its n-th call."""

    def __init__(self, call: int, act: Callable[[], None]) -> None:
        super().__init__()
        self._at, self._act = call, act

    def _call(self, name, path, act, tear=None):  # type: ignore[no-untyped-def]
        if len(self.calls) == self._at:
            self._act()
        return super()._call(name, path, act, tear)
