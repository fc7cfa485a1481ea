"""Which of two records of one key wins, and what happens to a base row: the rules of Hudi, compiled.

A *commit-time delete* is one whose ordering value is the default. By event time, the rules for a new record over the
state of its key are:

    new record         state                  the new one wins
    any                nothing                yes
    block delete       commit-time delete     no
    block delete       anything else          if it is a commit-time delete, or unless state > new
    data, or deleted   commit-time delete     yes
      by a column      anything else          if it is a commit-time delete, or if new >= state

By commit time the last one wins. The rules for data, with ties for the log, then decide between the folded record and
the base row, which is never a delete, whatever its columns say. So does Hudi read the default layout. Its reader of
`lsm_tree` begins with the base row as the oldest record; the two differ where an unconditional delete stands between a
base row and a later record of a smaller ordering value:

    base 10, delete, 5      logs first: 5, which loses to 10        base first: the delete, then 5

And to that reader a delete is a record like others: one that comes after an unconditional delete takes its place, so
that a later row of a smaller value loses to it. Deletes are given the kind of those by a column there.

Ordering values come as codes and classes (`merge/rules/ordering_codes`), so the rules know no types. The class is 1
where a record has no value of its own. Where the default cannot be compared with values that are present, and where
classes differ otherwise, Java throws, and a kernel gives the row at which it would.

Touches: the arrays of states and of results that it is given.
Keeps:   1. the results are those of `merge/rules/reference`, which is slow and obvious;
         2. where Java would throw, the kernel stops and gives the row; nothing is decided from there on.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lakeward.base.kernel import I8, I8_IN, I64, I64_IN, kernel, named, read_only, types
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.merge.rules.ordering_codes import OrderingCodes


class LogRecordKind(IntEnum):
    """What a log record is; also what a key's state is."""

    NOTHING = 0
    DATA = 1
    COLUMN_DELETE = 2  # a data record that a column of it declares deleted
    BLOCK_DELETE = 3


def delete_kind(rules: MergeRules) -> LogRecordKind:
    """What a delete of a log is, that is no row of it: where the base row is first, the same as one by a column."""
    return LogRecordKind.COLUMN_DELETE if rules.base_is_first else LogRecordKind.BLOCK_DELETE


class Action(IntEnum):
    """What happens to a base row."""

    KEEP = 0
    REPLACE = 1
    REMOVE = 2


class Role(IntEnum):
    """What a record of a group is to the rest of it."""

    LOG = 0
    BASE = 1
    LOST_BASE = 2
    """A base row that cannot win any more."""
    APART = 3
    """A base row behind another one of its key, which meets no log record."""


class GroupCount(IntEnum):
    """Places in the counts of `fold_groups`."""

    UPDATED = 0
    INSERTED = 1
    DELETED = 2
    LOG_KEYS = 3
    FOLDED = 4


_THROWS: Final = -1
NO_RANK: Final = -(2**62)
"""The rank of a record that is in no list of rows."""
_DEFAULT: Final = 1
_NOTHING: Final = int(LogRecordKind.NOTHING)
_DATA: Final = int(LogRecordKind.DATA)
_BLOCK_DELETE: Final = int(LogRecordKind.BLOCK_DELETE)
_KEEP: Final = int(Action.KEEP)
_REPLACE: Final = int(Action.REPLACE)
_REMOVE: Final = int(Action.REMOVE)
_LOG: Final = int(Role.LOG)
_BASE: Final = int(Role.BASE)
_LOST_BASE: Final = int(Role.LOST_BASE)
_UPDATED: Final = int(GroupCount.UPDATED)
_INSERTED: Final = int(GroupCount.INSERTED)
_DELETED: Final = int(GroupCount.DELETED)
_LOG_KEYS: Final = int(GroupCount.LOG_KEYS)
_FOLDED: Final = int(GroupCount.FOLDED)


class OrderingRule(NamedTuple):
    """How records of one key are compared."""

    by_event_time: bool
    default_compares: bool
    """The default of an ordering value can be compared with values that are present."""


class RecordVersion(NamedTuple):
    """What a kernel compares of a record, or of the state of a key."""

    kind: np.int8
    code: np.int64
    class_: np.int8


class RecordVersions(NamedTuple):
    """The same of many."""

    kinds: npt.NDArray[np.int8]
    codes: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int8]

    @classmethod
    def of(cls, kinds: npt.NDArray[np.int8], ordering: OrderingCodes) -> Self:
        return cls(read_only(kinds), read_only(ordering.codes), read_only(ordering.classes))


