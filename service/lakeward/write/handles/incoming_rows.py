"""The rows of one target as they come in: their order is checked, deletes and rows separated, rows of one key folded.

Rows come by (record key as UTF-8 bytes, place in the input). Where a key has several, the merge rules choose as they do
among log records (`merge/rules/winner`): by event time the greatest ordering value, of equal ones the one that came
last; by commit time the last one. So does Hudi before it writes (`hoodie.combine.before.*`).

A row is a delete by the operation, by `_hoodie_is_deleted`, by the table's own mark of deletion, or because its key
leaves for another partition.

Touches: nothing.
Keeps:   1. rows go out in the order in which they came, in which a broken one is an assertion;
         2. where rows are folded no key goes out twice, however they are cut into batches;
         3. beside the batch that came no more than one row is held.
Source:  HoodieWriteHelper, BufferedRecordMergerFactory (Hudi 1.2); seen on tables of Hudi 1.2.0 and 1.0.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.merge.logs.log_fold import not_comparable
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.ordering_codes import encode_ordering, ordering_values, values_for_codes
from lakeward.merge.rules.ordering_type import default_is_comparable, ordering_type
from lakeward.merge.rules.records import find_deleted
from lakeward.merge.rules.winner import LogRecordKind, OrderingRule, RecordVersions, States, fold_records
from lakeward.write.keyed_rows import LEAVES, ORDER, RECORD_KEY

_ROW = np.int8(LogRecordKind.DATA)
_DELETE = np.int8(LogRecordKind.COLUMN_DELETE)


@dataclass(frozen=True, slots=True)
class IncomingRows:
    """Some rows of a target, in order."""

    batch: pa.RecordBatch
    """In `handled_schema`."""
    is_delete: npt.NDArray[np.bool_]
    repeats: npt.NDArray[np.bool_]
    """Rows with the key of the row before, in whichever batch that is."""

    def rows(self) -> IncomingRows:
        """The ones that are no deletes."""
        return self if not self.is_delete.any() else self._chosen(~self.is_delete)

    def deletes(self) -> IncomingRows:
        return self._chosen(self.is_delete)

    def part(self, places: slice) -> IncomingRows:
        batch = self.batch.slice(places.start, places.stop - places.start)
        return IncomingRows(batch, self.is_delete[places], self.repeats[places])

    def _chosen(self, chosen: npt.NDArray[np.bool_]) -> IncomingRows:
        return IncomingRows(self.batch.filter(pa.array(chosen)), self.is_delete[chosen], self.repeats[chosen])


def incoming_rows(
    batches: Iterable[pa.RecordBatch], rules: MergeRules, *, all_are_deletes: bool, folds: bool
) -> Iterator[IncomingRows]:
    """The rows of sorted batches. Raises `Unsupported` for rows of one key that cannot be ordered.

    Args:
        all_are_deletes: the operation is `delete`, whatever columns say.
    """
    marked = _marked(batches, rules, all_are_deletes=all_are_deletes)
    if not folds:
        return marked
    # Deletes by the operation have no ordering value; so any of those of one key will do.
    return _folded(marked, replace(rules, mode=MergeMode.COMMIT_TIME_ORDERING) if all_are_deletes else rules)


def _marked(batches: Iterable[pa.RecordBatch], rules: MergeRules, *, all_are_deletes: bool) -> Iterator[IncomingRows]:
    last: pa.Scalar | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        keys = batch.column(RECORD_KEY)
        before = pa.concat_arrays([pa.array([last], keys.type) if last is not None else keys[:0], keys[:-1]])
        after = keys if last is not None else keys[1:]
        # Arrow compares text by its bytes.
        assert not pc.any(pc.less(after, before)).as_py(), "rows that are not sorted by their keys"
        same = pc.equal(after, before).to_numpy(zero_copy_only=False)
        repeats = same if last is not None else np.concatenate([[False], same])
        last = keys[-1].as_py()
        deleted = np.ones(batch.num_rows, dtype=np.bool_)
        if not all_are_deletes:
            deleted = deleted_by_column(batch, rules) | leaving(batch)
        yield IncomingRows(batch, deleted, repeats)


def leaving(keyed: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows say that their keys leave."""
    found: npt.NDArray[np.bool_] = keyed.column(ORDER).to_numpy() == LEAVES
    return found


