"""The merge of one key, slow and obvious: the result that `log_fold` and `hash_merge` must have, row by row in Python.

Verification merges a sample of keys again with it, and the tests compare the two over random records. It shares no code
with the fast merge and takes no shortcut; where a rule has an exception in Hudi, it is written out here.

Touches: nothing.
Keeps:   1. equal inputs give the result of Hudi's reader: the surviving record, or None.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeward.base.errors import Unsupported
from lakeward.merge.rules.merge_rules import (
    DELETING_OPERATIONS,
    IS_DELETED_FIELD,
    OPERATION_FIELD,
    MergeMode,
    MergeRules,
    PartialUpdates,
    RepeatedKeys,
)

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of one key: a data record with its row, or a delete of a delete block with its ordering value."""

    row: Row | None
    """Without the columns that a row of a partial log block was written without."""
    ordering: object = None
    """The ordering value of a delete block's record only; None where it has none. A data record's is in its row."""
    position: int | None = None
    """The place of the base row that it is for, where the slice is merged by places."""


@dataclass(frozen=True, slots=True)
class _Version:
    row: Row | None
    is_delete: bool
    ordering: object
    """None is the default."""
    from_delete_block: bool

    def is_commit_time_delete(self, *, zero_is_default: bool) -> bool:
        return self.is_delete and (self.ordering is None or (zero_is_default and self.ordering == 0))


def merge_rows(
    base: Sequence[Row],
    logs: Sequence[LogRecord],
    rules: MergeRules,
    *,
    integers: Collection[str],
    positions: Sequence[int] | None = None,
) -> list[Row]:
    """What is left of the rows of one key in the base file, given in its order, and of the key's log records.

    With `positions`, which are the places of the rows in the base file, each row meets those records that name it.
    """
    if positions is not None:
        assert len(positions) == len(base) and all(record.position in positions for record in logs)
        merged = [
            merge_key(row, [record for record in logs if record.position == place], rules, integers=integers)
            for row, place in zip(base, positions, strict=True)
        ]
        return [row for row in merged if row is not None]
    first, others = (base[0] if base else None), list(base[1:])
    if rules.repeated is RepeatedKeys.VERSIONS:
        zero_is_default = _zero_is_default(rules, integers)
        for row in others:
            assert first is not None
            versions = _base_version(first, rules, integers), _base_version(row, rules, integers)
            first = row if _newer_wins(*versions, rules, zero_is_default=zero_is_default) else first
        others = []
    merged_first = merge_key(first, logs, rules, integers=integers)
    return [*(() if merged_first is None else (merged_first,)), *others]


def merge_key(
    base: Row | None, logs: Sequence[LogRecord], rules: MergeRules, *, integers: Collection[str]
) -> Row | None:
    """The record that survives of one key. `logs` is oldest first. By rank the base row is the oldest of all.

    `integers` are the ordering fields that are ints: there a missing value is 0, and if it is the only one, 0 is the
    default.
    """
    zero_is_default = _zero_is_default(rules, integers)
    folded = _fold(logs, rules, integers, oldest=base if rules.base_is_first else None)
    if folded is None:
        return base
    if base is None or rules.base_is_first:
        return None if folded.is_delete else folded.row
    older = _base_version(base, rules, integers)
    if not _newer_wins(older, folded, rules, zero_is_default=zero_is_default):
        return _filled(older, folded, rules).row
    return None if folded.is_delete else _filled(folded, older, rules).row


def fold_key(logs: Sequence[LogRecord], rules: MergeRules, *, integers: Collection[str]) -> LogRecord:
    """The log record that wins the key among themselves, as a LOG compaction writes it down: a row or a delete."""
    folded = _fold(logs, rules, integers)
    assert folded is not None, "a key of the logs has log records"
    if not folded.is_delete:
        return LogRecord(folded.row)
    is_integer = len(rules.ordering_fields) == 1 and bool(integers)
    return LogRecord(None, 0 if folded.ordering is None and is_integer else folded.ordering)


def _is_ordered(rules: MergeRules) -> bool:
    # Without an ordering field every record has the default, and ties go to the later one.
    return rules.mode is MergeMode.EVENT_TIME_ORDERING and bool(rules.ordering_fields)


def _zero_is_default(rules: MergeRules, integers: Collection[str]) -> bool:
    # Of several fields Hudi compares arrays, which never equal the number that is the default.
    return not _is_ordered(rules) or (len(rules.ordering_fields) == 1 and bool(integers))


def _fold(
    logs: Sequence[LogRecord], rules: MergeRules, integers: Collection[str], *, oldest: Row | None = None
) -> _Version | None:
    zero_is_default = _zero_is_default(rules, integers)
    folded = None if oldest is None else _base_version(oldest, rules, integers)
    for record in logs:
        newer = _version(record, rules, integers)
        if folded is None:
            folded = newer
        elif _newer_wins_in_log(folded, newer, rules, zero_is_default=zero_is_default):
            folded = _filled(newer, folded, rules)
        else:
            folded = _filled(folded, newer, rules)
    return folded


