"""Small files that ask for much get little."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEBIBYTES_MAX = 900
"""The process has some 350 with its libraries, and the test's own bomb of 200."""


@pytest.mark.slow
def test_no_bomb_takes_more_than_a_small_table_justifies(tmp_path: Path) -> None:
    """Two megabytes of plan took 4.1 GB, by `inspect`, too. All bombs go through one process, whose peak is that of the
    worst."""
    command = [sys.executable, "-m", "tests.scenarios.bombs", str(tmp_path / "tables")]
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stderr.decode()[-4000:]
    shown = json.loads(ended.stdout.splitlines()[-1])

    assert shown["peak"] < MEBIBYTES_MAX, shown
    for name, (inspected, compacted) in shown["ended"].items():
        assert inspected == 0, name
        assert compacted in (1, 2), name
