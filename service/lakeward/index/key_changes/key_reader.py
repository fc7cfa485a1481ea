"""What one commit did to the places of keys: the files that were chosen in, sorted `CHANGES` out.

Touches: the table's files, reading; spill files.
Keeps:   1. a change says which keys the file group has and which it has no more, and a key that it says is there is
            there now, or a later commit took it away;
         2. memory is bounded: a run of keys to sort, what merging one slice takes, and up to `KEYS_ASKED_MAX` keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.base.paths import join
from lakeward.index.key_changes.group_changes import CommitChanges, Compared, GroupChange, KeysOfLogs
from lakeward.index.key_changes.marked_keys import Mark, MarkedKeys
from lakeward.index.location import BETWEEN, FILE_ID, PARTITION_PATH, RECORD_KEY, group_names
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read.newest_slice import TableReading, table_reading
from lakeward.read.slice_keys import base_keys, log_keys, may_delete, slice_keys
from lakeward.read.table_rules import merge_rules
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import PAYLOAD_MODES

KEYS_ASKED_MAX = 50_000
"""A slice is asked for so many keys; where there are more, all of its keys are read."""

LocatedThere = Callable[[frozenset[GroupId]], Iterator[pa.RecordBatch]]
"""All locations in these file groups that an index has, in `LOCATIONS`."""


def check_deletes_are_known(snapshot: TableSnapshot) -> None:
    """Raises `Unsupported` for a table of which nothing shows which rows deletes take away."""
    if snapshot.config.merge_mode not in PAYLOAD_MODES.values():
        raise Unsupported(
            "An index cannot follow this table.",
            why=f"Its rows are merged by {snapshot.config.merge_mode} rules, so that it is not known which of "
            "them deletes take away.",
            remedy="Use it without an index of Lakeward's.",
        )


@dataclass(slots=True)
class KeyReader:
    """Reads commits of one snapshot, and remembers what it found of slices."""

    storage: Storage
    snapshot: TableSnapshot
    spill_folder: str | None = None
    _deletes: dict[str, bool] = field(default_factory=dict)
    _reading: TableReading = field(init=False)

    def __post_init__(self) -> None:
        check_deletes_are_known(self.snapshot)
        self._reading = table_reading(self.snapshot, merges=True)

    def changes(
        self, chosen: CommitChanges, *, is_global: bool, located: LocatedThere | None = None
    ) -> Iterator[pa.RecordBatch]:
        """In `CHANGES`, by keys. Raises `Unsupported`, `BrokenFile`, and `NotFound` where a clean was faster.

        Args:
            located: of an index that is changed; None: file groups that are read again yield just the keys
                that they have.
        """
        for by_order in (True, False):
            with MarkedKeys(is_global=is_global, folder=self.spill_folder) as keys:
                try:
                    for change in chosen.changes:
                        self._mark(change, keys, by_order)
                except NotSorted:
                    # A base file says that it is sorted, and is not: what was found so far may be wrong.
                    assert by_order, "without its order nothing is relied on"
                    continue
                if located is not None and chosen.read_again:
                    _mark_located(located(chosen.read_again), keys)
                yield from keys.changes()
                return

    def _mark(self, change: GroupChange, keys: MarkedKeys, by_order: bool) -> None:
        if isinstance(change, KeysOfLogs):
            self._mark_logs(change, keys, by_order)
            return
        if isinstance(change, Compared):
            mark = Mark.MIGHT if change.logs_before else Mark.BEFORE
            for path in change.before:
                where, made_of = join(self.snapshot.base_path, path), self._reading.key_columns
                for part in base_keys(self.storage, where, name=path, key_columns=made_of):
                    keys.add(part, change.group, mark)
            for path in change.logs_before:
                for part in log_keys(self.storage, self.snapshot, path):
                    keys.add(part, change.group, mark)
        for part in slice_keys(self.storage, self._reading, change.after, by_order=by_order):
            keys.add(part, change.group, Mark.AFTER)

    def _mark_logs(self, change: KeysOfLogs, keys: MarkedKeys, by_order: bool) -> None:
        slice_logs = [log.path for log in change.after.row_logs]
        deletes = any(map(self._has_deletes, slice_logs))
        if change.only_with_deletes and not deletes:
            return
        are_in = not deletes and set(slice_logs).issuperset(change.logs)
        asked: set[str] | None = set()
        for path in change.logs:
            for part in log_keys(self.storage, self.snapshot, path):
                keys.add(part, change.group, Mark.AFTER if are_in else Mark.TOUCHED)
                if asked is not None and not are_in:
                    asked.update(part.to_pylist())
                    asked = asked if len(asked) <= KEYS_ASKED_MAX else None
        if are_in or asked == set():
            return
        for part in slice_keys(self.storage, self._reading, change.after, among=asked, by_order=by_order):
            keys.add(part, change.group, Mark.THERE)

    def _has_deletes(self, path: str) -> bool:
        if path not in self._deletes:
            self._deletes[path] = may_delete(self.storage, self.snapshot, [path], merge_rules(self.snapshot))
        return self._deletes[path]


def _mark_located(locations: Iterator[pa.RecordBatch], keys: MarkedKeys) -> None:
    for batch in locations:
        groups = group_names(batch.column(PARTITION_PATH), batch.column(FILE_ID)).dictionary_encode()
        numbers = groups.indices.to_numpy(zero_copy_only=False)
        for number, name in enumerate(groups.dictionary.to_pylist()):
            partition_path, _, file_id = name.rpartition(BETWEEN)
            mask = pa.array(numbers == number)
            keys.add(batch.column(RECORD_KEY).filter(mask), (partition_path, file_id), Mark.BEFORE)
