"""What several interop tests look at and a Hudi takes long to make: made once for all processes of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import IN_CI
from tests.hudi.hbase_hfiles import MISSING
from tests.hudi.hfile_java import write_entries
from tests.hudi.metadata_table import write_table_with_metadata
from tests.interop.hfile_cases import OURS, THEIRS, probes, write_ours


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


@pytest.fixture(scope="session")
def by_hbase(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which Hudi 1.0.2 left what it read and wrote by HBase's code, a table among it (`table`)."""
    return made_once(tmp_path_factory, "by_hbase", _run_hbase)


def _run_hbase(folder: Path) -> None:
    for name in ("ours", "theirs", "scratch"):
        (folder / name).mkdir(parents=True)
    for name, (entries, codec, block_bytes) in OURS.items():
        write_ours(folder / "ours" / f"{name}.hfile", entries, codec, block_bytes)
        write_entries(folder / "ours" / f"{name}.keys", [(key, b"") for key in probes(entries)])
    for name, entries in THEIRS.items():
        write_entries(folder / "theirs" / f"{name}.entries", entries)
    done = subprocess.run(
        [sys.executable, "-m", "tests.hudi.hbase_hfiles", str(folder), str(folder / "scratch")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode == MISSING:
        (pytest.fail if IN_CI else pytest.skip)(done.stderr[-1000:])
    assert done.returncode == 0, done.stderr[-5000:]


@pytest.fixture(scope="session")
def table_with_metadata(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table by released Hudi with every partition of its metadata table. A test that changes it works on a copy."""

    def make(folder: Path) -> None:
        write_table_with_metadata(request.getfixturevalue("spark"), folder / "table")

    return made_once(tmp_path_factory, "metadata", make) / "table"
