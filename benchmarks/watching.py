"""What it costs to watch many tables: idle CPU and memory, a poll after a commit, and a plan after it.

    python -m benchmarks.watching [--tables N] [--groups N] [--commits N] [--seconds N]

The tables are on disk as a service sees them: real timeline files, base files of which only the footer is real, logs
without content. `lakeward run` finds and plans them all, in shadow, so that nothing is compacted; then nothing happens
for a while, each table being polled every 10 seconds. Then, in a process that has the watcher and the planner only,
commits of one file group arrive at random tables.

    idle CPU        of one core, of the whole daemon, while nothing changes
    memory          resident, of the whole daemon, after the idle time
    refresh         from the poll that finds a commit to the table being up to date
    commit to plan  from that poll to the plan; how long a commit waits for the poll is the interval

Bounds: 1 % of a core, 250 MB, 20 ms at p99, 2 s at p99. Prints JSON and writes it to `benchmarks/results`; exits 1 when
a bound is broken.

Touches: a temporary folder (names without bytes, some hundred MB of inodes), `benchmarks/results/watching-<time>.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measure import machine, write_report
from benchmarks.watching_process import INTERVAL_SECONDS
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.instant import State, format_instant_time, instant_file_name

CPU_PERCENT_MAX = 1.0
RSS_MB_MAX = 250.0
REFRESH_MS_MAX = 20.0
PLAN_SECONDS_MAX = 2.0

DAEMON_START_SECONDS = 180.0
SETTLE_SECONDS = 130.0
"""Until what was planned is in the store, and a folder that does not change is known to be calm."""
DAEMON_CONFIG = """
[service]
state_folder = "{own}/state"
listen = "127.0.0.1:0"
log_level = "debug"

[state]
url = "sqlite:///{own}/lakeward.db"

[discovery]
roots = ["{tables}"]

