"""Hudi tables as data frames of Spark.

    lakeward.spark.read(spark, "s3://lake/orders", where="city = 'lima'")
    lakeward.spark.record_locations(frame_of_keys, "s3://lake/orders")

What is called loads its module: tasks on executors load this package and need none of what plans a read.

Touches: nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeward.spark.location_frame import record_locations
    from lakeward.spark.table_frame import read
    from lakeward.spark.task_frames import task_error

__all__ = ["read", "record_locations", "task_error"]

_MODULES = {"read": "table_frame", "record_locations": "location_frame", "task_error": "task_frames"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
