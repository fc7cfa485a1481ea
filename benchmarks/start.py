"""How long a command takes to answer, the first `compact` after an install, and the demo.

    python -m benchmarks.start [--runs N] [--installs N] [--without-demo]

`--help`, and verbs on a small table, each in processes of its own: wall and CPU time from the start of the process to
its end, the median and the best of N runs one after the other. The best is what the machine can do while it is busy
with other things. Goal: a median of 0.3 seconds.

The first `compact` of a small table, each time in a new environment with the wheel of `make wheels` and an empty cache:
CPU seconds of the process and all that it started.

`make demo`, where Hudi can be had: the seconds until its first line, and what Lakeward's own steps took.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, write_report
from deploy.wheels import make_wheels
from tests.golden_tables import copy_golden
from tests.installed_wheel import install

SECONDS_MAX = 0.3
FIRST_COMPACT_CPU_SECONDS_MAX = 3.0
DEMO_LAKEWARD_CPU_SECONDS_MAX = 10.0
DEMO_FIRST_LINE_SECONDS_MAX = 10.0


def measured(words: list[str], runs: int, environment: dict[str, str]) -> dict[str, Any]:
    """Seconds of `lakeward WORDS`, after one run that is not counted, in which caches fill."""
    command = [sys.executable, "-m", "lakeward.cli.main", *words]
    took = [seconds_of(command, environment) for _ in range(runs + 1)][1:]
    walls = [wall for wall, _ in took]
    return {
        "median_seconds": round(statistics.median(walls), 3),
        "best_seconds": round(min(walls), 3),
        "best_cpu_seconds": round(min(cpu for _, cpu in took), 3),
        "within": statistics.median(walls) <= SECONDS_MAX,
    }


def seconds_of(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall time, and CPU time of the process and of all that it has waited for."""
    begin = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def first_compactions(folder: Path, installs: int) -> dict[str, Any]:
    """One in each new environment."""
    _, wheel = make_wheels(folder / "dist")
    took = []
    for number in range(installs):
        installed = install(wheel, folder / f"venv-{number}")
        table = copy_golden("v9", folder / f"first-{number}")
        words = ["compact", str(table), "--type", "full", "--writers", "stopped", "--timezone", "UTC"]
        took.append(seconds_of([str(installed.command), *words], installed.environment))
    cpu_seconds = [round(cpu, 2) for _, cpu in took]
    return {
        "cpu_seconds": cpu_seconds,
        "seconds": [round(wall, 2) for wall, _ in took],
        "cpu_seconds_max": FIRST_COMPACT_CPU_SECONDS_MAX,
        "within": max(cpu_seconds) <= FIRST_COMPACT_CPU_SECONDS_MAX,
    }


def demo(folder: Path) -> dict[str, Any]:
    """From `make demo` to its end."""
    figures = folder / "demo.json"
    # What is out of date is set up before: make would print that, as a first line.
    subprocess.run(["make", "--no-print-directory", "setup"], stdout=subprocess.DEVNULL, check=True)
    begin = time.perf_counter()
    with subprocess.Popen(
        ["make", "--no-print-directory", "demo", f"ARGS=--figures {figures}"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None, "it is a pipe"
        process.stdout.readline()
        first_line = time.perf_counter() - begin
        printed = process.stdout.read()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, process.args, printed)
    if not figures.exists():
        return {"left_out": "Hudi cannot be fetched here"}
    found: dict[str, Any] = json.loads(figures.read_text())
    steps = found["lakeward_steps"]
    return found | {
        "first_line_seconds": round(first_line, 2),
        "first_line_seconds_max": DEMO_FIRST_LINE_SECONDS_MAX,
        "seconds": round(time.perf_counter() - begin, 1),
        "lakeward_cpu_seconds_max": DEMO_LAKEWARD_CPU_SECONDS_MAX,
        "within": steps["cpu_seconds"] <= DEMO_LAKEWARD_CPU_SECONDS_MAX and first_line <= DEMO_FIRST_LINE_SECONDS_MAX,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--installs", type=int, default=3)
    parser.add_argument("--without-demo", action="store_true")
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
        report = {
            "runs": arguments.runs,
            "seconds_max": SECONDS_MAX,
            "commands": figures,
            "first_compact_after_install": first_compactions(Path(folder), arguments.installs),
            "demo": {"left_out": "as asked"} if arguments.without_demo else demo(Path(folder)),
        }
    write_report("start", around, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
