"""The kernels of the merge with Numba's compiler off, so that a debugger sees into them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITES = [
    "tests/merge/test_sorted_merge.py::test_it_agrees_with_the_slow_twin",
    "tests/merge/test_sorted_merge.py::test_the_two_folds",
    "tests/merge/test_hash_merge.py::test_fast_and_slow_agree",
    "tests/merge/test_digest.py::test_what_lies_under_a_null_does_not_count",
    "tests/merge/runs/test_loser_tree.py::test_it_merges_as_a_heap_does",
]


@pytest.mark.slow
def test_it_runs_uncompiled():
    """The loser tree, both folds, the hash merge and the digest give the same rows as their slow twins."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "LAKEWARD_RUNS": "4"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *SUITES]
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
