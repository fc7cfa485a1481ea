"""Merge sorted runs, the base file's and those of the logs, into one record of each key: the output is sorted, too.

Runs are given by their age, the base file first. Records of one key come out of the loser tree one after the other
(`merge/runs/run_windows`), and `merge/rules/winner` says which of them wins.

    base   a  c  d  f        order   base a | log b | base c d | log d, joined | base f
    logs      b     d        out          a       b        c     the winner of d       f

Where few rows change, the output is put together from slices of the base batch; where many do, row by row.

A key may be in several rows of the base file. By the rules they are versions of one row, and are folded with the rest;
or only the first of them meets the logs, and the others follow it as they are:

    base   k1 k2 k3 | m        log   k       apart   k1 joined with log k | k2 | k3 | m       versions   all four joined

Touches: nothing but the runs.
Keeps:   1. rows out = base rows + inserted - deleted - folded, in the order of their keys;
         2. of base rows with one key the first meets the logs, and the others follow it in their order; or, as versions
            of one row, they leave one of them; or they are refused by name: as the rules say;
         3. a base file out of order is `NotSorted`, and the operation starts again without relying on it; so is one
            with a key in two rows where it says that there is none;
         4. of a key with any number of records no more than two are held beside a window, and those base rows that
            wait for the first one, which are refused where they take too much;
         5. the result is the same however the records of the logs are cut into runs;
         6. a caller that asks for changes gets, beside each batch, every key whose row a log record replaced, added or
            removed, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import load_u8, load_u64
from lakeward.base.errors import Unsupported
from lakeward.base.kernel import BOOL_IN, I8, I8_IN, I64, I64_IN, kernel, types
from lakeward.base.named_key import named_key
from lakeward.format.log.change_log import ChangedRows, ChangeOperation
from lakeward.merge.digest import hash_again
from lakeward.merge.logs.log_fold import not_comparable
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules, RepeatedKeys
from lakeward.merge.rules.ordering_codes import OrderingCodes, encode_ordering, needs_ranks, values_for_codes
from lakeward.merge.rules.ordering_type import default_is_comparable, ordering_type
from lakeward.merge.rules.partial_rows import fill_rows
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.merge.rules.winner import (
    NO_RANK,
    GroupCount,
    LogRecordKind,
    OrderingRule,
    RecordVersions,
    Role,
    fold_filled_groups,
    fold_groups,
)
from lakeward.merge.runs.run_windows import WINDOW_BYTES, Order, RunWindow, RunWindows
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.merge.runs.sorted_run import SortedRun

WAITING_BYTES = 16 * WINDOW_BYTES
"""So much may the base rows of one key take that wait for what happens to the first."""


_DATA, _BASE, _LOG = int(LogRecordKind.DATA), int(Role.BASE), int(Role.LOG)


@dataclass(frozen=True, slots=True)
class _Records:
    """Records in their order, with their roles and kinds."""

    order: Order
    roles: npt.NDArray[np.int8]
    kinds: npt.NDArray[np.int8]

    def part(self, chosen: slice | npt.NDArray[np.bool_]) -> _Records:
        if isinstance(chosen, slice):
            return _Records(self.order.part(chosen), self.roles[chosen], self.kinds[chosen])
        numbers = np.empty((2, len(chosen)), dtype=np.int64)
        flags = np.empty((3, len(chosen)), dtype=np.int8)
        order = self.order
        given = (chosen, order.batches, order.places, order.joins, self.roles, self.kinds)
        count = int(_pick(*given, numbers[0], numbers[1], flags[0], flags[1], flags[2]))
        batches, places = numbers[:, :count]
        joins, roles, kinds = flags[:, :count]
        return _Records(Order(batches, places, joins), roles, kinds)


@kernel(types.int64(BOOL_IN, I64_IN, I64_IN, I8_IN, I8_IN, I8_IN, I64, I64, I8, I8, I8))
def _pick(
    chosen: npt.NDArray[np.bool_],
    batches: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    joins: npt.NDArray[np.int8],
    roles: npt.NDArray[np.int8],
    kinds: npt.NDArray[np.int8],
    batches_out: npt.NDArray[np.int64],
    places_out: npt.NDArray[np.int64],
    joins_out: npt.NDArray[np.int8],
    roles_out: npt.NDArray[np.int8],
    kinds_out: npt.NDArray[np.int8],
) -> int:
    """The records that are chosen, and how many they are. Each output has room for all."""
    count = 0
    for row in range(len(chosen)):
        # Written in any case: whether it is chosen is no branch to be foreseen.
        batches_out[count] = batches[row]
        places_out[count] = places[row]
        joins_out[count] = joins[row]
        roles_out[count] = roles[row]
        kinds_out[count] = kinds[row]
        count += int(chosen[row])
    return count


@kernel(types.int64(I64_IN, I64_IN, I64_IN, I8, I8))
def _roles_and_kinds(
    of_batch: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    kinds_at: npt.NDArray[np.int64],
    roles: npt.NDArray[np.int8],
    kinds: npt.NDArray[np.int8],
) -> int:
    """What records are, and how many of them are base rows: those of batches whose kinds are at no address."""
    base_rows = 0
    for row in range(len(of_batch)):
        at = kinds_at[of_batch[row]]
        if at == 0:
            roles[row] = _BASE
            kinds[row] = _DATA
            base_rows += 1
        else:
            roles[row] = _LOG
            kinds[row] = np.int8(load_u8(at + places[row]))
    return base_rows


@kernel(types.void(I64_IN, I64_IN, I64_IN, I64_IN, I64, I8))
def _pick_codes(
    of_batch: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    codes_at: npt.NDArray[np.int64],
    classes_at: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    classes: npt.NDArray[np.int8],
) -> None:
    """The codes and classes of records, which lie at these addresses by the places of their batches."""
    for row in range(len(of_batch)):
        batch, place = of_batch[row], places[row]
        codes[row] = np.int64(load_u64(codes_at[batch] + 8 * place))
        classes[row] = np.int8(load_u8(classes_at[batch] + place))


class _Changed(NamedTuple):
    """What a window changed."""

    inserted: npt.NDArray[np.int64]
    """Rows that had none before them, by their places among those that won."""
    updated: npt.NDArray[np.int64]
    """Rows that won over a base row, by the same."""
    lost: Order
    """The base rows of those that were updated."""
    removed: Order
    """The base rows that a delete won over."""


def _together(records: Sequence[_Records]) -> _Records:
    """One behind the other."""
    order = Order(
        np.concatenate([each.order.batches for each in records]),
        np.concatenate([each.order.places for each in records]),
        np.concatenate([each.order.joins for each in records]),
    )
    return _Records(
        order, np.concatenate([each.roles for each in records]), np.concatenate([each.kinds for each in records])
    )


_NO_PLACES = np.zeros(0, dtype=np.int64)
_NO_ROWS = Order(_NO_PLACES, _NO_PLACES, np.zeros(0, dtype=np.int8))
_NOTHING_CHANGED = _Changed(_NO_PLACES, _NO_PLACES, _NO_ROWS, _NO_ROWS)


class SortedMerge:
    """One merge of one slice. The counts are final when it is exhausted."""

    def __init__(
        self,
        runs: Sequence[SortedRun],
        rules: MergeRules,
        schema: pa.Schema,
        *,
        window_bytes: int = WINDOW_BYTES,
        waiting_bytes: int = WAITING_BYTES,
        on_changes: Callable[[ChangedRows], object] | None = None,
        on_repeated: Callable[[str], object] | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        """
        Args:
            runs: oldest first.
            columns: those that `batches` has, in the order of the schema; None: all. Where rows fill others it has all.
            on_changes: is called with what a window changed, before the next one is read.
            on_repeated: is called with a key that is in several base rows, which stay apart, and in the logs.
        """
        self._rules = rules
        self._runs = RunWindows(runs, window_bytes=window_bytes)
        self._ordering_type = ordering_type(rules, schema)
        self._comparison = OrderingRule(
            rules.mode is MergeMode.EVENT_TIME_ORDERING, default_is_comparable(self._ordering_type)
        )
        self._base_is_first = rules.base_is_first
        self._repeated = rules.repeated
        self._on_repeated = on_repeated
        self._waiting_max = waiting_bytes
        self._fills = rules.partial_updates is not None
        assert not (self._fills and rules.by_rank)
        assert on_changes is None or not rules.needs_all_records, "what Hudi calls a change there is not known"
        self._on_changes = on_changes
        assert columns is None or on_changes is None
        self._columns = None if self._fills else columns
        self._changed = _NOTHING_CHANGED
        self._fillers: list[tuple[Order, npt.NDArray[np.int64]]] = []
        self._counts = np.zeros(len(GroupCount), dtype=np.int64)
        self._held: _Records | None = None
        self._coded: dict[int, OrderingCodes] = {}
        """Codes of whole batches, where those of one batch compare with those of another."""
        self.base_rows = 0
        self.rows = 0
        self.has_repeated = False
        """A key came out in several rows."""

    @property
    def updated(self) -> int:
        return int(self._counts[GroupCount.UPDATED])

    @property
    def inserted(self) -> int:
        return int(self._counts[GroupCount.INSERTED])

    @property
    def deleted(self) -> int:
        return int(self._counts[GroupCount.DELETED])

    @property
    def folded(self) -> int:
        """Base rows over which another base row of their key won."""
        return int(self._counts[GroupCount.FOLDED])

    @property
    def log_keys(self) -> int:
        """Distinct keys of the logs."""
        return int(self._counts[GroupCount.LOG_KEYS])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The merged rows. Raises `NotSorted`."""
        for won in self._won():
            batch = self._rows_of(won)
            if self._on_changes is not None:
                for changes in self._changed_rows(batch):
                    self._on_changes(changes)
            if batch is not None:
                yield batch

    def records(self) -> Iterator[pa.RecordBatch | Tombstones]:
        """The merged rows, and between them the deletes that won their keys. Raises `NotSorted`."""
        for won in self._won():
            batch = self._rows_of(won)
            if batch is not None:
                yield batch
            deletes = won.part(won.kinds != LogRecordKind.DATA)
            for number, at in deletes.order.by_batch():
                source, places = self._runs.batch(number), deletes.order.places[at]
                yield Tombstones(source.keys.take(pa.array(places)), source.ordering(places))

    def _won(self) -> Iterator[_Records]:
        """The records that won their keys, window by window."""
        for window in self._runs.windows():
            yield self._winners(window)
        assert self.rows == self.base_rows + self.inserted - self.deleted - self.folded

    def _rows_of(self, won: _Records) -> pa.RecordBatch | None:
        """Their rows, counted; None where all are deletes."""
        is_row = won.kinds == LogRecordKind.DATA
        if not is_row.all():
            won = won.part(is_row)
        if len(won.order) == 0:
            return None
        batch = self._runs.rows(won.order, self._columns)
        if self._fills:
            fillers = ((self._runs.rows(order), targets) for order, targets in self._fillers)
            batch = fill_rows(batch, fillers, self._rules)
            filled = [targets for _, targets in self._fillers]
            batch = hash_again(batch, np.concatenate(filled)) if filled else batch
        self.rows += batch.num_rows
        return batch

    def _winners(self, window: RunWindow) -> _Records:
        """The records that won the keys of the window, but for the last key where it goes on."""
        records = self._records(window.order)
        self._changed = _NOTHING_CHANGED
        if len(records.order) == 0:
            return records
        waiting: list[_Records] = []
        if self._repeated is not RepeatedKeys.VERSIONS:
            records, waiting = self._kept_apart(records, is_open=window.is_open)
        ranks = np.full(len(records.order) if self._fills else 0, NO_RANK, dtype=np.int64)
        kept = self._fold(records, ranks, is_open=window.is_open)
        end = len(records.order)
        self._held = None
        if window.is_open:
            end = int(np.flatnonzero(records.order.joins == 0)[-1])
            self._held = _together([records.part(slice(end, None)).part(kept[end:]), *waiting])
            self._held.order.joins[:1] = 0
            self._held.order.joins[1:] = 1
            self._runs.hold(self._held.order)
        closed = records.part(slice(0, end))
        if self._fills:
            self._fillers = list(_fillers(closed, ranks[:end], kept[:end]))
        if self._on_changes is not None:
            self._changed = _changed(closed, kept[:end])
        return closed.part(kept[:end])

    def _changed_rows(self, merged: pa.RecordBatch | None) -> Iterator[ChangedRows]:
        """What the window changed; `merged` are its rows, None where it has none."""
        inserted, updated, lost, removed = self._changed
        if len(inserted):
            assert merged is not None
            yield ChangedRows(ChangeOperation.INSERT, None, merged.take(pa.array(inserted)))
        if len(updated):
            assert merged is not None
            yield ChangedRows(ChangeOperation.UPDATE, self._runs.rows(lost), merged.take(pa.array(updated)))
        if len(removed):
            yield ChangedRows(ChangeOperation.DELETE, self._runs.rows(removed), None)

    def _records(self, order: Order) -> _Records:
        """What was held, and then what the window adds."""
        numbers, of_batch = order.numbered()
        # Of rows of the base file there is nothing to look up.
        of_logs = [
            None if batch is None or self._runs.run_of(number).is_base else np.ascontiguousarray(batch.kinds)
            for number, batch in zip(numbers, self._runs.held(numbers), strict=True)
        ]
        kinds_at = np.array([0 if each is None else each.ctypes.data for each in of_logs], dtype=np.int64)
        roles, kinds = (np.empty(len(order), dtype=np.int8) for _ in range(2))
        self.base_rows += int(_roles_and_kinds(of_batch, order.places, kinds_at, roles, kinds))
        held = self._held
        new = _Records(order, roles, kinds)
        return new if held is None else _together([held, new])

    def _kept_apart(self, records: _Records, *, is_open: bool) -> tuple[_Records, list[_Records]]:
        """The records, where of base rows with one key the first is left and the others are behind all records of
        the key, each a group of its own; and those of them whose key goes on, which wait."""
        roles, joins = records.roles, records.order.joins
        apart = (roles == Role.APART) | ((roles == Role.BASE) & (joins != 0))
        if not apart.any():
            return records, []
        self._check_apart(records, int(np.argmax(apart)))
        self.has_repeated = True
        group = np.cumsum(joins == 0)
        places = np.lexsort((np.arange(len(group)), apart, group))
        logs = np.unique(group[roles == Role.LOG])
        touched = np.flatnonzero(apart & np.isin(group, logs))
        if len(touched) and self._on_repeated is not None:
            self._on_repeated(self._key(records, int(touched[0]))[0])
        order = records.order
        # The first of a group is its first base row, wherever the others stand.
        joins = np.where(apart, np.int8(0), joins)[places]
        sorted_ = _Records(
            Order(order.batches[places], order.places[places], joins), roles[places], records.kinds[places]
        )
        sorted_.roles[apart[places]] = Role.APART
        end = len(places) - int((apart & (group == group[-1])).sum()) if is_open else len(places)
        waiting = sorted_.part(slice(end, None))
        if len(waiting.order):
            self._check_waiting(waiting)
        return sorted_.part(slice(0, end)), [waiting] if len(waiting.order) else []

    def _check_apart(self, records: _Records, at: int) -> None:
        """Raise where the base file says that no key is in it twice, or what happens to it is not known."""
        if not self._runs.run_of(int(records.order.batches[at])).repeats_keys:
            key, name = self._key(records, at)
            raise NotSorted(
                f"{name[:1].upper()}{name[1:]} holds the record key {named_key(key)} more than once.",
                why="It says that it is sorted, and that no key is in it twice.",
                remedy="Compact the file group, which writes the file again.",
            )
        if self._repeated is RepeatedKeys.REFUSED:
            key, name = self._key(records, at)
            raise Unsupported(
                f"{name[:1].upper()}{name[1:]} holds the record key {named_key(key)} more than once.",
                why="Beside an inline log, or one of partial updates, it is not known what Hudi makes of that in a "
                "table of the layout lsm_tree.",
                remedy="Read the partition, and write it with insert_overwrite.",
            )

    def _check_waiting(self, waiting: _Records) -> None:
        """Raise where the base rows of one key take too much memory."""
        held = sum(self._runs.batch(number).nbytes for number in set(waiting.order.batches.tolist()))
        if held > self._waiting_max:
            key, name = self._key(waiting, 0)
            raise Unsupported(
                f"{name[:1].upper()}{name[1:]} holds the record key {named_key(key)} in more rows than memory has room "
                "for.",
                why=f"Where the logs do not fit memory, the rows of a key wait for the first one: {held} bytes.",
                remedy="Give the operation more memory; or read the partition, and write it with "
                "insert_overwrite --deduplicate.",
            )

    def _fold(self, records: _Records, ranks: npt.NDArray[np.int64], *, is_open: bool) -> npt.NDArray[np.bool_]:
        """Which of the records are kept; where rows are filled, `ranks` are set."""
        joins = records.order.joins
        contested = joins.astype(np.bool_)
        contested[:-1] |= contested[1:]
        codes = np.zeros(len(joins), dtype=np.int64)
        classes = np.zeros(len(joins), dtype=np.int8)
        if len(at := np.flatnonzero(contested)):
            found = self._codes(records.order.part(at))
            codes[at], classes[at] = found.codes, found.classes
        kept = np.zeros(len(joins), dtype=np.int8)
        # What stays apart is a base row that is alone.
        roles = np.where(records.roles == Role.APART, np.int8(Role.BASE), records.roles)
        same = (roles, joins, RecordVersions.of(records.kinds, OrderingCodes(codes, classes)), kept)
        if self._fills:
            failed = fold_filled_groups(self._comparison, is_open, *same, ranks, self._counts)
        else:
            failed = fold_groups(self._comparison, self._base_is_first, is_open, *same, self._counts)
        failed = int(failed)
        np.copyto(records.roles, roles, where=records.roles != Role.APART)
        if failed >= 0:
            key, name = self._key(records, failed)
            raise not_comparable(key, name, self._rules)
        return kept.astype(np.bool_)

    def _codes(self, order: Order) -> OrderingCodes:
        """The ordering values of records as codes that compare among themselves."""
        kind = self._ordering_type
        if kind is None:
            return encode_ordering(None, None, len(order))
        if not needs_ranks(kind):
            return self._codes_of_batches(order, kind)
        parts: list[pa.Array] = []
        places: list[npt.NDArray[np.int64]] = []
        for number, at in order.by_batch():
            values = self._runs.batch(number).ordering(order.places[at])
            parts.append(values_for_codes(values, kind, len(at)))
            places.append(at)
        found = encode_ordering(pa.concat_arrays(parts), parts[0].type, len(order))
        back = np.concatenate(places)
        codes = np.empty_like(found.codes)
        classes = np.empty_like(found.classes)
        codes[back], classes[back] = found.codes, found.classes
        return OrderingCodes(codes, classes)

    def _codes_of_batches(self, order: Order, kind: pa.DataType) -> OrderingCodes:
        """The same where a code does not hang on the other values: those of whole batches, each coded once."""
        numbers, of_batch = order.numbered()
        known, self._coded = self._coded, {}
        for number, batch in zip(numbers, self._runs.held(numbers), strict=True):
            if number in known:
                self._coded[number] = known[number]
            elif batch is not None:
                self._coded[number] = encode_ordering(batch.ordering(None), kind, len(batch.keys))
        found = [self._coded.get(number) for number in numbers]
        codes_at = np.array([0 if each is None else each.codes.ctypes.data for each in found], dtype=np.int64)
        classes_at = np.array([0 if each is None else each.classes.ctypes.data for each in found], dtype=np.int64)
        codes = OrderingCodes(np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int8))
        _pick_codes(of_batch, order.places, codes_at, classes_at, codes.codes, codes.classes)
        return codes

    def _key(self, records: _Records, at: int) -> tuple[str, str]:
        """(key, name of its run) of a record."""
        number = int(records.order.batches[at])
        key = self._runs.batch(number).keys[int(records.order.places[at])].as_py()
        return key, self._runs.run_of(number).name


