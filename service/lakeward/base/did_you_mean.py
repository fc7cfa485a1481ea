"""What was probably meant by a name that nothing has.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(text: str, names: Iterable[str], *, otherwise: str = "") -> str:
    """A question with the name that is closest, or `otherwise` where none is close."""
    close = get_close_matches(text, list(names), n=1)
    return f"Did you mean {close[0]}?" if close else otherwise
