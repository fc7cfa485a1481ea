"""A golden table gets another version: whole, stopped at every storage call, and beside what forbids it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lakeward.base.errors import Refused, TryLater
from lakeward.format.java_properties import parse_properties
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.owner import Processes
from lakeward.services.together.versions.plan.change_step import StepKind
from lakeward.services.together.versions.plan.version_change import VersionChange
from lakeward.services.together.versions.run.version_step import change_version, preview_version_change
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.version_10 import FILE_ID

PLACES = (".hoodie/metadata/.hoodie/hoodie.properties", ".hoodie/hoodie.properties")


def change(
    base: Path, target: int = 10, storage: Storage | None = None, processes: Processes | None = None
) -> VersionChange:
    processes = processes or ScriptedProcesses()
    processes.stillness = LookedOn()
    table = serviced_table(str(base), storage or LocalStorage(), processes)

    def compact(file_ids: Sequence[str]) -> None:
        raise AssertionError(f"nothing is to be merged: {file_ids}")

    return change_version(table, target, compact, is_upgrade=target == 10)


def properties(base: Path) -> list[dict[str, str]]:
    return [dict(parse_properties((base / place).read_bytes())) for place in PLACES]


def properties_of(base: Path) -> dict[str, str]:
    return dict(parse_properties((base / PLACES[1]).read_bytes()))


def versions(base: Path) -> list[str]:
    return [each["hoodie.table.version"] for each in properties(base)]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """With a metadata table."""
    return copy_golden("v9_metadata", tmp_path / "table")


def test_nothing_but_properties_changes(base: Path) -> None:
    """The properties of both tables, and of these the two that the plan says; a dry run says it before and
    writes nothing, and a second run finds nothing to do."""
    before, files = properties(base), everything(base)
    shown = preview_version_change(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), 10, is_upgrade=True)
    assert (properties(base), everything(base)) == (before, files)

    assert change(base) == shown
    of_metadata, of_table = (
        {"hoodie.table.version": "10", "hoodie.meta.fields.mode": mode} for mode in ("NONE", "ALL")
    )
    assert properties(base) == [before[0] | of_metadata, before[1] | of_table]
    assert everything(base) == files
    assert change(base).steps == ()


def test_without_native_logs_the_way_back_is_as_short(base: Path) -> None:
    """The properties are what they were, the metadata table stays, and so does what is inline."""
    before, files = properties(base), everything(base)
    change(base)
    assert [step.kind for step in change(base, 9).steps] == [StepKind.METADATA_PROPERTIES, StepKind.PROPERTIES]
    assert (properties(base), everything(base)) == (before, files)
    assert change(base, 9).steps == ()


def test_a_failed_write_is_rolled_back_on_the_way_down(tmp_path: Path) -> None:
    """Keeps 3 of services/together/versions/run/version_step: of a write of version 10 that failed no file is left; one
    that no commit brought, and no write either, is named, and the version stays."""
    base = copy_golden("v9", tmp_path / "table")
    file, before = base / PLACES[1], properties_of(base)
    change(base)
    time = "20261121235959000"
    for state in ("requested", "inflight"):
        (base / ".hoodie/timeline" / f"{time}.deltacommit.{state}").touch()
    left = next((base / "p").glob("*.parquet")).with_name(f"{FILE_ID}_0-1-1_{time}_1.log.parquet")
    left.write_bytes(b"rows")
    orphan = left.with_name(f"{FILE_ID}_0-1-1_20261121235959001_1.deletes.parquet")
    orphan.write_bytes(b"deletes")
    with pytest.raises(Refused, match=f"{orphan.name}: no completed commit brought it"):
        change(base, 9)
    assert b"hoodie.table.version=10" in file.read_bytes() and left.exists()
    orphan.unlink()
    assert [step.kind for step in change(base, 9).steps] == [StepKind.ROLLBACK, StepKind.PROPERTIES]
    assert not left.exists()
    assert properties_of(base) == before


def test_nothing_is_written_beside_what_lives(tmp_path: Path) -> None:
    """Keeps 2 of services/together/versions/run/version_step: a heartbeat that beats, and a file with a name of version
    10's logs, which would be one of the table's from then on."""
    base = copy_golden("v9", tmp_path / "table", pending=True)
    path = base / PLACES[1]
    before = path.read_bytes()
    plan = next(each.name for each in (base / ".hoodie/timeline").iterdir() if ".compaction.requested" in each.name)
    beat = Path(heartbeat_path(str(base), plan.partition(".")[0]))
    beat.parent.mkdir(parents=True)
    beat.touch()
    with pytest.raises(TryLater, match="is under way"):
        change(base)
    beat.unlink()

    file = next(each for each in base.rglob("*.parquet") if ".hoodie" not in each.parts)
    native = file.with_name(f"{file.name.split('_')[0]}_0-1-1_20261121043709156_1.log.parquet")
    native.write_bytes(b"rows")
    with pytest.raises(Refused, match="native-log-name"):
        change(base)
    assert path.read_bytes() == before
