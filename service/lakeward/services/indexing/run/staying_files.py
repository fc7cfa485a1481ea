"""Work that reads files of a table while its cleaner may take them: from a later snapshot again, and not for ever.

Touches: the table, by what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from lakeward.base.errors import NotFound, TryLater
from lakeward.table.snapshot import TableSnapshot

R = TypeVar("R")

SNAPSHOTS: Final = 3
"""Snapshots of a table whose files go while they are read."""


def while_files_stay(
    work: Callable[[TableSnapshot], R],
    take: Callable[[], TableSnapshot],
    *,
    or_else: Callable[[NotFound], TryLater],
) -> R:
    """What the work makes of the table as it is; of a later snapshot where files went meanwhile.

    Args:
        or_else: the error where they always do.
    """
    for look in range(SNAPSHOTS):
        try:
            return work(take())
        except NotFound as gone:
            if look + 1 == SNAPSHOTS:
                raise or_else(gone) from gone
    raise AssertionError("the loop returns or raises")
