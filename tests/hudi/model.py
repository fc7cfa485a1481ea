"""What a Hudi table must hold: a dict of rows, given the same writes.

It knows the rules of the two merge modes and nothing of files, so it cannot share a mistake with a reader. One thing
about files it does have to know: Hudi folds the logs of a slice among themselves first and the result onto the base
afterwards. So a row that follows an unconditional delete in the logs, and is older than the row in the base, loses to
it: the deleted row comes back. That is what Hudi does, and so it is what must be read.

Touches: nothing.
Keeps:   1. event time: the greater ordering value wins, of several the first one that differs, the later write on a
            tie; a hard delete is written without an ordering value, wins over everything before it, and loses against
            every row after it (a later delete with an ordering value does not soften it);
         2. commit time: the later write wins;
         3. a tombstone stays until a compaction, so a late row cannot bring back a key that a soft delete took;
         4. by partial updates a row that wins has the values of the row that it wins over where it has none itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]

SOFT_DELETE_COLUMN = "_hoodie_is_deleted"
MARK_COLUMN, MARK = "op", "D"
"""A column of the table's own choice, and the value by which it marks a row as deleted."""


@dataclass(frozen=True, slots=True)
class _Tombstone:
    ordering: Any
    """None: deleted whatever the ordering values are."""


_Entry = Row | _Tombstone


@dataclass(slots=True)
class TableModel:
    key_columns: tuple[str, ...]
    ordering_columns: tuple[str, ...]
    """None of them: commit-time ordering."""
    fills: bool = False
    """Partial updates: nulls are no values."""
    _base: dict[Key, Row] = field(default_factory=dict)
    _planned: dict[Key, list[_Entry]] = field(default_factory=dict)
    """What the logs of a scheduled compaction say, oldest first."""
    _logs: dict[Key, list[_Entry]] = field(default_factory=dict)

    def upsert(self, rows: list[Row], *, new_keys_go_to_logs: bool) -> None:
        for row in rows:
            key = self._key(row)
            if not new_keys_go_to_logs and key not in self.known_keys():
                self._base[key] = row
                continue
            is_delete = row.get(SOFT_DELETE_COLUMN) is True or row.get(MARK_COLUMN) == MARK
            self._logs.setdefault(key, []).append(_Tombstone(self._ordering(row)) if is_delete else row)

    def delete(self, rows: list[Row]) -> None:
        """Hard deletes: Hudi's `delete` operation through Spark hands no ordering value on."""
        for row in rows:
            self._logs.setdefault(self._key(row), []).append(_Tombstone(None))

    def schedule_compaction(self) -> None:
        assert not self._planned, "one plan at a time"
        self._planned, self._logs = self._logs, {}

    def compact(self) -> None:
        """Compaction folds logs onto the base and drops tombstones: first the scheduled plan, then all that is left."""
        for logs in (self._planned, self._logs):
            self._base = {self._key(row): row for row in self._fold(logs)}
        self._planned, self._logs = {}, {}

    def rows(self) -> list[Row]:
        # Until a scheduled plan is carried out, a reader folds its logs and the later ones in one go. That can differ
        # from what is read afterwards: a row that is later than a delete and older than the base loses now, and wins
        # once the plan has taken the key out of the base.
        together = {key: self._planned.get(key, []) + self._logs.get(key, []) for key in self._planned | self._logs}
        return self._fold(together)

    def known_keys(self) -> list[Key]:
        """Every key that has a row or a tombstone."""
        return list(self._base | self._planned | self._logs)

    def _fold(self, logs: dict[Key, list[_Entry]]) -> list[Row]:
        entries = [self._of_key(self._base.get(key), logs.get(key, [])) for key in self._base | logs]
        return [entry for entry in entries if not isinstance(entry, _Tombstone)]

    def _of_key(self, base: Row | None, logs: list[_Entry]) -> _Entry:
        if not logs:
            assert base is not None
            return base
        folded = reduce(self._winner, logs)
        return folded if base is None else self._winner(base, folded)

    def _winner(self, older: _Entry, newer: _Entry) -> _Entry:
        before, after = self._ordering(older), self._ordering(newer)
        if isinstance(older, _Tombstone) and before is None and isinstance(newer, _Tombstone):
            return older
        if before is not None and after is not None and after < before:
            return self._filled(older, newer)
        return self._filled(newer, older)

    def _filled(self, winner: _Entry, loser: _Entry) -> _Entry:
        if not self.fills or isinstance(winner, _Tombstone) or isinstance(loser, _Tombstone):
            return winner
        return loser | {name: value for name, value in winner.items() if value is not None or name not in loser}

    def _ordering(self, entry: _Entry) -> Any:
        if isinstance(entry, _Tombstone):
            return entry.ordering
        return tuple(entry[name] for name in self.ordering_columns) or None

    def _key(self, row: Row) -> Key:
        return tuple(row[column] for column in self.key_columns)
