"""The metadata table's part of a commit, which all services and writes share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakeward.protocol.metadata.changes import DeletedFile
from lakeward.protocol.metadata_part import FileChanges, MetadataPart
from lakeward.protocol.transition import ServiceAction
from lakeward.storage.local import LocalStorage
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA_TIMELINE
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table

INSTANT = "20270101000000000"


def part_of(base: Path) -> tuple[MetadataPart, Path]:
    table = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
    attempt = table.attempt(scan(base), INSTANT, ServiceAction.CLEAN)
    folder = Path(attempt.folder)
    folder.mkdir(parents=True)
    return MetadataPart(table, attempt), folder


@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_metadata_table_that_is_there_under_the_lock_gets_its_commit(tmp_path: Path, is_prepared: bool) -> None:
    """Keeps 1 of protocol/metadata_part: also where there was none while the work was prepared."""
    base = copy_golden(GOLDEN, tmp_path / "table")
    part, _ = part_of(base)
    changes = FileChanges(deleted=[DeletedFile("p", "gone.parquet")])
    if is_prepared:
        part.prepare(scan(base), lambda: changes)
    (participant,) = part.participants(scan(base), lambda: changes, fence=lambda: None)
    participant.publish("20270101000000500", is_pending=lambda: True, fence=lambda: None)
    names = [path.name for path in (base / METADATA_TIMELINE).glob(f"{INSTANT}*")]
    assert participant.completed_name("20270101000000500") in names


def test_a_table_without_one_gets_none_and_loads_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of protocol/metadata_part: a daemon keeps small as long as its tables have no metadata table."""
    base = copy_golden("v9", tmp_path / "table")
    part, folder = part_of(base)
    monkeypatch.setitem(sys.modules, "lakeward.protocol.metadata.metadata_writer", None)  # an import of it fails
    part.prepare(scan(base), FileChanges)
    assert part.participants(scan(base), FileChanges, fence=lambda: None) == ()
    assert list(folder.iterdir()) == []
