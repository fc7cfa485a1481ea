"""Hudi tables as data frames of Spark.

    lakeward.spark.read(spark, "s3://lake/orders", where="city = 'lima'")
    lakeward.spark.changes(spark, "s3://lake/orders", since="2 hours ago")
    lakeward.spark.record_locations(frame_of_keys, "s3://lake/orders")
    spark.dataSource.register(lakeward.spark.HudiSource)                     # PySpark 4

What is called loads its module: tasks on executors load this package and need none of what plans a read.

Touches: nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakeward.base.errors import UsageError

if TYPE_CHECKING:
    from lakeward.spark.data_source import HudiSource
    from lakeward.spark.location_frame import record_locations
    from lakeward.spark.table_frame import changes, read
    from lakeward.spark.task_frames import task_error

__all__ = ["HudiSource", "changes", "read", "record_locations", "task_error"]

_MODULES = {
    "HudiSource": "data_source",
    "changes": "table_frame",
    "read": "table_frame",
    "record_locations": "location_frame",
    "task_error": "task_frames",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":
            raise
        raise UsageError(
            "This PySpark has no data sources in Python.",
            why="They came with PySpark 4.",
            remedy="Use `lakeward.spark.read`.",
        ) from error
