"""What a piece of work costs in this process and in those that it started: wall time, CPU time, peak memory.

Touches: the process table, sampled every 50 ms while there are children; the kernel's peak of this process.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import psutil

from lakeward.engine.task.peak_memory import PeakMemory

SAMPLE_SECONDS = 0.05
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Watched:
    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    """Interpreter or JVM included."""


def watched(work: Callable[[], Made]) -> tuple[Watched, Made]:
    """Do the work. A JVM that was started before counts from here on, with all that it holds."""
    own = PeakMemory()
    peak = _PeakOfTree()
    begin, cpu = time.perf_counter(), _cpu_seconds()
    with peak.sampled():
        made = work()
    seconds, cpu = time.perf_counter() - begin, _cpu_seconds() - cpu
    return Watched(seconds, cpu, max(own.peak_bytes(), peak.bytes)), made


class _PeakOfTree:
    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()

    @contextlib.contextmanager
    def sampled(self) -> Iterator[None]:
        if not _tree()[1:]:
            yield  # the kernel knows the peak of one process better
            return
        sampler = threading.Thread(target=self._sample, daemon=True)
        sampler.start()
        try:
            yield
        finally:
            self._done.set()
            sampler.join()

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            resident = 0
            for process in _tree():
                with contextlib.suppress(psutil.NoSuchProcess):
                    resident += process.memory_info().rss
            self.bytes = max(self.bytes, resident)


def _cpu_seconds() -> float:
    total = time.process_time()
    for process in _tree()[1:]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _tree() -> list[psutil.Process]:
    root = psutil.Process()
    return [root, *root.children(recursive=True)]
