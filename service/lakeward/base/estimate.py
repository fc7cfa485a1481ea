"""An estimate beside what was counted: how far it is off, and whether what follows from it is a fact.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

ERROR_MAX = 0.15
"""How far an estimate may be from what was counted, for figures that follow from it to be facts."""


@dataclass(frozen=True, slots=True)
class Estimate:
    counted: float
    estimated: float

    @property
    def factor(self) -> float | None:
        """The estimate over what was counted; None where nothing was."""
        return self.estimated / self.counted if self.counted else None

    @property
    def is_close(self) -> bool:
        """Nothing that was counted proves nothing."""
        return self.factor is not None and 1 - ERROR_MAX <= self.factor <= 1 + ERROR_MAX
