"""The writer of `make run`: real Hudi that adds to a merge-on-read table every few seconds until it is stopped.

It writes like a table's owner who lets another service compact: no compaction of its own, the file-system lock
shared, optimistic concurrency control, failed writes cleaned up lazily, the metadata table on. It prints one line for
each write, so that its caller can follow.

    python -m deploy.run.writer TABLE SCRATCH [--every SECONDS]

Touches: the table; SCRATCH, where Spark leaves its own files and the log of Hudi's JVM; standard output.
Keeps:   a write that was begun is finished before it stops (SIGTERM and SIGINT).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

from tests.hudi.spark import HudiMissing, start_spark
from tests.hudi.table import HudiTable, TableShape

HUDI_CANNOT_BE_HAD = 69

FIRST_ROWS = 6_000
ROWS_A_WRITE = 300

LETS_OTHERS_COMPACT = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
    # A write that was under way while the logs of its file group were merged is done again.
    "hoodie.write.num.retries.on.conflict.failures": "3",
    "hoodie.metadata.enable": "true",
    # Files that no reader needs any more are removed by Hudi itself, as on any table.
    "hoodie.clean.automatic": "true",
    "hoodie.archive.automatic": "true",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="deploy.run.writer", description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--every", type=float, default=4.0, metavar="SECONDS")
    arguments = parser.parse_args()

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    # The JVM inherits our output and is chatty; only our own lines go to our caller.
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    with (arguments.scratch / "hudi.log").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        spark = start_spark(scratch=arguments.scratch, memory="1g")
    except HudiMissing as missing:
        print(missing, file=lines)
        return HUDI_CANNOT_BE_HAD
    try:
        table = HudiTable(
            spark,
            arguments.table,
            TableShape(
                name="trips",
                key_fields="trip",
                partition_fields="city",
                hive_style=True,
                ordering_fields="updated",
                options={"hoodie.insert.shuffle.parallelism": "1"} | LETS_OTHERS_COMPACT,
            ),
        )
        step = 0
        while not stop.is_set():
            begin = time.monotonic()
            table.write(spark.sql(rows_of(step)), "upsert" if step else "insert")
            seconds = time.monotonic() - begin
            print(f"{ROWS_A_WRITE if step else FIRST_ROWS} rows written in {seconds:.1f} s", file=lines)
            step += 1
            stop.wait(max(0.0, arguments.every - seconds))
    finally:
        spark.stop()
    return 0


def rows_of(step: int) -> str:
    """Every trip once, then changes that hit the newest trips most, as they do in life."""
    columns = "concat('trip-', lpad(id, 9, '0')) AS trip, concat('rider ', id % 7919) AS rider"
    columns += ", id * 7919 % 9000 / 100.0 AS fare"
    columns += f", '{'requested' if step == 0 else f'step {step}'}' AS state, {step}L AS updated"
    columns += ", element_at(array('berlin', 'nairobi', 'lima'), CAST(1 + id % 3 AS INT)) AS city"
    if step == 0:
        return f"SELECT {columns} FROM range({FIRST_ROWS})"
    changed = f"SELECT CAST({FIRST_ROWS - 1} * (1 - pow(rand({step}), 4)) AS BIGINT) AS id FROM range({ROWS_A_WRITE})"
    return f"SELECT DISTINCT {columns} FROM ({changed})"


if __name__ == "__main__":
    sys.exit(main())
