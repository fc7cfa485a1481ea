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
    from lakeward.api.client import Client
    from lakeward.api.new_table import create_table
    from lakeward.api.table import Table

__all__ = ["Client", "Table", "create_table"]

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")


_PLACES = {
    "Client": "lakeward.api.client",
    "Table": "lakeward.api.table",
    "create_table": "lakeward.api.new_table",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name == "spark":
        return import_module("lakeward.spark")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
