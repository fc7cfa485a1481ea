"""How much of each change a table with change data capture keeps: its supplemental logging mode.

Touches: nothing.
Source:  HoodieCDCSupplementalLoggingMode, HoodieTableConfig.cdcSupplementalLoggingMode (Hudi 1.2).
"""

from __future__ import annotations

from enum import StrEnum

SUPPLEMENTAL_LOGGING = "hoodie.table.cdc.supplemental.logging.mode"


class SupplementalLogging(StrEnum):
    """The values are those of the table's property."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    """The operation and the key."""
    DATA_BEFORE = "DATA_BEFORE"
    """These, and the row as it was."""
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"
    """The operation, the instant, and the row as it was and as it is; the default."""


def parse_supplemental_logging(text: str | None) -> SupplementalLogging | None:
    """The mode that the property says, in any case, as Hudi reads it; None where it says another."""
    if text is None:
        return SupplementalLogging.DATA_BEFORE_AFTER
    return SupplementalLogging.__members__.get(text.upper())