def _filled(winner: _Version, loser: _Version, rules: MergeRules) -> _Version:
    """The winner with the loser's values where it has none itself; its ordering value stays."""
    if rules.partial_updates is None or winner.is_delete or loser.is_delete:
        return winner
    assert winner.row is not None and loser.row is not None
    if rules.partial_updates is PartialUpdates.KEEP_VALUES:
        return replace(winner, row={**loser.row, **winner.row})
    row = {name: loser.row[name] if _is_none(value, rules) else value for name, value in winner.row.items()}
    return replace(winner, row=row)


def _is_none(value: object, rules: MergeRules) -> bool:
    if rules.partial_updates is PartialUpdates.IGNORE_DEFAULTS:
        return value is None
    return value == rules.unavailable


def _base_version(row: Row, rules: MergeRules, integers: Collection[str]) -> _Version:
    """Hudi never takes a base row for a delete, not even one that says so of itself."""
    return _Version(row, is_delete=False, ordering=_ordering(row, rules, integers), from_delete_block=False)


def _version(record: LogRecord, rules: MergeRules, integers: Collection[str]) -> _Version:
    if record.row is None:
        ordering = record.ordering if _is_ordered(rules) else None
        return _Version(None, is_delete=True, ordering=ordering, from_delete_block=not rules.base_is_first)
    return _Version(
        record.row,
        is_delete=record.row.get(IS_DELETED_FIELD) is True or record.row.get(OPERATION_FIELD) in DELETING_OPERATIONS,
        ordering=_ordering(record.row, rules, integers),
        from_delete_block=False,
    )


def _ordering(row: Row, rules: MergeRules, integers: Collection[str]) -> object:
    if not _is_ordered(rules):
        return None
    if len(rules.ordering_fields) == 1:
        return row[rules.ordering_fields[0]]
    return tuple(0 if row[name] is None and name in integers else row[name] for name in rules.ordering_fields)


def _newer_wins_in_log(older: _Version, newer: _Version, rules: MergeRules, *, zero_is_default: bool) -> bool:
    if rules.mode is MergeMode.COMMIT_TIME_ORDERING or not newer.from_delete_block:
        return _newer_wins(older, newer, rules, zero_is_default=zero_is_default)
    if older.is_commit_time_delete(zero_is_default=zero_is_default):
        return False
    if newer.is_commit_time_delete(zero_is_default=zero_is_default):
        return True
    if not zero_is_default and not _same_class(older.ordering, newer.ordering):
        return True  # here Hudi looks at the class first
    return _compare(older.ordering, newer.ordering, zero_is_default=zero_is_default) <= 0


def _newer_wins(older: _Version, newer: _Version, rules: MergeRules, *, zero_is_default: bool) -> bool:
    if rules.mode is MergeMode.COMMIT_TIME_ORDERING:
        return True
    if newer.is_commit_time_delete(zero_is_default=zero_is_default):
        return True
    if older.is_commit_time_delete(zero_is_default=zero_is_default):
        return True
    return _compare(newer.ordering, older.ordering, zero_is_default=zero_is_default) >= 0


def _same_class(left: object, right: object) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return all(_same_class(*fields) for fields in zip(left, right, strict=True))
    return (left is None) is (right is None)


def _compare(left: object, right: object, *, zero_is_default: bool) -> int:
    """Negative, zero or positive, as Java's compareTo."""
    if isinstance(left, tuple) and isinstance(right, tuple) and _same_class(left, right):
        found = (_compare(*fields, zero_is_default=False) for fields in zip(left, right, strict=True))
        return next((order for order in found if order), 0)
    if zero_is_default:
        left, right = (0 if value is None else value for value in (left, right))
    if left is None and right is None:
        return 0
    if not _same_class(left, right):
        # Hudi fails as soon as it meets the two, but compares the fields before them where there are several.
        raise Unsupported(
            "A record with an ordering value meets one without.",
            why="They cannot be ordered, and Hudi fails on them, too.",
            remedy="Write the key again with an ordering value.",
        )
    if isinstance(left, float) and isinstance(right, float):
        return _compare_floats(left, right)
    if isinstance(left, str) and isinstance(right, str):
        left, right = left.encode(), right.encode()
    return 1 if left > right else -1 if left < right else 0  # type: ignore[operator]


def _compare_floats(left: float, right: float) -> int:
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) - math.isnan(right)
    if left == right:
        # Java tells the zeros apart.
        return int(math.copysign(1, left) > math.copysign(1, right)) - int(
            math.copysign(1, left) < math.copysign(1, right)
        )
    return 1 if left > right else -1
