"""The pool that Arrow takes memory from while an operation runs.

Its own choice, mimalloc, keeps what was freed: a merge of one row of 100 MB ended with 130 MiB that nothing held, and
one of wide rows had 544 MiB at its peak where a fifth was not in use. jemalloc gives it back, at the same cost.

The environment asks for jemalloc before Arrow is loaded (`lakeward/__init__`). Where Arrow was loaded before that, as
by Spark in an executor, only what Python asks for comes from the pool that is set here. Builds of Arrow without
jemalloc keep their own.

Touches: Arrow's default memory pool, of the whole process.
"""

from __future__ import annotations

import pyarrow as pa

_WANTED = "jemalloc"


def use_tight_pool() -> None:
    if _WANTED in pa.supported_memory_backends() and pa.default_memory_pool().backend_name != _WANTED:
        pa.set_memory_pool(pa.jemalloc_memory_pool())
