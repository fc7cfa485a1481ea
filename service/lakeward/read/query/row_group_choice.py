"""Which row groups of a slice's files need not be read for a predicate: the one rule by which rows are left unread.

Leaving a row unread must never bring an older version of its record to light, nor hide a newer one. So

    logs         are read and folded whole, but for records whose *key* is not wanted: of such a record no version is
    base file    a row group is skipped where none of its keys is wanted; or where none of its values is, and no data
                 record of the logs could lose to one of its rows; and where a key may be in several rows of the file,
                 no record at all could meet one of them

The last clause is the trap. By event time a base row may beat the log's record of its key. Skipped because of its
values, it would leave the field to the older record, which may hold the values that are wanted. Where the last one
written wins no base row ever does; and a delete in the logs gives no row, with the base row or without it. Of several
rows with one key the first meets the logs: left unread, it would send the next one there, which may be wanted.

Touches: nothing.
Keeps:   1. what is read, merged and then filtered is what all rows, merged and then filtered, are;
         2. of what is unknown (a range, the keys of the logs) the worst is assumed.
See:     docs/decisions/0046-what-may-be-left-unread.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeward.format.parquet.row_groups import RowGroup, ValueRange
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD, MergeMode
from lakeward.read.query.predicate import Predicate


@dataclass(frozen=True, slots=True)
class LogSide:
    """What is known of a slice's logs when they are read."""

    mode: MergeMode
    data_keys: ValueRange | None
    """The keys of their data records reach from here to there; None where there is no such record."""
    met: ValueRange | None = None
    """The same of all records, where a key may be in several rows of the base file."""


NO_LOGS = LogSide(MergeMode.COMMIT_TIME_ORDERING, None)
"""No row of the base file meets another version of its record."""


def choose_row_groups(groups: Sequence[RowGroup], predicate: Predicate, logs: LogSide) -> list[int]:
    """The numbers of the row groups of a base file that are read."""
    keys, values = predicate.on_keys, predicate.on_values
    return [
        group.number
        for group in groups
        if keys.may_hold_in(group)
        and (values.may_hold_in(group) or _may_beat_a_log_record(group, logs) or _may_have_key_in(group, logs.met))
    ]


def choose_log_row_groups(groups: Sequence[RowGroup], predicate: Predicate) -> list[int]:
    """The numbers of the row groups of a Parquet log block that are read: what the values are decides nothing here."""
    return [group.number for group in groups if predicate.on_keys.may_hold_in(group)]


def _may_beat_a_log_record(group: RowGroup, logs: LogSide) -> bool:
    return logs.mode is not MergeMode.COMMIT_TIME_ORDERING and _may_have_key_in(group, logs.data_keys)


def _may_have_key_in(group: RowGroup, keys: ValueRange | None) -> bool:
    if keys is None:
        return False
    of_group = group.ranges.get(RECORD_KEY_FIELD)
    if of_group is None:
        return True
    return not (of_group.high < keys.low or keys.high < of_group.low)  # type: ignore[operator]
