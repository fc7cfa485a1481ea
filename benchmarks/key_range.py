"""`python -m benchmarks.key_range`: a slice of sorted files, read whole and read for ranges of its keys.

The slice is `lsm-8-runs` of `make bench`: 2 M base rows and 7 native logs of 286,000, merged by the ranks of their
files. Each read is done `--times`, the best is kept, in one process on one core; the rows of a range are held against
those that the whole read has there. The same again for each `--row-group-rows`: what smaller row groups save of a
range, and cost in bytes and of a read of all.

Touches: a temporary folder, some GB; writes `benchmarks/results/key-range-<time>.json`.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import keep_report, machine
from benchmarks.merge.by_lakeward import operation_spec
from benchmarks.merge.files import SliceFiles, write_slice
from benchmarks.merge.rows import make_keys
from benchmarks.merge.shape import SHAPES, Shape
from benchmarks.merge.watched import watched
from lakeward.format.log.native_log import plain_rows
from lakeward.format.parquet import base_file
from lakeward.merge.digest import Digest
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.read.file_slice import open_slice
from lakeward.read.query.slice_query import EVERYTHING, SliceQuery
from lakeward.read.slice_input import SliceInput
from lakeward.storage.local import LocalStorage
from tests.read.conditions import Between, wanted

SHARES = (1.0, 0.1, 0.01)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.key_range", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of all rows; 0.01 takes seconds")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--row-group-rows", type=int, nargs="+", default=[base_file.ROW_GROUP_ROWS, 15_360])
    arguments = parser.parse_args()
    shape = SHAPES["lsm-8-runs"].scaled(arguments.scale)
    reads: dict[int, dict[str, Any]] = {}
    for rows in arguments.row_group_rows:
        with (
            tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder,
            patch.object(base_file, "ROW_GROUP_ROWS", rows),
            patch.object(plain_rows, "ROW_GROUP_ROWS", rows),
        ):
            reads[rows] = read_ranges(write_slice(Path(folder) / "slice", shape, with_runs=False), shape, arguments)
    keep_report("key-range", machine(), {"workload": asdict(shape), "reads_by_row_group_rows": reads})
    return 0


def read_ranges(files: SliceFiles, shape: Shape, arguments: argparse.Namespace) -> dict[str, Any]:
    slice_input = operation_spec(files, verify=False).slice
    ranges = {share: range_of(shape.base_rows, share) for share in SHARES}
    expected = {share: whole_digest(slice_input, each) for share, each in ranges.items()}
    reads: dict[str, Any] = {}
    for share, each in ranges.items():
        best = min((read(slice_input, each) for _ in range(arguments.times)), key=lambda got: float(got["cpu_seconds"]))
        assert best.pop("digest") == expected[share], "a range has other rows than the whole"
        reads[f"{share:.0%}"] = best
        print(f"{share:>5.0%} of the keys: {best}")
    return reads


def range_of(base_rows: int, share: float) -> Between | None:
    """The middle of the keys; None for all of them."""
    if share == 1.0:
        return None
    middle, reach = base_rows, int(base_rows * share)
    low, high = make_keys(np.array([middle - reach, middle + reach - 1], dtype=np.int64)).to_pylist()
    return Between(RECORD_KEY_FIELD, low, high)


def whole_digest(slice_input: SliceInput, chosen: Between | None) -> str:
    digest = Digest()
    with open_slice(LocalStorage(), slice_input) as merged:
        for batch in merged.batches():
            digest.update(batch if chosen is None else within(batch, chosen))
    return digest.hexdigest


def within(batch: pa.RecordBatch, chosen: Between) -> pa.RecordBatch:
    keys = batch.column(RECORD_KEY_FIELD)
    return batch.filter(pc.and_(pc.greater_equal(keys, chosen.low), pc.less_equal(keys, chosen.high)))


def read(slice_input: SliceInput, chosen: Between | None) -> dict[str, Any]:
    digest = Digest()
    query = EVERYTHING if chosen is None else SliceQuery(predicate=wanted(chosen))

    def work() -> dict[str, int]:
        with open_slice(LocalStorage(), slice_input, query=query) as merged:
            for batch in merged.batches():
                digest.update(batch)
        return asdict(merged.meter)

    cost, meter = watched(work)
    return asdict(cost) | meter | {"rows_out": digest.rows, "digest": digest.hexdigest}


if __name__ == "__main__":
    raise SystemExit(main())
