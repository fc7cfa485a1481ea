"""`python -m benchmarks.record_index_writes`: building a record index, and the manifests of commits to one.

*Build* is `lakeward index build --type record` of a table of Hudi's with keys of 36 characters drawn at random, 40 base
files, by the command with its processes; and of one with 40 rows, whose CPU is taken off: the start. *Commits* are
manifests of an index with a base file and up to eight deltas in each of its buckets. A commit adds a delta to ten
buckets, and buckets with eight are merged behind it: bytes that are written, and what is read to open the index.

Touches: a temporary folder, 2 GB; starts Spark to write tables; writes a file `record-index-writes-<time>.json` below
         `benchmarks/results`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import keep_report, machine, measure
from benchmarks.record_index_peers import write_table
from lakeward.index.manifest_form import list_manifests, manifest_path
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.record_file import FileKind, IndexGroup, RecordFile
from lakeward.index.record.record_manifest import RECORD_FORM, RecordManifest
from lakeward.protocol.index.manifests import publish
from lakeward.storage.local import LocalStorage
from lakeward.storage.metered import MeteredStorage
from tests.hudi.spark import start_spark

_START_ROWS = 40
_DELTAS, _TOUCHED = 8, 10
_STORAGE = LocalStorage()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.record_index_writes", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument(
        "--table", type=Path, help="a table that is there, of so many rows; its record index is built again"
    )
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--commits", type=int, default=256)
    parser.add_argument("--no-build", action="store_true", help="the manifests alone")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
        if not arguments.no_build:
            figures["build"] = _built(Path(folder), arguments.table, arguments.rows, arguments.times)
            print(f"build: {figures['build']}")
        for buckets in (250, 1_000):
            name = f"commits, {buckets:,} buckets of {_DELTAS} deltas"
            figures[name] = _committed(Path(folder) / f"{buckets}", buckets, arguments.commits)
            print(f"{name}: {figures[name]}")
    keep_report("record-index-writes", machine(), figures)
    return 0


def _built(folder: Path, table: Path | None, rows: int, times: int) -> dict[str, Any]:
    small = folder / "small"
    spark = start_spark(scratch=folder / "spark", memory="4g", at_full_speed=True)
    write_table(spark, small, _START_ROWS, indexes={})
    if table is None:
        table = folder / "table"
        write_table(spark, table, rows, indexes={})
    spark.stop()
    start = min((_build(small) for _ in range(times)), key=lambda cost: cost["cpu_seconds"])
    costs = [_build(table) for _ in range(times)]
    best = min(costs, key=lambda cost: cost["seconds"])
    size = sum(path.stat().st_size for path in (table / ".hoodie/.lakeward/index").rglob("*.hfile"))
    return {
        "rows": rows,
        "best": best,
        "all seconds": [cost["seconds"] for cost in costs],
        "start": start,
        "cpu_us_per_key_behind_the_start": round(1e6 * (best["cpu_seconds"] - start["cpu_seconds"]) / rows, 2),
        "bytes_per_entry": round(size / rows, 1),
    }


def _build(table: Path) -> dict[str, Any]:
    shutil.rmtree(table / ".hoodie/.lakeward/index", ignore_errors=True)
    command = [sys.executable, "-m", "lakeward.cli.main", "index", "build", str(table), "--type", "record"]
    cost, _ = measure(command)
    return {
        "seconds": round(cost.wall_seconds, 2),
        "cpu_seconds": round(cost.cpu_seconds, 2),
        "peak_mb_of_a_process": round(cost.peak_rss_of_one_bytes / 1e6),
    }


def _committed(folder: Path, buckets: int, commits: int) -> dict[str, Any]:
    chance = random.Random(19)
    folder.mkdir()
    manifest = RecordManifest(0, KeyScope.GLOBAL).with_first_group(buckets)
    files = [_file(bucket, 0, FileKind.BASE) for bucket in range(buckets)]
    files += [_file(bucket, 1 + number, FileKind.DELTA) for bucket in range(buckets) for number in range(_DELTAS)]
    manifest = replace(manifest.with_build("0", ()), files=tuple(files))
    whole = RECORD_FORM.encode(manifest)
    Path(manifest_path(str(folder), 0)).write_bytes(whole)
    began = time.process_time()
    for number in range(10, 10 + commits):
        touched = chance.sample(range(buckets), _TOUCHED)
        manifest = _published(folder, manifest, partial(_with_commit, number=number, touched=touched))
        manifest = _published(folder, manifest, partial(_tidied, number=number, touched=touched))
    seconds = time.process_time() - began
    sizes = [status.size for number, status in list_manifests(_STORAGE, str(folder)).items() if number]
    reads = []
    for number in range(max(0, manifest.number - 64), manifest.number + 1):
        read = list[int]()
        RECORD_FORM.read(MeteredStorage(_STORAGE, on_read=read.append), str(folder), number)
        reads.append(len(read))
    return {
        "bytes of a manifest that says all": len(whole),
        "bytes a commit": round(sum(sizes) / commits),
        "median of a manifest": round(statistics.median(sizes)),
        "manifests": len(sizes),
        "read to open it, mean and most": [round(statistics.mean(reads), 1), max(reads)],
        "cpu_ms a commit": round(1000 * seconds / commits, 1),
    }


def _published(
    folder: Path, manifest: RecordManifest, change: Callable[[RecordManifest], RecordManifest]
) -> RecordManifest:
    return publish(_STORAGE, str(folder), RECORD_FORM, manifest, change, by="b")


def _with_commit(manifest: RecordManifest, number: int, touched: Sequence[int]) -> RecordManifest:
    added = [_file(bucket, number, FileKind.DELTA) for bucket in touched]
    return manifest.with_commit(str(number), str(number), added)


def _tidied(manifest: RecordManifest, number: int, touched: Sequence[int]) -> RecordManifest:
    """The buckets that were touched are merged, and the commit before the last sixteen is settled."""
    old = str(number - 16)
    if old in manifest.commits:
        manifest = manifest.with_settled({old: old})
    merged = [file for file in manifest.files if file.of.bucket in touched]
    full = {bucket for bucket in touched if sum(file.of.bucket == bucket for file in merged) > _DELTAS}
    into = [_file(bucket, number, FileKind.BASE) for bucket in sorted(full)]
    return manifest.with_merged([file for file in merged if file.of.bucket in full], into) if full else manifest


def _file(bucket: int, number: int, kind: FileKind) -> RecordFile:
    path = f"data/0-{bucket}-0_{number}-{bucket:07x}{kind.value[0]}_2026113019513{number:04}.hfile"
    return RecordFile(IndexGroup(0, bucket, 0), kind, path, 65_536, 3_000, 0, str(number), "1")


if __name__ == "__main__":
    raise SystemExit(main())
