"""Run the work in processes of this machine: for plans that are merged before Spark would have started.

    forkserver (has loaded what tasks need) --fork--> worker --spec, outcome; spec, outcome; ...--> killed

A worker takes one spec after the other, and lives as long as the job that it works for. What is loaded is loaded once,
by the process from which all are forked, and shared by them.

Touches: child processes, and whatever the task touches.
Keeps:   1. each spec is run once, by one worker: a task that failed or was killed fails its job and is not tried again;
         2. when `run` has ended, however it did, none of its workers is alive;
         3. a worker whose parent died ends itself, and Ctrl-C is its parent's to hear;
         4. workers of all jobs together are no more than there are places, and hold no more memory than these have (one
            alone may); a job waits for a place no longer than tasks of those before it take;
         5. a job has no more workers than it was given places for.
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
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from lakeward.base.errors import LakewardError, TaskFailed
from lakeward.base.kernel_process import build_missing
from lakeward.engine.dispatch import machine
from lakeward.engine.dispatch.dispatcher import Done, Failure, Progress, Result, Spec
from lakeward.protocol.progress import Engine

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

POLL_SECONDS = 0.25
LOADED_FIRST = "lakeward.engine.task.workers"
"""What the process loads from which workers are forked."""

_CONTEXT = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class _Broken:
    """A task ended in an error that is none of Lakeward."""

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
        limit_bytes: what all may take, where that is less than what the machine has, or the container.
    """
    return places_of_machine(limit_bytes).at_once(memory_bytes)


def places_of_machine(limit_bytes: int | None = None) -> Places:
    has = machine.memory_bytes()
    return Places(machine.cores(), has if limit_bytes is None else min(has, limit_bytes))


class LocalDispatcher:
    """Workers of all threads that call `run`, and of all dispatchers with the same places, share these."""

    engine = Engine.LOCAL
    is_ready = True
    is_on_this_machine = True

    def __init__(self, places: Places, *, memory_bytes: int, permit_bytes: int | None = None) -> None:
        """
        Args:
            memory_bytes: peak memory of one task.
            permit_bytes: what the workers of one job may take together, where that is less than all places have.
        """
        self._places = places
        self._memory_bytes = memory_bytes
        self._permit_bytes = permit_bytes
        _CONTEXT.set_forkserver_preload([LOADED_FIRST])

    @property
    def parallelism(self) -> int:
        """The processes that it has at once, at most."""
        at_once = self._places.at_once(self._memory_bytes)
        return at_once if self._permit_bytes is None else max(1, min(at_once, self._permit_bytes // self._memory_bytes))

    @property
    def name(self) -> str:
        number = self.parallelism
        return f"{number} process{'' if number == 1 else 'es'} of this machine"

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
        build_missing()  # here, where it is reported; the process that workers are forked from loads them
        job = _Job(task, specs, description, _Share(self._places, self._memory_bytes, self.parallelism))
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

    def probe(self, guard: Callable[[], None] = lambda: None) -> None:
        """Workers are forked from a child of this process: the same interpreter, the same packages."""


class Places:
    """Room for so many workers, as long as it has memory for them. Jobs that have none wait in a line."""

    def __init__(self, number: int, memory_bytes: int) -> None:
        self._number = number
        self._memory_bytes = memory_bytes
        self._taken = 0
        self._held_bytes = 0
        self._line: deque[object] = deque()
        self._changed = threading.Condition()

    def at_once(self, memory_bytes: int) -> int:
        """How many workers of that memory have a place at the same time; one, where none fits."""
        return max(1, min(self._number, self._memory_bytes // memory_bytes))

    @property
    def memory_bytes(self) -> int:
        return self._memory_bytes

    def resize(self, memory_bytes: int) -> None:
        """What places have from now on; a worker that has one keeps it."""
        with self._changed:
            self._memory_bytes = memory_bytes
            self._changed.notify_all()

    @property
    def are_wanted(self) -> bool:
        return bool(self._line)

    def take(self, memory_bytes: int) -> bool:
        """Whether there was a place, and no job in the line."""
        with self._changed:
            return not self._line and self._took(memory_bytes)

    def wait(self, job: object, memory_bytes: int, seconds: float) -> bool:
        """Whether there was a place within so many seconds. The job is in the line until then, or until it leaves."""
        with self._changed:
            if job not in self._line:
                self._line.append(job)
            is_own = self._changed.wait_for(lambda: self._line[0] is job and self._took(memory_bytes), seconds)
            if is_own:
                self._line.popleft()
                self._changed.notify_all()
            return is_own

    def leave(self, job: object) -> None:
        with self._changed:
            if job in self._line:
                self._line.remove(job)
                self._changed.notify_all()

    def release(self, memory_bytes: int) -> None:
        with self._changed:
            self._taken -= 1
            self._held_bytes -= memory_bytes
            self._changed.notify_all()

    def _took(self, memory_bytes: int) -> bool:
        fits = self._held_bytes + memory_bytes <= self._memory_bytes or not self._taken
        if self._taken >= self._number or not fits:
            return False
        self._taken += 1
        self._held_bytes += memory_bytes
        return True


@dataclass(frozen=True, slots=True)
class _Share:
    """What a job may have of the places."""

    places: Places
    memory_bytes: int
    """What each of its workers takes."""
    workers_max: int


class _Job:
    """The workers of one `run`, what they have left to do and what they answered."""

    def __init__(self, task: Callable[[Any, int], Any], specs: Sequence[Any], description: str, share: _Share) -> None:
        self._task = task
        self._description = description
        self._share = share
        self._left = deque(enumerate(specs))
        self._workers: dict[Connection, _Worker] = {}
        self.outcomes: dict[int, Done[Any] | Failure] = {}

    def hire(self) -> None:
        """Start workers while there is work for one more and a place; wait for a place where there is no worker."""
        while self._left and self._has_place():
            try:
                own, other = _CONTEXT.Pipe()
                process = _CONTEXT.Process(target=_work, args=(other, self._task), name="lakeward-task", daemon=True)
                process.start()
            except BaseException:
                self._release()
                raise
            other.close()
            worker = self._workers[own] = _Worker(process, own)
            self._give(worker)

    def _has_place(self) -> bool:
        share = self._share
        if not self._workers:
            return share.places.wait(self, share.memory_bytes, POLL_SECONDS)
        return len(self._workers) < share.workers_max and share.places.take(share.memory_bytes)

    def _release(self) -> None:
        self._share.places.release(self._share.memory_bytes)

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
        self._share.places.leave(self)
        for worker in list(self._workers.values()):
            self._let_go(worker)

    def _give(self, worker: _Worker) -> None:
        if not self._left or (worker.index is not None and self._share.places.are_wanted):
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
        self._release()

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
