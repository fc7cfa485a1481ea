"""The peak memory of reading rows, over slices that differ in size, and over a hundred slices in one process.

    python -m benchmarks.read_memory [--gigabytes 0.5 1 2.5 5] [--slices 100]

Slices are those of `make bench-memory`, base file and eight logs of rows of 2 kB. Each is read to its end in a process
of its own, all columns, with the default budget; the hundred are one of 50 MB, read a hundred times. As with a user,
the process imports Lakeward first, which chooses the pool that Arrow takes memory from. The peak is of the whole
process, interpreter and kernels included. Asked: at most 512 MiB, and each within 10 % of the mean of all.

Touches: a temporary folder, twice the largest slice; writes `benchmarks/results/read-memory-<time>.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import keep_report, machine, measure
from benchmarks.merge.by_lakeward import operation_spec
from benchmarks.merge.files import SliceFiles, write_slice
from benchmarks.merge.watched import watched
from benchmarks.merge_memory import MIB, SPREAD_ASKED, of_gigabytes
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.read.file_slice import open_slice
from lakeward.storage.local import LocalStorage

ASKED = 512 * MIB
SMALL_GIGABYTES = 0.05
MEASURED = "import lakeward; from benchmarks.read_memory import main; main()"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.read_memory")
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.5, 1, 2.5, 5])
    parser.add_argument("--slices", type=int, default=100)
    parser.add_argument("--measure", type=Path, nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(read(arguments.measure)))
        return 0
    about_machine, found = machine(), {}
    for gigabytes, times in [*((size, 1) for size in arguments.gigabytes), (SMALL_GIGABYTES, arguments.slices)]:
        name = f"{gigabytes:g} GB" if times == 1 else f"{times} slices of {gigabytes:g} GB"
        found[name] = point = measured(gigabytes, times)
        cpu, peak = point["cpu_seconds"], point["peak_rss_bytes"] / MIB
        print(f"{name:22} {point['rows']:11,} rows {cpu:7.1f} CPU s {peak:5.0f} MiB", flush=True)
    peaks = [point["peak_rss_bytes"] for point in found.values()]
    mean = statistics.mean(peaks)
    spread = max(max(peaks) / mean - 1, 1 - min(peaks) / mean)
    print(f"mean {mean / MIB:.0f} MiB; farthest from it {spread:.0%}, asked {SPREAD_ASKED:.0%}")
    figures = {"is_within": max(peaks) <= ASKED, "spread": spread, "is_flat": spread <= SPREAD_ASKED}
    keep_report("read-memory", about_machine, {"points": found, "asked_bytes": ASKED, **figures})
    return 0


def measured(gigabytes: float, times: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
        write_slice(Path(folder, "slice"), of_gigabytes(gigabytes), with_runs=False)
        slices = [str(Path(folder, "slice"))] * times
        _, printed = measure([sys.executable, "-c", MEASURED, "--measure", *slices])
    found: dict[str, Any] = json.loads(printed)
    return found


def read(slices: list[Path]) -> dict[str, Any]:
    def work() -> int:
        rows = 0
        for folder in slices:
            spec = operation_spec(SliceFiles.open(folder), verify=False, memory_bytes=MEMORY_BYTES)
            with open_slice(LocalStorage(), spec.slice) as merged:
                rows += sum(batch.num_rows for batch in merged.batches())
        return rows

    cost, rows = watched(work)
    return asdict(cost) | {"rows": rows, "pool": pa.default_memory_pool().backend_name}


if __name__ == "__main__":
    sys.exit(main())
