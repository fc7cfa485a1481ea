"""File slices merged by tasks, one for each, while the table's observer hears how far they are.

Touches: what the tasks touch; one file for their counters (`task/work_counters`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from lakeward.base.errors import LakewardError, TaskFailed
from lakeward.engine.dispatch.dispatcher import Dispatcher, Failure, Progress, make_ready, results_of
from lakeward.engine.task.metadata_merge_spec import MetadataMergeSpec
from lakeward.engine.task.operation_spec import OperationSpec
from lakeward.engine.task.work_counters import Counters, WorkCounters
from lakeward.protocol.progress import Merged, MergePace
from lakeward.protocol.serviced_table import ServicedTable

Spec = TypeVar("Spec", OperationSpec, MetadataMergeSpec)
Result = TypeVar("Result")


Elsewhere = Callable[[Progress], Counters]
"""What is known of tasks on other machines, which keep no counters."""


def merge_slices(
    table: ServicedTable,
    specs: Sequence[Spec],
    dispatcher: Dispatcher,
    run_task: Callable[[Spec, int], Result],
    *,
    name: str,
    elsewhere: Elsewhere,
    failed: Callable[[Spec, LakewardError], None],
) -> list[Result]:
    """The result for each spec, in their order; else the first failure is raised, with the others `beside` it. The
    guard, which may stop the work, is asked with every report of progress.

    Args:
        name: of the whole, for people.
        failed: adds to the error of a slice what it is about.
    """
    make_ready(dispatcher, table)
    table.observer.step(f"{name}: merging on {dispatcher.name}, file slices: {len(specs)}")
    with WorkCounters(len(specs), on_this_machine=dispatcher.is_on_this_machine) as counters:
        counted = [replace(spec, counters=counters.place(index)) for index, spec in enumerate(specs)]
        watched = _Watched(table, sum(spec.input_bytes for spec in specs), counters, elsewhere)
        try:
            outcomes = dispatcher.run(run_task, counted, description=name, on_progress=watched.report)
        except TaskFailed as error:
            if error.index is not None:
                error.file_group = specs[error.index].group_id
            raise
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            failed(specs[outcome.index], outcome.error)
    return results_of(outcomes)


class _Watched:
    """How far the slices are, as the observer hears of it."""

    def __init__(self, table: ServicedTable, input_bytes: int, counters: WorkCounters, elsewhere: Elsewhere) -> None:
        self._table = table
        self._input_bytes = input_bytes
        self._counters = counters
        self._elsewhere = elsewhere
        self._pace = MergePace(is_within_slices=counters.are_kept)

    def report(self, progress: Progress) -> None:
        self._table.guard()
        done = self._counters.total() if self._counters.are_kept else self._elsewhere(progress)
        is_all = progress.finished == progress.total
        state = Merged(
            operations=progress.finished,
            operations_total=progress.total,
            input_bytes=self._input_bytes if is_all else min(done.read_bytes, self._input_bytes),
            input_bytes_total=self._input_bytes,
            output_bytes=done.written_bytes,
            verified_bytes=done.verified_bytes,
            is_within_slices=self._counters.are_kept,
        )
        self._table.observer.merged(self._pace.of(state, self._table.clock.monotonic()))
