"""Tasks over buckets of a record index on the engine of a command: processes of this machine, or Spark.

Touches: what the tasks touch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakeward.engine.dispatch.dispatcher import Dispatcher, results_of
from lakeward.index.record.record_file import RecordFile
from lakeward.protocol.index.bucket_tasks import BucketTask


@dataclass(frozen=True, slots=True)
class BucketDispatch:
    """A `BucketSpread`."""

    choose_dispatcher: Callable[[int], Dispatcher]
    """The dispatcher for so many bytes."""
    run_task: Callable[[BucketTask, int], tuple[RecordFile, ...]]
    """`bucket_tasks.run_bucket_task`, where the task runs."""
    guard: Callable[[], None] = lambda: None
    """Stops the work by raising an error of Lakeward."""

    def at_once(self, input_bytes: int) -> int:
        dispatcher = self.choose_dispatcher(input_bytes)
        if dispatcher.parallelism is None:
            dispatcher.probe(self.guard)
        return dispatcher.parallelism or 1

    def run(self, tasks: Sequence[BucketTask], input_bytes: int) -> list[tuple[RecordFile, ...]]:
        dispatcher = self.choose_dispatcher(input_bytes)
        dispatcher.probe(self.guard)
        outcomes = dispatcher.run(
            self.run_task, tasks, description="buckets of a record index", on_progress=lambda progress: self.guard()
        )
        return results_of(outcomes)
