"""Which file groups a plan looks at, and in which order it takes them.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from lakeward.table.file_group import FileSlice


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Which file groups to look at; empty means all."""

    partitions: tuple[str, ...] = ()
    """Partition paths; `*` and `?` match as in a shell."""
    file_groups: tuple[str, ...] = ()
    """File ids."""
    excluded_partitions: tuple[str, ...] = ()
    """Partition paths, matched in the same way, that are left alone even where `partitions` names them."""

    def selects(self, slice_: FileSlice) -> bool:
        path = slice_.partition_path
        return (
            (not self.partitions or _matches(path, self.partitions))
            and not _matches(path, self.excluded_partitions)
            and (not self.file_groups or slice_.file_id in self.file_groups)
        )


def _matches(partition_path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(partition_path, pattern) for pattern in patterns)
