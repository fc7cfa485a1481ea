"""The layout that a clustering gives to rows: which columns bring them together, and in which order a file has them.

    mode      a file group has rows that            and has them in the order of
    pack      came together                         their keys
    sort      are neighbours by the columns         the columns
    curve     are neighbours on a curve (z-order)   the curve
    hybrid    are neighbours by the columns         their keys

Touches: nothing; plain values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

COLUMNS_MAX = 4
"""With more columns each of them brings few rows together."""


class ClusterMode(StrEnum):
    PACK = "pack"
    SORT = "sort"
    CURVE = "curve"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Layout:
    mode: ClusterMode | None = ClusterMode.PACK
    """None: the one that fits the table and the columns."""
    columns: tuple[str, ...] = ()
    """None for `PACK`, one to `COLUMNS_MAX` for the others."""

    def __str__(self) -> str:
        return f"{self.mode} by {', '.join(self.columns)}" if self.columns else str(self.mode)

    @property
    def is_by_key(self) -> bool:
        """Whether a file has its rows in the order of their keys."""
        return self.mode in (ClusterMode.PACK, ClusterMode.HYBRID)

    def chosen(self, *, is_lsm_tree: bool) -> Layout:
        """The same with a mode."""
        if self.mode is not None or not self.columns:
            return self if self.mode is not None else PACKED
        if is_lsm_tree:
            return Layout(ClusterMode.HYBRID, self.columns)
        return Layout(ClusterMode.SORT if len(self.columns) == 1 else ClusterMode.CURVE, self.columns)


PACKED = Layout()
