"""The daemon notices that a Hudi writer removed an index of the metadata table that Lakeward had built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.protocol.metadata.writers_removal import removed_path
from lakeward.services.together.metadata_index.initial_build import build_partition
from tests.processes import ScriptedProcesses
from tests.services.indexing.upkeep.test_updates import Kept
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.together.metadata_index.test_initial_build import of_keys
from tests.services.together.metadata_index.test_writers_removal import OPTION, writer_removes
from tests.write.own_record_index import STORAGE

pytestmark = pytest.mark.slow


def test_an_event_names_the_commit_and_the_option(tmp_path: Path) -> None:
    """Once, by a job that does not fail; the table's page shows it until the index is there again."""
    kept = Kept(tmp_path)
    table = replace(serviced_table(str(kept.base), STORAGE, ScriptedProcesses()), clock=kept.serving.clock)
    build_partition(table, of_keys(kept.base, STORAGE, table))
    kept.serving.run(70.0)
    assert kept.serving.index_memory().removed == ()
    instant = writer_removes(kept.base, RECORD_INDEX, after=30.0, clock=kept.serving.clock)
    kept.serving.run(300.0)
    events = [each.text for each in kept.serving.store.events.latest(str(kept.base), 50)]
    named = [each for each in events if RECORD_INDEX in each]
    assert len(named) == 1 and instant in named[0] and f"{OPTION} off" in named[0], events
    assert Path(removed_path(str(kept.base), RECORD_INDEX)).read_text() in named[0]
    (noted,) = kept.serving.index_memory().removed
    assert noted.is_noted and kept.jobs("failed") == 0
    build_partition(table, of_keys(kept.base, STORAGE, table), again=True)
    kept.serving.run(70.0)
    assert kept.serving.index_memory().removed == ()
