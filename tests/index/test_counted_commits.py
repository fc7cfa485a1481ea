"""Which commits of the table count for an index of Lakeward."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.index.counted_commits import counted_commits
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.timeline import Timeline
from tests.synthetic_table import completed, minute, pending
from tests.table.timeline.test_archived import put_file, put_manifest

T0, T1, T2, T3, T4, T5 = (minute(number) for number in range(6))
ALL = [T0, T1, T2, T3, T4, T5]


def counted(base: Path, timeline: Timeline) -> dict[str, str]:
    return counted_commits(LocalStorage(), str(base), TableConfig({"hoodie.table.version": "9"}), timeline, ALL)


def test_completed_and_archived_commits_count(tmp_path):
    """A commit counts by its completion time, on the timeline or in the history, rollbacks and restores among them; one
    that is pending, and one that is nowhere, does not: older than the timeline or not, it was rolled back."""
    folder = tmp_path / ".hoodie" / "timeline" / "history"
    folder.mkdir(parents=True)
    rows = [(T0, T2, "commit"), (T1, T4, "rollback"), (T2, T2, "clean")]
    put_manifest(folder, 1, put_file(folder, f"{T0}_{T2}_0.parquet", rows), version=1)
    timeline = Timeline((*completed(T3, "restore", T5), *pending(T4, "deltacommit")))

    assert counted(tmp_path, timeline) == {T0: T2, T1: T4, T3: T5}
    (folder / "manifest_1").write_text("{")
    with pytest.raises(BrokenFile, match="It is unknown which commits of an index count"):
        counted(tmp_path, timeline)
