"""The list of mutants is one that can be run; `make mutants` runs it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.mutants import CODE, PROJECT, Mutant, load_mutants, try_mutants
from tests.test_headers import promised

MUTANTS = load_mutants()
MANY = 50


def test_promises_all_over_are_broken() -> None:
    """There are fifty, each changes another place, and each room and each service whose headers promise something has
    one."""
    assert len(MUTANTS) >= MANY
    assert len({(each.file, each.before) for each in MUTANTS}) == len(MUTANTS)
    named = {f"Keeps {each.keeps} of {each.file.removesuffix('.py')}" for each in MUTANTS if each.keeps}
    promises = promised()
    assert sorted(each for each in named - promises if "daemon/" not in each) == [], "no header has these"
    promising = {place for each in promises for place in places(each.partition(" of ")[2])}
    assert sorted(promising - {place for each in MUTANTS for place in places(each.file)}) == [], "these have no mutant"


def places(module: str) -> set[str]:
    """The room of a module, and its service."""
    parts = module.split("/")
    return {parts[0], "/".join(parts[: 2 if parts[0] == "services" and len(parts) > 2 else 1])}


def test_each_can_be_made() -> None:
    """The text is there exactly once, and Python reads what comes of it."""
    assert [str(each) for each in MUTANTS if not each.can_be_made(PROJECT)] == []
    for each in MUTANTS:
        ast.parse((PROJECT / CODE / each.file).read_text().replace(each.before, each.after))


def test_what_kills_each_is_there() -> None:
    """A test that was renamed kills nothing."""
    named = {test for each in MUTANTS for test in each.tests}
    assert sorted(test for test in named if not is_there(test)) == []


def is_there(test: str) -> bool:
    path, _, name = test.partition("::")
    return name.partition("[")[0] in names(PROJECT / path)


@cache
def names(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)) if path.exists() else frozenset()


@pytest.mark.slow
def test_each_is_made_and_taken_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed is one for which a test fails; the tree is as it was, and what is not killed is counted."""
    code = tmp_path / CODE
    code.mkdir(parents=True)
    (code / "sum.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "test_sum.py").write_text(
        f"import sys\nsys.path.insert(0, {str(code)!r})\nfrom sum import add\n"
        "def test_two():\n    assert add(2, 2) == 4\n"
        "def test_three():\n    assert add(1, 2) == 3\n"
    )

    def mutant(before: str, test: str) -> Mutant:
        return Mutant(file="sum.py", keeps="", before=before, after="a * b", tests=(f"test_sum.py::{test}",))

    tried = [mutant("a + b", "test_three"), mutant("a + b", "test_two"), mutant("a - b", "test_two")]
    assert try_mutants(tmp_path, tried) == 2
    assert [line[:8].strip() for line in capsys.readouterr().out.splitlines()] == [
        "killed",
        "SURVIVED",
        "NOT MADE",
        "1 of 3 w",
    ]
    assert "a + b" in (code / "sum.py").read_text()
    (code / "sum.py").write_text("def add(a, b):\n    return 0\n")
    assert try_mutants(tmp_path, tried[:1]) == 1, "its test is red without it"
