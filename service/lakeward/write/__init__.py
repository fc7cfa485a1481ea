"""Rows of the operator's own into a table; `lakeward.write.write` does it from Python.

Touches: nothing until it is called: what a write needs is loaded then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeward.write.entry import write

__all__ = ["write"]


def __getattr__(name: str) -> Any:
    if name == "write":
        from lakeward.write.entry import write

        return write
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
