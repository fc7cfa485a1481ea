from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.wide
@pytest.mark.interop
def test_the_event_log_holds_no_secret(tmp_path: Path) -> None:
    """Spark writes its settings and the command line of its driver there; our expression hides what is secret."""
    script = Path(__file__).with_name("event_log.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "c4n4ry" not in done.stdout + done.stderr
    (log,) = (path.read_text() for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert "two tasks" in log
    assert "fs.azure.account.key.acc" in log
    assert "c4n4ry" not in log
