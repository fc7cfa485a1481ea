"""Merges of generated rows with the real engine, and what they take: `lakeward calibrate`.

A table of one file group is written for each size, with logs over it, and compacted with a FULL in this process. The
first, small one is not counted: with it what merges is loaded and compiled.

Touches: a folder that the caller gives and takes away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakeward.api.new_table import create_table
from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_number
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.entry import run_operation_at
from lakeward.protocol.lock.lock_choice import stopped_writers_options
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.progress import OnStep
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.entry import write
from lakeward.write.request import FileSizes

SEED = 173
LOGS = 3
UPDATED = 20
"""One row in so many is updated by each log."""
WARM_UP_ROWS = 1_000
ROWS = (50_000, 100_000, 200_000, 400_000)
_ONE_FILE = FileSizes(max_file=1 << 40)


@dataclass(frozen=True, slots=True)
class TrialMerge:
    """One merge, and what it took."""

    read_bytes: int
    written_bytes: int
    cpu_seconds: float


def merge_generated(folder: Path, rows: Sequence[int] = ROWS, *, say: OnStep = lambda text: None) -> list[TrialMerge]:
    """One merge for each number of rows of a base file, below a folder that is empty."""
    _merge(folder / "warm_up", WARM_UP_ROWS)
    found = []
    for number in rows:
        say(f"merging {LOGS} logs into {format_number(number)} rows")
        found.append(_merge(folder / f"rows_{number}", number))
    return found


def _merge(folder: Path, rows: int) -> TrialMerge:
    location = str(folder)
    for number, batch in enumerate(_batches(rows)):
        if not number:
            create_table(location, schema=batch.schema, record_key=["id"], ordering=["ts"], metadata_table=False)
        write(batch, location, writers_stopped=True, sizes=_ONE_FILE, verify=False)
    storage, base_path = open_storage(location)
    options = CompactionOptions(writers_stopped=True, lock=stopped_writers_options(wait_seconds=0.0))
    table = ServicedTable.for_one_attempt(storage, base_path, options, clock=SystemClock(), processes=Processes())
    report = Compactor(
        table,
        planner=planner_of(CompactionType.FULL, GroupFilter(), {}),
        choose_dispatcher=lambda input_bytes: InProcessDispatcher(),
        run_operation=partial(run_operation_at, base_path),
    ).compact()
    (operation,) = report.plans[0].operations
    return TrialMerge(operation.input_bytes, operation.output_bytes, operation.cpu_seconds or 0.0)


def _batches(rows: int) -> Iterator[pa.Table]:
    """The rows, and their updates: keys of 20 letters, numbers, and texts of which some are unlike all others."""
    chance = np.random.default_rng(SEED)
    for number in range(1 + LOGS):
        ids = np.arange(rows) if not number else np.sort(chance.choice(rows, max(1, rows // UPDATED), replace=False))
        size = len(ids)
        yield pa.table(
            {
                "id": pa.array([f"{each * 2654435761 % 2**32:020d}" for each in ids.tolist()]),
                "ts": pa.array(np.full(size, number, dtype="int64")),
                "amount": pa.array(chance.random(size)),
                "city": pa.array([f"city {each}" for each in chance.integers(0, 500, size).tolist()]),
                "count": pa.array(chance.integers(0, 1_000_000, size)),
                "note": pa.array([f"{each:032x}" for each in chance.integers(0, 2**62, size).tolist()]),
            }
        )
