"""What a command costs: wall time, CPU time and peak memory of it and everything it starts; and on which machine.

Touches: starts the command, samples the process table while it runs.
Keeps:   1. CPU and memory are of the whole tree: Spark's JVM and its Python workers are children no process waits for,
            so the kernel's own sum for children leaves them out;
         2. a sample is taken every 50 ms: what a process does between its last sample and its end is not counted.
"""

from __future__ import annotations

import contextlib
import json
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

SAMPLE_SECONDS = 0.05
RESULTS = Path(__file__).with_name("results")


@dataclass(frozen=True, slots=True)
class Cost:
    wall_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    peak_rss_of_one_bytes: int
    """The process that has the most has so much."""
    cpu_by_part: dict[str, float]
    """The same CPU by who took it: the `command` itself, `java`, and `workers`, which are all other processes."""


def measure(command: Sequence[str]) -> tuple[Cost, str]:
    """Run the command to its end, which must be a good one. Returns its cost and what it printed."""
    begin = time.perf_counter()
    cpu_by_process: dict[tuple[int, str], float] = {}
    peak = peak_of_one = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        root = psutil.Process(process.pid)
        while process.poll() is None:
            resident = 0
            with contextlib.suppress(psutil.NoSuchProcess):
                for member in [root, *root.children(recursive=True)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        times = member.cpu_times()
                        part = "command" if member.pid == root.pid else "java" if member.name() == "java" else "workers"
                        cpu_by_process[member.pid, part] = times.user + times.system
                        of_one = member.memory_info().rss
                        resident += of_one
                        peak_of_one = max(peak_of_one, of_one)
            peak = max(peak, resident)
            time.sleep(SAMPLE_SECONDS)
        wall = time.perf_counter() - begin
        assert process.stdout is not None
        printed = process.stdout.read()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, list(command), printed)
    parts = {part: 0.0 for _, part in sorted(cpu_by_process, key=lambda key: key[1])}
    for (_, part), seconds in cpu_by_process.items():
        parts[part] = round(parts[part] + seconds, 2)
    return Cost(wall, sum(cpu_by_process.values()), peak, peak_of_one, parts), printed


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numba", "numpy", "pyarrow", "pyspark")},
        "load_before": psutil.getloadavg()[0],
    }


def write_report(benchmark: str, machine: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Print the report, and keep it in `benchmarks/results`. `machine` is as of before the benchmark."""
    print(keep_report(benchmark, machine, figures).read_text(), end="")


def keep_report(benchmark: str, machine: Mapping[str, Any], figures: Mapping[str, Any]) -> Path:
    """Write the report to `benchmarks/results`."""
    now = datetime.now(UTC)
    report = {"benchmark": benchmark, "time": now.isoformat(timespec="seconds"), **figures, "machine": machine}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{benchmark}-{now:%Y-%m-%dT%H%M%S%z}.json"
    path.write_text(f"{json.dumps(report, indent=2)}\n")
    return path


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
