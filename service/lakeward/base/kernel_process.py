"""The process that compiles kernels for another process, which found none (`kernel_folder`).

    this process --starts--> lakeward.base.kernel_build --counts --starts--> processes that compile
                 <--- a line each time some are done: {"done": 12, "total": 107} ---

It has a session of its own: Ctrl-C is for the process that started it, which ends it. Numba is not loaded here.

Touches: that process and those it starts; standard error, where nothing else takes the counts.
Keeps:   1. `stop` ends the process at once, and all that it started; so does an error of what takes the counts;
         2. where kernels are found, or Numba's own variables say how they are made, nothing is started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from lakeward.base.errors import LakewardError
from lakeward.base.kernel_folder import find_compiled

LINE_SECONDS = 2.0
"""How often a line says how far a build is."""

COUNTS = "--counts"

COMPILING = "compiling kernels, once on this machine"
"""What a build is called before it counts."""

Report = Callable[[int, int], None]
"""(kernels that are done, all kernels)"""


def compiling(done: int, total: int) -> str:
    """How far a build is, in the words that terminal, page and log have for it."""
    return f"{COMPILING}: {done} of {total}"


_has_failed = False
"""In this process, which does not try again."""


def is_needed() -> bool:
    """False also where Numba's own variables name a processor or a place, or say to compile nothing."""
    if _has_failed:
        return False
    values = (os.environ.get(f"NUMBA_{name}", "") for name in ("CPU_NAME", "CACHE_LOCATOR_CLASSES", "DISABLE_JIT"))
    return find_compiled() is None and all(value in ("", "0") for value in values)


class KernelProcess:
    """Runs once. `stop` may come from another thread, and before `run`."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", "lakeward.base.kernel_build", COUNTS)) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_stopped = False

    def run(self, report: Report) -> None:
        """Returns when the kernels are there, or `stop` was called. Raises `LakewardError`."""
        with self._lock:
            if self._is_stopped:
                return
            process = self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        problem: LakewardError | None = None
        assert process.stdout is not None, "it is a pipe"
        try:
            with process.stdout as lines:
                for line in lines:
                    match json.loads(line):
                        case {"done": int(done), "total": int(total)}:
                            report(done, total)
                        case {"what": str(what), "why": str(why), "remedy": str(remedy)}:
                            problem = LakewardError(what, why=why, remedy=remedy)
            process.wait()
        except BaseException:
            self.stop()
            process.wait()
            raise
        if process.returncode and not self._is_stopped:
            global _has_failed
            _has_failed = True
            raise problem or LakewardError(
                "The kernels could not be compiled.",
                why=f"The process that does it ended with {process.returncode}.",
                remedy="`lakeward warm` compiles them, and says what is wrong.",
            )

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if self._process is not None and self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)


def build_missing() -> None:
    """Have kernels compiled where none are found. A failure is said on standard error, once, and ends nothing here."""
    if not is_needed():
        return
    try:
        KernelProcess().run(_taken or report_on_stderr())
    except LakewardError as error:
        print(error, file=sys.stderr, flush=True)


_taken: Report | None = None


@contextmanager
def reports_taken(report: Report) -> Iterator[None]:
    """Builds of this process are reported there meanwhile. What `report` raises ends the build."""
    global _taken
    before, _taken = _taken, report
    try:
        yield
    finally:
        _taken = before


def report_on_stderr() -> Report:
    """On a terminal one line that is drawn again and goes at the end; elsewhere a line every few seconds."""
    is_terminal = sys.stderr.isatty()
    silent_until = 0.0

    def report(done: int, total: int) -> None:
        nonlocal silent_until
        if is_terminal:
            text = "" if done == total else compiling(done, total)
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
            return
        now = time.monotonic()
        if now >= silent_until or done == total:
            silent_until = now + LINE_SECONDS
            print(compiling(done, total), file=sys.stderr, flush=True)

    return report