def deleted_by_column(batch: pa.RecordBatch, rules: MergeRules) -> npt.NDArray[np.bool_]:
    """Which rows a column declares deleted. Raises `Unsupported`."""
    field, marker = rules.delete_field, rules.delete_marker
    deleted = find_deleted(batch, replace(rules, delete_field=None, delete_marker=None))
    if field is None or marker is None or field not in batch.schema.names:
        return deleted
    values = batch.column(field)
    kind = values.type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise Unsupported(
            f"The delete field {field} has the type {kind}.",
            why="Its values have no text of their own that could be compared with the table's mark of deletion.",
            remedy="Let Hudi write into this table.",
        )
    marked = pc.equal(values.cast(pa.string()), marker).fill_null(False)
    return deleted | np.asarray(marked.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _folded(marked: Iterable[IncomingRows], rules: MergeRules) -> Iterator[IncomingRows]:
    """One row of each key. That of a batch's last key waits for the next one, which may begin with the same key."""
    held: IncomingRows | None = None
    for came in marked:
        if held is not None and not came.repeats[0]:
            yield held
            held = None
        won, is_held = _winners(held, came, rules)
        if is_held and held is not None:
            if len(won) == 0:
                continue  # all of the batch lost to the row that waits, and that waits on
            yield held
        assert len(won)
        if len(won) > 1:
            yield _taken(came, won[:-1])
        held = _taken(came, won[-1:])
    if held is not None:
        yield held


def _taken(of: IncomingRows, places: npt.NDArray[np.int64]) -> IncomingRows:
    if len(places) == int(places[-1]) - int(places[0]) + 1 and len(places) > 1:
        batch = of.batch.slice(int(places[0]), len(places))
    else:
        batch = of.batch.take(pa.array(places))
    return IncomingRows(batch, of.is_delete[places], np.zeros(len(places), dtype=np.bool_))


def _winners(held: IncomingRows | None, came: IncomingRows, rules: MergeRules) -> tuple[npt.NDArray[np.int64], bool]:
    """The places of the rows that won their keys, and whether the row that waited won its own."""
    rows = came.batch.num_rows
    if held is None and not came.repeats.any():
        return np.arange(rows, dtype=np.int64), False
    waits = int(held is not None)
    ids = np.cumsum(~came.repeats).astype(np.int64)
    kinds = np.where(came.is_delete, _DELETE, _ROW)
    kind = ordering_type(rules, came.batch.schema)
    values = None if kind is None else ordering_values(came.batch, rules.ordering_fields)
    if held is None:
        ids -= 1
    else:
        assert ids[0] == 0
        ids = np.concatenate([np.zeros(1, dtype=np.int64), ids])
        kinds = np.concatenate([np.where(held.is_delete, _DELETE, _ROW), kinds])
        if kind is not None:
            before = ordering_values(held.batch, rules.ordering_fields)
            both = [values_for_codes(before, kind, 1), values_for_codes(values, kind, rows)]
            values = pa.concat_arrays(both)
            kind = values.type
    codes = encode_ordering(values, kind, rows + waits)
    keys = int(ids[-1]) + 1
    positions = np.arange(-waits, rows, dtype=np.int64)
    state = np.zeros(keys, dtype=np.int8), np.zeros(keys, dtype=np.int64), np.zeros(keys, dtype=np.int8)
    won = np.full(keys, -1, dtype=np.int64)
    failed = int(
        fold_records(
            OrderingRule(rules.mode is MergeMode.EVENT_TIME_ORDERING, default_is_comparable(kind)),
            ids,
            RecordVersions.of(kinds.astype(np.int8), codes),
            positions,
            States(*state, won),
        )
    )
    if failed >= 0:
        key = came.batch.column(RECORD_KEY)[max(0, failed - waits)].as_py()
        raise not_comparable(key, "the rows that are written", rules)
    return won[won >= 0], bool(waits and won[0] < 0)