class States(NamedTuple):
    """The states of keys, which a fold changes, and the positions of the records that won."""

    kinds: npt.NDArray[np.int8]
    codes: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int8]
    positions: npt.NDArray[np.int64]


_COMPARISON: Final = named(OrderingRule, types.boolean, types.boolean)
_VERSION: Final = named(RecordVersion, types.int8, types.int64, types.int8)
_VERSIONS: Final = named(RecordVersions, I8_IN, I64_IN, I8_IN)


@kernel(_VERSION(_VERSIONS, types.int64))
def _version(records: RecordVersions, row: int) -> RecordVersion:
    return RecordVersion(records.kinds[row], records.codes[row], records.classes[row])


@kernel(types.int64(_COMPARISON, _VERSION, _VERSION))
def _wins(by: OrderingRule, old: RecordVersion, new: RecordVersion) -> int:
    """1 where a record wins over the state of its key, 0 where it does not, and `_THROWS`."""
    if not by.by_event_time or old.kind == _NOTHING:
        return 1
    old_wins_always = old.kind != _DATA and old.class_ == _DEFAULT
    new_wins_always = new.kind != _DATA and new.class_ == _DEFAULT
    if new.kind == _BLOCK_DELETE:
        if old_wins_always:
            return 0
        same_class = by.default_compares or old.class_ == new.class_
        return int(new_wins_always or not same_class or old.code <= new.code)
    if old_wins_always or new_wins_always:
        return 1
    if not by.default_compares and old.class_ != new.class_:
        return _THROWS
    return int(new.code >= old.code)


@kernel(types.int64(_COMPARISON, I64_IN, _VERSIONS, I64_IN, named(States, I8, I64, I8, I64)))
def fold_records(
    by: OrderingRule,
    ids: npt.NDArray[np.int64],
    records: RecordVersions,
    positions: npt.NDArray[np.int64],
    states: States,
) -> int:
    """Fold a run of records into the states of their keys; the row at which Java would throw, or -1."""
    for i in range(len(ids)):
        key = ids[i]
        new = _version(records, i)
        wins = _wins(by, RecordVersion(states.kinds[key], states.codes[key], states.classes[key]), new)
        if wins == _THROWS:
            return i
        if wins == 1:
            states.kinds[key] = new.kind
            states.codes[key] = new.code
            states.classes[key] = new.class_
            states.positions[key] = positions[i]
    return -1


@kernel(types.int64(_COMPARISON, _VERSION, _VERSION))
def _beats_base(by: OrderingRule, log: RecordVersion, base: RecordVersion) -> int:
    """1 where a folded log record wins over the base row of its key, 0 where it does not, and `_THROWS`."""
    if by.by_event_time and not (log.kind != _DATA and log.class_ == _DEFAULT):
        if not by.default_compares and log.class_ != base.class_:
            return _THROWS
        return int(log.code >= base.code)
    return 1


@kernel(types.int64(_COMPARISON, _VERSIONS, _VERSIONS, I8))
def decide_base_rows(by: OrderingRule, logs: RecordVersions, base: RecordVersions, out: npt.NDArray[np.int8]) -> int:
    """What happens to base rows that have a folded log record; the row at which Java would throw, or -1."""
    for i in range(len(out)):
        wins = _beats_base(by, _version(logs, i), _version(base, i))
        if wins == _THROWS:
            return i
        if wins == 0:
            out[i] = _KEEP
        elif logs.kinds[i] == _DATA:
            out[i] = _REPLACE
        else:
            out[i] = _REMOVE
    return -1


