"""Tasks as a data frame: each a few bytes, in a partition of its own; and what their errors say.

    tasks, as bytes --createDataFrame--> rows (number, task) --repartition--> one a partition --mapInArrow--> rows

Touches: the session that it is given, through its public calls alone.
Keeps:   1. a task has what it needs, and nothing of other tasks;
         2. an error of Lakeward in a task comes back as it was.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakeward.base.errors import LakewardError, UsageError
from lakeward.base.without_pandas import allow_pandas
from lakeward.engine.dispatch.spark_failure import carried
from lakeward.write.flow.slots import numbers_into
from lakeward.write.flow.spark_frames import carrying

Task = TypeVar("Task")

_COLUMNS = "number int, task binary"


def check_session(spark: object) -> None:
    """Raises `UsageError` for what is no session of a driver in this process."""
    if not isinstance(spark, SparkSession) or getattr(spark, "sparkContext", None) is None:
        raise UsageError(
            f"The session is a {type(spark).__module__}.{type(spark).__name__}.",
            why="It must be one of a Spark driver in this process (`pyspark.sql.SparkSession`).",
            remedy="With Spark Connect, use `lakeward.Table`, or run the program where the driver is.",
        )


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    work: Callable[[Task], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """What `work` gives for each task, in any order.

    Args:
        tasks: values that pickle.
        work: travels to executors, whole, once for all tasks.
        schema: of what `work` gives.
    """
    allow_pandas()  # `mapInArrow` asks for it, and hands none out
    numbers = numbers_into(max(len(tasks), 1)).tolist()
    rows = [(number, pickle.dumps(task)) for number, task in zip(numbers, tasks, strict=False)]
    frame = spark.createDataFrame(rows, _COLUMNS).repartition(len(numbers), "number")
    return frame.mapInArrow(carrying(_each(work)), schema)


def _each(work: Callable[[Any], Iterator[pa.RecordBatch]]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[Any]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(1).to_pylist():
                yield from work(pickle.loads(task))

    return run


def task_error(error: BaseException) -> LakewardError | None:
    """The error of Lakeward that ended a task, with what, why and remedy, from what Spark raised for it; None where it
    was another one."""
    return carried(error) if isinstance(error, Exception) else None
