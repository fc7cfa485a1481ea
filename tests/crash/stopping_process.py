"""Run by test_named_cases in a process of its own: compact a table, and stop (SIGSTOP) or wait at a named call.

    python stopping_process.py TABLE CALL EFFECT

CALL is the beginning of a storage call's spelling, such as `link` or `rename`; EFFECT is `stop` (the process stops
itself right before the first such call) or `kill` (it kills itself right after it).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[2]))

from lakeward.clock import SystemClock
from lakeward.commit.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.commit.owner import Processes
from lakeward.dispatch.in_process import InProcessDispatcher
from lakeward.errors import LakewardError
from lakeward.execute.compaction import Compactor
from lakeward.execute.compaction_options import CompactionOptions
from lakeward.execute.operation import run_operation
from tests.crash.compacting import FULL
from tests.faults import FaultyStorage

T = TypeVar("T")


class SignallingStorage(FaultyStorage):
    def __init__(self, call: str, effect: str) -> None:
        super().__init__()
        self._wanted = call
        self._effect = effect

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        wanted = f"{name} {path}".startswith(self._wanted)
        if wanted:
            self._wanted = "never again"
        if wanted and self._effect == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        result = super()._call(name, path, act, tear)
        if wanted and self._effect == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return result


table, call, effect = sys.argv[1:]
storage = SignallingStorage(call, effect)
dispatcher = InProcessDispatcher()
compactor = Compactor(
    storage,
    table,
    CompactionOptions(
        writers_stopped=True, lock=FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0), timezone="UTC"
    ),
    planner=FULL,
    choose_dispatcher=lambda input_bytes: dispatcher,
    run_operation=partial(run_operation, storage),
    clock=SystemClock(),
    processes=Processes(),
)
try:
    compactor.compact()
except LakewardError as error:
    print(f"{error.code}: {error}")
    sys.exit(error.exit_code)
