"""Temporary files that cannot be written: the error names the folder and what to do, and nothing is left."""

from contextlib import closing

import numpy as np
import pytest

from lakeward.errors import SpillFailed
from lakeward.merge.rows.hash_watch import HashWatch
from tests.full_disk import full_disk


def test_a_disk_that_fills_up_while_hashes_are_written(tmp_path):
    """It is said at once, not when what was buffered is written; the watch can still be closed."""
    said = f"hashes of .* the folder {tmp_path}.* File too large.* TMPDIR"
    with (
        closing(HashWatch(memory_bytes=1_000, folder=str(tmp_path))) as watch,
        full_disk(4_000),
        pytest.raises(SpillFailed, match=said),
    ):
        watch.add(np.arange(1_000, dtype=np.uint64))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_none(tmp_path):
    """The system's error about it becomes one of ours."""
    (tmp_path / "file").touch()
    with (
        closing(HashWatch(memory_bytes=0, folder=str(tmp_path / "file"))) as watch,
        pytest.raises(SpillFailed, match=f"the folder {tmp_path}/file.* Not a directory"),
    ):
        watch.add(np.zeros(1, dtype=np.uint64))
