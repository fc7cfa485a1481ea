"""A table of which nothing says the zone of its writers, and whose metadata table is ahead of it, under services."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError
from lakeward.cli.main import run
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.protocol.times.seen_times import FOLDER, find_minted
from lakeward.storage.local import LocalStorage
from lakeward.table.timeline.new_time import times_after
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE, METADATA_TIMELINE, timeline
from tests.services.bench import Bench
from tests.services.rollback.run.failed_tables import fail_last_write

STOPPED = ("--writers", "stopped")


def forget_times(base: Path) -> None:
    """The table looks like a copy of years ago, whose properties have no head."""
    for folder in (DATA_TIMELINE, METADATA_TIMELINE):
        for file in (base / folder).iterdir() if (base / folder).exists() else ():
            os.utime(file, (1e9, 1e9))
    properties = base / ".hoodie" / "hoodie.properties"
    lines = properties.read_bytes().splitlines(keepends=True)
    properties.write_bytes(b"".join(line for line in lines if not line.startswith(b"#")))


def times(base: Path, *folders: str) -> set[str]:
    """All that the timelines say."""
    found = [each for folder in folders if (base / folder).exists() for each in timeline(base, folder)]
    return {each.time for each in found} | {each.completion_time for each in found if each.completion_time}


def lakeward(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    exit_code = run([*arguments, "--json"])
    return exit_code, json.loads(capsys.readouterr().out or "{}")


COMPACT = ("compact", "--type", "full", "--engine", "local", "--no-metadata-services", *STOPPED)
CLEAN = ("clean", "--policy", "versions", "--retain", "1", "--reader-window", "0", *STOPPED)
SERVICES: dict[str, tuple[tuple[str, ...], int]] = {
    "compact": (COMPACT, 3),
    "log": (("compact", "--type", "log", "--engine", "local", "--no-metadata-services", *STOPPED), 3),
    "savepoint": (("savepoint", "create", *STOPPED), 1),
    "clean": (CLEAN, 3),
    "clean by hours": (("clean", "--policy", "hours", "--retain", "1", "--reader-window", "0", *STOPPED), 3),
    "undo": (("quarantine", "restore", *STOPPED), 5),  # a compaction of the metadata table comes after it
    "clean of the metadata table": (("metadata", "clean", *STOPPED), 2),
    "restore": (("restore", *STOPPED, "--to"), 3),
    "rollback": (("rollback", *STOPPED), 4),
}
"""Each with the number of times that it mints."""


@pytest.mark.slow
@pytest.mark.parametrize("service", SERVICES)
def test_every_time_is_greater_than_all_that_there_was(
    service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction of the metadata table is a week newer than the newest commit, whose times of 2026-11-21 are UTC's.
    What the service puts on the timeline comes right after that, a millisecond each, and none twice: also where two
    writes are rolled back in one section of the lock, and where a restore begins and ends in one."""
    if service == "clean of the metadata table":
        monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)
    command, number = SERVICES[service]
    base = copy_golden("v9" if service == "rollback" else "v9_metadata", tmp_path / "table")

    def prepare(*command: str) -> dict[str, object]:
        exit_code, printed = lakeward(capsys, *_on(base, command))
        assert exit_code == 0, printed
        return printed

    if service == "rollback":
        fail_last_write(base)
        fail_last_write(base)
    if service in ("clean", "undo"):
        prepare(*COMPACT, "--timezone", "UTC")
    if service == "clean by hours":
        forget_times(base)
        prepare(*COMPACT)
        rows = tmp_path / "rows.json"
        rows.write_text('{"id": "k1", "name": "new", "ts": 99, "part": "p"}\n')
        forget_times(base)
        prepare("write", "--input", str(rows), "--timezone", "UTC", *STOPPED)
    if service == "undo":
        cleaned = prepare(*CLEAN, "--timezone", "UTC", "--keep-deleted", "1h")
        command = (*command, cleaned["cleans"][0]["instant"])  # type: ignore[index]
    if service == "restore":
        command = (*command, min(each.time for each in timeline(base, DATA_TIMELINE)))
    if service != "rollback":
        prepare("metadata", "compact", *STOPPED, "--timezone", "UTC")
    minted = find_minted(LocalStorage(), str(base))
    shutil.rmtree(base / ".hoodie" / FOLDER, ignore_errors=True)  # as if Hudi had compacted it
    forget_times(base)
    before = times(base, DATA_TIMELINE, METADATA_TIMELINE)
    exit_code, printed = lakeward(capsys, *_on(base, command))
    assert exit_code == 0, printed
    new = times(base, DATA_TIMELINE, METADATA_TIMELINE) - before
    assert max(before) == minted or minted is None, "the metadata table's compaction came last"
    # The first that a restore mints remembers the times of the metadata table, which it removes.
    assert sorted(new) == times_after(max(before), number)[1 if service == "restore" else 0 :]
    assert find_minted(LocalStorage(), str(base)) == max(new)


def _on(base: Path, command: tuple[str, ...]) -> tuple[str, ...]:
    number = 2 if command[0] in ("savepoint", "metadata", "quarantine") else 1
    return (*command[:number], str(base), *command[number:])


def test_reads_never_ask_and_writes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The zone is nothing to those who only read; a write names the key to set, and leaves the table as it was."""
    base = copy_golden("v9_metadata", tmp_path / "table")
    forget_times(base)
    for command in ("verify", "plan", "inspect"):
        assert lakeward(capsys, command, str(base))[0] == 0, command
    rows = tmp_path / "rows.json"
    rows.write_text('{"id": "a"}\n')
    before = times(base, DATA_TIMELINE)
    assert run(["write", str(base), "--input", str(rows), *STOPPED]) == 2
    shown = capsys.readouterr().err
    assert "timezone-unknown" in shown and "[defaults]" in shown
    assert times(base, DATA_TIMELINE) == before


def test_a_restore_that_has_no_new_time_leaves_the_metadata_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It removes that table first, and so mints before."""
    base = copy_golden("v9_metadata", tmp_path / "table")
    (base / ".hoodie" / FOLDER).mkdir(parents=True)
    (base / ".hoodie" / FOLDER / "20991231000000000").write_text("{}")
    forget_times(base)
    before = times(base, DATA_TIMELINE, METADATA_TIMELINE)
    first = min(each.time for each in timeline(base, DATA_TIMELINE))
    assert run(["restore", str(base), "--to", first, *STOPPED]) != 0
    assert "instant-in-future" in capsys.readouterr().err
    assert times(base, DATA_TIMELINE, METADATA_TIMELINE) == before


def test_a_plan_that_is_made_again_has_another_time(tmp_path: Path) -> None:
    """Nothing of the first is left on the timeline, but a task of it may still live."""
    bench = Bench(copy_golden("v9", tmp_path / "table"))
    forget_times(bench.base)
    instants = []
    working = bench.run

    def fail(spec: OperationSpec, task_attempt: int) -> OperationResult:
        raise OSError("no")

    for _ in range(3):
        bench.run = fail  # type: ignore[assignment]
        with pytest.raises((OSError, LakewardError)):
            bench.compactor(timezone=None).compact()
        (instant,) = {each.time for each in timeline(bench.base, DATA_TIMELINE) if each.action == "compaction"}
        instants.append(instant)
        bench.compactor(timezone=None).unschedule(instant)
        assert not [each for each in timeline(bench.base, DATA_TIMELINE) if each.action == "compaction"]
    assert instants == sorted(set(instants)) and len(instants) == 3
    bench.run = working
    bench.compactor(timezone=None).compact()
