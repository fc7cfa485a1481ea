"""One place for each key, in a table in which a key is one: what an index found of them, held against what comes.

    locations   for keys that the table has: their place, but for rows that move: the partition that they come for,
                and the group there that has the key, or none
    left        the locations that keys leave
    lost        keys whose stored rows win: what comes of them goes nowhere

In this process; `flow/spark_one_place` is the same for rows that Spark has.

Touches: the stored rows that must be known; see `tagging/tagging.OnePlace`.
Keeps:   1. a key that moves leaves every other partition that is known to have it, in the same commit;
         2. a location whose row is gone is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.storage.storage import Storage
from lakeward.write.flow.row_keys import Keying
from lakeward.write.flow.winning_partition import (
    DECISIONS,
    GOES,
    IS_KNOWN,
    as_rivals,
    contested_schema,
    decisions,
    deleting_keys,
    winning_rows,
)
from lakeward.write.keyed_rows import LEAVES, ORDER, PARTITION_PATH, PLACE, RECORD_KEY
from lakeward.write.tagging.stored_rows import read_stored, stored_schema
from lakeward.write.tagging.tagging_kinds import OnePlace

_LOCATION = [RECORD_KEY, PARTITION_PATH, PLACE]
_LEAST, _GREATEST = f"{PARTITION_PATH}_min", f"{PARTITION_PATH}_max"
_CONTESTED = "_lakeward_contested"
"""A column: whether it must be decided if the key stays at the location."""
_IN_ORDER = [(RECORD_KEY, "ascending"), (ORDER, "ascending")]


@dataclass(frozen=True, slots=True)
class Placed:
    """Tables with key, partition and place."""

    locations: pa.Table
    left: pa.Table
    lost: pa.Array


def keep_one_place(storage: Storage, keyed: pa.RecordBatch, found: pa.Table, one: OnePlace, keying: Keying) -> Placed:
    """Raises what reading slices raises, and `Unsupported` for rows of one key that cannot be ordered.

    Args:
        found: the locations of these keys.
    """
    rows = pa.table(keyed.select([RECORD_KEY, PARTITION_PATH]))
    ranges = rows.group_by(RECORD_KEY).aggregate([(PARTITION_PATH, "min"), (PARTITION_PATH, "max")])
    schema = contested_schema(keying.columns, one.rules)
    there = _marked(found, ranges, keyed, one)
    there, stored = _alive(storage, there, one, keying)
    several = ranges.filter(pc.not_equal(ranges[_LEAST], ranges[_GREATEST]))[RECORD_KEY]
    new = several.filter(pc.invert(pc.is_in(several, there[RECORD_KEY])))
    contested = there.filter(there[_CONTESTED])[RECORD_KEY].unique()
    if one.folds:
        contested = pa.concat_arrays([contested, new.combine_chunks()])
    there = there.select(_LOCATION)
    if not len(contested):
        return Placed(there, there.slice(0, 0), contested)
    coming = keyed.filter(pc.is_in(keyed.column(RECORD_KEY), contested))
    coming = coming.append_column(IS_KNOWN, pc.is_in(coming.column(RECORD_KEY), there[RECORD_KEY]))
    batches = [coming.select(schema.names).sort_by(_IN_ORDER)]
    if one.compares:
        rivals = stored.filter(pc.is_in(stored[RECORD_KEY], contested)).to_batches()
        both = [*winning_rows(batches, one.rules), *(as_rivals(each, schema) for each in rivals)]
        batches = pa.Table.from_batches(both, schema).sort_by(_IN_ORDER).combine_chunks().to_batches()
    return _settled(there, pa.Table.from_batches(decisions(batches, one.rules, moves=one.moves), DECISIONS))


def leaving_rows(left: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """A row for each location that a key leaves, in this `tagged_schema`."""
    given = {ORDER: pa.array(np.full(left.num_rows, LEAVES))}
    given |= {name: left[name].combine_chunks() for name in _LOCATION}
    columns = [given[each.name] if each.name in given else pa.nulls(left.num_rows, each.type) for each in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _marked(found: pa.Table, ranges: pa.Table, keyed: pa.RecordBatch, one: OnePlace) -> pa.Table:
    """The locations, and which of them are contested."""
    there = found.join(ranges, RECORD_KEY, join_type="inner")
    is_contested = pa.repeat(False, there.num_rows)
    if one.moves:
        is_contested = pc.or_(
            pc.not_equal(there[_LEAST], there[PARTITION_PATH]), pc.not_equal(there[_GREATEST], there[PARTITION_PATH])
        )
    if one.watches_deletes:
        is_contested = pc.or_(is_contested, pc.is_in(there[RECORD_KEY], deleting_keys(keyed, one.rules)))
    return there.select(_LOCATION).append_column(_CONTESTED, is_contested)


def _alive(storage: Storage, there: pa.Table, one: OnePlace, keying: Keying) -> tuple[pa.Table, pa.Table]:
    """The locations but for those whose rows are gone, and the rows that were read."""
    groups = there.group_by([PARTITION_PATH, PLACE]).aggregate([(_CONTESTED, "any")])
    named = zip(*(groups[name].to_pylist() for name in (PARTITION_PATH, PLACE, f"{_CONTESTED}_any")), strict=True)
    read = [(path, file_id) for path, file_id, contested in named if one.reads((path, file_id), is_contested=contested)]
    keys = there[RECORD_KEY].combine_chunks()
    batches = [
        batch.filter(pc.is_in(batch.column(RECORD_KEY), keys))
        for part in one.stored.parts(read, keying.schema)
        for batch in read_stored(storage, part)
    ]
    stored = pa.Table.from_batches(batches, stored_schema(keying.columns, one.rules.ordering_fields))
    if not read:
        return there, stored
    of_read = pa.table([list(each) for each in zip(*read, strict=True)], [PARTITION_PATH, PLACE])
    gone = there.join(of_read, [PARTITION_PATH, PLACE], join_type="left semi")
    gone = gone.join(stored.select(_LOCATION), _LOCATION, join_type="left anti")
    return there.join(gone.select(_LOCATION), _LOCATION, join_type="left anti"), stored


def _settled(there: pa.Table, decided: pa.Table) -> Placed:
    is_lost = decided[GOES].is_null()
    going = decided.filter(pc.invert(is_lost))
    joined = there.join(going, RECORD_KEY, join_type="left outer")
    leaves = pc.not_equal(joined[PARTITION_PATH], joined[GOES]).fill_null(False)
    arriving = going.rename_columns([RECORD_KEY, PARTITION_PATH])
    arriving = arriving.join(there, [RECORD_KEY, PARTITION_PATH], join_type="left anti")
    arriving = arriving.append_column(PLACE, pa.nulls(arriving.num_rows, pa.string()))
    stays = joined.filter(pc.invert(leaves)).select(_LOCATION)
    lost = decided.filter(is_lost)[RECORD_KEY].combine_chunks()
    return Placed(pa.concat_tables([stays, arriving.select(_LOCATION)]), joined.filter(leaves).select(_LOCATION), lost)
