"""One step of a change of a table as a whole, of its version or its layout: what, why, and what it costs.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class StepKind(StrEnum):
    ROLLBACK = "rollback"
    """Failed writes, as `lakeward rollback` does."""
    METADATA_TABLE = "metadata-table"
    """The metadata table goes; Hudi's next writer that has it on rebuilds it."""
    COMPACTION = "compaction"
    """FULL of file groups: of those with native logs before an older version, of all with logs before another
    layout."""
    SORTING = "sorting"
    """Base files are rewritten, in the order of their keys."""
    CHANGES = "changes"
    """Logs of changes go, where the operator gives them up."""
    CLEAN = "clean"
    """The slices that have native logs go, and those behind them."""
    VERIFICATION = "verification"
    """The keys of every base file that readers merge are read, and are in order."""
    METADATA_PROPERTIES = "metadata-properties"
    """The properties of the metadata table."""
    PROPERTIES = "properties"


@dataclass(frozen=True, slots=True)
class ChangeStep:
    kind: StepKind
    why: str
    """A part of a sentence."""
    changes: Mapping[str, str | None] = field(default_factory=dict)
    """Properties and their new values, None for those that go."""
    subjects: tuple[str, ...] = ()
    """Instants that are rolled back, file groups that are merged, files that go, or that are read or rewritten."""
    bytes: int = 0
    """What is read and rewritten, or deleted."""
