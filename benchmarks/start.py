"""How long a command takes to answer: `--help`, and verbs on a small table, each in processes of its own.

    python -m benchmarks.start [--runs N]

Wall and CPU time from the start of the process to its end, the median and the best of N runs one after the other. The
best is what the machine can do while it is busy with other things. Goal: a median of 0.3 seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, write_report
from tests.golden_tables import copy_golden

SECONDS_MAX = 0.3


def measured(words: list[str], runs: int, environment: dict[str, str]) -> dict[str, Any]:
    """Seconds of `lakeward WORDS`, after one run that is not counted, in which caches fill."""
    command = [sys.executable, "-m", "lakeward.cli.main", *words]
    walls, cpus = [], []
    for run in range(runs + 1):
        begin = time.perf_counter()
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
        if run:
            walls.append(time.perf_counter() - begin)
            cpus.append(usage.ru_utime + usage.ru_stime)
    return {
        "median_seconds": round(statistics.median(walls), 3),
        "best_seconds": round(min(walls), 3),
        "best_cpu_seconds": round(min(cpus), 3),
        "within": statistics.median(walls) <= SECONDS_MAX,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    around = machine()
    with tempfile.TemporaryDirectory(prefix="lakeward-start-") as folder:
        table = str(copy_golden("v9", Path(folder) / "table"))
        config = Path(folder) / "lakeward.toml"
        config.write_text(f'[discovery]\nroots = ["{folder}"]\n')
        environment = os.environ | {"XDG_STATE_HOME": f"{folder}/state"}
        commands = [
            ["--help"],
            ["version"],
            ["compact", "--help"],
            ["pause", "--help"],
            ["inspect", table],
            ["plan", table],
            ["explain", table],
            ["config", "check", str(config)],
            ["state", "status"],
            ["unschedule", table, "--writers", "stopped"],
        ]
        figures = {
            " ".join(words).replace(folder, ""): measured(words, arguments.runs, environment) for words in commands
        }
    write_report("start", around, {"runs": arguments.runs, "seconds_max": SECONDS_MAX, "commands": figures})
    return 0


if __name__ == "__main__":
    sys.exit(main())
