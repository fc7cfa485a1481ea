"""How long a service without a heartbeat must have been silent, by default, to count as dead.

Touches: nothing.
"""

from __future__ import annotations

SILENT_AFTER_SECONDS = 6 * 3600.0
"""Hudi makes a marker for each file that it begins to write, so it is more than a file takes."""
