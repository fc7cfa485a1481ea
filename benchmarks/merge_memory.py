"""`make bench-memory`: the peak memory of one FULL operation, over slices that differ in all that could make it grow.

    python -m benchmarks.merge_memory [--scale 0.02] [--points ...] [--budget-mib 512]

Slices of 0.5 to 5 GB with rows of 2 kB, 64 logs, 10 M rows in the base file, one row of 100 MB, logs of ten times the
budget; each merged in a process of its own, checks on, in process and on one core. The peak is of the whole process,
interpreter and kernels included. Asked: no more than the budget, and each within 10 % of the mean of all. The row of
100 MB has the budget without which it would be refused, and counts for itself. `--scale` makes the slices smaller, and
leaves the budget as it is.

Touches: a temporary folder, 12 GB at full scale; writes `benchmarks/results/merge-memory-<time>.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import keep_report, machine, measure
from benchmarks.merge.by_lakeward import by_lakeward
from benchmarks.merge.files import SliceFiles, write_slice
from benchmarks.merge.shape import FIFTEEN, LONG, NARROW, Shape
from lakeward.merge.memory_budget import total_for_row

ROW_BYTES_ON_DISK = 1_650
"""A row of `LONG` takes so much, which no codec makes much smaller; a record of an Avro log has a quarter more."""
LARGE_ROW_BYTES = 100_000_000
SPREAD_ASKED = 0.1
MIB = 1024 * 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes but the budget")
    parser.add_argument("--budget-mib", type=int, default=512)
    parser.add_argument("--points", help="some of the points, with commas between; default: all")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    budget = arguments.budget_mib * MIB
    if arguments.measure is not None:
        print(json.dumps(merge(arguments.measure, budget)))
        return 0
    points = points_of(arguments.scale, budget)
    if arguments.points is not None:
        if unknown := set(arguments.points.split(",")) - set(points):
            parser.error(f"{', '.join(sorted(unknown))}: none of {', '.join(points)}")
        points = {name: points[name] for name in arguments.points.split(",")}
    about_machine = machine()
    found = {}
    print(f"{'slice':26} {'input':>9} {'rows':>11} {'seconds':>8} {'peak':>8} {'of budget':>10}")
    for name, shape in points.items():
        # A row has a budget of its own size: with less it is refused.
        budget_mib = max(arguments.budget_mib, total_for_row(shape.large_row_bytes) // MIB)
        found[name] = point = measured(shape, budget_mib) | {"budget_bytes": budget_mib * MIB}
        print(
            f"{name:26} {point['input_bytes'] / 1e6:6.0f} MB {point['rows']:11,} {point['seconds']:8.1f}"
            f" {point['peak_rss_bytes'] / MIB:4.0f} MiB {point['peak_rss_bytes'] / point['budget_bytes']:10.0%}",
            flush=True,
        )
    peaks = [point["peak_rss_bytes"] for point in found.values() if point["budget_bytes"] == budget] or [0]
    mean = statistics.mean(peaks) or 1
    spread = max(max(peaks) / mean - 1, 1 - min(peaks) / mean)
    print(f"mean {mean / MIB:.0f} MiB; farthest from it {spread:.0%}, asked {SPREAD_ASKED:.0%}")
    print(f"largest {max(peaks) / MIB:.0f} MiB, budget {arguments.budget_mib} MiB")
    figures = {
        "scale": arguments.scale,
        "budget_bytes": budget,
        "points": found,
        "spread": spread,
        "is_flat": spread <= SPREAD_ASKED,
        "is_within_budget": all(point["peak_rss_bytes"] <= point["budget_bytes"] for point in found.values()),
    }
    print(f"Written to {keep_report('merge-memory', about_machine, figures)}", file=sys.stderr)
    return 0


def points_of(scale: float, budget: int) -> dict[str, Shape]:
    shapes = {f"{gigabytes:g} GB": of_gigabytes(gigabytes) for gigabytes in (0.5, 1, 2.5, 5)}
    log_rows = round(10 * budget / (ROW_BYTES_ON_DISK * 1.25) / 20)
    shapes |= {
        "64 logs": Shape("", "", 2_000_000, 64, 31_000, FIFTEEN, parquet_blocks=True),
        "10 M base rows": Shape("", "", 10_000_000, 20, 30_000, NARROW),
        "10 M base rows, unsorted": Shape("", "", 10_000_000, 20, 30_000, NARROW, base_sorted=False),
        "logs of 10 budgets": Shape("", "", 2 * log_rows, 20, log_rows, LONG),
    }
    large_row = Shape("", "", 100_000, 4, 10_000, LONG, large_row_bytes=LARGE_ROW_BYTES)
    return {name: shape.scaled(scale) for name, shape in shapes.items()} | {
        "one row of 100 MB": replace(large_row.scaled(scale), large_row_bytes=LARGE_ROW_BYTES)
    }


def of_gigabytes(gigabytes: float) -> Shape:
    """Nine tenths of the rows are in the base file."""
    rows = round(gigabytes * 1e9 / ROW_BYTES_ON_DISK)
    return Shape("", "", rows * 9 // 10, 8, rows // 80, LONG)


def measured(shape: Shape, budget_mib: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
        write_slice(Path(folder, "slice"), shape, with_runs=False)
        command = [sys.executable, "-m", "benchmarks.merge_memory", "--budget-mib", str(budget_mib)]
        _, printed = measure([*command, "--measure", str(Path(folder, "slice"))])
    found: dict[str, Any] = json.loads(printed)
    return found


def merge(folder: Path, budget: int) -> dict[str, Any]:
    files = SliceFiles.open(folder)
    cost, paths, more = by_lakeward(files, verify=True, memory_bytes=budget)
    shutil.rmtree(paths[0].parent)
    rows = files.shape.base_rows + files.shape.logs * files.shape.log_rows
    return asdict(cost) | {"input_bytes": files.input_bytes, "rows": rows} | more


if __name__ == "__main__":
    sys.exit(main())
