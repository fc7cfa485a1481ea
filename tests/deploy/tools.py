"""Programs that tests start and that are no Python packages of Lakeward."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent.parent
DEPLOY = PROJECT / "deploy"


def find_tool(name: str, *, install: str) -> str:
    """The path of the program. A test without it is skipped with the reason, but red in CI."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        complain = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        complain(f"{name} is not installed: {install}")
    return found


def run(*command: str | Path, env: Mapping[str, str] | None = None) -> str:
    """What it printed; a failure shows it."""
    done = subprocess.run(
        [str(word) for word in command], cwd=PROJECT, env=env, text=True, capture_output=True, check=False, timeout=120
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{printed}"
    return printed
