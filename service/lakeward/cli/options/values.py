"""Values that options have as text, and KEY=VALUE.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from lakeward.base.errors import UsageError

T = TypeVar("T")


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


def parse_option(parse: Callable[[str], T], option: str, text: str | None, otherwise: T) -> T:
    """Raises `UsageError` where `parse` finds no value in the text; without a text it is `otherwise`."""
    try:
        return otherwise if text is None else parse(text)
    except ValueError as error:
        raise UsageError(f"{option} cannot be '{text}'.", why=str(error), remedy="Correct the option.") from error
