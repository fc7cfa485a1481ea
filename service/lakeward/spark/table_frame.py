"""`lakeward.spark.read`: the rows of a Hudi table as a data frame.

    Table, query --planned by the driver, as of one instant--> tasks of file slices --read and merged--> rows

Touches: the table, reading only: its timeline and listing in the driver, its files in tasks.
Keeps:   1. all tasks read one moment of the table, whenever and however often the frame is computed;
         2. what travels are the slices of a task and the query, whatever the size of the table;
         3. what is refused is refused by this call, before a task runs.
See:     docs/decisions/0127-rows-go-to-spark-as-arrow.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeward.api.table import Keys, Rows, Table
from lakeward.base.errors import UsageError
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.scan.moment import When
from lakeward.scan.slice_tasks import pack_slices
from lakeward.spark.row_types import spark_types
from lakeward.spark.slice_work import SliceWork
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
            read_optimized=read_optimized,
            meta_columns=meta_columns,
            skip_damaged=skip_damaged,
            memory_bytes=memory_bytes,
        )
    scan = rows.scan
    if scan.query.limit is not None:
        raise UsageError(
            "The rows of a frame have no limit.",
            why="Its tasks read apart from each other.",
            remedy="Leave the limit out, and ask the frame for its first rows: `frame.limit(20)`.",
        )
    if scan.damage is not None and not scan.skips_damaged:
        raise scan.damage
    plan = scan.plan
    assert plan.reading.schema is not None, "a table without a schema is refused"
    tasks = pack_slices(plan.slices, parallelism=spark.sparkContext.defaultParallelism)
    work = SliceWork(plan.shared, scan.memory_bytes)
    return run_tasks(spark, tasks, work, spark_types(plan.schema, plan.reading.schema))
