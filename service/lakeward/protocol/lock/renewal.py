"""A thread that keeps leases fresh (heartbeat, lock) while the work goes on.

A failed renewal does not stop the work: the work that relies on the lease proves it before publishing, and an outage
shorter than the lease does no harm. What went wrong is kept for the error message.

Touches: whatever the given functions touch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

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
