"""What a clean costs: its plan over 100,000 file groups, and all of it beside Hudi's on a table of 10,000 files.

    python -m benchmarks.clean [--groups N] [--beside-hudi]

For the plan the table exists only as names and sizes: five slices a group, each a base file with a log, 1,000,000 files
in all; some groups are pinned or replaced. Bounds: 10 seconds of CPU for the plan, 500 MB for the whole process, table
included. With `--beside-hudi` instead: a table of Hudi's to which 10 commits of 1,000 file groups were added, in 100
partitions, without a metadata table; `lakeward clean` on one copy, Hudi's cleaner on another, both keeping one commit.
They must delete the same files. Prints JSON and keeps it in `results`; exits 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, replace
from datetime import UTC
from pathlib import Path

from benchmarks.measure import machine, measure, write_report
from lakeward.cli.services.clean_view import clean_as_json
from lakeward.format.file_name import LogFileName
from lakeward.format.timeline.clean_plan import write_clean_plan
from lakeward.format.timeline.commit_metadata import WriteStat, read_commit_metadata, write_commit_metadata
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import READER_WINDOW_SECONDS, CleanPolicy
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, LogFile
from lakeward.table.snapshot import TableSnapshot
from tests.synthetic_table import TOKEN, completed, minute, snapshot_of

SECONDS_MAX = 10.0
RSS_MB_MAX = 500.0

COMMITS = 50
SLICES = 5
PARTITIONS = 1000


def synthetic_table(groups: int) -> TableSnapshot:
    minutes = [minute(number) for number in range(COMMITS * 10)]
    instants = [instant for number in range(COMMITS) for instant in completed(minutes[number * 10], "commit")]
    instants += [instant for number in range(COMMITS) for instant in completed(minutes[number * 10 + 5], "deltacommit")]
    found = [_group(index, minutes) for index in range(groups)]
    replaced = {(group.partition_path, group.file_id): minutes[10 * (COMMITS - 5)] for group in found[::50]}
    return snapshot_of(
        [group for index, group in enumerate(found) if index % 50],
        instants,
        replaced=replaced,
        replaced_groups=tuple(found[::50]),
        savepointed={minutes[20]: frozenset(path for group in found[::20] for path in _paths(group.slices[-1]))},
    )


def _group(index: int, minutes: list[str]) -> FileGroup:
    partition, file_id = f"day={index % PARTITIONS:04}", f"{index:08x}-0"
    slices = []
    for number in range(SLICES):
        at = (index * 7 + number * COMMITS // SLICES) % COMMITS
        slices.append(_slice(partition, file_id, minutes[at * 10], minutes[at * 10 + 5]))
    slices.sort(key=lambda each: each.base_instant, reverse=True)
    return FileGroup(partition, file_id, tuple(slices))


def _slice(partition: str, file_id: str, at: str, log_at: str) -> FileSlice:
    name, log = f"{file_id}_{TOKEN}_{at}.parquet", LogFileName(file_id, log_at, 1, TOKEN)
    base = BaseFile(file_id, at, name, partition, 1_000_000, TOKEN)
    return FileSlice(partition, file_id, at, base, (LogFile(log, partition, 1_000),))


def _paths(slice_: FileSlice) -> list[str]:
    assert slice_.base_file is not None
    return [slice_.base_file.path, *(log.path for log in slice_.log_files)]


def _now(snapshot: TableSnapshot) -> float:
    latest = snapshot.timeline.latest_time
    assert latest is not None
    return parse_instant_time(latest, UTC) / 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--beside-hudi", action="store_true")
    arguments = parser.parse_args()
    if arguments.beside_hudi:
        return clean_beside_hudi()

    before = machine()
    snapshot = synthetic_table(arguments.groups)
    table_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    started, cpu = time.perf_counter(), time.process_time()
    outcome = plan_clean(snapshot, CleanPolicy(), now=_now(snapshot), reader_window=READER_WINDOW_SECONDS)
    plan = outcome.plan({})
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    started = time.perf_counter()
    plan_bytes = len(write_clean_plan(plan, root="file:/table"))
    write_seconds = time.perf_counter() - started
    started = time.perf_counter()
    document = clean_as_json(outcome)
    json_seconds = time.perf_counter() - started
    within = cpu_seconds <= SECONDS_MAX and rss_mb <= RSS_MB_MAX
    write_report(
        "clean-plan",
        before,
        {
            "file_groups": arguments.groups,
            "files": arguments.groups * SLICES * 2,
            "files_dead": document["files"],
            "plan_seconds": round(seconds, 3),
            "plan_cpu_seconds": round(cpu_seconds, 3),
            "plan_seconds_max": SECONDS_MAX,
            "table_rss_mb": round(table_mb, 1),
            "peak_rss_mb": round(rss_mb, 1),
            "peak_rss_mb_max": RSS_MB_MAX,
            "write_plan_seconds": round(write_seconds, 3),
            "plan_bytes": plan_bytes,
            "dry_run_json_seconds": round(json_seconds, 3),
            "within_bounds": within,
        },
    )
    return 0 if within else 1


# ------------------------------------------------------------------------------------------------ beside Hudi

HUDI_COMMITS, HUDI_GROUPS, HUDI_PARTITIONS = 10, 1000, 100


def clean_beside_hudi() -> int:
    before = machine()
    with tempfile.TemporaryDirectory(prefix="bench-clean-") as folder:
        made = Path(folder) / "made"
        measure([sys.executable, "-m", "benchmarks.hudi_clean", "make", str(made)])
        _add_commits(made)
        own, hudis = (Path(shutil.copytree(made, Path(folder) / name)) for name in ("own", "hudis"))
        command = Path(sys.executable).with_name("lakeward")
        given = ("--retain", "1", "--reader-window", "0", "--writers", "stopped", "--json")
        by_us, printed = measure([str(command), "clean", str(own), *given])
        by_hudi, seconds = measure([sys.executable, "-m", "benchmarks.hudi_clean", "clean", str(hudis)])
        everything, left = _data_files(made), _data_files(own)
        assert left == _data_files(hudis), "both delete the same"
    (cleaned,) = json.loads(printed)["cleans"]
    write_report(
        "clean",
        before,
        {
            "files": len(everything),
            "files_deleted": len(everything - left),
            "lakeward": {"clean_seconds": round(cleaned["seconds"], 3), **asdict(by_us)},
            "hudi": {"clean_seconds": float(seconds.splitlines()[-1]), **asdict(by_hudi)},
        },
    )
    return 0


def _add_commits(table: Path) -> None:
    """Commits that rewrite every group, with files of a few bytes, which no cleaner opens."""
    timeline = table / ".hoodie" / "timeline"
    (commit,) = timeline.glob("*_*.commit")
    written = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2)
    first = int(commit.name.partition("_")[2].partition(".")[0])
    partitions = [f"day={number:03}" for number in range(HUDI_PARTITIONS)]
    for partition in partitions:
        shutil.copytree(table / "p", table / partition, ignore=shutil.ignore_patterns("*.parquet", ".*.crc"))
    for number in range(HUDI_COMMITS):
        at, done = str(first + 20 * number + 10), str(first + 20 * number + 20)
        stats: dict[str, list[WriteStat]] = {}
        for group in range(HUDI_GROUPS):
            partition, file_id = partitions[group % HUDI_PARTITIONS], f"{group:08x}-0000-0000-0000-000000000000-0"
            path = f"{partition}/{file_id}_0-0-0_{at}.parquet"
            (table / path).write_bytes(b"PAR1")
            stat = WriteStat(file_id=file_id, path=path, partition_path=partition, file_size_in_bytes=4, num_writes=1)
            stats.setdefault(partition, []).append(stat)
        metadata = replace(written, partition_to_write_stats={path: tuple(each) for path, each in stats.items()})
        (timeline / f"{at}.commit.requested").touch()
        (timeline / f"{at}.inflight").touch()
        (timeline / f"{at}_{done}.commit").write_bytes(write_commit_metadata(metadata))


def _data_files(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.glob("*/*.parquet")}


if __name__ == "__main__":
    sys.exit(main())
