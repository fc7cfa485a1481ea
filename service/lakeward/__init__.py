"""Lakeward. Importing any of it says which pool Arrow takes memory from (`engine/task/peak_memory`).

Arrow asks the environment once, when it is loaded: its readers and writers of Parquet and its kernels take the pool
that it chose then, and not the one that is set later.

Touches: the environment of this process, where nothing is said of it there; processes that it starts inherit it.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeward.api.table import Table

__all__ = ["Table"]

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")


def __getattr__(name: str) -> Any:
    if name == "Table":
        from lakeward.api.table import Table

        return Table
    if name == "spark":
        return import_module("lakeward.spark")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
