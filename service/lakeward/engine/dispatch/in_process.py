"""Run the work in this process, one spec after the other: for small plans, and for tests that inject faults.

While a task lasts a thread reports how far the work is, since the caller's own is in the task.

Touches: whatever the task touches; a thread of its own, which ends with `run`.
Keeps:   1. `on_progress` is never called twice at once, and what it raises ends the job, no later than with the task
            that runs;
         2. between tasks it is called by the caller's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context

from lakeward.base.errors import LakewardError
from lakeward.engine.dispatch.dispatcher import Done, Failure, Progress, Result, Spec
from lakeward.protocol.progress import Engine

REPORT_SECONDS = 0.25


class InProcessDispatcher:
    engine = Engine.IN_PROCESS
    parallelism = 1
    name = "this process"
    is_ready = True
    is_on_this_machine = True

    def run(
        self,
        task: Callable[[Spec, int], Result],
        specs: Sequence[Spec],
        *,
        description: str,
        on_progress: Callable[[Progress], None],
    ) -> list[Done[Result] | Failure]:
        outcomes: list[Done[Result] | Failure] = []
        on_progress(Progress(0, len(specs)))
        for index, spec in enumerate(specs):
            with _Meanwhile(lambda done=index: on_progress(Progress(done, len(specs)))):  # type: ignore[misc]
                try:
                    outcomes.append(Done(index, task(spec, 0)))
                except LakewardError as error:
                    outcomes.append(Failure(index, error))
            on_progress(Progress(len(outcomes), len(specs)))
        return outcomes

    def probe(self, guard: Callable[[], None] = lambda: None) -> None:
        """This process agrees with itself."""


class _Meanwhile:
    """Calls something every now and then during its `with` block, and raises at its end what that raised."""

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._ended = threading.Event()
        self._error: BaseException | None = None
        context = copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._repeat,), name="lakeward-progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def _repeat(self) -> None:
        while not self._ended.wait(REPORT_SECONDS):
            try:
                self._report()
            except BaseException as error:  # the work's own thread raises it
                self._error = error
                return
