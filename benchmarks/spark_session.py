"""What a daemon takes of memory before, while and after a compaction on its Spark, by process.

    python -m benchmarks.spark_session [--base-rows N]

A daemon on an empty folder; then a table comes, which the daemon compacts on `local[*]`; then its session ends for
being idle. Memory is the proportional set size, in which pages that processes share are counted once, every 0.2 s; the
figures of `working` are those of the moment with the most.

Touches: a temporary folder; writes `benchmarks/results/spark-session-<time>.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.compaction import write_table
from benchmarks.measure import machine, write_report
from tests.hudi.spark import start_spark

SAMPLE_SECONDS = 0.2
SETTLE_SECONDS = 5.0
LIMIT_SECONDS = 300.0

CONFIG = """
[service]
state_folder = "{folder}/state"
listen = "127.0.0.1:0"

[spark]
master = "local[*]"

[locks]
writers = "share"

[discovery]
roots = ["{folder}/tables"]

[defaults]
interval = "1s"
services = ["compaction"]
timezone = "UTC"
planner = {{ "hoodie.compact.inline.max.delta.commits" = 1 }}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base-rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeward-session-") as made:
        folder = Path(made)
        spark = start_spark(scratch=folder / "spark", memory="3g", at_full_speed=True)
        table = write_table(spark, folder / "table", arguments.base_rows, 6, arguments.base_rows // 30)
        input_bytes = sum(table.data_files().values())
        spark.stop()
        about_machine = machine()
        figures = run(folder)
    write_report(
        "spark-session", about_machine, {"base_rows": arguments.base_rows, "input_bytes": input_bytes} | figures
    )
    return 0


def run(folder: Path) -> dict[str, Any]:
    (folder / "tables").mkdir()
    config, log = folder / "lakeward.toml", folder / "log"
    config.write_text(CONFIG.format(folder=folder))
    command = [sys.executable, "-m", "lakeward.cli.main", "run", "--config", str(config)]
    with log.open("w") as lines, subprocess.Popen(command, stdout=lines, stderr=lines) as daemon:
        try:
            wait_for(log, '"event": "ready"')
            time.sleep(SETTLE_SECONDS)
            figures: dict[str, Any] = {"idle": memory(daemon.pid)}
            (folder / "table").rename(folder / "tables" / "table")
            figures["working"] = most_until(daemon.pid, log, '"end": "committed"')
            wait_for(log, '"event": "Spark session ended"')
            time.sleep(SETTLE_SECONDS)
            figures["idle again"] = memory(daemon.pid)
            started = re.search(r'"event": "Spark session started".*?"seconds": ([0-9.]+)', log.read_text())
            figures["start_seconds"] = float(started[1]) if started else None
        finally:
            daemon.terminate()
    return figures


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(SAMPLE_SECONDS)


def most_until(pid: int, log: Path, text: str) -> dict[str, float]:
    deadline, most = time.monotonic() + LIMIT_SECONDS, memory(pid)
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        most = max(most, memory(pid), key=lambda found: found["all"])
        time.sleep(SAMPLE_SECONDS)
    return most


def memory(pid: int) -> dict[str, float]:
    """MB of the daemon, of Java, of Spark's Python processes and of all others that it started."""
    root = psutil.Process(pid)
    parts = dict.fromkeys(("daemon", "java", "spark workers", "others"), 0.0)
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            part = "daemon" if process.pid == pid else part_of(process)
            parts[part] += process.memory_full_info().pss / 1e6
    return {name: round(size, 1) for name, size in (parts | {"all": sum(parts.values())}).items()}


def part_of(process: psutil.Process) -> str:
    if process.name() == "java":
        return "java"
    return "spark workers" if "lakeward.engine.task.spark_workers" in process.cmdline() else "others"


if __name__ == "__main__":
    sys.exit(main())
