"""What tests put in place of Lakeward is there: a name that was changed is red here, and not in the test that patches
it, which may be one of those that only CI runs. (All else that tests use is seen by the type checker.)"""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
OWN = ("lakeward.", "tests.", "deploy.", "benchmarks.")


def imported(tree: ast.Module) -> dict[str, str]:
    """The dotted name behind each name that the module imports, at its head or within a function."""
    names = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=aliases):
                names |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in aliases}
            case ast.Import(names=aliases):
                names |= {alias.asname: alias.name for alias in aliases if alias.asname is not None}
    return names


def patched(tree: ast.Module) -> Iterator[str]:
    """The dotted names of Lakeward that the module patches, `setattr("a.B", …)` and `setattr(a, "B", …)` alike."""
    names = imported(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=str(target)), *_]):
                yield target
            case ast.Call(
                func=ast.Attribute(attr="setattr"),
                args=[ast.Name(id=owner), ast.Constant(value=str(attribute)), *_],
            ) if owner in names:
                yield f"{names[owner]}.{attribute}"


def exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_patched_names_exist():
    """Each module and attribute that a test replaces is there to be replaced."""
    found = {
        (path.relative_to(TESTS).as_posix(), name)
        for path in sorted(TESTS.rglob("*.py"))
        if "setattr" in (text := path.read_text())
        for name in patched(ast.parse(text))
        if name.startswith(OWN)
    }

    assert len(found) > 40, "patches are not written as they are read here"
    assert [(path, name) for path, name in sorted(found) if not exists(name)] == []
