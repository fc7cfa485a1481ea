"""What takes a Hudi long to make, made once for all processes of a run.

Touches: the run's temporary folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

BY_HBASE = pytest.mark.turns(20, together="by HBase")
"""Tests for which Hudi 1.0.2 starts, to read and write by HBase's code."""


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name, made by the process that asks first; the others wait for it. No test changes it."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # of the run, not of this process
    folder, made = root / name, root / f"{name}.made"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            made.touch()
    return folder
