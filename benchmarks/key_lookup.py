"""What a row by its key costs in an open process, through Hudi's record index, in a table of 10,000 base files.

    python -m benchmarks.key_lookup [--files N] [--rows N] [--runs N]

The table is written by Lakeward: one bulk insert, a base file in each partition, with the record index of the metadata
table, and an upsert that changes a few keys, so that the index has logs. It is opened once; then keys by chance are
asked for, one at a time, with all their columns. The first costs opening the index, too. Bytes are those that are read
through the storage, of the index and of base files.

Goal: a key within 150 ms. On a machine that does other things CPU seconds are the measure.

Touches: a temporary folder.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lakeward
from benchmarks.measure import machine, write_report
from lakeward.index.index_type import IndexType
from lakeward.storage.metered import MeteredStorage
from lakeward.table.new_table import COPY_ON_WRITE, NewIndex, NewIndexes
from tests.write.writing import COLUMNS, new_table, write

UPDATED = 20
GOAL_SECONDS = 0.150


def rows(first: int, last: int, files: int, text: str) -> pa.RecordBatch:
    numbers = np.arange(first, last)
    of_text = [pc.utf8_lpad(pa.array(each).cast(pa.string()), 8, "0") for each in (numbers, numbers % files)]
    columns = [of_text[0], pa.array(np.ones(len(numbers), np.int64)), of_text[1], pa.repeat(text, len(numbers))]
    return pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


def make(base: Path, files: int, number: int) -> None:
    indexes = NewIndexes(finds_keys=NewIndex.METADATA)
    new_table(base, indexes=indexes, table_type=COPY_ON_WRITE)
    write(base, rows(0, number, files, "first"), "bulk_insert", index=IndexType.METADATA)
    write(base, rows(0, UPDATED, files, "second"), index=IndexType.METADATA)


def look_up(base: Path, keys: list[str]) -> list[dict[str, Any]]:
    """What each key took."""
    table = lakeward.Table(str(base))
    metered = MeteredStorage(table._storage)
    table._storage = metered
    found = []
    for key in keys:
        before, files = metered.bytes_read, metered.files_opened
        wall, cpu = time.perf_counter(), time.process_time()
        scan = table.scan(keys=[key])
        assert scan.to_arrow().column("id").to_pylist() == [key]
        cost = {"wall_seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        cost |= {"bytes_read": metered.bytes_read - before, "files_opened": metered.files_opened - files}
        found.append({**cost, "file_groups_read": len(scan.scan.plan.slices)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.key_lookup")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=50)
    given = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory(prefix="key-lookup-") as folder:
        base = Path(folder) / "t"
        make(base, given.files, given.rows)
        chance = random.Random(1)
        keys = [f"{chance.randrange(given.rows):08}" for _ in range(given.runs + 1)]
        first, *others = look_up(base, keys)
    middle = {name: statistics.median(each[name] for each in others) for name in first}
    worst = {name: max(each[name] for each in others) for name in first}
    document = {"table": vars(given), "first": first, "median": middle, "worst": worst}
    for name in ("first", "median", "worst"):
        print(name, document[name])
    write_report("key-lookup", before, document)
    assert middle["cpu_seconds"] <= GOAL_SECONDS, middle


if __name__ == "__main__":
    main()
