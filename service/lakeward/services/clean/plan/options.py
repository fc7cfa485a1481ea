"""The options of a clean: how much it keeps, and for which readers.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.services.clean.plan.consumer import WatermarkPlace
from lakeward.services.clean.plan.policy import READER_WINDOW_SECONDS, CleanPolicy


@dataclass(frozen=True, slots=True)
class CleanOptions:
    policy: CleanPolicy | None = None
    """None: Hudi's default, or what the table's own writers keep, if that is more
    (`services/clean/plan/adopted.py`)."""
    reader_window: float = READER_WINDOW_SECONDS
    """Seconds for which a query may run."""
    consumers: Mapping[str, WatermarkPlace] = field(default_factory=dict)
    """Names of the incremental consumers, each with the place of its watermark."""
    is_incremental: bool = True
    """Only what was written to since an earlier clean is looked at, where that one left nothing."""
