"""One place for each key, for rows that Spark has: what `flow/one_place` does, by joins of data frames.

Only keys, partitions and the columns that say who wins are shuffled of what comes, and of the table's file groups
those are read that `tagging/tagging.OnePlace` names, each by one task.

Touches: a Spark driver of this process; its tasks read file groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions

from lakeward.format.projection import project
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.flow.row_keys import Keying
from lakeward.write.flow.spark_frames import carrying, numbers_of, quoted, spark_schema
from lakeward.write.flow.winning_partition import (
    DECISIONS,
    GOES,
    IS_KNOWN,
    as_rivals,
    contested_schema,
    decisions,
    deleting_keys,
    may_delete,
    winning_rows,
)
from lakeward.write.keyed_rows import LEAVES, ORDER, PARTITION_PATH, PLACE, RECORD_KEY, keyed_schema, tagged_schema
from lakeward.write.tagging.stored_rows import StoredPart, read_stored, stored_schema
from lakeward.write.tagging.tagging_kinds import OnePlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOCATION = [RECORD_KEY, PARTITION_PATH, PLACE]
_LEAST, _GREATEST, _CONTESTED = "_lakeward_least", "_lakeward_greatest", "_lakeward_contested"
_KEY = pa.schema([pa.field(RECORD_KEY, pa.string())])


@dataclass(frozen=True, slots=True)
class PlacedFrames:
    """What `flow/one_place.Placed` is, as data frames; what is None is empty."""

    locations: DataFrame
    left: DataFrame | None = None
    lost: DataFrame | None = None


def ranges_of(keyed: DataFrame) -> DataFrame:
    """Each key that comes, and the least and the greatest partition for which it does."""
    least, greatest = functions.min(PARTITION_PATH), functions.max(PARTITION_PATH)
    return keyed.groupBy(RECORD_KEY).agg(least.alias(_LEAST), greatest.alias(_GREATEST))


class SparkOnePlace:
    def __init__(
        self, sql: SparkSession, location: str, one: OnePlace, keying: Keying, keep: Callable[[DataFrame], DataFrame]
    ) -> None:
        """
        Args:
            location: of the table, as tasks open its storage.
            keep: has Spark keep a frame until the rows are tagged again.
        """
        self._sql = sql
        self._location = location
        self._one = one
        self._keying = keying
        self._keep = keep
        self._schema = contested_schema(keying.columns, one.rules)
        self._watches_deletes = one.watches_deletes and may_delete(self._schema, one.rules)

    def placed(self, keyed: DataFrame, ranges: DataFrame, found: DataFrame) -> PlacedFrames:
        """
        Args:
            ranges: what `ranges_of` gives of the rows.
            found: locations of these keys, and maybe of others.
        """
        one = self._one
        there, stored, is_contested = found, None, False
        if one.moves or self._watches_deletes or not one.trusts_base_files:
            there, stored, is_contested = self._alive(self._keep(self._marked(keyed, ranges, found)))
        several = ranges.where(f"{_LEAST} != {_GREATEST}").select(RECORD_KEY)
        has_several = one.folds and bool(several.take(1))
        if not is_contested and not has_several:
            return PlacedFrames(there.select(_LOCATION))
        if there is found:
            there = self._keep(found.join(ranges, RECORD_KEY, "left_semi").withColumn(_CONTESTED, functions.lit(False)))
        contested = there.where(_CONTESTED).select(RECORD_KEY).distinct().withColumn(IS_KNOWN, functions.lit(True))
        if has_several:
            new = several.join(there, RECORD_KEY, "left_anti").withColumn(IS_KNOWN, functions.lit(False))
            contested = contested.union(new)
        decided = self._keep(self._decided(keyed, self._keep(contested), stored))
        return _settled(there.select(_LOCATION), decided)

    def leaving(self, left: DataFrame) -> DataFrame:
        """A row for each location that a key leaves, in `tagged_schema`."""
        schema = spark_schema(tagged_schema(self._keying.columns))
        given = {name: functions.col(name) for name in _LOCATION} | {ORDER: functions.lit(LEAVES)}
        return left.select(
            [given.get(field.name, functions.lit(None)).cast(field.dataType).alias(field.name) for field in schema]
        )

    def _marked(self, keyed: DataFrame, ranges: DataFrame, found: DataFrame) -> DataFrame:
        """The locations, and which of them are contested."""
        one, col = self._one, functions.col
        there = found.join(ranges, RECORD_KEY)
        is_contested = functions.lit(False)
        if one.moves:
            is_contested = (col(_LEAST) != col(PARTITION_PATH)) | (col(_GREATEST) != col(PARTITION_PATH))
        if self._watches_deletes:
            names = keyed_schema(self._keying.columns).names
            needed = keyed.select(*quoted(name for name in self._schema.names if name in names))
            deleted = needed.mapInArrow(carrying(partial(_deleting, one.rules)), spark_schema(_KEY)).distinct()
            there = there.join(deleted.withColumn(IS_KNOWN, functions.lit(True)), RECORD_KEY, "left_outer")
            is_contested = is_contested | col(IS_KNOWN).isNotNull()
        return there.select(*_LOCATION, is_contested.alias(_CONTESTED))

    def _alive(self, there: DataFrame) -> tuple[DataFrame, DataFrame | None, bool]:
        """The locations but for those whose rows are gone, the rows that were read, and whether any is contested."""
        groups = there.groupBy(PARTITION_PATH, PLACE).agg(functions.max(_CONTESTED).alias(_CONTESTED)).collect()
        read = [
            group
            for path, file_id, is_contested in groups
            if self._one.reads(group := (path, file_id), is_contested=is_contested)
        ]
        is_any_contested = any(is_contested for _, _, is_contested in groups)
        if not read:
            return there, None, is_any_contested
        parts = self._one.stored.parts(read, self._keying.schema)
        rows = carrying(partial(_read_parts, self._location, parts))
        stored = self._sql.range(0, len(parts), 1, numPartitions=len(parts)).mapInArrow(
            rows, spark_schema(stored_schema(self._keying.columns, self._one.rules.ordering_fields))
        )
        stored = self._keep(stored.join(there.select(RECORD_KEY).distinct(), RECORD_KEY, "left_semi"))
        of_read = self._sql.createDataFrame(read, f"{PARTITION_PATH} string, {PLACE} string")
        gone = there.join(functions.broadcast(of_read), [PARTITION_PATH, PLACE], "left_semi")
        gone = gone.select(_LOCATION).join(stored.select(_LOCATION), _LOCATION, "left_anti")
        return self._keep(there.join(gone, _LOCATION, "left_anti")), stored, is_any_contested

    def _decided(self, keyed: DataFrame, contested: DataFrame, stored: DataFrame | None) -> DataFrame:
        one, names = self._one, quoted(self._schema.names)
        rows = _in_order(keyed.join(contested, RECORD_KEY).select(*names))
        if one.compares and stored is not None:
            kept = spark_schema(self._schema)
            winners = rows.mapInArrow(carrying(partial(_win, self._schema, one.rules)), kept)
            rivals = stored.join(contested, RECORD_KEY, "left_semi")
            of_table = rivals.mapInArrow(carrying(partial(_rivals, self._schema)), kept)
            rows = _in_order(winners.union(of_table))
        return rows.mapInArrow(carrying(partial(_decide, self._schema, one.rules, one.moves)), spark_schema(DECISIONS))


def _in_order(rows: DataFrame) -> DataFrame:
    """All rows of a key in one task, one after the other."""
    return rows.repartition(RECORD_KEY).sortWithinPartitions(RECORD_KEY, ORDER)


def _settled(there: DataFrame, decided: DataFrame) -> PlacedFrames:
    col = functions.col
    going = decided.where(col(GOES).isNotNull())
    joined = there.join(decided, RECORD_KEY, "left_outer")
    leaves = functions.coalesce(col(GOES) != col(PARTITION_PATH), functions.lit(False))
    arriving = going.withColumnRenamed(GOES, PARTITION_PATH)
    arriving = arriving.join(there.select(RECORD_KEY, PARTITION_PATH), [RECORD_KEY, PARTITION_PATH], "left_anti")
    arriving = arriving.withColumn(PLACE, functions.lit(None).cast("string"))
    stays = joined.where(~leaves).select(_LOCATION)
    lost = decided.where(col(GOES).isNull()).select(RECORD_KEY)
    return PlacedFrames(stays.union(arriving.select(_LOCATION)), joined.where(leaves).select(_LOCATION), lost)


# What runs in tasks.


def _deleting(rules: MergeRules, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([deleting_keys(batch, rules)], schema=_KEY)


def _read_parts(
    location: str, parts: Sequence[StoredPart], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    storage, _ = open_storage(location)
    for number in numbers_of(numbers):
        yield from read_stored(storage, parts[number])


def _win(schema: pa.Schema, rules: MergeRules, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from winning_rows((project(batch, schema) for batch in batches), rules)


def _rivals(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield as_rivals(batch, schema)


def _decide(
    schema: pa.Schema, rules: MergeRules, moves: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from decisions((project(batch, schema) for batch in batches), rules, moves=moves)
