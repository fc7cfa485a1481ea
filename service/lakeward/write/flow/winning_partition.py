"""The partition of a key whose rows are for several, or for another one than it is in, where a key is one in the table.

    winning_rows    of the rows that come for a key the one that wins
    decisions       of that one and of what the table has: the partition of the winner; none where a stored row wins

Two steps, as Hudi has it: what comes is folded among itself, and then held against the stored row.

Touches: nothing.
Keeps:   1. the row that wins here is the one that the handle keeps, since both fold by `handles/incoming`;
         2. a stored row wins if its ordering value is the greater one, and never by commit time.
Source:  HoodieIndexUtils.mergeForPartitionUpdatesAndDeletionsIfNeeded (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD, MergeRules
from lakeward.write.handles.incoming_rows import deleted_by_column, incoming_rows
from lakeward.write.keyed_rows import ORDER, PARTITION_PATH, RECORD_KEY

IS_KNOWN: Final = "_lakeward_known"
"""Whether the table has the key of a contested row."""
STORED: Final = -2
"""ORDER of a stored row, which is older than what comes."""
GOES: Final = "_lakeward_goes"
DECISIONS: Final = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(GOES, pa.string())])
"""GOES is null where a stored row wins: then the rows go nowhere. A key that stays where it is, or is deleted there,
has no decision."""


def contested_schema(columns: pa.Schema, rules: MergeRules) -> pa.Schema:
    """That of contested rows: what says who wins, of keyed rows with these columns."""
    decisive = {IS_DELETED_FIELD, rules.delete_field, *rules.ordering_fields}
    keys = [pa.field(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH)]
    own = [pa.field(column.name, column.type) for column in columns if column.name in decisive]
    return pa.schema([*keys, *own, pa.field(ORDER, pa.int64()), pa.field(IS_KNOWN, pa.bool_())])


def winning_rows(batches: Iterable[pa.RecordBatch], rules: MergeRules) -> Iterator[pa.RecordBatch]:
    """One row of each key; of rows in `contested_schema` by (key as UTF-8, ORDER)."""
    for rows in incoming_rows(batches, rules, all_are_deletes=False, folds=True):
        yield rows.batch


def decisions(batches: Iterable[pa.RecordBatch], rules: MergeRules, *, moves: bool) -> Iterator[pa.RecordBatch]:
    """Keys and where they go, in DECISIONS; of the rows that `winning_rows` takes, with stored ones among them.

    Args:
        moves: a key that the table has goes to the partition of the row that wins.
    """
    for rows in incoming_rows(batches, rules, all_are_deletes=False, folds=True):
        is_stored = pc.equal(rows.batch.column(ORDER), STORED)
        goes = pc.if_else(is_stored, None, rows.batch.column(PARTITION_PATH))
        stays = pc.and_(rows.batch.column(IS_KNOWN), pa.array(rows.is_delete | (not moves)))
        found = pa.RecordBatch.from_arrays([rows.batch.column(RECORD_KEY), goes], schema=DECISIONS)
        yield found.filter(pc.or_(is_stored, pc.invert(stays)))


def may_delete(contested: pa.Schema, rules: MergeRules) -> bool:
    """Whether rows with these columns can be deletes."""
    return IS_DELETED_FIELD in contested.names or rules.delete_field in contested.names


def deleting_keys(contested: pa.RecordBatch, rules: MergeRules) -> pa.Array:
    """The keys of rows that delete; of a batch with the columns of `contested_schema` that say so."""
    return contested.column(RECORD_KEY).filter(pa.array(deleted_by_column(contested, rules)))


def as_rivals(stored: pa.RecordBatch, contested: pa.Schema) -> pa.RecordBatch:
    """Stored rows, of `stored_schema`, among the contested ones."""
    rows = stored.num_rows
    given = {ORDER: pa.array(np.full(rows, STORED)), IS_KNOWN: pa.array(np.ones(rows, dtype=np.bool_))}
    given |= {name: stored.column(name) for name in stored.schema.names}
    columns = [given[field.name] if field.name in given else pa.nulls(rows, field.type) for field in contested]
    return pa.RecordBatch.from_arrays(columns, schema=contested)
