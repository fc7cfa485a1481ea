"""How the daemon rolls back what failed on a table.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RollbackRules:
    quiet_seconds: float
    """The timeline has not changed for so long of a write that is rolled back."""
