"""The process from which a local Spark forks its Python workers, with all loaded that an operation needs.

What is loaded is left out of garbage collection: a worker of Spark's collects after every task. Spark starts this
module by its setting `spark.python.daemon.module`.

Spark puts archives before everything else on the path, PySpark's and its own classes, and before each task its workers
read their lists again: that took 0.1 s of CPU, a task. Where the same PySpark is installed as files, which is how `pip`
installs Spark, it is taken from there.

Touches: what Spark sends it through its pipe; the path that this process imports from.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path


def archives_of_spark(path: Sequence[str]) -> list[str]:
    """Archives on the path that are not needed, since PySpark is installed as files in the same folder."""
    archives = [entry for entry in path if entry.endswith((".zip", ".jar"))]
    files = [entry for entry in path if entry not in archives]
    installed = PathFinder.find_spec("pyspark", files)
    if installed is None or installed.origin is None or PathFinder.find_spec("py4j", files) is None:
        return []
    home = Path(installed.origin).resolve().parent
    return [entry for entry in archives if Path(entry).resolve().is_relative_to(home)]


if __name__ == "__main__":
    for archive in archives_of_spark(sys.path):
        sys.path.remove(archive)
        sys.path_importer_cache.pop(archive, None)

    from pyspark import daemon

    import lakeward.engine.task.workers  # noqa: F401

    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]
