"""What a process has left of Spark sessions that it started and ended.

Run by test_spark_session in a process of its own: python session_leaks.py CYCLES FOLDER. Prints, as JSON, what was left
after the first session and after the last one.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

REPOSITORY = str(Path(__file__).parents[3])
WAIT_SECONDS = 60.0


def temporary_files_in(folder: Path) -> None:
    """Have this process and JVMs that it starts keep them there."""
    os.environ["TMPDIR"] = str(folder)
    os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={folder}"


def what_is_left(folder: Path) -> dict[str, Any]:
    """
    Args:
        folder: what `temporary_files_in` got.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    # Py4J's thread for objects that are gone looks once a second whether it is over.
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    gc.collect()
    process = psutil.Process()
    return {
        "threads": [thread.name for thread in threading.enumerate()],
        "children": [child.name() for child in process.children(recursive=True)],
        "files": process.num_fds(),
        "folders": sorted(path.name for path in folder.iterdir()),
        "path": list(sys.path),
        "importers": len(sys.path_importer_cache),
        "environment": dict(os.environ),
        "megabytes": process.memory_info().rss / 1e6,
    }


def main(cycles: int, folder: Path) -> None:
    from lakeward.engine.dispatch.spark import SparkDispatcher
    from tests.engine.dispatch import tasks

    dispatcher = SparkDispatcher("local[2]", memory=tasks.MEMORY)
    left = []
    for _ in range(cycles):
        dispatcher.run(tasks.double, [1, 2, 3], description="test", on_progress=lambda progress: None)
        dispatcher.end(within=60.0)
        left.append(what_is_left(folder))
        print(f"{left[-1]['megabytes']:.1f} MB", file=sys.stderr, flush=True)
    print(json.dumps([left[0], left[-1]]))


if __name__ == "__main__":
    sys.path.insert(0, REPOSITORY)
    # Workers must find the tests' tasks.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [REPOSITORY, os.environ.get("PYTHONPATH")]))
    temporary_files_in(Path(sys.argv[2]))
    main(int(sys.argv[1]), Path(sys.argv[2]))
