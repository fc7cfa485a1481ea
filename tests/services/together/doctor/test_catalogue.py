"""Each pattern is found in a table that has it, with evidence, and in no table that is right."""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.cli.main import run
from lakeward.format.timeline.clean_metadata import VERSION, CleanedPartition, CleanMetadata, write_clean_metadata
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.services.together.doctor.catalogue import PATTERNS
from lakeward.services.together.doctor.diagnosis import Diagnosis, Grade, Symptom
from lakeward.services.together.doctor.doctor_view import DoctorView
from lakeward.services.together.doctor.examination import examine
from lakeward.storage.local import LocalStorage
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.bench import PENDING
from tests.services.clustering.run.test_clusterer import made
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.together.doctor.sick_tables import LATER, SICK, golden
from tests.services.together.test_clustering_execution import groups_of, request


def diagnose(base: Path, *, shares_lock: bool = False, **options: object) -> Diagnosis:
    processes = ScriptedProcesses()
    processes.stillness = LookedOn()
    table = serviced_table(str(base), LocalStorage(), processes, timezone=None, **options)
    return examine(PATTERNS, lambda: DoctorView(table, shares_lock=shares_lock), with_options={"--keys"})


def state_of(base: Path) -> dict[str, tuple[str, float]]:
    """Every file, and every folder, with its bytes and the time when it was changed."""
    return {
        str(path.relative_to(base)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mtime,
        )
        for path in base.rglob("*")
    }


def test_each_pattern_has_a_table() -> None:
    """No pattern is in the catalogue that no test has seen."""
    assert list(SICK) == [pattern.code for pattern in PATTERNS]


@pytest.mark.parametrize("code", SICK)
def test_a_pattern_is_found(tmp_path: Path, code: str) -> None:
    """Keeps 1 and 2 of services/together/doctor/catalogue, and Keeps 2 of services/together/doctor/doctor_view: the
    subject and the evidence are of this table, the dry run of a command stands beside it, and the table is byte for
    byte as before."""
    sick = SICK[code]
    base = sick.make(tmp_path / "table")
    before = state_of(base)

    diagnosis = diagnose(base)

    found = {each.pattern.code: each for each in diagnosis.found}
    assert code in found, diagnosis
    symptoms = [each for each in found[code].symptoms if sick.subject in each.subject]
    assert symptoms, found[code].symptoms
    assert any(sick.evidence in line for each in symptoms for line in each.evidence), symptoms
    for symptom in (each for found in diagnosis.found for each in found.symptoms):
        assert symptom.evidence and symptom.remedy.endswith(".")
        assert symptom.dry_run is None or symptom.dry_run == f"{symptom.command} --dry-run"
        assert symptom.command is None or str(base) in symptom.command
    assert not diagnosis.is_healthy
    assert state_of(base) == before


@pytest.mark.parametrize("which", ["v8", "v9", "v9_metadata", "made"])
def test_a_table_that_is_right(tmp_path: Path, which: str) -> None:
    """Nothing is found, and everything was looked for."""
    base = (
        made(tmp_path / "table") if which == "made" else copy_golden(which, tmp_path / "table", pending=which == "v9")
    )
    before = state_of(base)

    diagnosis = diagnose(base)

    assert (diagnosis.found, diagnosis.failed) == ((), ())
    assert diagnosis.is_healthy
    assert state_of(base) == before


def test_the_worst_comes_first() -> None:
    """What loses or doubles rows stands before what is stuck, and that before advice."""
    grades = [pattern.grade for pattern in PATTERNS]
    assert grades == sorted(grades, key=list(Grade).index)


CURED = [
    "plan-over-gone-files",
    "clean-of-planned-files",
    "clustering-overwritten",
    "metadata-out-of-step",
    "wrong-index-definitions",
    "compaction-overwritten",
    "failed-write-left",
    "rollback-not-ended",
    "service-stuck",
    "small-files",
]


@pytest.mark.parametrize("code", CURED)
def test_a_remedy_helps(tmp_path: Path, code: str) -> None:
    """The dry run changes nothing and succeeds, and after the command the table does not have the pattern any more."""
    base = SICK[code].make(tmp_path / "table")
    (symptom,) = found_in(base)[code]
    assert symptom.command is not None and symptom.dry_run is not None
    before = state_of(base)

    assert run(shlex.split(symptom.dry_run)[1:]) == 0
    assert state_of(base) == before
    stopped = [] if "--writers" in symptom.command else ["--writers", "stopped"]
    assert run([*shlex.split(symptom.command)[1:], *stopped]) == 0
    assert code not in found_in(base)


def found_in(base: Path, **options: Any) -> dict[str, tuple[Symptom, ...]]:
    return {each.pattern.code: each.symptoms for each in diagnose(base, **options).found}


def test_what_a_cleaner_took_of_a_replaced_group(tmp_path: Path) -> None:
    """The plan leaves the file group out, so that its files are gone is no danger."""
    base = SICK["compaction-overwritten"].make(tmp_path / "table")
    for file in (base / "p").glob("*ebf517f7*"):
        file.unlink()

    assert "plan-over-gone-files" not in found_in(base)


