"""Run the work in processes of this machine: for plans that are merged before Spark would have started.

    forkserver (has loaded what tasks need) --fork--> worker --spec, outcome; spec, outcome; ...--> killed

A worker takes one spec after the other, and lives as long as the job that it works for. What is loaded is loaded once,
by the process from which all are forked, and shared by them.

Touches: child processes, and whatever the task touches.
Keeps:   1. each spec is run once, by one worker: a task that failed or was killed fails its job and is not tried again;
         2. when `run` has ended, however it did, none of its workers is alive;
         3. a worker whose parent died ends itself, and Ctrl-C is its parent's to hear;
         4. workers of all jobs together are no more than `processes`, and a job waits for a place no longer than a task
            of another one takes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from lakeward.dispatch.dispatcher import Done, Engine, Failure, Progress, Result, Spec
from lakeward.errors import LakewardError, TaskFailed

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

POLL_SECONDS = 0.25
LOADED_FIRST = "lakeward.task.workers"
"""What the process loads from which workers are forked."""

_CONTEXT = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class _Broken:
    """A task ended in an error that is none of ours."""

    what: str


@dataclass(slots=True)
class _Worker:
    process: ForkServerProcess
    pipe: Connection
    index: int | None = None
    """The spec that it works on."""


def processes_of(memory_bytes: int, *, limit_bytes: int | None = None) -> int:
    """How many tasks this machine does at once: one a core, and no more than have their memory.

    Args:
        memory_bytes: peak memory of one task.
        limit_bytes: what all may take; what the machine has, or the container, where it is not given.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, (limit_bytes or _memory_bytes()) // memory_bytes))


def _memory_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdecimal() else machine


class LocalDispatcher:
    """Workers of all threads that call `run` share the places."""

    engine = Engine.LOCAL
    is_ready = True

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._places = _Places(processes)
        _CONTEXT.set_forkserver_preload([LOADED_FIRST])

    @property
    def name(self) -> str:
        return f"{self._processes} process{'' if self._processes == 1 else 'es'} of this machine"

    def run(
        self,
        task: Callable[[Spec, int], Result],
        specs: Sequence[Spec],
        *,
        description: str,
        on_progress: Callable[[Progress], None],
    ) -> list[Done[Result] | Failure]:
        """What `on_progress` raises ends the job. Raises `TaskFailed`."""
        if not specs:
            return []
        job = _Job(task, specs, description, self._places)
        try:
            reported = -POLL_SECONDS
            while len(job.outcomes) < len(specs):
                job.hire()
                # Not after each of thousands: who listens lists the attempt's folder.
                if time.monotonic() - reported >= POLL_SECONDS:
                    on_progress(Progress(len(job.outcomes), len(specs)))
                    reported = time.monotonic()
                job.hear()
        finally:
            job.end()
        on_progress(Progress(len(specs), len(specs)))
        return [job.outcomes[index] for index in range(len(specs))]

    def probe(self) -> None:
        """Workers are forked from a child of this process: the same interpreter, the same packages."""


class _Places:
    """Room for so many workers. Jobs that have none wait in a line."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._line: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def are_wanted(self) -> bool:
        return bool(self._line)

    def take(self) -> bool:
        """Whether there was a place, and no job in the line."""
        with self._changed:
            is_free = self._free > 0 and not self._line
            self._free -= is_free
            return is_free

    def wait(self, seconds: float) -> bool:
        ticket = object()
        with self._changed:
            self._line.append(ticket)
            is_ours = self._changed.wait_for(lambda: self._free > 0 and self._line[0] is ticket, seconds)
            self._line.remove(ticket)
            self._free -= is_ours
            self._changed.notify_all()
            return is_ours

    def release(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()


class _Job:
    """The workers of one `run`, what they have left to do and what they answered."""

    def __init__(
        self, task: Callable[[Any, int], Any], specs: Sequence[Any], description: str, places: _Places
    ) -> None:
        self._task = task
        self._description = description
        self._places = places
        self._left = deque(enumerate(specs))
        self._workers: dict[Connection, _Worker] = {}
        self.outcomes: dict[int, Done[Any] | Failure] = {}

    def hire(self) -> None:
        """Start workers while there is work for one more and a place; wait for a place where there is no worker."""
        while self._left and self._has_place():
            try:
                ours, theirs = _CONTEXT.Pipe()
                process = _CONTEXT.Process(target=_work, args=(theirs, self._task), name="lakeward-task", daemon=True)
                process.start()
            except BaseException:
                self._places.release()
                raise
            theirs.close()
            worker = self._workers[ours] = _Worker(process, ours)
            self._give(worker)

    def _has_place(self) -> bool:
        if not self._workers:
            return self._places.wait(POLL_SECONDS)
        return self._places.take()

    def hear(self) -> None:
        """Wait for outcomes, not longer than for the next report, and hand out more work."""
        if not self._workers:
            return  # it has waited for a place
        for pipe in wait(list(self._workers), timeout=POLL_SECONDS):
            assert isinstance(pipe, Connection)
            worker = self._workers[pipe]
            try:
                outcome = pipe.recv()
            except (EOFError, OSError):
                raise self._killed(worker) from None
            if isinstance(outcome, _Broken):
                raise self._failed(worker, outcome.what, remedy="The table is as it was.")
            self.outcomes[outcome.index] = outcome
            self._give(worker)

    def end(self) -> None:
        for worker in list(self._workers.values()):
            self._let_go(worker)

    def _give(self, worker: _Worker) -> None:
        if not self._left or (worker.index is not None and self._places.are_wanted):
            self._let_go(worker)
            return
        worker.index, spec = self._left.popleft()
        try:
            worker.pipe.send((worker.index, spec))
        except OSError:
            raise self._killed(worker) from None

    def _let_go(self, worker: _Worker) -> None:
        del self._workers[worker.pipe]
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        self._places.release()

    def _killed(self, worker: _Worker) -> TaskFailed:
        worker.process.join(POLL_SECONDS)
        code = worker.process.exitcode or 0
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with {code}"
        return self._failed(
            worker,
            f"Its process {how}; the kernel does that where memory runs out." if code == -9 else f"Its process {how}.",
            remedy="Nothing was published. Let fewer operations run at once, or give each less memory, or the machine "
            "more.",
        )

    def _failed(self, worker: _Worker, why: str, *, remedy: str) -> TaskFailed:
        return TaskFailed(f"A task of '{self._description}' failed.", why=why, remedy=remedy, index=worker.index)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _work(pipe: Connection, task: Callable[[Any, int], Any]) -> None:
    """A worker's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inbox: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, inbox), daemon=True).start()
    while True:
        index, spec = inbox.get()
        outcome: Done[Any] | Failure | _Broken
        try:
            outcome = Done(index, task(spec, 0))
        except LakewardError as error:
            outcome = Failure(index, error)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            outcome = _Broken("".join(traceback.format_exception_only(error)).strip())
        pipe.send(outcome)


def _receive(pipe: Connection, inbox: SimpleQueue[tuple[int, Any]]) -> None:
    """Takes specs in while the task runs: only so does a worker see at once that its parent is gone."""
    try:
        while True:
            inbox.put(pipe.recv())
    except (EOFError, OSError):
        os._exit(1)
