"""Which of two records of one key wins, and what becomes of a base row: the rules of Hudi, compiled.

A *commit-time delete* is one whose ordering value is the default. By event time, the rules for a new record over the
state of its key are:

    new record         state                  the new one wins
    any                nothing                yes
    block delete       commit-time delete     no
    block delete       anything else          if it is a commit-time delete, or unless state > new
    data, or deleted   commit-time delete     yes
      by a column      anything else          if it is a commit-time delete, or if new >= state

By commit time the last one wins. The rules for data, with ties for the log, then decide between the folded record and
the base row, which is never a delete, whatever its columns say.

Ordering values come as codes (`merge/ordering`), so the rules know no types. `is_default` is 1 where a record has no
value of its own. `default_compares` says whether the default can be compared with values that are present; where it
cannot, Java throws, and a kernel gives the row at which it would.

Touches: the arrays of states and of results that it is given.
Keeps:   1. the results are those of `merge/reference`, which is slow and obvious;
         2. where Java would throw, the kernel stops and gives the row; nothing is decided from there on.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from lakeward.kernel import I8, I8_IN, I64, I64_IN, kernel, types


class LogRecordKind(IntEnum):
    """What a log record is; also what a key's state is."""

    NOTHING = 0
    DATA = 1
    COLUMN_DELETE = 2  # a data record that a column of it declares deleted
    BLOCK_DELETE = 3


class Action(IntEnum):
    """What becomes of a base row."""

    KEEP = 0
    REPLACE = 1
    REMOVE = 2


_NOTHING: Final = int(LogRecordKind.NOTHING)
_DATA: Final = int(LogRecordKind.DATA)
_BLOCK_DELETE: Final = int(LogRecordKind.BLOCK_DELETE)
_KEEP: Final = int(Action.KEEP)
_REPLACE: Final = int(Action.REPLACE)
_REMOVE: Final = int(Action.REMOVE)


@kernel(
    types.int64(types.boolean, types.boolean, I64_IN, I8_IN, I64_IN, I8_IN, I64_IN, I8, I64, I8, I64),
)
def fold_records(
    by_event_time: bool,
    default_compares: bool,
    ids: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.int8],
    codes: npt.NDArray[np.int64],
    is_default: npt.NDArray[np.int8],
    positions: npt.NDArray[np.int64],
    state_kinds: npt.NDArray[np.int8],
    state_codes: npt.NDArray[np.int64],
    state_is_default: npt.NDArray[np.int8],
    state_positions: npt.NDArray[np.int64],
) -> int:
    """Fold a run of records into the states of their keys; the row at which Java would throw, or -1."""
    for i in range(len(ids)):
        key = ids[i]
        old = state_kinds[key]
        if by_event_time and old != _NOTHING:
            old_wins_always = old != _DATA and state_is_default[key] != 0
            new_wins_always = kinds[i] != _DATA and is_default[i] != 0
            if kinds[i] == _BLOCK_DELETE:
                if old_wins_always:
                    continue
                if not new_wins_always:
                    same_class = default_compares or state_is_default[key] == is_default[i]
                    if same_class and state_codes[key] > codes[i]:
                        continue
            elif not (old_wins_always or new_wins_always):
                if not default_compares and state_is_default[key] != is_default[i]:
                    return i
                if codes[i] < state_codes[key]:
                    continue
        state_kinds[key] = kinds[i]
        state_codes[key] = codes[i]
        state_is_default[key] = is_default[i]
        state_positions[key] = positions[i]
    return -1


@kernel(types.int64(types.boolean, types.boolean, I8_IN, I64_IN, I8_IN, I64_IN, I8_IN, I8))
def decide_base_rows(
    by_event_time: bool,
    default_compares: bool,
    log_kinds: npt.NDArray[np.int8],
    log_codes: npt.NDArray[np.int64],
    log_is_default: npt.NDArray[np.int8],
    base_codes: npt.NDArray[np.int64],
    base_is_default: npt.NDArray[np.int8],
    out: npt.NDArray[np.int8],
) -> int:
    """What becomes of base rows that have a folded log record; the row at which Java would throw, or -1."""
    for i in range(len(out)):
        log_wins = True
        if by_event_time and not (log_kinds[i] != _DATA and log_is_default[i] != 0):
            if not default_compares and log_is_default[i] != base_is_default[i]:
                return i
            log_wins = log_codes[i] >= base_codes[i]
        if not log_wins:
            out[i] = _KEEP
        elif log_kinds[i] == _DATA:
            out[i] = _REPLACE
        else:
            out[i] = _REMOVE
    return -1
