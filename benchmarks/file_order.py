"""`python -m benchmarks.file_order`: the keys of a sorted base file read, as `table convert` reads those of each.

The slice is `lsm-8-runs` of `make bench`: 2 M base rows of 15 columns. Each is done `--times`, the best is kept, in one
process on one core.

Touches: a temporary folder, some GB; writes `benchmarks/results/file-order-<time>.json`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure import keep_report, machine
from benchmarks.merge.by_lakeward import operation_spec
from benchmarks.merge.files import write_slice
from benchmarks.merge.shape import SHAPES
from benchmarks.merge.watched import watched
from lakeward.engine.task.order_check import OrderCheck, check_order
from lakeward.storage.local import LocalStorage


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.file_order", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of all rows; 0.01 takes seconds")
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    shape = SHAPES["lsm-8-runs"].scaled(arguments.scale)
    storage = LocalStorage()
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
        files = write_slice(Path(folder) / "slice", shape, with_runs=False)
        slice_input = operation_spec(files, verify=False).slice
        assert slice_input.base_file is not None
        check = OrderCheck(slice_input.base_path, slice_input.base_file)
        size = (Path(slice_input.base_path) / slice_input.base_file).stat().st_size
        best = _best(lambda: check_order(storage, check, 0), arguments.times)
        assert best.pop("result").is_sorted
        print(f"keys of {shape.base_rows:,} rows, a file of {size:,} bytes: {best}")
        keep_report("file-order", machine(), {"workload": asdict(shape), "file_bytes": size, "keys": best})
    return 0


def _best(work: Callable[[], object], times: int) -> dict[str, Any]:
    done = (watched(work) for _ in range(times))
    return min((asdict(cost) | {"result": result} for cost, result in done), key=lambda got: float(got["seconds"]))


if __name__ == "__main__":
    raise SystemExit(main())