def _changed(records: _Records, kept: npt.NDArray[np.bool_]) -> _Changed:
    """The changes of whole groups: each keeps one record, and has one base row, or none, or several versions of one."""
    group = np.cumsum(records.order.joins == 0) - 1
    winner = np.flatnonzero(kept)
    base = np.full(len(winner), -1, dtype=np.int64)
    of_base = np.flatnonzero(records.roles != Role.LOG)
    base[group[of_base]] = of_base
    is_base = records.roles[winner] != Role.LOG
    base[is_base] = winner[is_base]
    is_row = records.kinds[winner] == LogRecordKind.DATA
    place = np.cumsum(is_row) - 1  # among the rows that won
    updated = is_row & (base >= 0) & (base != winner)
    return _Changed(
        inserted=place[is_row & (base < 0)],
        updated=place[updated],
        lost=records.order.part(base[updated]),
        removed=records.order.part(base[~is_row & (base >= 0)]),
    )


def _fillers(
    records: _Records, ranks: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]
) -> Iterator[tuple[Order, npt.NDArray[np.int64]]]:
    """The rows that others are filled from, and the place of each of those among the rows that won: first the best one
    for each, then the second best, and so on."""
    group = np.cumsum(records.order.joins == 0) - 1
    won_by_row = records.kinds[kept] == LogRecordKind.DATA  # each group keeps one record
    place = np.cumsum(won_by_row) - 1
    others = np.flatnonzero((ranks != NO_RANK) & ~kept & won_by_row[group])
    others = others[np.lexsort([ranks[others], group[others]])]
    of_group = group[others]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(of_group) != 0])) if len(others) else others
    depth = np.arange(len(others)) - np.repeat(starts, np.diff(np.append(starts, len(others))))
    for level in range(int(depth.max(initial=-1)) + 1):
        at = others[depth == level]
        order = records.order
        yield Order(order.batches[at], order.places[at], order.joins[at]), place[group[at]]
