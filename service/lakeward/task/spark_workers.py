"""The process from which a local Spark forks its Python workers, with all loaded that an operation needs.

A worker that loads the compiled kernels itself takes most of a second of CPU; forked from this one it has them, and
shares their memory with the others. What is loaded is left out of garbage collection: a worker of Spark's collects
after every task. Spark starts this module by its setting `spark.python.daemon.module`.

Touches: Numba's cache folder, as every process does that loads kernels; what Spark tells it by its pipe.
"""

from __future__ import annotations

import gc

from pyspark import daemon

import lakeward.task.operation
import lakeward.task.slice_check  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]
