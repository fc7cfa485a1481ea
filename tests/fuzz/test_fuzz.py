"""Bytes by chance, led by coverage, in each decoder of what a table's files say: the project's own errors or an answer.

LAKEWARD_SEED=7 takes a printed seed back, LAKEWARD_FUZZ_SECONDS=600 goes on for longer (`make fuzz`). An input that a
run found is written to a file that it names; it becomes a small test beside those of what decodes it.
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import IN_CI
from tests.runs import NIGHTLY

ROOT = Path(__file__).parents[2]
TARGETS = ("log_blocks", "hfile", "avro_containers", "properties", "file_names", "record_index")
SECONDS = int(os.environ.get("LAKEWARD_FUZZ_SECONDS", "60" if NIGHTLY else "2"))
STARTING_SECONDS = 200
"""Kernels may have to be compiled first."""


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_but_our_own_errors(target: str) -> None:
    """No bytes give another error, take five seconds, or make the process take a gigabyte."""
    if importlib.util.find_spec("atheris") is None:
        (pytest.fail if IN_CI else pytest.skip)("atheris is not installed; it has wheels for Linux on x86_64")
    seed = int(os.environ.get("LAKEWARD_SEED", random.randrange(1, 2**31)))
    print(f"LAKEWARD_SEED={seed}")
    command = [sys.executable, "-m", "tests.fuzz.run", target, "--seconds", str(SECONDS), "--seed", str(seed)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=SECONDS + STARTING_SECONDS, check=False)
    said = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    print("\n".join(said.splitlines()[-8:]))
    assert ended.returncode == 0, f"seed {seed}:\n{said[-6000:]}"
    assert "number_of_executed_units" in said, "it ran"
