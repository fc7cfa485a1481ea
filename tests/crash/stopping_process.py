"""What a process that other tests start does: compact a table, and stop (SIGSTOP) or die at a named call.

Touches: a table, and the file in which it says what came of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TypeVar

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LakewardError
from lakeward.cli.serviced import interruptible
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.operation import run_operation
from lakeward.protocol.lock.lock_choice import LockOptions
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.run.compactor import Compactor
from tests.crash.compacting import FULL, LOG
from tests.faults import FaultyStorage

T = TypeVar("T")


class SignallingStorage(FaultyStorage):
    def __init__(self, call: str, effect: str) -> None:
        super().__init__()
        self._wanted = f"{call}*" if effect != "none" else ""
        self._effect = effect

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        wanted = fnmatchcase(f"{name} {path}", self._wanted)
        if wanted:
            self._wanted = ""
        if wanted and self._effect == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        result = super()._call(name, path, act, tear)
        if wanted and self._effect == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def hear_interrupts() -> None:
    """SIGINT interrupts this process, as it does a command in the foreground.

    A shell script starts what it puts in the background with SIGINT ignored, and all that this starts inherits it:
    where the tests themselves were started so, an interrupt was lost and the compaction went on to its end.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def compact(
    base: Path, call: str, effect: str, *, service: str, lock: LockOptions, wait_seconds: float, said: Path
) -> None:
    """
    Args:
        call: how a storage call begins, by fnmatch's rules, such as `link` or `create /t/*.inflight`.
        effect: `stop`: this process stops itself right before the first such call; `kill`: it kills itself right after
            it; `none`.
        said: where it says which plans it carried out, or the error by which it ended.
    """
    hear_interrupts()
    storage = SignallingStorage(call, effect)
    dispatcher = InProcessDispatcher()
    try:
        with interruptible() as guard:
            compactor = Compactor(
                ServicedTable.for_one_attempt(
                    storage,
                    str(base),
                    CompactionOptions(writers_stopped=True, lock=lock, wait_seconds=wait_seconds, timezone="UTC"),
                    clock=SystemClock(),
                    processes=Processes(),
                    guard=guard,
                ),
                planner=LOG if service == "log" else FULL,
                choose_dispatcher=lambda input_bytes: dispatcher,
                run_operation=partial(run_operation, storage),
            )
            report = compactor.compact()
        said.write_text("".join(f"compacted {plan.instant}\n" for plan in report.plans))
    except LakewardError as error:
        said.write_text(f"{error.code}: {error}")
        sys.exit(error.exit_code)
