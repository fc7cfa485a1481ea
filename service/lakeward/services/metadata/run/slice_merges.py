"""The file slices of a compaction of the metadata table, merged by tasks: one for each slice.

Touches: through a dispatcher, which reads the slices and writes into the attempt's folder.
Keeps:   1. all slices are merged, or the first failure is raised, with the others beside it, and each with the file
            group that it is about;
         2. the guard, which may stop the work, is asked with every report of progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakeward.base.errors import LakewardError
from lakeward.engine.dispatch.dispatcher import Dispatcher, Progress
from lakeward.engine.slice_merges import merge_slices
from lakeward.engine.task.metadata_merge_spec import MergedMetadata, MetadataMergeSpec
from lakeward.engine.task.work_counters import Counters
from lakeward.protocol.serviced_table import ServicedTable


@dataclass(frozen=True, slots=True)
class MergeTasks:
    """The place where slices are merged."""

    choose_dispatcher: Callable[[int], Dispatcher]
    """From the bytes that all slices have to what runs the work."""
    run_task: Callable[[MetadataMergeSpec, int], MergedMetadata | None]
    """`engine/task/metadata_merge.merge_metadata_slice`, where the task runs."""


def merge_metadata_slices(
    table: ServicedTable, specs: Sequence[MetadataMergeSpec], tasks: MergeTasks, *, name: str
) -> list[MergedMetadata | None]:
    """What was made of each slice, in their order; None where there is no file.

    Args:
        name: of the compaction, for people.
    """
    input_bytes = sum(spec.input_bytes for spec in specs)

    def elsewhere(progress: Progress) -> Counters:
        # It is known how many are finished. Keys are spread over slices by their hash, so these are about of one size.
        return Counters(input_bytes * progress.finished // max(1, progress.total))

    dispatcher = tasks.choose_dispatcher(input_bytes)
    return merge_slices(table, specs, dispatcher, tasks.run_task, name=name, elsewhere=elsewhere, failed=_of_group)


def _of_group(spec: MetadataMergeSpec, error: LakewardError) -> None:
    error.file_group = error.file_group or spec.group_id
