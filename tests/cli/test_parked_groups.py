"""One file group that fails on what it holds does not keep the table's others from being compacted."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import EngineLost, NotFound, Unsupported
from lakeward.cli.main import run
from lakeward.engine.task.entry import run_operation_at
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec
from tests.crash.compacting import check_finished, everything
from tests.golden_tables import copy_golden

IN_PROCESS = ("--engine", "local", "--writers", "stopped", "--timezone", "UTC")
BAD, GOOD = "0d3614ca-a3aa-4096-adb5-7ad5e18f030e-0", "e49531b7-4924-4fd9-82d3-029fe7679eb8-0"


class Lake:
    """A table of Hudi 1.0.2's with two file groups that have logs, the logs of one garbled where records should be."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.table = copy_golden("v8", folder / "table")
        self.store = folder / "state/lakeward/lakeward.db"
        self._capfd = capfd
        self._log = sorted(self.table.glob(f"p0/.{BAD}*"))[-1]
        self._sound = self._log.read_bytes()
        self.garble()

    def garble(self) -> None:
        """The same length, and the same heads of blocks."""
        place = self._sound.rindex(b"#HUDI#") - 60
        self._log.write_bytes(self._sound[: place - 40] + b"\xff" * 40 + self._sound[place:])

    def write_as(self, old: bytes, new: bytes) -> None:
        """The log's writer had another schema, of the same length."""
        assert len(old) == len(new) and old in self._sound
        self._log.write_bytes(self._sound.replace(old, new))

    def restore(self) -> None:
        self._log.write_bytes(self._sound)

    def compact(self, *options: str, code: int) -> tuple[dict[str, Any], str]:
        self._capfd.readouterr()
        assert run(["compact", str(self.table), *IN_PROCESS, "--json", *options]) == code
        out, err = self._capfd.readouterr()
        return json.loads(out) if out else json.loads(err.splitlines()[-1])["error"], err

    def pending(self) -> set[str]:
        return {path.name for path in (self.table / ".hoodie/timeline").glob("*.compaction.requested")} - {
            f"{done.name.partition('_')[0]}.compaction.requested"
            for done in (self.table / ".hoodie/timeline").glob("*.commit")
        }


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Lake:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Lake(tmp_path, capfd)


def choices(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["file_group"]: (each["choice"], each["reason"]) for each in document["decisions"]}


def test_the_others_go_on(lake: Lake) -> None:
    """The run fails and parks the group; the next unschedules the plan and compacts all others; a resume ends it."""
    error, _ = lake.compact(code=1)
    assert (error["code"], len(lake.pending())) == ("LW-BROKEN-FILE", 1)
    assert f"File group p0/{BAD} is parked until" in error["notes"][0]
    (release,) = [note.split("`")[1] for note in error["notes"]]

    document, err = lake.compact(code=0)
    assert (len(document["unscheduled"]), document["left_pending"], lake.pending()) == (1, [], set())
    assert [each["file_id"] for plan in document["compactions"] for each in plan["operations"]] == [GOOD]
    assert choices(document)[BAD] == ("NONE", "parked")
    (parked,) = document["parked"]
    for seconds, time in ((parked["parked_at"], parked["parked_time"]), (parked["until"], parked["until_time"])):
        assert datetime.fromisoformat(time).timestamp() == pytest.approx(seconds, abs=0.001)
    assert (parked["partition_path"], parked["file_id"], parked["release"]) == ("p0", BAD, release)
    assert "broken" in parked["reason"]
    assert release in err

    lake.restore()
    assert lake.compact(code=0)[0]["compactions"] == []
    assert run(release.split()[1:]) == 0
    document, err = lake.compact(code=0)
    assert [each["file_id"] for plan in document["compactions"] for each in plan["operations"]] == [BAD]
    assert (document["parked"], "parked" in err) == ([], False)


