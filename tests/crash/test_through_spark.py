"""A compaction on Spark executors whose tasks fail, run again, and leave zombies behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crash.compacting import check_finished, everything
from tests.golden_tables import copy_golden

pytestmark = [pytest.mark.crash, pytest.mark.interop, pytest.mark.slow]

SESSION = Path(__file__).with_name("spark_session.py")


@pytest.mark.turns(16)
def test_a_task_attempt_run_twice_and_its_zombie(tmp_path: Path) -> None:
    """The second attempt's file wins, the first's is gone; the zombie that wakes up after the commit finds no
    folder to write to, and the file that it held open has no name."""
    base = copy_golden("v9", tmp_path / "table")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, str(SESSION), str(base), str(scratch)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    operations, file_name = done.stdout.strip().splitlines()[-1].split(", ")
    assert operations == "1 operations"
    assert file_name.rpartition("_")[0].endswith("-1"), "the second attempt's write token"
    check_finished(base)
    assert (scratch / "zombie-0").exists()
    before = everything(base)
    (scratch / "go").touch()
    deadline = time.monotonic() + 60
    while not (scratch / "told-0").exists():
        assert time.monotonic() < deadline, "the zombie did not wake up"
        time.sleep(0.05)
    assert (scratch / "told-0").read_text() == "NotFound"
    assert everything(base) == before
    check_finished(base)
