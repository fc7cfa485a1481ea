"""Run the work in this process, one spec after the other: for small plans, and for tests that inject faults.

Touches: whatever the task touches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakeward.dispatch.dispatcher import Done, Engine, Failure, Progress, Result, Spec
from lakeward.errors import LakewardError


class InProcessDispatcher:
    engine = Engine.IN_PROCESS
    parallelism = 1
    name = "this process"
    is_ready = True

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
            try:
                outcomes.append(Done(index, task(spec, 0)))
            except LakewardError as error:
                outcomes.append(Failure(index, error))
            on_progress(Progress(len(outcomes), len(specs)))
        return outcomes

    def probe(self) -> None:
        """This process agrees with itself."""
