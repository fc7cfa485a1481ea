"""The data files of a table whose keys the cache of filters knows: base files, and logs where it is to have these.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.index.base_files import BaseFiles
from lakeward.read.newest_slice import newest_slice
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True, order=True)
class DataFile:
    path: str
    """Relative to the base path."""
    size: int
    is_log: bool = False
    instant: str = field(default="", compare=False)
    """The one in its name."""


def data_files(snapshot: TableSnapshot, *, with_logs: bool) -> list[DataFile]:
    """The files that lookups ask, in the order of their paths: neighbours are in one file of the cache."""
    of_groups = BaseFiles.of(snapshot).files.values()
    bases = [DataFile(base.path, base.size, instant=base.instant) for files in of_groups for base in files]
    if not with_logs:
        return sorted(bases)
    slices = (newest_slice(group.slices) for group in snapshot.file_groups)
    logs = {log for slice_ in slices if slice_ is not None for log in slice_.row_logs}
    return sorted([*bases, *(DataFile(log.path, log.size, is_log=True, instant=log.instant) for log in logs)])
