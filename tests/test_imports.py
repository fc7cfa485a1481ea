"""Modules import at their top: the frame loads a verb when it is called, and a kernel is compiled when it is called."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SERVICE = Path(__file__).parent.parent / "service" / "lakeward"

INSIDE_MAX = 59
"""Imports inside functions, each for what only a rare path of a long-lived process needs; the number only falls."""


FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)+", re.MULTILINE)
INDENTED = re.compile(r"^[ \t]+(?:import|from) ", re.MULTILINE)


def imports_inside(source: str) -> set[int]:
    """The lines of imports inside functions. A source without an indented import is not parsed: most have none."""
    if INDENTED.search(FOR_TYPES.sub("", source)) is None:
        return set()
    return {
        node.lineno
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }


def test_imports_are_at_the_top() -> None:
    found = {
        f"{path.relative_to(SERVICE)}:{line}"
        for path in SERVICE.rglob("*.py")
        for line in imports_inside(path.read_text())
    }
    assert len(found) <= INSIDE_MAX, sorted(found)


def test_an_import_inside_is_seen() -> None:
    assert imports_inside("import a\ndef f():\n    import b\n    def g():\n        from c import d\n") == {3, 5}
