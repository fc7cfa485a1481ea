"""Deletes that won their keys.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Some of a slice's, in any order."""

    keys: pa.Array
    ordering: pa.Array | None
    """Values of the ordering column, null where the delete has the default; None where there is no such column."""

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + (0 if self.ordering is None else self.ordering.nbytes))

    @staticmethod
    def joined(parts: Sequence[Tombstones]) -> Tombstones:
        """The tombstones of all parts, of which there is one or more."""
        ordering = [part.ordering for part in parts if part.ordering is not None]
        return Tombstones(
            pa.concat_arrays([part.keys for part in parts]), pa.concat_arrays(ordering) if ordering else None
        )
