"""The one lock of a table, as those see it who hold it; who keeps it is a provider's business.

    free --acquire--> held --release--> free
                      held --(its time ran out, its session ended, it was removed)--> lost, and `fence` raises

Held with `with lock:`; not reentrant. While it is held a thread renews it, where its provider's locks run out.

A thread that keeps leases fresh (heartbeat, lock) while the work goes on.

A failed renewal does not stop the work: the work that relies on the lease proves it before publishing, and an outage
shorter than the lease does no harm. What went wrong is kept for the error message.

Touches: what the provider touches.
Keeps:   1. once `fence` has returned, the lock was still held after it was called; what cannot be proved raises;
         2. `release` gives back what this process holds and nothing else, also when `acquire` raised, also twice.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, Self

from lakeward.base.errors import LakewardError


class Renewal:
    def __init__(self, renew: Callable[[], None], *, interval_seconds: float) -> None:
        self._renew = renew
        self._interval_seconds = interval_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lakeward-renewal", daemon=True)
        self.last_failure: Exception | None = None

    def __enter__(self) -> Renewal:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_seconds):
            try:
                self._renew()
                self.last_failure = None
            except (LakewardError, OSError) as failure:
                self.last_failure = failure


OnWait = Callable[[str, float], None]
"""Called again and again with what is waited for ("the table lock … is held") and the seconds so far; may raise."""

Guard = Callable[[], None]
"""Returns, or raises an error of Lakeward (`Cancelled`, `LeaseLost`) that stops the work."""

Fence = Callable[[], None]
"""Returns while it is proved that the table lock is held, and raises otherwise."""


def wait_silently(what: str, seconds: float) -> None:
    """Callers without a listener wait silently."""


class TableLock(ABC):
    renewal_seconds: ClassVar[float | None] = None
    """How often `renew` is called while the lock is held; None: this provider's locks stay fresh by themselves."""

    queues: ClassVar[bool] = False
    """Whether a process that waits for it gets it in its turn, asking or not."""

    _renewal: Renewal | None = None

    @abstractmethod
    def acquire(self) -> None:
        """Take the lock. Raises `LockHeld` when it was not free in time, and what `on_wait` raises."""

    @abstractmethod
    def fence(self) -> None:
        """Raise `LockLost` unless it is proved that the lock is held."""

    @abstractmethod
    def release(self) -> None:
        """Give back what is held of it."""

    @abstractmethod
    def renew(self) -> None:
        """Say that its holder lives. Called by a thread of its own."""

    @abstractmethod
    def free_dead(self) -> None:
        """Remove what a dead holder left, without taking the lock: for a process that may judge it and has no work
        here."""

    def __enter__(self) -> Self:
        try:
            self.acquire()
            if self.renewal_seconds is not None:
                renewal = Renewal(self.renew, interval_seconds=self.renewal_seconds)
                renewal.__enter__()
                self._renewal = renewal
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewal is not None:
            self._renewal.__exit__(kind, error, trace)
            self._renewal = None
        self.release()
