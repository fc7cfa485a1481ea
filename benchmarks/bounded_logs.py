"""Many small bulk inserts into the buckets of one table, with a daemon on it: how many logs a query meets, how large.

Each write appends a log to every bucket. Without a service a query would open as many logs as there were writes; the
daemon merges them meanwhile, and the figure says how far they get. Written by `lakeward.write.write` in this process,
served by `lakeward run` in another one, which share the table by its file-system lock.

In either layout no slice may have more than `LOGS_MAX` at any look, or the run ends with an error.

    python -m benchmarks.bounded_logs [--writes N] [--buckets N] [--rows N] [--layout lsm_tree] [--no-daemon]

The figure is in benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import machine, write_report
from lakeward.base.clock import SystemClock
from lakeward.format.avro.schema_text import schema_text
from lakeward.protocol.lock.file_system_lock import FileSystemLockOptions
from lakeward.protocol.table_birth import create_table
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewTable
from lakeward.table.snapshot import take_snapshot
from lakeward.table.table_version import NEWEST_RELEASED
from lakeward.write import write

LOGS_MAX = 20
"""Four times as many as a log compaction needs (docs/decisions/0145-bounded-for-ever.md)."""

CONFIG = """
[service]
state_folder = "{folder}/state"
listen = "127.0.0.1:0"
[locks]
writers = "share"
[[tables]]
name = "trips"
path = "{table}"
interval = "1s"
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a query of the newest slices meets after so many writes."""

    writes: int
    logs: int
    log_bytes: int
    most: int
    """Logs of the slice that has most."""
    base_files: int

    @property
    def mean_bytes(self) -> int:
        return self.log_bytes // self.logs if self.logs else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounded_logs", description=__doc__)
    parser.add_argument("--writes", type=int, default=200)
    parser.add_argument("--buckets", type=int, default=8)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--layout", choices=("default", "lsm_tree"), default="default", help="lsm_tree: of version 10")
    parser.add_argument("--no-daemon", action="store_true", help="what there would be without a service")
    arguments = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory(prefix="lakeward-bounded-") as name:
        folder = Path(name)
        table = folder / "trips"
        new_table(table, is_lsm_tree=arguments.layout == "lsm_tree")
        begin = time.perf_counter()
        if arguments.no_daemon:
            samples = list(written(table, arguments))
        else:
            with daemon(folder, table):
                samples = list(written(table, arguments))
        seconds = time.perf_counter() - begin
    figures = {
        "writes": arguments.writes,
        "buckets": arguments.buckets,
        "rows_a_write": arguments.rows,
        "layout": arguments.layout,
        "daemon": not arguments.no_daemon,
        "seconds": round(seconds, 1),
        "samples": [
            {"writes": each.writes, "logs": each.logs, "mean_log_bytes": each.mean_bytes, "most_in_a_slice": each.most}
            for each in samples
        ],
    }
    print(figure(samples))
    write_report("bounded-logs", before, figures)
    if not arguments.no_daemon and (most := max(each.most for each in samples)) > LOGS_MAX:
        raise SystemExit(f"{most} logs were in one slice, and no more than {LOGS_MAX} may be.")


def written(table: Path, arguments: argparse.Namespace) -> Iterator[Sample]:
    every = max(1, arguments.writes // 20)
    for number in range(1, arguments.writes + 1):
        write(
            made(number, arguments.rows),
            str(table),
            operation="bulk_insert",
            buckets=arguments.buckets,
            lock=FileSystemLockOptions(),
            retries=5,
        )
        if number % every == 0:
            yield sample(table, number)


def made(number: int, rows: int) -> pa.Table:
    chance = np.random.default_rng(number)
    keys = chance.integers(0, 20 * rows, rows)
    return pa.table(
        {
            "id": pa.array([f"trip-{key:09}" for key in keys]),
            "ts": pa.array(np.full(rows, number, dtype=np.int64)),
            "state": pa.array(np.array(["requested", "riding", "done"])[keys % 3]),
            "fare": pa.array(chance.random(rows)),
        }
    )


def new_table(path: Path, *, is_lsm_tree: bool) -> None:
    create_table(
        LocalStorage(),
        str(path),
        NewTable(
            name="trips",
            schema=schema_text(made(0, 1).schema, "trips"),
            record_key_fields=("id",),
            ordering_fields=("ts",),
            version=10 if is_lsm_tree else NEWEST_RELEASED,
            is_lsm_tree=is_lsm_tree,
        ),
        clock=SystemClock(),
    )


def sample(table: Path, writes: int) -> Sample:
    snapshot = take_snapshot(LocalStorage(), str(table), clock=SystemClock())
    slices = snapshot.latest_slices
    return Sample(
        writes,
        sum(len(each.log_files) for each in slices),
        sum(each.log_bytes for each in slices),
        max(len(each.log_files) for each in slices),
        sum(each.base_file is not None for each in slices),
    )


@contextmanager
def daemon(folder: Path, table: Path) -> Iterator[None]:
    config = folder / "lakeward.toml"
    config.write_text(CONFIG.format(folder=folder, table=table))
    with (folder / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "lakeward.cli.main", "run", "--config", str(config)], stdout=log, stderr=log
        )
        try:
            yield
            if process.poll() is not None:
                raise RuntimeError((folder / "daemon.log").read_text())
        finally:
            process.terminate()
            process.wait(60)


def figure(samples: list[Sample]) -> str:
    """A table in Markdown, with a bar for the logs."""
    most = max(each.logs for each in samples) or 1
    lines = ["| writes | logs that a query meets | | mean size | most in one slice |", "|---|---|---|---|---|"]
    for each in samples:
        bar = "█" * round(30 * each.logs / most)
        lines.append(f"| {each.writes} | {each.logs} | `{bar}` | {each.mean_bytes / 1024:.0f} KiB | {each.most} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
