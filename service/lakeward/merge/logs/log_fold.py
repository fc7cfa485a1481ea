"""Fold the log records of a slice among themselves, oldest first: at most one record per key is left.

Hudi folds the logs before it looks at the base file, and by event time the order of the two matters. For each key we
keep a state: which record won so far, whether it is a delete, and its ordering value as a code. `merge/rules/winner`
has the rules for a new record over a state, and for a folded record over a base row.

All of it is in memory: the rows that have not lost, the key index, 32 to 64 bytes a key and its text once or twice, the
states, 18 to 36 bytes a key, and where ordering values are strings or decimals, every record's value and 17 bytes until
all are ranked. The caller looks at `is_full`, and takes what has come so far out of memory (`merge/logs/log_records`).

Touches: nothing.
Keeps:   1. records are folded in the order they are appended;
         2. where Java would throw because a missing ordering value meets a present one, so do we (`Unsupported`);
         3. a tombstone keeps its ordering value, so that a later but older record does not resurrect the row;
         4. rows that lost are dropped before it is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.base.kernel import I64, I64_IN, kernel, types
from lakeward.base.named_key import named_key
from lakeward.merge.logs.key_index import KeyIndex
from lakeward.merge.rows.log_rows import LogRows
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.ordering_codes import (
    OrderingCodes,
    decode_ordering,
    encode_ordering,
    needs_ranks,
    ordering_values,
    values_by_code,
    values_for_codes,
)
from lakeward.merge.rules.ordering_type import default_is_comparable, ordering_type
from lakeward.merge.rules.records import delete_ordering, find_deleted, keyless, record_keys
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.merge.rules.winner import (
    LogRecordKind,
    OrderingRule,
    RecordVersions,
    States,
    decide_base_rows,
    fold_records,
)

_RANKED_BYTES = 17
_ORDER_BYTES = 48
"""What `sort_key.order_of` takes for each key while it works."""


@kernel(types.boolean(I64_IN, types.int64, I64))
def _marks_again(ids: npt.NDArray[np.int64], block: int, marks: npt.NDArray[np.int64]) -> bool:
    """Give the ids the mark of a block; True where one has it already."""
    for i in range(len(ids)):
        if marks[ids[i]] == block:
            return True
        marks[ids[i]] = block
    return False


@dataclass(slots=True)
class _States:
    """One entry per key id."""

    kinds: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(512, dtype=np.int8))
    codes: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(512, dtype=np.int64))
    classes: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(512, dtype=np.int8))
    positions: npt.NDArray[np.int64] = field(default_factory=lambda: np.full(512, -1, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.kinds.nbytes + self.codes.nbytes + self.classes.nbytes + self.positions.nbytes

    def make_room(self, keys: int) -> None:
        more = max(keys, 2 * len(self.kinds)) - len(self.kinds)
        if keys > len(self.kinds):
            self.kinds = np.concatenate([self.kinds, np.zeros(more, dtype=np.int8)])
            self.codes = np.concatenate([self.codes, np.zeros(more, dtype=np.int64)])
            self.classes = np.concatenate([self.classes, np.zeros(more, dtype=np.int8)])
            self.positions = np.concatenate([self.positions, np.full(more, -1, dtype=np.int64)])


@dataclass(frozen=True, slots=True)
class _Run:
    """Records of one source, not folded yet because their ordering values must be ranked with all others."""

    ids: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    positions: npt.NDArray[np.int64]
    values: pa.Array
    source: str


class LogFold:
    """Append records oldest first, `finish`, then ask. `schema` is that of every data batch."""

    def __init__(
        self, schema: pa.Schema, rules: MergeRules, *, memory_bytes: int, watches_blocks: bool = False
    ) -> None:
        """
        Args:
            watches_blocks: it notes whether a key came more than once in one block.
        """
        self._memory_bytes = memory_bytes
        self._rules = rules
        self._ordering_type = ordering_type(rules, schema)
        self._ranked = needs_ranks(self._ordering_type)
        self._comparison = OrderingRule(
            rules.mode is MergeMode.EVENT_TIME_ORDERING, default_is_comparable(self._ordering_type)
        )
        self._keys = KeyIndex()
        self._rows = LogRows(schema)
        self._states = _States()
        self._runs: list[_Run] = []
        self._ranked_values: pa.Array | None = None
        self._by_key: npt.NDArray[np.int64] | None = None
        self._records = 0
        self._is_finished = False
        self._marks = np.zeros(512 if watches_blocks else 0, dtype=np.int64)
        self._block, self._source = 0, ""
        self.repeats_in_block = False
        """A key came more than once in one block, where blocks are watched."""

    @property
    def records(self) -> int:
        """Log records appended, deletes included."""
        return self._records

    @property
    def keys(self) -> int:
        """Distinct keys among them."""
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        """What is held, and what putting the keys in order will take."""
        ranked = sum(run.values.nbytes + _RANKED_BYTES * len(run.ids) for run in self._runs)
        keys = self._keys.nbytes + self._states.nbytes + _ORDER_BYTES * len(self._keys)
        return int(self._rows.nbytes + keys + ranked + self._marks.nbytes)

    @property
    def is_full(self) -> bool:
        """More is held than the budget allows, though what lost was dropped."""
        if self.nbytes <= self._memory_bytes:
            return False
        # Ranked records are folded at the end only, so no record has lost yet.
        if not self._runs and self._rows.nbytes:
            self._drop_losers()
        # Under half of the budget is worth waiting for more; otherwise we would drop again after every batch.
        return 2 * self.nbytes > self._memory_bytes

    def append_data(self, batch: pa.RecordBatch, *, source: str) -> None:
        """Records of a data block in the slice's schema. `source` is how errors call the block."""
        assert not self._is_finished
        if batch.num_rows == 0:
            return
        ids = self._keys.intern(record_keys(batch, source=source))
        kinds = data_kinds(batch, self._rules)
        first = self._rows.append(batch)
        positions = np.arange(first, first + batch.num_rows, dtype=np.int64)
        values = None if self._ordering_type is None else ordering_values(batch, self._rules.ordering_fields)
        self._append(ids, kinds, positions, values, source)

    def append_deletes(
        self, keys: pa.Array, ordering: pa.Array | None, *, wrappers: Sequence[str], source: str
    ) -> None:
        """Records of a delete block: `ordering` is null where the delete has the default, None where all have.

        `wrappers` names the class that the values of each ordering field had in the block.
        """
        assert not self._is_finished
        if len(keys) == 0:
            return
        if keys.null_count:
            raise keyless(source)
        ids = self._keys.intern(keys)
        kinds = np.full(len(keys), LogRecordKind.BLOCK_DELETE, dtype=np.int8)
        positions = np.full(len(keys), -1, dtype=np.int64)
        values = delete_ordering(ordering, self._ordering_type, wrappers=wrappers, rows=len(keys), source=source)
        self._append(ids, kinds, positions, values, source)

    def finish(self) -> None:
        """No more records will come."""
        assert not self._is_finished
        self._is_finished = True
        if self._runs:
            self._fold_ranked()
        self._drop_losers()
        self._rows.seal()

    def find(self, keys: pa.Array, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The ids of base keys with their hashes, -1 where no log record has the key."""
        return self._keys.find(keys, hashes)

    def key(self, key_id: int) -> str:
        return self._keys.key(key_id)

    def decide(self, ids: npt.NDArray[np.int64], base_ordering: pa.Array | None, *, base: str) -> npt.NDArray[np.int8]:
        """What happens to base rows with these ids (each a known key) and ordering values."""
        assert self._is_finished
        kinds = self._states.kinds[ids]
        log = OrderingCodes(self._states.codes[ids], self._states.classes[ids])
        values = None if self._ordering_type is None else base_ordering
        if self._ranked and values is not None:
            # Ranks of the logs say nothing about the base's values: rank the two sides of this batch together.
            assert self._ranked_values is not None
            winners = self._ranked_values.take(pa.array(log.codes - 1, mask=log.codes == 0))
            both = pa.concat_arrays([winners, values_for_codes(values, values.type, len(ids))])
            codes = encode_ordering(both, both.type, len(both))
            log = OrderingCodes(codes.codes[: len(ids)], codes.classes[: len(ids)])
            row = OrderingCodes(codes.codes[len(ids) :], codes.classes[len(ids) :])
        else:
            row = encode_ordering(values, self._ordering_type, len(ids))
        out = np.empty(len(ids), dtype=np.int8)
        rows = RecordVersions.of(np.full(len(ids), LogRecordKind.DATA, np.int8), row)
        failed = int(decide_base_rows(self._comparison, RecordVersions.of(kinds, log), rows, out))
        if failed >= 0:
            raise not_comparable(self.key(int(ids[failed])), base, self._rules)
        return out

    def take(self, ids: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """The winning data records of these keys, in this order; their states must be data."""
        assert self._is_finished
        return self._rows.take(self._states.positions[ids])

    def ids_by_key(self) -> npt.NDArray[np.int64]:
        """The ids of all keys, in the order of their bytes."""
        assert self._is_finished
        if self._by_key is None:
            self._by_key = self._keys.ids_by_key()
        return self._by_key

    def keys_of(self, ids: npt.NDArray[np.int64]) -> pa.Array:
        """The keys with these ids, as strings."""
        return self._keys.keys(ids)

    def data_ids(self) -> npt.NDArray[np.int64]:
        """The keys whose winning record is data, in the order of their first appearance."""
        return np.flatnonzero(self._states.kinds[: len(self._keys)] == LogRecordKind.DATA)

    def tombstone_ids(self) -> npt.NDArray[np.int64]:
        """The keys whose winning record is a delete, in the order of their first appearance."""
        return np.flatnonzero(self._states.kinds[: len(self._keys)] > LogRecordKind.DATA)

    def tombstones(self, ids: npt.NDArray[np.int64]) -> Tombstones:
        """The deletes that won these keys."""
        assert self._is_finished
        return Tombstones(self._keys.keys(ids), self.ordering(ids))

    def kinds(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """The `LogRecordKind` of the winners of these keys."""
        return self._states.kinds[ids]

    @property
    def row_bytes(self) -> int:
        """What a row takes, on average."""
        return self._rows.row_bytes

    @property
    def rows_at_once_max(self) -> int:
        return self._rows.rows_at_once_max

    def ordering(self, ids: npt.NDArray[np.int64]) -> pa.Array | None:
        """The winners' values of the ordering column, null where they have the default; None where there is none."""
        kind = self._ordering_type
        if kind is None:
            return None
        codes = OrderingCodes(self._states.codes[ids], self._states.classes[ids])
        if not self._ranked:
            return decode_ordering(codes, kind)
        assert self._ranked_values is not None
        return self._ranked_values.take(pa.array(codes.codes - 1, mask=codes.codes == 0)).cast(kind)

    def _append(
        self,
        ids: npt.NDArray[np.int64],
        kinds: npt.NDArray[np.int8],
        positions: npt.NDArray[np.int64],
        values: pa.Array | None,
        source: str,
    ) -> None:
        self._records += len(ids)
        self._states.make_room(len(self._keys))
        if len(self._marks) and not self.repeats_in_block:
            self._watch(ids, source)
        if self._ranked:
            values = values_for_codes(values, self._ordering_type, len(ids))
            self._runs.append(_Run(ids, kinds, positions, values, source))
            return
        self._fold(ids, kinds, positions, encode_ordering(values, self._ordering_type, len(ids)), source)

    def _watch(self, ids: npt.NDArray[np.int64], source: str) -> None:
        if source != self._source:
            self._block, self._source = self._block + 1, source
        if len(self._keys) > len(self._marks):
            more = max(len(self._keys), 2 * len(self._marks)) - len(self._marks)
            self._marks = np.concatenate([self._marks, np.zeros(more, dtype=np.int64)])
        self.repeats_in_block = bool(_marks_again(ids, self._block, self._marks))

    def _fold(
        self,
        ids: npt.NDArray[np.int64],
        kinds: npt.NDArray[np.int8],
        positions: npt.NDArray[np.int64],
        ordering: OrderingCodes,
        source: str,
    ) -> None:
        states = self._states
        failed = int(
            fold_records(
                self._comparison,
                ids,
                RecordVersions.of(kinds, ordering),
                positions,
                States(states.kinds, states.codes, states.classes, states.positions),
            )
        )
        if failed >= 0:
            raise not_comparable(self.key(int(ids[failed])), source, self._rules)

    def _fold_ranked(self) -> None:
        values = pa.concat_arrays([run.values for run in self._runs])
        ordering = encode_ordering(values, values.type, len(values))
        ends = np.cumsum([len(run.ids) for run in self._runs])
        for run, end in zip(self._runs, ends, strict=True):
            part = slice(int(end) - len(run.ids), int(end))
            self._fold(
                run.ids,
                run.kinds,
                run.positions,
                OrderingCodes(ordering.codes[part], ordering.classes[part]),
                run.source,
            )
        self._ranked_values = values_by_code(values, ordering)
        self._runs = []

    def _drop_losers(self) -> None:
        count = len(self._keys)
        positions = self._states.positions[:count]
        holders = np.flatnonzero(self._states.kinds[:count] == LogRecordKind.DATA)
        order = holders[np.argsort(positions[holders])]
        alive = positions[order]
        # The row of a column delete is never asked for again.
        positions[:] = -1
        positions[order] = self._rows.drop_others(alive)


def data_kinds(batch: pa.RecordBatch, rules: MergeRules) -> npt.NDArray[np.int8]:
    """The `LogRecordKind` of each record of a data block."""
    deleted = find_deleted(batch, rules)
    return np.where(deleted, np.int8(LogRecordKind.COLUMN_DELETE), np.int8(LogRecordKind.DATA)).astype(np.int8)


def not_comparable(key: str, source: str, rules: MergeRules) -> Unsupported:
    """Records of one key that Java would throw on; of several fields it may find one before that tells them apart."""
    fields = " or ".join(rules.ordering_fields)
    return Unsupported(
        f"The key {named_key(key)} has records with and without a value of {fields}.",
        why=f"They cannot be ordered, and Hudi fails on them, too; seen in {source}.",
        remedy=f"Write the key again with a value in {fields}.",
    )
