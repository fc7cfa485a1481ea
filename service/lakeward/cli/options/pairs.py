"""KEY=VALUE as an argument.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.base.errors import UsageError


def parse_pairs(pairs: Iterable[str] | None, *, like: str) -> dict[str, str]:
    """Raises `UsageError` for one without `=`.

    Args:
        like: an option that is right, for the remedy.
    """
    parsed = {}
    for pair in pairs or ():
        key, found, value = pair.partition("=")
        if not found:
            raise UsageError(f"'{pair}' is no setting.", why="It has no '='.", remedy=f"Write {like}.")
        parsed[key] = value
    return parsed
