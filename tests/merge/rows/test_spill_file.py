"""Temporary files that cannot be written: the error names the folder and what to do, and nothing is left."""

import pyarrow as pa
import pytest

from lakeward.base.errors import SpillFailed
from lakeward.merge.runs.spilled_run import SpilledRun
from tests.full_disk import full_disk

ROWS = pa.record_batch({"v": list(range(10_000))})


def spill(folder):
    SpilledRun.of([ROWS], ROWS.schema, name="the logs", is_base=False, folder=str(folder))


def test_a_disk_that_fills_up_while_rows_are_written(tmp_path):
    """It is said by the folder and what to do."""
    said = f"rows of the logs.* the folder {tmp_path}.* File too large.* TMPDIR"
    with full_disk(4_000), pytest.raises(SpillFailed, match=said):
        spill(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_none(tmp_path):
    """The system's error about it becomes one of Lakeward's."""
    (tmp_path / "file").touch()
    with pytest.raises(SpillFailed, match=f"the folder {tmp_path}/file.* Not a directory"):
        spill(tmp_path / "file")
