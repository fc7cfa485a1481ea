"""`lakeward.spark.record_locations`: where the rows of keys are, for a data frame of keys of any size (RFC-08).

    by an index that says by a key's hash which part has it
        keys --each once, numbered by part--> one task a part, sorted --asked--> locations --joined--> the frame
    by the rows
        file slices --all keys--> locations --joined--> the frame

Where nothing is said Lakeward's record index is asked, or else the rows. Hudi's record index is asked by name alone: it
forgets a key whose delete came too late to win, and its row stays (docs/decisions/0074).

Touches: the table and its index, reading only; in the driver what opens them.
Keeps:   1. each row of the frame comes out: once for each location of its key, once without where it has none;
         2. no key is collected by the driver;
         3. an answer is of the table at one moment, whatever the index has not taken in yet.
Source:  RFC-08, getRecordLocations
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions

from lakeward.api.table import Table
from lakeward.base.clock import SystemClock
from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import LakewardError, Refused, UsageError
from lakeward.index.index import HashedIndex
from lakeward.index.index_type import IndexType, LookupType, lookup_type
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.scan.key_lookup import KeyLookup
from lakeward.scan.slice_tasks import pack_tasks
from lakeward.spark.location_work import (
    COMMIT_TIME,
    KEY,
    LOCATED,
    NUMBERED,
    PART,
    RECORD_KEY,
    SLOT,
    IndexWork,
    KeyNumbers,
    KeyScan,
)
from lakeward.spark.task_frames import check_session, run_tasks
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.flow.slots import numbers_into
from lakeward.write.flow.spark_frames import carrying, quoted, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HASHED = (IndexType.RECORD, IndexType.METADATA)
_TASKS_FOR_EACH_CORE = 4


def record_locations(
    keys: DataFrame,
    table: str | Table,
    *,
    column: str | None = None,
    index: LookupType | str | None = None,
    memory_bytes: int = MEMORY_BYTES,
    timezone: str | None = None,
) -> DataFrame:
    """The frame with three more columns that say where the rows of its keys are: `partition`, the path; `file_id`, the
    file group; and `instant`, the commit that wrote the row last or, where an index answers, the one that it keeps.

    A key that has no row has nulls there; one that is in several partitions comes several times. The frame is computed
    twice: have Spark keep one that takes long.

    Raises what `Table` and `Table.scan` do, and `Refused` for an index that the table does not have.

    Args:
        table: path or URL of the table's base folder; or a table that is open.
        column: the one that has the keys, as `_hoodie_record_key` has them; None: that one, or the only one.
        index: record (Lakeward's) or metadata (Hudi's record index, which may lack keys); simple: the keys of all rows
            are read; None for record where the table has it in use, and simple elsewhere.
        memory_bytes: what merging one file slice may take, in each task.
        timezone: as in `read`.
    """
    check_session(keys.sparkSession)
    named = _key_column(keys, column)
    opened = table if isinstance(table, Table) else Table(table, timezone=timezone)
    chosen = _open_index(opened, None if index is None else lookup_type(index))
    wanted = keys.withColumn(KEY, functions.col(*quoted([named])).cast("string"))
    once = wanted.select(KEY).where(functions.col(KEY).isNotNull()).distinct()
    if chosen is None:
        found = _scanned(keys, opened, memory_bytes).join(once, KEY, "left_semi")
    else:
        found = _looked_up(once, opened.base_path, chosen)
    return wanted.join(found, KEY, "left_outer").drop(KEY)


def _key_column(keys: DataFrame, column: str | None) -> str:
    taken = [name for name in LOCATED.names if name in keys.columns]
    if taken:
        raise UsageError(
            f"The frame of keys has a column {taken[0]!r} already.",
            remedy="Rename it, or select the column of keys alone.",
        )
    if column is None:
        column = RECORD_KEY if RECORD_KEY in keys.columns or len(keys.columns) != 1 else keys.columns[0]
    if column not in keys.columns:
        raise UsageError(
            f"The frame of keys has no column {column!r}.",
            remedy=did_you_mean(column, keys.columns) or f"Say `column`, one of {', '.join(keys.columns)}.",
        )
    return column


def _open_index(table: Table, asked: LookupType | None) -> HashedIndex | None:
    """An index as of the table's moment; None where the rows are read."""
    if asked is IndexType.SIMPLE:
        return None
    if asked not in (None, *_HASHED):
        raise UsageError(
            f"The {asked} index is not asked by tasks of Spark.",
            remedy=f"Name {', '.join(_HASHED)} or {IndexType.SIMPLE}, or none.",
        )
    storage, _ = open_storage(table.base_path)
    lookup = KeyLookup(storage, table.snapshot, clock=SystemClock())
    try:
        if table.snapshot.read_until is not None:
            raise Refused(f"It says where keys are now, and not where they were at {table.snapshot.read_until}.")
        return lookup.open_hudi() if asked is IndexType.METADATA else lookup.open_lakeward()
    except LakewardError as error:
        if asked is None:
            return None
        raise Refused(
            f"The {asked} index is not asked where keys are.",
            why=" ".join(part for part in (error.what, error.why) if part),
            remedy=error.remedy or "Open or refresh the table again, or name no index.",
        ) from error


def _looked_up(keys: DataFrame, base_path: str, index: HashedIndex) -> DataFrame:
    """The locations of these keys, which are each there once."""
    tasks = min(index.count, keys.sparkSession.sparkContext.defaultParallelism * _TASKS_FOR_EACH_CORE)
    numbers = KeyNumbers(index, numbers_into(tasks))
    by_part = keys.mapInArrow(carrying(numbers), spark_schema(NUMBERED))
    in_order = by_part.repartition(tasks, SLOT).sortWithinPartitions(PART, KEY)
    work = IndexWork(base_path, index, tuple(index.parts(None)))
    return in_order.mapInArrow(carrying(work), spark_schema(LOCATED))


def _scanned(keys: DataFrame, table: Table, memory_bytes: int) -> DataFrame:
    """The locations of all keys."""
    spark = keys.sparkSession
    plan = table.scan(columns=[RECORD_KEY, COMMIT_TIME]).scan.plan
    if plan.reading.key_fields:
        raise Refused(
            f"{table.base_path} has no record keys that could be looked up.",
            why="hoodie.populate.meta.fields is false: keys are made of each row.",
            remedy="Read the table (`lakeward.spark.read`), and join by the columns of which its keys are made: "
            f"{', '.join(plan.reading.key_fields)}.",
        )
    tasks = pack_tasks(plan.slices, parallelism=spark.sparkContext.defaultParallelism)
    return run_tasks(spark, tasks, KeyScan(plan.shared, memory_bytes), spark_schema(LOCATED))
