"""What to do with a table that a writer services too, inline or as a job beside it.

Touches: nothing.
"""

from __future__ import annotations

from enum import StrEnum


class ForeignServices(StrEnum):
    """What to do where another service works on the table too."""

    SHADOW = "shadow"
    SHARE = "share"
