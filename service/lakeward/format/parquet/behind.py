"""Work that is carried out behind its caller's back: one call at a time, on one thread.

Touches: one thread, which ends with `close`.
Keeps:   1. calls are carried out in their order, never two at once, and no more than one waits for its end;
         2. an error of a call is raised by the next `run` or `wait`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Behind:
    """Close it when no more is to be done, also after an error."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._last: Future[object] | None = None

    def run(self, work: Callable[[], object]) -> None:
        """Begin with this as soon as what was begun before has ended."""
        self.wait()
        self._last = self._thread.submit(work)

    def wait(self) -> None:
        """Wait until what was begun has ended."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def close(self) -> None:
        """Let what was begun end, whatever comes of it."""
        self._thread.shutdown(wait=True)
