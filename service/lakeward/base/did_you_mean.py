"""What was probably meant by a name that nothing has.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_NAMED = 20
"""Names that a list has at most."""


def did_you_mean(text: str, names: Iterable[str], *, otherwise: str = "") -> str:
    """A question with the name that is closest, or `otherwise` where none is close."""
    known = list(names)
    alike = [name for name in known if name.casefold() == text.casefold()]
    close = alike or get_close_matches(text, known, n=1)
    return f"Did you mean {close[0]}?" if close else otherwise


def nearest(text: str, names: Sequence[str], *, what: str = "columns") -> str:
    """The same, and where none is close, the names that there are.

    Args:
        what: the names are names of.
    """
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return did_you_mean(text, names, otherwise=f"The {what} are {', '.join(names[:_NAMED])}{more}.")
