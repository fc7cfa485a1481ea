"""What a compaction may choose from, in an operator's words.

Touches: nothing.
"""

from __future__ import annotations

from enum import StrEnum


class CompactionType(StrEnum):
    HYBRID = "hybrid"
    FULL = "full"
    LOG = "log"