def test_plans_show_it_too(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    """`plan`, `explain` and a dry run answer what `compact` would do."""
    lake.compact(code=1)
    assert run(["plan", str(lake.table), "--timezone", "UTC"]) == 0
    assert f"File group p0/{BAD} is parked" in capfd.readouterr().err
    lake.compact("--partition", "p0", code=0)
    for verb in (["plan", "--json"], ["explain", "--json"], ["compact", "--dry-run", "--json"]):
        assert run([verb[0], str(lake.table), *verb[1:], "--timezone", "UTC"]) == 0
        out, err = capfd.readouterr()
        assert '"parked"' in out
        assert f"File group p0/{BAD} is parked" in err


def test_after_its_time_it_gets_one_try(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is tried once, like in the daemon; a failure parks it again."""
    with monkeypatch.context() as patched:
        patched.setattr("lakeward.cli.parked_groups.PARKED_SECONDS", 0.001)
        lake.compact(code=1)

    error, _ = lake.compact(code=1)

    assert "is parked until" in error["notes"][0]


@pytest.mark.parametrize("error", [OSError("the disk is away"), NotFound("A file is gone."), EngineLost("Spark died.")])
def test_what_is_no_fault_of_the_group_parks_nothing(
    lake: Lake, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storage that failed may work again, a file come back; and a table without trouble needs no store."""

    def away(base_path: str, spec: object, attempt: int) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("lakeward.cli.services.compact_command.run_operation_at", away)
        lake.compact(code=getattr(error, "exit_code", 1))
    assert not lake.store.exists()
    lake.restore()
    assert len(lake.compact(code=0)[0]["compactions"]) == 1
    assert not lake.store.exists()


def test_a_store_that_does_not_answer_stops_nothing(lake: Lake) -> None:
    """It is said, and the table is compacted; where the group cannot be parked, that is said, too."""
    lake.store.parent.mkdir(parents=True)
    lake.store.write_bytes(b"no database" * 1000)
    error, err = lake.compact(code=1)
    assert "does not say which file groups are parked" in err
    assert "could not be parked" in error["notes"][0]

    lake.restore()
    assert len(lake.compact(code=0)[0]["compactions"]) == 1


def test_all_groups_that_fail_are_parked_at_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One run parks all of them, not one each time."""
    log = sorted(lake.table.glob(f"p1/.{GOOD}*"))[-1]
    sound = log.read_bytes()
    place = sound.rindex(b"#HUDI#") - 60
    log.write_bytes(sound[: place - 40] + b"\xff" * 40 + sound[place:])

    error, _ = lake.compact(code=1)

    assert [note.split()[2] for note in error["notes"]] == [f"p0/{BAD}", f"p1/{GOOD}"]
    before = everything(lake.table)
    document, _ = lake.compact("--no-metadata-services", code=0)
    assert (document["compactions"], len(document["unscheduled"])) == ([], 1)
    assert len(everything(lake.table)) < len(before)


@pytest.mark.parametrize("kind", ["hybrid", "full"])
def test_what_schemas_forbid_is_known_before_a_plan_is_written(lake: Lake, kind: str) -> None:
    """A log with text where the table has a number: the group is in no plan, and the others are compacted."""
    lake.write_as(b'"real","type":["null","double"]', b'"real","type":["null","string"]')

    document, err = lake.compact("--type", kind, code=0)

    assert [each["file_id"] for plan in document["compactions"] for each in plan["operations"]] == [GOOD]
    assert choices(document)[BAD] == ("NONE", "unsupported-logs")
    assert "The column real of" in err
    assert (lake.pending(), document["unscheduled"], lake.store.exists()) == (set(), [], False)


def test_a_pending_plan_that_schemas_forbid_is_not_begun(lake: Lake) -> None:
    """It is parked without merging anything, and the next run goes on without the group."""
    lake.compact(code=1)
    lake.store.unlink()
    lake.write_as(b'"real","type":["null","double"]', b'"real","type":["null","string"]')

    error, err = lake.compact(code=2)
    assert (error["code"], "merging on" in err) == ("LW-UNSUPPORTED", False)

    document, _ = lake.compact(code=0)
    assert (len(document["unscheduled"]), choices(document)[BAD]) == (1, ("NONE", "parked"))


def test_the_remedy_of_a_log_that_cannot_be_written_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A full compaction alone would finish the pending plan first, and fail on it with the same sentence."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = copy_golden("v9", tmp_path / "table")

    def no_log(base_path: str, spec: OperationSpec, attempt: int) -> OperationResult:
        if spec.kind is OperationKind.LOG:
            raise Unsupported("This cannot be written to a log.", remedy="Compact this file group with --type full.")
        return run_operation_at(base_path, spec, attempt)

    monkeypatch.setattr("lakeward.cli.services.compact_command.run_operation_at", no_log)
    assert run(["compact", str(table), "--type", "log", *IN_PROCESS, "--json"]) == 2
    error = json.loads(capfd.readouterr().err.splitlines()[-1])["error"]
    unschedule, compact = (words.split()[1:] for words in error["remedy"].split("`")[1::2])

    assert run([*unschedule, "--writers", "stopped", "--timezone", "UTC"]) == 0
    assert run([*compact, *IN_PROCESS]) == 0

    check_finished(table)
