"""A session without a Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

TIMEOUT_SECONDS = 30.0


class FakeSession:
    """Runs tasks in the caller's thread, and holds that it is not ended meanwhile."""

    parallelism = 2
    ui = ""

    def __init__(self) -> None:
        self.running = 0
        self.ended = 0
        self.is_answering = True
        self.may_run, self.may_end, self.is_ending, self.is_running = (threading.Event() for _ in range(4))
        self.may_run.set()
        self.may_end.set()

    def setting(self, key: str) -> str | None:
        return None

    def is_alive(self) -> bool:
        return self.is_answering and not self.ended

    def run_tasks(self, work: Callable[[bytes, int], bytes], specs: Sequence[bytes], **options: Any) -> list[bytes]:
        assert not self.ended
        self.running += 1
        self.is_running.set()
        assert self.may_run.wait(TIMEOUT_SECONDS)
        answers = [work(spec, 0) for spec in specs]
        assert not self.ended, "ended under a job"
        self.running -= 1
        return answers

    def stop(self) -> None:
        self.end(within=0)

    def end(self, *, within: float) -> None:
        assert not self.running, "ended under a job"
        self.is_ending.set()
        assert self.may_end.wait(TIMEOUT_SECONDS)
        self.ended += 1

    def forget(self) -> None:
        self.ended += 1
