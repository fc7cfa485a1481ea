"""The file slices of a compaction of the metadata table, merged by tasks: one for each slice.

Touches: through a dispatcher, which reads the slices and writes into the attempt's folder.
Keeps:   1. all slices are merged, or the first failure is raised, with the others beside it, and each with the file
            group that it is about;
         2. the guard, which may stop the work, is asked with every report of progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lakeward.base.errors import LakewardError, TaskFailed
from lakeward.engine.dispatch.dispatcher import Dispatcher, Failure, Progress, make_ready, raise_first
from lakeward.engine.task.metadata_merge_spec import MergedMetadata, MetadataMergeSpec
from lakeward.engine.task.work_counters import Counters, WorkCounters
from lakeward.protocol.progress import Merged, MergePace
from lakeward.protocol.serviced_table import ServicedTable


@dataclass(frozen=True, slots=True)
class MergeTasks:
    """The place where slices are merged."""

    choose_dispatcher: Callable[[int], Dispatcher]
    """From the bytes that all slices have to what runs the work."""
    run_task: Callable[[MetadataMergeSpec, int], MergedMetadata | None]
    """`engine/task/metadata_merge.merge_metadata_slice`, where the task runs."""


def merge_slices(
    table: ServicedTable, specs: Sequence[MetadataMergeSpec], tasks: MergeTasks, *, name: str
) -> list[MergedMetadata | None]:
    """What was made of each slice, in their order; None where there is no file.

    Args:
        name: of the compaction, for people.
    """
    dispatcher = tasks.choose_dispatcher(sum(spec.input_bytes for spec in specs))
    make_ready(dispatcher, table)
    table.observer.step(f"{name}: merging on {dispatcher.name}, file slices: {len(specs)}")
    with WorkCounters(len(specs), on_this_machine=dispatcher.is_on_this_machine) as counters:
        counted = [replace(spec, counters=counters.place(index)) for index, spec in enumerate(specs)]
        watched = _Watched(table, specs, counters)
        try:
            outcomes = dispatcher.run(tasks.run_task, counted, description=name, on_progress=watched.report)
        except TaskFailed as error:
            if error.index is not None:
                error.file_group = specs[error.index].slice.group_id
            raise
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    raise_first([_of_group(failure.error, specs[failure.index]) for failure in failures])
    return [outcome.result for outcome in outcomes if not isinstance(outcome, Failure)]


def _of_group(error: LakewardError, spec: MetadataMergeSpec) -> LakewardError:
    error.file_group = error.file_group or spec.slice.group_id
    return error


class _Watched:
    """How far the slices are, as the observer hears of it."""

    def __init__(self, table: ServicedTable, specs: Sequence[MetadataMergeSpec], counters: WorkCounters) -> None:
        self._table = table
        self._counters = counters
        self._input_bytes = sum(spec.input_bytes for spec in specs)
        self._pace = MergePace(is_within_slices=counters.are_kept)

    def report(self, progress: Progress) -> None:
        self._table.guard()
        done = self._done(progress)
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

    def _done(self, progress: Progress) -> Counters:
        if self._counters.are_kept:
            return self._counters.total()
        # Of tasks on other machines it is known how many are finished. Keys are spread over slices by their hash, so
        # these are about of one size.
        return Counters(self._input_bytes * progress.finished // max(1, progress.total))
