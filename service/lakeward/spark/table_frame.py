"""`lakeward.spark.read`, `lakeward.spark.changes`: the rows of a Hudi table, and its changes, as data frames.

    Table, query --planned by the driver, as of one instant--> tasks of file slices --read and merged--> rows
    the same of changes ---------------------------------> tasks of commits' file groups -> changes

Touches: the table, reading only: its timeline and listing in the driver, its files in tasks.
Keeps:   1. all tasks read one moment of the table, whenever and however often the frame is computed;
         2. what travels are the slices of a task and the query, whatever the size of the table;
         3. what is refused is refused by this call, before a task runs.
See:     docs/decisions/0127-rows-go-to-spark-as-arrow.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeward.api.table import Changes, Keys, Rows, Table
from lakeward.base.errors import UsageError
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.scan.moment import When
from lakeward.scan.slice_tasks import pack_tasks
from lakeward.spark.row_types import column_types, image_types, spark_types
from lakeward.spark.slice_parts import slice_parts
from lakeward.spark.slice_work import ChangeWork, SliceWork
from lakeward.spark.task_frames import check_session, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(
    spark: SparkSession,
    table: str | Table | Rows,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    keys: Keys | None = None,
    as_of: When | None = None,
    since: When | None = None,
    until: When | None = None,
    read_optimized: bool = False,
    meta_columns: bool = False,
    skip_damaged: bool = False,
    memory_bytes: int = MEMORY_BYTES,
    timezone: str | None = None,
) -> DataFrame:
    """The rows of a table that a query chooses, as they are now, or were when `table` was opened.

    Raises what `Table` and `Table.scan` do. What tasks raise, Spark wraps; `task_error` unwraps it.

    Args:
        table: path or URL of the table's base folder; a table that is open; or what its `scan` gives, for whose query
            the other arguments have no say.
        columns: their names, in the order in which they come out; None for all. Columns that a query drops later are
            read all the same.
        where: a filter in the words of SQL, which is pushed to partitions, files and row groups; `frame.where` is not.
        keys: rows with these record keys alone, as `Table.get` takes them. Each task gets all of them.
        as_of: read the table as it was at this moment, as in `Table`.
        since: an incremental read, as in `Table.scan`: rows that commits wrote which completed after this moment. Where
            to go on says `Rows.end`: give what `scan(since=…)` gives to know it.
        until: the end of its window.
        read_optimized: base files alone, without the logs.
        meta_columns: Hudi's own five columns come out, too, where `columns` names none.
        skip_damaged: leave out file groups that the table's commits show to be damaged; `Table.scan(…).damage` names
            them. One that breaks while it is read fails the job all the same.
        memory_bytes: what merging one file slice may take, in each task.
        timezone: the zone of the table's instants, where these do not show it; of a table that is open it is known.
    """
    check_session(spark)
    if isinstance(table, Rows):
        rows = table
    else:
        rows = (table if isinstance(table, Table) else Table(table, timezone=timezone)).scan(
            columns=columns,
            where=where,
            keys=keys,
            as_of=as_of,
            since=since,
            until=until,
            read_optimized=read_optimized,
            meta_columns=meta_columns,
            skip_damaged=skip_damaged,
            memory_bytes=memory_bytes,
        )
    scan = rows.scan
    _check_limit(scan.query.limit)
    if scan.damage is not None and not scan.skips_damaged:
        raise scan.damage
    plan = scan.plan
    assert plan.reading.schema is not None, "a table without a schema is refused"
    tasks = pack_tasks(slice_parts(scan.storage, plan), parallelism=spark.sparkContext.defaultParallelism)
    work = SliceWork(plan.shared, scan.memory_bytes)
    return run_tasks(spark, tasks, work, spark_types(plan.schema, column_types(plan.reading.schema)))


def changes(
    spark: SparkSession,
    table: str | Table | Changes,
    *,
    since: When | None = None,
    until: When | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    memory_bytes: int = MEMORY_BYTES,
    timezone: str | None = None,
) -> DataFrame:
    """What was inserted, updated and deleted by the commits of a window, as `Table.changes` gives it, in no order: op,
    ts_ms (the instant of the commit), and the rows before and after as structs.

    Raises what `Table.changes` does. What tasks raise, Spark wraps; `task_error` unwraps it.

    Args:
        table: path or URL of the table's base folder; a table that is open; or what its `changes` gives, for whose
            query the other arguments have no say, and whose `end` is where to go on.
        since: commits that completed later; None or `earliest` for all.
        until: commits that completed until then; None for all.
        columns: of the rows before and after; None for all but Hudi's own five.
        where: a filter: `op = 'u' and after.fare > 10`.
        memory_bytes: what comparing one file slice with another may take, in each task.
        timezone: as in `read`.
    """
    check_session(spark)
    if isinstance(table, Changes):
        found = table
    else:
        opened = table if isinstance(table, Table) else Table(table, timezone=timezone)
        found = opened.changes(since=since, until=until, columns=columns, where=where, memory_bytes=memory_bytes)
    scan = found.scan
    _check_limit(scan.query.limit)
    if scan.damage is not None and not scan.skips_damaged:
        raise scan.damage
    schema = scan.reading.reading.schema
    assert schema is not None, "a table without a schema is refused"
    tasks = pack_tasks(scan.sources, parallelism=spark.sparkContext.defaultParallelism)
    return run_tasks(spark, tasks, ChangeWork(scan.reading), spark_types(scan.schema, image_types(scan.schema, schema)))


def _check_limit(limit: int | None) -> None:
    if limit is not None:
        raise UsageError(
            "The rows of a frame have no limit.",
            why="Its tasks read apart from each other.",
            remedy="Leave the limit out, and ask the frame for its first rows: `frame.limit(20)`.",
        )