def test_a_clustering_whose_file_group_is_gone(tmp_path: Path) -> None:
    """It names the file group, and only that: those that are there are no evidence."""
    base = made(tmp_path / "table")
    lost, *others = groups_of(base)
    instant = request(base, [[lost, *others]])
    for file in (base / "p").glob(f"*{lost}*"):
        file.unlink()
    for file in (base / DATA_TIMELINE).iterdir():
        if file.suffix in (".commit", ".deltacommit") and lost in file.read_text(errors="replace"):
            file.unlink()  # else the group is frozen for what is lost

    (symptom,) = [each for each in found_in(base)["plan-over-gone-files"] if instant in each.subject]
    assert lost in " ".join(symptom.evidence)
    assert not any(other in line for other in others for line in symptom.evidence)


def test_the_clean_that_deleted_a_file_is_named(tmp_path: Path) -> None:
    """Evidence says which clean took what a plan reads, as in the issue."""
    base = golden(tmp_path / "table")
    log = min((base / "p").glob(".*.log.*"))
    done = CleanMetadata(VERSION, {"p": CleanedPartition(deleted=(log.name,))}, LATER, 1, PENDING, PENDING)
    (base / DATA_TIMELINE / f"{LATER}_{LATER}.clean").write_bytes(write_clean_metadata(done))
    log.unlink()

    (symptom,) = found_in(base)["plan-over-gone-files"]
    assert symptom.evidence == (f"it names p/{log.name}, which is not there, and clean {LATER} deleted it",)


def test_a_clean_that_cannot_be_read_hides_no_danger(tmp_path: Path) -> None:
    """Which clean deleted a file is evidence beside it; that the file is gone is known without."""
    base = SICK["plan-over-gone-files"].make(tmp_path / "table")
    (base / DATA_TIMELINE / f"{LATER}_{LATER}.clean").write_bytes(b"torn")

    (symptom,) = found_in(base)["plan-over-gone-files"]
    assert symptom.evidence[0].endswith("which is not there")


def test_a_rollback_that_is_under_way(tmp_path: Path) -> None:
    """Its heartbeat beats, so the commit is not half rolled back for good."""
    base = SICK["commit-half-rolled-back"].make(tmp_path / "table")
    heartbeat = Path(heartbeat_path(str(base), LATER))
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()

    assert "commit-half-rolled-back" not in found_in(base)


@pytest.mark.parametrize(
    "code", ["failed-write-left", "rollback-not-ended", "commit-half-rolled-back", "restore-interrupted"]
)
def test_a_process_without_a_heartbeat(tmp_path: Path, code: str) -> None:
    """Keeps 3 of services/together/doctor/doctor_view: it may be at work beside the command, since Hudi's writers leave
    a heartbeat only where they share a lock. After hours of silence, or by the operator's word, it counts as dead."""
    base = SICK[code].make(tmp_path / "table")
    for file in (base / DATA_TIMELINE).iterdir():
        if not file.name.partition(".")[0].count("_"):
            os.utime(file)

    assert code not in found_in(base, writers_stopped=False)
    assert code in found_in(base, writers_stopped=True)
    is_write = code == "failed-write-left"
    assert (code in found_in(base, writers_stopped=False, shares_lock=True)) is is_write
    assert code in found_in(base, writers_stopped=False, silent_after=0.0)


def test_a_table_that_lakeward_does_not_roll_back(tmp_path: Path) -> None:
    """What died there is found, and the remedy names no command that would be refused."""
    base = SICK["failed-write-left"].make(tmp_path / "table")
    (base / ".hoodie" / "hoodie.properties.backup").touch()

    (symptom,) = found_in(base)["failed-write-left"]
    assert symptom.command is None and symptom.remedy.startswith("Lakeward rolls nothing back here: An update")


def test_what_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    """Keeps 1 of services/together/doctor/doctor_view: the error comes each time, and never an empty answer."""
    base = copy_golden("v9", tmp_path / "table")
    (base / ".hoodie" / "hoodie.properties").write_bytes(b"hoodie.table.version=x")
    view = DoctorView(serviced_table(str(base), LocalStorage(), ScriptedProcesses()))

    for _ in range(2):
        with pytest.raises(BrokenFile):
            _ = view.paths


@pytest.mark.parametrize("which", ["v6", "v6_oldest"])
def test_a_table_that_is_never_cleaned_or_archived(tmp_path: Path, which: str) -> None:
    """Keeps 3 of services/together/doctor/examination: this release has no cleaner for the table version 6, so that
    orphan files are left out there, and named; nothing failed."""
    base = copy_golden(which, tmp_path / "table", pending=which == "v6_oldest")

    diagnosis = diagnose(base)

    assert (diagnosis.found, diagnosis.failed) == ((), ())
    left = {each.pattern.code: each.why for each in diagnosis.unseen}
    assert left.keys() == {"orphan-files", "archiving-held"}
    assert set(left.values()) == {"The table is of table version 6, whose services but compaction are left to Hudi."}
