"""One at a time, unless a caller takes long: for work that needs much memory for a moment.

When several tables are polled for the first time, or planned, at once, what each leaves for good comes to lie
between what all of them need for a moment only, and the process never gets that memory back: with a hundred tables
of a thousand file groups it was twice as large. Python computes one at a time anyway. What is waited for is the
storage, and one that hangs is not to hold up other tables, so no thread waits for its turn for long.

Touches: nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turn:
    """For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, *, timeout: float) -> Iterator[None]:
        """Wait for `timeout` seconds at most, then go on beside the thread that is there."""
        is_ours = self._lock.acquire(timeout=timeout)
        try:
            yield
        finally:
            if is_ours:
                self._lock.release()
