"""A compaction in another process, stopped or killed where a test wants it, and time that passes meanwhile.

The processes are forked from one that has imported everything already: starting Python takes longer than what they do.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.lock.lock_choice import LockOptions
from tests.crash import stopping_process

DEADLINE_SECONDS = 120.0

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([stopping_process.__name__])


class OtherProcess:
    """What `stopping_process.compact` does, from its beginning."""

    def __init__(
        self, base: Path, call: str, effect: str, service: str, lock: LockOptions, wait_seconds: float
    ) -> None:
        self._said = base.with_name(f"said-{uuid.uuid4().hex}")
        self._process = _CONTEXT.Process(
            target=stopping_process.compact,
            args=(base, call, effect),
            kwargs={"service": service, "lock": lock, "wait_seconds": wait_seconds, "said": self._said},
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it is alive; a signal that killed it is negative."""
        return self._process.exitcode

    @property
    def is_stopped(self) -> bool:
        """With all of its threads, which stop one by one."""
        try:
            threads = psutil.Process(self.pid).threads()
            return all(psutil.Process(thread.id).status() == psutil.STATUS_STOPPED for thread in threads)
        except psutil.NoSuchProcess:
            return False

    def wake(self) -> str:
        """Let it go on to its end. Returns what it said."""
        os.kill(self.pid, signal.SIGCONT)
        return self.end()

    def end(self) -> str:
        """Wait for its end. Returns what it said."""
        self._process.join(DEADLINE_SECONDS)
        assert self.exit_code is not None, "the other process did not end"
        return self._said.read_text() if self._said.exists() else ""

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


@contextmanager
def process(
    base: Path,
    call: str,
    effect: str,
    *,
    service: str = "full",
    lock: LockOptions | None = None,
    wait_seconds: float = 0.0,
) -> Iterator[OtherProcess]:
    """A compaction in another process, up to the moment where `effect` hit it; with `none`, from its beginning."""
    lock = lock or FileSystemLockOptions((SPARK_LOCK,), wait_seconds)
    child = OtherProcess(base, call, effect, service=service, lock=lock, wait_seconds=wait_seconds)
    try:
        if effect != "none":
            wait_until(lambda: child.exit_code is not None or child.is_stopped)
            expected = None if effect == "stop" else -signal.SIGKILL
            assert child.exit_code == expected, f"it never reached {call}: {child.end()}"
        yield child
    finally:
        child.kill()


def wait_until(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the other process did not get there"
        time.sleep(0.02)


def age(base: Path, *names: str, seconds: float) -> None:
    then = time.time() - seconds
    for name in names:
        for path in base.glob(name):
            os.utime(path, (then, then))
