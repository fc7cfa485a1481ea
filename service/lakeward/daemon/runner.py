"""Threads that run pieces of work while the service's loop goes on: a few for polls and one for each job.

The loop hands a piece of work over with what is to be done with its result, and never waits for it. The result is
delivered on the loop's own thread, so everything that decides stays on one thread, and a simulation can run the same
pieces in an order of its own.

    submit(lane, work, then, failed)  ->  a thread: work()  ->  deliver(): then(result) or failed(error)

Touches: threads.
Keeps:   1. each piece of work has exactly one result, whatever happens in it;
         2. jobs never wait for polls, nor polls for jobs: they have threads of their own;
         3. what is submitted to the store's or the lease's lane is done one after the other, in that order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial
from typing import Protocol, TypeVar

Result = TypeVar("Result")

SCANS_AT_ONCE = 32
"""Polls and plans that run at once. Polls wait for storage, some of them for long; of plans, which compute, the
scheduler lets only a few begin."""

JOBS_AT_ONCE_MAX = 64
"""Threads come into being when they are needed; how many jobs run is the scheduler's choice."""


class Lane(StrEnum):
    """What a piece of work may have to wait behind."""

    SCAN = "scan"
    """Polls, plans, discovery: seconds."""
    JOB = "job"
    """What changes tables: minutes to hours."""
    STORE = "store"
    """Controls, what is to be remembered."""
    LEASE = "lease"
    """Renewals, which must wait for nothing else."""


class Runner(Protocol):
    def submit(
        self,
        lane: Lane,
        work: Callable[[], Result],
        *,
        then: Callable[[Result], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Begin `work` soon, elsewhere; `deliver` calls `then` or `failed` with its result."""

    def deliver(self) -> int:
        """Hand over the results that have come in since the last call. Returns how many."""

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or earlier when there is a result."""


class ThreadRunner:
    def __init__(self) -> None:
        self._pools = {
            Lane.SCAN: ThreadPoolExecutor(SCANS_AT_ONCE, thread_name_prefix="lakeward-scan"),
            Lane.JOB: ThreadPoolExecutor(JOBS_AT_ONCE_MAX, thread_name_prefix="lakeward-job"),
            Lane.STORE: ThreadPoolExecutor(1, thread_name_prefix="lakeward-store"),
            Lane.LEASE: ThreadPoolExecutor(1, thread_name_prefix="lakeward-lease"),
        }
        self._results: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._has_results = threading.Event()
        self._at_work = 0
        self._all_ended = threading.Condition(self._lock)

    def submit(
        self,
        lane: Lane,
        work: Callable[[], Result],
        *,
        then: Callable[[Result], None],
        failed: Callable[[Exception], None],
    ) -> None:
        def carry_out() -> None:
            result: Callable[[], None]
            with self._lock:
                self._at_work += 1
            try:
                result = partial(then, work())
            except Exception as error:  # whatever it is, it is for `failed` to judge; here it must not get lost
                result = partial(failed, error)
            except BaseException as error:  # a library's panic or exit: it ends this work, not its table's turn
                result = partial(failed, _Panic(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__))
            with self._lock:
                self._results.append(result)
                self._at_work -= 1
                self._all_ended.notify_all()
            self._has_results.set()

        self._pools[lane].submit(carry_out)

    def deliver(self) -> int:
        self._has_results.clear()
        with self._lock:
            number = len(self._results)
        for _ in range(number):
            with self._lock:
                result = self._results.popleft()
            result()  # what it raises ends this call; those behind it are for the next one
        return number

    def wait(self, seconds: float) -> None:
        self._has_results.wait(seconds)

    def wake(self) -> None:
        """Have the loop's `wait` return now, or the next one where it does not wait."""
        self._has_results.set()

    def stop(self, *, timeout: float) -> bool:
        """Begin nothing more. False where something that has begun has not ended after `timeout` seconds."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        with self._all_ended:
            return self._all_ended.wait_for(lambda: self._at_work == 0, timeout)


class _Panic(Exception):
    """What is no `Exception` in Python's sense was raised by a piece of work."""
