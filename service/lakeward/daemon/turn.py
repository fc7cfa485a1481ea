"""One at a time, unless a caller takes long: for work that needs much memory for a moment.

When several tables are polled for the first time, or planned, at once, what each leaves for good comes to lie
between what all of them need for a moment only, and the process never gets that memory back: with a hundred tables
of a thousand file groups it was twice as large. Python computes one at a time anyway. What is waited for is the
storage, and one that hangs is not to hold up other tables, so a thread waits for as long as turns are short, and goes
on beside one that is not.

Touches: nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Turn:
    """For any thread."""

    def __init__(self) -> None:
        self._is_free = threading.Condition()
        self._taken_at: float | None = None

    @contextmanager
    def taken(self, *, timeout: float) -> Iterator[None]:
        """Wait for the turn, or until the thread that has it has had it for `timeout` seconds; then go on beside it."""
        is_ours = self._take(timeout)
        try:
            yield
        finally:
            if is_ours:
                with self._is_free:
                    self._taken_at = None
                    self._is_free.notify()

    def _take(self, timeout: float) -> bool:
        with self._is_free:
            while self._taken_at is not None:
                left = self._taken_at + timeout - time.monotonic()
                if left <= 0:
                    return False
                self._is_free.wait(left)
            self._taken_at = time.monotonic()
            return True
