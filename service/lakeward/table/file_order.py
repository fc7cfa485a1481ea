"""In which order the rows of a base file are.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileOrder:
    """What reading its keys said."""

    is_sorted: bool
    """Each is greater than the one before it, as UTF-8 bytes."""
    repeated: str | None = None
    """A key that is equal to the one before it."""
