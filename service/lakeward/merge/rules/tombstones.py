"""Deletes that won their keys.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Some of a slice's, in any order."""

    keys: pa.Array
    ordering: pa.Array | None
    """Values of the ordering column, null where the delete has the default; None where there is no such column."""
