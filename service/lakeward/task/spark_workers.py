"""The process from which a local Spark forks its Python workers, with all loaded that an operation needs.

What is loaded is left out of garbage collection: a worker of Spark's collects after every task. Spark starts this
module by its setting `spark.python.daemon.module`.

Touches: what Spark tells it by its pipe.
"""

from __future__ import annotations

import gc

from pyspark import daemon

import lakeward.task.workers  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]