@kernel(types.int64(_COMPARISON, types.boolean, types.boolean, I8, I8_IN, _VERSIONS, I8, I64))
def fold_groups(
    by: OrderingRule,
    base_is_first: bool,
    is_open: bool,
    roles: npt.NDArray[np.int8],
    joins: npt.NDArray[np.int8],
    records: RecordVersions,
    kept: npt.NDArray[np.int8],
    counts: npt.NDArray[np.int64],
) -> int:
    """Fold groups of records with one key each: base rows, if there are any, and its log records, oldest first.

    Of several base rows, which are versions of one, that is left which wins among them. A group goes on as long as
    `joins` is 1. Its winner, which may be a delete, is marked in `kept`. Where
    `base_is_first` the base row is the oldest of the records; else the logs are folded before they meet it. Where the
    last group `is_open`, more of it is to come, and what the rest needs is marked instead: the record that won so far,
    and the base row, whose role becomes `LOST_BASE` where it cannot win any more.

    `counts` (places: `GroupCount`) go up by what the groups that are not open did. Returns -1, or the row at which Java
    would throw.
    """
    count = len(roles)
    start = 0
    while start < count:
        end = start + 1
        while end < count and joins[end] != 0:
            end += 1
        base = -1
        had_base = -1
        winner = -1
        logs = 0
        for i in range(start, end):
            if roles[i] != _LOG:
                if had_base >= 0:
                    wins = _wins(by, _version(records, had_base), _version(records, i))
                    if wins == _THROWS:
                        return i
                    counts[_FOLDED] += 1
                    if wins == 0:
                        continue
                had_base = i
                if roles[i] == _BASE:
                    base = i
                    if base_is_first:
                        winner = i
                continue
            logs += 1
            wins = 1
            if winner >= 0:
                wins = _wins(by, _version(records, winner), _version(records, i))
            if wins == _THROWS:
                return i
            if wins == 1:
                winner = i
        if is_open and end == count:
            if winner >= 0:
                kept[winner] = 1
            if had_base >= 0:
                kept[had_base] = 1
                if base_is_first and winner != base:
                    roles[had_base] = _LOST_BASE
            start = end
            continue
        if not base_is_first and base >= 0:
            if winner < 0:
                winner = base
            else:
                wins = _beats_base(by, _version(records, winner), _version(records, base))
                if wins == _THROWS:
                    return winner
                if wins == 0:
                    winner = base
        if winner >= 0:
            kept[winner] = 1
            is_row = records.kinds[winner] == _DATA
            if had_base < 0:
                counts[_INSERTED] += int(is_row)
            elif winner != base:
                if is_row:
                    counts[_UPDATED] += 1
                else:
                    counts[_DELETED] += 1
        counts[_LOG_KEYS] += int(logs > 0)
        start = end
    return -1


@kernel(types.int64(_COMPARISON, types.boolean, I8_IN, I8_IN, _VERSIONS, I8, I64, I64))
def fold_filled_groups(
    by: OrderingRule,
    is_open: bool,
    roles: npt.NDArray[np.int8],
    joins: npt.NDArray[np.int8],
    records: RecordVersions,
    kept: npt.NDArray[np.int8],
    ranks: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> int:
    """Fold groups as `fold_groups` does, where a row that wins takes from the one that loses what it lacks itself.

    The result of two rows goes on with the winner's ordering value; a delete on either side leaves the winner as it is.
    So a group becomes a list of rows, the winner first: a row that wins is put before it, one that loses behind it.
    `ranks` orders the rows of each list, and is `NO_RANK` for other records. Of an open group all rows of its list are
    marked in `kept`, and the base row, which is not in it yet.
    """
    count = len(roles)
    start = 0
    while start < count:
        end = start + 1
        while end < count and joins[end] != 0:
            end += 1
        base = -1
        winner = -1
        first = start
        low = 0
        high = 0
        logs = 0
        for i in range(start, end):
            ranks[i] = NO_RANK
            if roles[i] != _LOG:
                base = i
                continue
            logs += 1
            wins = 1
            if winner >= 0:
                wins = _wins(by, _version(records, winner), _version(records, i))
            if wins == _THROWS:
                return i
            both_rows = winner >= 0 and records.kinds[i] == _DATA and records.kinds[winner] == _DATA
            if wins == 1:
                if both_rows:
                    low -= 1
                else:
                    first = i
                    low = 0
                    high = 0
                ranks[i] = low
                winner = i
            elif both_rows:
                high += 1
                ranks[i] = high
        for i in range(start, first):
            ranks[i] = NO_RANK
        if is_open and end == count:
            for i in range(start, end):
                kept[i] = int(ranks[i] != NO_RANK or i == base)
            start = end
            continue
        if base >= 0:
            wins = 0
            if winner >= 0:
                wins = _beats_base(by, _version(records, winner), _version(records, base))
            if wins == _THROWS:
                return winner
            is_row = winner >= 0 and records.kinds[winner] == _DATA
            if wins == 1:
                if is_row:
                    ranks[base] = high + 1
            else:
                ranks[base] = low - 1
                if not is_row:
                    for i in range(start, end):
                        if i != base:
                            ranks[i] = NO_RANK
                winner = base
            counts[_UPDATED] += int(is_row)
            counts[_DELETED] += int(wins == 1 and not is_row)
        elif records.kinds[winner] == _DATA:
            counts[_INSERTED] += 1
        kept[winner] = 1
        counts[_LOG_KEYS] += int(logs > 0)
        start = end
    return -1