[defaults]
interval = "{interval:.0f}s"
"""

PARTITIONS = 10
COMMITS = 30
LOGS_PER_GROUP = 4
FOOTER = b"\x00" + (1).to_bytes(4, "little") + b"PAR1"
COLUMNS = ("id", "ts", *(f"c{number}" for number in range(30)))
SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": name, "type": "long"} for name in COLUMNS]})
PROPERTIES = """hoodie.table.name=t
hoodie.table.checksum=498511606
hoodie.table.version=9
hoodie.timeline.layout.version=2
hoodie.table.type=MERGE_ON_READ
hoodie.table.recordkey.fields=id
hoodie.table.ordering.fields=ts
hoodie.table.timeline.timezone=UTC
"""


class WrittenTable:
    """One table as writers leave it."""

    def __init__(self, base: Path, groups: int, seed: int) -> None:
        self.base = base
        self._chance = random.Random(seed)
        self._timeline = base / ".hoodie" / "timeline"
        self._timeline.mkdir(parents=True)
        (base / ".hoodie" / "hoodie.properties").write_text(PROPERTIES)
        self._log = base / ".hoodie" / "log"
        self._log.write_bytes(b"x" * 1000)
        footer = base / ".hoodie" / "base"
        footer.write_bytes(FOOTER.rjust(1000, b"x"))
        ids = random.Random(seed)
        self.groups = [(f"day={n % PARTITIONS:02}", f"{ids.getrandbits(128):032x}-0") for n in range(groups)]
        self._clock_ms = int(time.time() * 1000) - 3_600_000
        instant = self._now()
        stats: dict[str, list[WriteStat]] = {}
        for partition, file_id in self.groups:
            folder = base / partition
            if partition not in stats:
                folder.mkdir()
                (folder / ".hoodie_partition_metadata").touch()
            name = f"{file_id}_0-1-0_{instant}.parquet"
            os.link(footer, folder / name)
            stats.setdefault(partition, []).append(_stat(partition, file_id, name, 1000))
        self._complete(instant, "commit", "BULK_INSERT", stats)
        for _ in range(COMMITS):
            self.commit(self._chance.sample(self.groups, len(self.groups) * LOGS_PER_GROUP // COMMITS))
            self._clean()

    def commit(self, groups: Sequence[tuple[str, str]]) -> None:
        instant = self._now()
        stats: dict[str, list[WriteStat]] = {}
        for partition, file_id in groups:
            name = f".{file_id}_{instant}.log.1_0-1-0"
            os.link(self._log, self.base / partition / name)
            stats.setdefault(partition, []).append(_stat(partition, file_id, name, 1000))
        self._complete(instant, "deltacommit", "UPSERT", stats)

    def commit_one(self) -> None:
        self.commit([self._chance.choice(self.groups)])

    def _complete(self, instant: str, action: str, operation: str, stats: dict[str, list[WriteStat]]) -> None:
        metadata = CommitMetadata(
            {path: tuple(each) for path, each in stats.items()},
            extra_metadata={"schema": SCHEMA},
            operation_type=operation,
        )
        (self._timeline / f"{instant}.{action}.requested").touch()
        (self._timeline / instant_file_name(instant, action, State.INFLIGHT, 2)).touch()
        (self._timeline / f"{instant}_{self._now()}.{action}").write_bytes(write_commit_metadata(metadata))

    def _clean(self) -> None:
        instant = self._now()
        for name in (f"{instant}.clean.requested", f"{instant}.clean.inflight", f"{instant}_{self._now()}.clean"):
            (self._timeline / name).write_bytes(b"x")

    def _now(self) -> str:
        self._clock_ms += 1000
        return format_instant_time(self._clock_ms, UTC)


def _stat(partition: str, file_id: str, name: str, size: int) -> WriteStat:
    return WriteStat(
        file_id=file_id,
        path=f"{partition}/{name}",
        partition_path=partition,
        num_writes=100,
        file_size_in_bytes=size,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began = machine()
    with tempfile.TemporaryDirectory(prefix="watching-") as folder:
        tables = [
            WrittenTable(Path(folder, f"table-{number:03}"), arguments.groups, arguments.seed + number)
            for number in range(arguments.tables)
        ]
        daemon = idle_daemon(Path(folder), len(tables), arguments.seconds)
        figures = daemon | watch_in_a_process_of_its_own(tables, arguments)
    within = (
        figures["idle_cpu_percent"] <= CPU_PERCENT_MAX
        and figures["rss_mb"] <= RSS_MB_MAX
        and figures["refresh_ms"]["p99"] <= REFRESH_MS_MAX
        and figures["commit_to_plan_seconds"]["p99"] <= PLAN_SECONDS_MAX
    )
    report: dict[str, Any] = {
        "tables": arguments.tables,
        "file_groups": arguments.tables * arguments.groups,
        "log_files": arguments.tables * arguments.groups * LOGS_PER_GROUP,
        "interval_seconds": INTERVAL_SECONDS,
        "seed": arguments.seed,
        **figures,
        "bounds": {
            "idle_cpu_percent": CPU_PERCENT_MAX,
            "rss_mb": RSS_MB_MAX,
            "refresh_ms_p99": REFRESH_MS_MAX,
            "commit_to_plan_seconds_p99": PLAN_SECONDS_MAX,
        },
        "within_bounds": within,
    }
    write_report("watching", began, report)
    return 0 if within else 1


def idle_daemon(folder: Path, tables: int, seconds: float) -> dict[str, Any]:
    """What `lakeward run` costs while it watches the tables below `folder` and nothing happens."""
    with tempfile.TemporaryDirectory(prefix="watching-daemon-") as own:
        config = Path(own, "lakeward.toml")
        config.write_text(DAEMON_CONFIG.format(tables=folder, own=own, interval=INTERVAL_SECONDS))
        log = Path(own, "log")
        command = [sys.executable, "-m", "lakeward.cli.main", "run", "--config", str(config)]
        with log.open("w") as lines, subprocess.Popen(command, stdout=lines, stderr=lines) as child:
            try:
                return _measure_daemon(child, log, tables, seconds)
            finally:
                child.terminate()


def _measure_daemon(child: subprocess.Popen[bytes], log: Path, tables: int, seconds: float) -> dict[str, Any]:
    process = psutil.Process(child.pid)
    began = time.monotonic()
    while log.read_text().count('"event": "planned"') < tables:
        assert child.poll() is None, log.read_text()
        assert time.monotonic() - began < DAEMON_START_SECONDS, "it did not plan them all"
        time.sleep(0.5)
    planned = time.monotonic() - began
    time.sleep(SETTLE_SECONDS)
    times, at = process.cpu_times(), time.monotonic()
    time.sleep(seconds)
    after, passed = process.cpu_times(), time.monotonic() - at
    used = after.user + after.system - times.user - times.system
    return {
        "idle_cpu_percent": round(100 * used / passed, 2),
        "rss_mb": round(process.memory_info().rss / 1_000_000, 1),
        "all_planned_seconds": round(planned, 1),
    }


def watch_in_a_process_of_its_own(tables: Sequence[WrittenTable], arguments: argparse.Namespace) -> dict[str, Any]:
    """The child says when it is ready for a commit, and what it measured in the end; one line each."""
    command = [sys.executable, "-m", "benchmarks.watching_process"]
    chance = random.Random(arguments.seed)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps([str(table.base) for table in tables]) + "\n")
        child.stdin.flush()
        assert child.stdout.readline() == "ready\n", "the watcher died"
        for _ in range(arguments.commits):
            table = chance.choice(tables)
            table.commit_one()
            child.stdin.write(f"{table.base}\n")
            child.stdin.flush()
            assert child.stdout.readline() == "planned\n", "the watcher died"
        child.stdin.close()
        figures: dict[str, Any] = json.loads(child.stdout.read())
    return figures


if __name__ == "__main__":
    sys.exit(main())
