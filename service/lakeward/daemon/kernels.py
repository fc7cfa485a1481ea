"""Missing kernels are compiled once the daemon is ready; its jobs wait for them, and nothing else does.

    begin -> all found: nothing more
          -> a process that compiles them (`kernel_process`) -> there, or failed: jobs begin either way

Touches: a thread, and the process that compiles.
Keeps:   1. where kernels are found, no process is started;
         2. a job begins when kernels are there, or when compiling failed, which is said once;
         3. `stop` ends the process at once, and so do jobs that wait for it.
"""

from __future__ import annotations

import threading
from typing import Protocol

from structlog.stdlib import BoundLogger

from lakeward.base.clock import Clock
from lakeward.base.errors import Cancelled, LakewardError
from lakeward.base.kernel_process import COMPILING, Report, compiling
from lakeward.daemon.status import Limitation
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.progress import Observer

LOG_SECONDS = 5.0
WAIT_SECONDS = 0.5
"""Between two reports of a job that waits."""


class KernelBuild(Protocol):
    def run(self, report: Report) -> None:
        """Returns when the kernels are there, or `stop` was called. Raises `LakewardError`."""

    def stop(self) -> None: ...


class Kernels:
    def __init__(self, build: KernelBuild | None, *, clock: Clock, log: BoundLogger) -> None:
        """
        Args:
            build: None where all kernels are found.
        """
        self._build = build
        self._clock = clock
        self._log = log
        self._state = COMPILING
        self._problem = ""
        self._is_stopped = False
        self._ended = threading.Event()
        if build is None:
            self._ended.set()

    def begin(self) -> None:
        if not self._ended.is_set():
            threading.Thread(target=self._run, name="lakeward-kernels", daemon=True).start()

    def wait(self, guard: Guard, observer: Observer) -> None:
        """Each job's first step. What `guard` raises ends the waiting."""
        began = self._clock.monotonic()
        while not self._ended.is_set():
            guard()
            observer.waiting(self._state, self._clock.monotonic() - began)
            self._ended.wait(WAIT_SECONDS)
        if self._is_stopped:
            raise Cancelled("The job did not begin.", why="The daemon stops.", remedy="Nothing has to be done.")

    def stop(self) -> None:
        if self._build is None or self._ended.is_set():
            return
        self._is_stopped = True
        self._build.stop()
        self._ended.set()

    @property
    def limitation(self) -> Limitation | None:
        """What the daemon's page says of it."""
        if self._problem:
            return Limitation(
                f"Each process compiles the kernels it needs, which takes up to half a minute. {self._problem}",
                "Then restart the daemon.",
            )
        if self._ended.is_set():
            return None
        return Limitation(
            f"{self._state[0].upper()}{self._state[1:]}. Jobs wait until that is done.",
            "`lakeward warm` compiles them before the daemon starts.",
        )

    def _run(self) -> None:
        assert self._build is not None, "begun only where there is one"
        began = self._clock.monotonic()
        try:
            self._build.run(self._reporter())
        except Exception as error:
            self._problem = str(error)
            self._log.warning(
                "kernels are not kept: each process compiles those it needs",
                error=str(error),
                exc_info=not isinstance(error, LakewardError),
            )
        else:
            if not self._is_stopped:
                self._log.info("kernels compiled", seconds=round(self._clock.monotonic() - began, 1))
        self._ended.set()

    def _reporter(self) -> Report:
        silent_until = 0.0

        def report(done: int, total: int) -> None:
            nonlocal silent_until
            self._state = compiling(done, total)
            now = self._clock.monotonic()
            if now >= silent_until:
                silent_until = now + LOG_SECONDS
                self._log.info(self._state)

        return report
