"""A writer process for the soak test: real Hudi that upserts and deletes in three tables until it is asked to stop.

What a step does follows from its number alone, so a step that fails, because the lock could not be had, is simply done
again. A journal says which steps were done; `expected_rows` replays it.

    python -m tests.soak.writer TABLES SCRATCH JOURNAL

Touches: the tables, SCRATCH, JOURNAL.
Keeps:   a step is in the journal only after Hudi said that it was committed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from tests.hudi.spark import start_spark
from tests.hudi.table import HudiTable, TableShape

TABLES = ("orders", "trips", "users")
KEYS = 400
ROWS_A_STEP = 60
DELETES_EVERY = 4
DELETES_A_STEP = 10

OPTIONS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
}

MORE_OPTIONS = {
    "trips": {"hoodie.metadata.enable": "true"},
    "users": {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.index.type": "BLOOM",
        "hoodie.bloom.index.use.metadata": "true",
    },
}
"""One of the tables has the metadata table that Hudi makes by default, one finds its keys by it, one has none."""


def shape_of(table: str) -> TableShape:
    options = OPTIONS | MORE_OPTIONS.get(table, {})
    return TableShape(name="t", key_fields="id", partition_fields="part", ordering_fields="ts", options=options)


def step_of(table: str, number: int) -> tuple[str, list[dict[str, Any]]]:
    """Operation and rows. The first one writes every key that stays; each later one brings some that are deleted once.

    Ordering values grow, so the last write of a key wins. A deleted key does not come back: while its delete is being
    compacted, Hudi may write it twice, which `test_hudi_doubles_a_key_...` shows of Hudi alone.
    """
    if number % DELETES_EVERY == DELETES_EVERY - 1:
        operation, ids = "delete", _mortal(number - 1)
    elif number == 0:
        operation, ids = "insert", range(KEYS)
    else:
        operation = "upsert"
        ids = [*sorted(Random(f"{table}/{number}").sample(range(KEYS), ROWS_A_STEP)), *_mortal(number)]
    return operation, [
        {"id": f"k{id_:05}", "ts": number, "part": f"p{id_ % 2}", "value": f"{table} {number} {id_}"} for id_ in ids
    ]


def _mortal(number: int) -> range:
    return range(KEYS + number * DELETES_A_STEP, KEYS + (number + 1) * DELETES_A_STEP)


def expected_rows(journal: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Maps a table and key to the row that the steps in the journal leave."""
    return {table: states[-1] for table, states in rows_after_each_step(journal).items()}


def rows_after_each_step(journal: Path) -> dict[str, list[dict[str, dict[str, Any]]]]:
    """Maps a table to what its steps in the journal leave, one after the other; no row before the first."""
    states: dict[str, list[dict[str, dict[str, Any]]]] = {table: [{}] for table in TABLES}
    for table, number in _steps(journal):
        states[table].append(rows_after([step_of(table, number)], states[table][-1]))
    return states


def rows_after(
    steps: Iterable[tuple[str, list[dict[str, Any]]]], before: Mapping[str, dict[str, Any]] = MappingProxyType({})
) -> dict[str, dict[str, Any]]:
    """Maps a key to the row that operations with their rows leave."""
    left = dict(before)
    for operation, rows in steps:
        for row in rows:
            if operation == "delete":
                left.pop(row["id"], None)
            else:
                left[row["id"]] = row
    return left


def _steps(journal: Path) -> Iterator[tuple[str, int]]:
    for line in journal.read_text().splitlines():
        entry = json.loads(line)
        yield entry["table"], entry["step"]


def main(root: Path, scratch: Path, journal: Path) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    spark = start_spark(scratch=scratch, memory="1g")
    tables = {name: HudiTable(spark, root / name, shape_of(name)) for name in TABLES}
    with journal.open("a") as done:
        step = 0
        while not stop.is_set() or step == 0:
            for name, table in tables.items():
                operation, rows = step_of(name, step)
                frame = spark.createDataFrame(rows, "id string, ts long, part string, value string")
                while True:
                    try:
                        table.write(frame, operation)
                    except Exception as error:  # the lock was held for too long, or the commit conflicted
                        print(f"step {step} of {name} failed and is done again: {error}"[:500], flush=True)
                        continue
                    break
                done.write(json.dumps({"table": name, "step": step}) + "\n")
                done.flush()
                os.fsync(done.fileno())
            step += 1
    spark.stop()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
