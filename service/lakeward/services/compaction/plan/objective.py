"""When a file group is due by its table's objective, which says how long a record may be in logs only.

A group falls due within the last tenth of the objective, so that it is merged before the time is over:

    committed                                  0.9          0.97    1
    |------------------------------------------|:  :  :  :  |.......|   objective
                                                due, by group         time to merge it

Groups that were written together do not fall due together: a group's names say which of `SLOTS` moments is its own.
All these moments lie on one grid, a hundredth of the objective wide, so that groups written at any time gather into few
plans. A log compaction is no merge here: its output is a log, and a record of it is as old as it was.

Touches: nothing.
Keeps:   1. a group is due after nine tenths of the objective and before 97 hundredths of it are over;
         2. equal groups with equal times fall due at the same moment, in every process.
"""

from __future__ import annotations

import math
import zlib

from lakeward.table.file_system_view import GroupId

GRID = 100
"""Moments in an objective at which groups fall due."""

SLOTS = 7
"""Moments over which groups of one time are spread."""

_LATEST = 97


def due_from(objective: float) -> float:
    """The age at which the first group may be due, in seconds: nine tenths of the objective."""
    return objective * (_LATEST - SLOTS) / GRID


def due_seconds(group_id: GroupId, *, since: int, objective: float) -> int:
    """The age, in whole seconds, at which the oldest record of a group makes it due.

    Args:
        since: when that record was committed, in seconds since the epoch.
    """
    step = objective / GRID
    slot = zlib.crc32("/".join(group_id).encode(errors="surrogateescape")) % SLOTS
    moment = step * (math.floor(since / step + _LATEST) - slot)
    return math.ceil(moment - since)
