"""What it costs to hold a table's files against its commits: one scan with the check, and the check alone.

    python -m benchmarks.damage_check [--groups N]

The table is on disk as `benchmarks/watching.py` makes it: base files of which only the footer is real, four logs for
each file group, thirty commits. The CPU is measured of its first scan, of reading what its commits wrote, and of
the comparison with the listing; then of a second scan that remembers the first, as the one under the lock does.

Touches: a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.measure import machine
from benchmarks.watching import WrittenTable
from lakeward.base.clock import SystemClock
from lakeward.storage.local import LocalStorage
from lakeward.table.file_system_view import sort_files
from lakeward.table.partition import find_partitions
from lakeward.table.snapshot import SnapshotCache, TableSnapshot, take_snapshot
from lakeward.table.timeline.timeline_reader import TimelineReader
from lakeward.table.written_files import find_damage

T = TypeVar("T")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder) / "t", arguments.groups), indent=2))
    return 0


def measure(base: Path, groups: int) -> dict[str, object]:
    WrittenTable(base, groups, seed=1)
    storage, cache = LocalStorage(), SnapshotCache()

    def scan() -> TableSnapshot:
        return take_snapshot(storage, str(base), clock=SystemClock(), cache=cache)

    snapshot, first_seconds = _timed(scan)
    _, second_seconds = _timed(scan)
    assert not snapshot.damage, "what the benchmark wrote is sound"
    reader = TimelineReader(storage, str(base), snapshot.config, snapshot.timeline)
    written, read_seconds = _timed(lambda: list(reader.written_files()))
    found = find_partitions(storage, str(base), snapshot.timeline, list_nested=tuple).partitions
    files = [sort_files(partition.path, partition.files) for partition in found]
    _, compare_seconds = _timed(lambda: find_damage(files, written, snapshot.timeline))
    stats = sum(len(sizes) for each in written for sizes in each.files.values())
    return {
        "benchmark": "damage_check",
        "file_groups": groups,
        "commits": len(written),
        "write_stats": stats,
        "first_scan_cpu_seconds": round(first_seconds, 3),
        "of_it_reading_commits_cpu_seconds": round(read_seconds, 3),
        "of_it_comparing_cpu_seconds": round(compare_seconds, 3),
        "microseconds_per_write_stat": round((read_seconds + compare_seconds) / stats * 1e6, 1),
        "second_scan_cpu_seconds": round(second_seconds, 3),
        "machine": machine(),
    }


def _timed(act: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    result = act()
    return result, time.process_time() - started


if __name__ == "__main__":
    sys.exit(main())
