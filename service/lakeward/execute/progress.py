"""What a long piece of work tells whoever is watching.

Touches: nothing; `Silent` drops everything, the command line draws it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Merged:
    """How much of a plan is merged so far."""

    operations: int
    operations_total: int
    input_bytes: int
    """Bytes of the slices that are finished."""
    input_bytes_total: int
    output_bytes: int
    """Bytes written so far, unfinished files included."""
    rows: int
    """Rows in finished files."""


class Observer(Protocol):
    def step(self, text: str) -> None:
        """A step begins: `compaction 2026… scheduled, 12 operations`."""

    def waiting(self, text: str, seconds: float) -> None:
        """Still waiting, after `seconds`; called often, the observer decides how often to show it."""

    def merged(self, state: Merged) -> None:
        """Operations have made progress."""


class Silent:
    def step(self, text: str) -> None:
        pass

    def waiting(self, text: str, seconds: float) -> None:
        pass

    def merged(self, state: Merged) -> None:
        pass
