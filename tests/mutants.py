"""Mutants: known changes of the code, each of which some test must see.

`tests/mutants.toml` lists them: a file, the text before and after, the promise (*Keeps*) that the change breaks, and
the tests that fail for it. `make mutants` makes each change in a copy of the tree, runs its tests there, and prints
which mutants were killed, which survived, and which cannot be made any more. CI checks only that each can be made
(tests/test_mutants.py).

    python -m tests.mutants [PART OF A FILE'S NAME] [--draw 10 [--seed 7]]

Touches: a temporary folder, where the copy is.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
CODE = Path("service/lakeward")
SECONDS_MAX = 240
"""A test that takes longer hangs, and fails."""
_FAILED = 1
"""Exit code of pytest: tests ran, and some failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    file: str
    """Below `service/lakeward`."""
    keeps: str
    """The number of the promise in the file's header; empty where it has one without a number, or none."""
    before: str
    after: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file} ({self.keeps or '-'}): {' '.join(self.after.split()) or 'left out'}"

    def can_be_made(self, tree: Path) -> bool:
        """Whether the text that it changes is in its file exactly once."""
        path = tree / CODE / self.file
        return path.is_file() and path.read_text().count(self.before) == 1

    def is_killed(self, tree: Path) -> bool:
        """Whether its tests fail where the change is made. The file is as before afterwards."""
        path = tree / CODE / self.file
        before = path.read_text()
        _put(path, before.replace(self.before, self.after))
        try:
            return not are_green(tree, self.tests)
        finally:
            _put(path, before)


def _put(path: Path, text: str) -> None:
    """Without the bytecode of what was there: Python would take it, where size and second are the same."""
    path.write_text(text)
    for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        stale.unlink()


def load_mutants(path: Path = PROJECT / "tests/mutants.toml") -> list[Mutant]:
    return [Mutant(**{**each, "tests": tuple(each["tests"])}) for each in tomllib.loads(path.read_text())["mutant"]]


def copy_tree(folder: Path) -> Path:
    """Copies what Git knows of, and compiled kernels."""
    tree = folder / "tree"
    known = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True)
    for name in known.stdout.split("\0"):
        if (PROJECT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, tree / name)
    if (kernels := PROJECT / CODE / "compiled").is_dir():
        shutil.copytree(kernels, tree / CODE / "compiled", dirs_exist_ok=True)
    return tree


def are_green(tree: Path, tests: Iterable[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--timeout={SECONDS_MAX}", *tests]
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("LAKEWARD_", "PYTHON", "PYTEST_"))
    }
    environ["PYTHONPATH"] = str(tree / "service")
    ended = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, check=False)
    # Where the process of the tests ends before its time, the change was seen, too.
    assert ended.returncode in (0, _FAILED) or ended.returncode < 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    return ended.returncode == 0


def try_mutants(tree: Path, mutants: Sequence[Mutant]) -> int:
    """Prints of each whether it is killed. Returns how many are not."""
    began = time.monotonic()
    if not are_green(tree, sorted({test for each in mutants for test in each.tests})):
        print("Tests fail without any change: no mutant can be tried")
        return len(mutants)
    killed = 0
    for mutant in mutants:
        can_be_made = mutant.can_be_made(tree)
        is_killed = can_be_made and mutant.is_killed(tree)
        killed += is_killed
        print("killed  " if is_killed else "SURVIVED" if can_be_made else "NOT MADE", mutant, *mutant.tests, flush=True)
    print(f"{killed} of {len(mutants)} were killed, in {time.monotonic() - began:.0f} s")
    return len(mutants) - killed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--draw", type=int, help="try so many by chance")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    given = parser.parse_args()
    mutants = [each for each in load_mutants() if given.part in each.file]
    if given.draw:
        print(f"drawn with --seed {given.seed}")
        mutants = random.Random(given.seed).sample(mutants, min(given.draw, len(mutants)))
    with tempfile.TemporaryDirectory() as folder:
        return 1 if try_mutants(copy_tree(Path(folder)), mutants) else 0


if __name__ == "__main__":
    sys.exit(main())
