"""Tasks of local workers that are killed, or that never end; at module level, so that workers find them by name."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from lakeward.base.clock import SystemClock
from lakeward.engine.dispatch.local import LocalDispatcher, Places
from lakeward.engine.task.entry import run_operation_at
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.run.compactor import CompactionReport, Compactor
from lakeward.services.compaction.run.operations import RunOperation
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import FULL


def compact_locally(base: Path, task: RunOperation, guard: Guard = lambda: None) -> CompactionReport:
    """A compaction of the table whose operations are run by workers, as `task` has it."""
    dispatcher = LocalDispatcher(Places(2, 2), memory_bytes=1)
    return Compactor(
        ServicedTable.for_one_attempt(
            LocalStorage(),
            str(base),
            CompactionOptions(
                writers_stopped=True, lock=FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=5.0), timezone="UTC"
            ),
            clock=SystemClock(),
            processes=Processes(),
            guard=guard,
        ),
        planner=FULL,
        choose_dispatcher=lambda input_bytes: dispatcher,
        run_operation=task,
    ).compact()


def killed_at_the_end(location: str, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """A worker that dies when its file is whole, and before it could say so."""
    run_operation_at(location, spec, task_attempt)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed")


def held_open(said: str, location: str, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """A worker that goes on writing its file until it is killed, and says in `said` which process it is."""
    storage = LocalStorage()
    with storage.open_output(f"{spec.attempt_folder}/{spec.file_name(task_attempt)}") as sink:
        sink.write(b"PAR1")
        Path(f"{said}.part").write_text(str(os.getpid()))
        Path(f"{said}.part").rename(said)
        time.sleep(300.0)
    return run_operation_at(location, spec, task_attempt)


if __name__ == "__main__":
    table, said = sys.argv[1:]
    compact_locally(Path(table), partial(held_open, said, table))
