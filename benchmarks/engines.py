"""What each engine costs before it merges a row: the compaction of a table of four rows, in CPU seconds by process.

    python -m benchmarks.engines [--runs N]

Each side is a process of its own, in turn, the best of N runs. CPU is told apart: of the command itself, of the JVM, of
workers (and of the process that they are forked from). Beside them stands what every side pays somewhere: Python with
the modules that a task needs, and the same with an empty folder for compiled kernels.

Touches: a temporary folder; writes `benchmarks/results/engines-<time>.json`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, measure, write_report
from lakeward.engine.dispatch import engine_rule
from tests.golden_tables import copy_golden

COMPACT = ("compact", "TABLE", "--type", "full", "--writers", "stopped", "--timezone", "UTC", "--json")
ENGINES = {"in process": "local", "local": "local", "spark": "spark"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--side", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("table", nargs="?", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side is not None:
        compact(arguments.side, arguments.table)
        return 0
    about_machine = machine()
    with tempfile.TemporaryDirectory(prefix="lakeward-engines-") as folder:
        figures = run(Path(folder), arguments.runs)
    write_report("engines", about_machine, {"runs": arguments.runs, "sides": figures})
    return 0


def compact(side: str, table: str) -> None:
    from lakeward.cli.main import main as lakeward

    if side == "local":
        engine_rule.IN_PROCESS_BELOW_BYTES = 0  # a table of this size would not start any
    sys.argv = ["lakeward", *(table if word == "TABLE" else word for word in COMPACT), "--engine", ENGINES[side]]
    lakeward()


def run(folder: Path, runs: int) -> dict[str, dict[str, Any]]:
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    table = copy_golden("v9", folder / "table")
    best: dict[str, dict[str, Any]] = {}

    def keep(name: str, command: list[str]) -> None:
        cost, _ = measure(command)
        if name not in best or cost.cpu_seconds < best[name]["cpu_seconds"]:
            best[name] = asdict(cost)

    for number in range(runs):
        keep("python", [sys.executable, "-c", "pass"])
        keep("imports", [sys.executable, "-c", "import lakeward.engine.task.workers"])
        if not number:
            os.environ |= {"NUMBA_CACHE_DIR": str(folder / "kernels"), "NUMBA_CPU_NAME": "generic"}
            keep("imports, kernels compiled", [sys.executable, "-c", "import lakeward.engine.task.workers"])
            del os.environ["NUMBA_CACHE_DIR"], os.environ["NUMBA_CPU_NAME"]
        for side in ENGINES:
            copy = shutil.copytree(table, folder / f"{side}-{number}", copy_function=shutil.copy2)
            keep(side, [sys.executable, "-m", "benchmarks.engines", "--side", side, str(copy)])
    return best


if __name__ == "__main__":
    sys.exit(main())
