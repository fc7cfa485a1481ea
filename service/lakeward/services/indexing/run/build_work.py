"""What a build of an index reads, a task for each file group, and what of that is there from a build that was stopped.

    snapshot -> the newest slice of each file group -> those without a checkpoint are read by tasks -> all have one

A task leaves what it read in the folder of the build (`engine/task/key_checkpoint`), under a name that says of what
files it is (`index/key_checkpoints`). So a build that was stopped, and one that begins again with a later snapshot,
makes only those that it lacks; what lies there of files that are no longer the newest goes with the folder, once the
index is there. The folder is all that is known: the store gets reports, and is asked nothing.

Touches: the table, reading; the folder of the build; processes of this machine or Spark, by the dispatcher.
Keeps:   1. a slice whose checkpoint is there is not read again, and no other one's keys are taken for its own;
         2. all tasks together read no more in a second than was said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from lakeward.base.clock import Clock, SystemClock
from lakeward.base.errors import NotFound, Refused
from lakeward.engine.dispatch.dispatcher import Dispatcher, Failure, Progress, raise_first, results_of
from lakeward.engine.task.key_checkpoint_spec import CheckpointSpec
from lakeward.engine.task.work_counters import WorkCounters
from lakeward.index.build_state import BuildState
from lakeward.index.key_changes.group_changes import TableFiles
from lakeward.index.key_changes.key_reader import check_deletes_are_known
from lakeward.index.key_changes.table_commits import check_can_be_followed
from lakeward.index.key_checkpoints import KeyCheckpoint
from lakeward.index.record.record_file import RecordFile
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.read.newest_slice import table_reading
from lakeward.services.indexing.run.bucket_build import BucketSpec, bucket_specs
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

_LOOK_SECONDS = 10.0
"""How often it is looked which checkpoints there are while tasks run."""


@dataclass(frozen=True, slots=True)
class BuildWork:
    """What a build is given: where its tasks run, where what they make is kept, and who gets reports."""

    folder: str
    choose_dispatcher: Callable[[int], Dispatcher]
    """The dispatcher for so many bytes."""
    run_task: Callable[[CheckpointSpec, int], KeyCheckpoint]
    """`engine/task/key_checkpoint.make_checkpoint`, where the task runs."""
    write_buckets: Callable[[BucketSpec, int], tuple[RecordFile, ...]]
    """`bucket_build.write_buckets`, where the task runs."""
    memory_bytes: int = MEMORY_BYTES
    """Peak memory of one task."""
    bytes_per_second: float | None = None
    """What all tasks read together; None: no limit."""
    column: str | None = None
    """The column of a secondary index, whose keys are read."""
    clock: Clock = field(default_factory=SystemClock)
    guard: Callable[[], None] = lambda: None
    """Stops the build by raising an error of Lakeward."""
    on_group: Callable[[int, int], None] = lambda done, of: None
    """Called with how many file groups are read, and of how many."""
    on_read: Callable[[int], None] = lambda size: None
    """Gets how many bytes the tasks have read so far, where they run on this machine, before `on_group`."""
    on_buckets: Callable[[int, int], None] = lambda done, of: None
    """Called with how many of the tasks are done that write files of the index, and of how many."""
    on_state: Callable[[BuildState], None] = lambda state: None
    """Called with how far it is when tasks begin, now and then meanwhile, and when all is read."""


def build_state(storage: Storage, snapshot: TableSnapshot, folder: str, *, besides: Collection[str] = ()) -> BuildState:
    """What a build has to read, and what of it is there. Raises `Refused` and `Unsupported` for a table that no index
    of Lakeward can be built of.

    Args:
        besides: partitions of which nothing is read.
    """
    check_can_be_followed(snapshot)
    check_deletes_are_known(snapshot)
    table = TableFiles.of(snapshot)
    if frozen := {group: why for group, why in table.frozen.items() if group[0] not in besides}:
        (partition_path, file_id), why = min(frozen.items())
        raise Refused(
            "The index cannot be built.",
            why=f"Which keys the file group {file_id} in partition {partition_path!r} has cannot be known: {why}",
            remedy="See to that file group first (`lakeward inspect`).",
        )
    return BuildState.of(storage, snapshot, table, folder, besides)


def make_missing(storage: Storage, snapshot: TableSnapshot, state: BuildState, work: BuildWork) -> BuildState:
    """Read what has yet to be read. Raises what tasks raise; `NotFound` where files of the table, or checkpoints, went
    meanwhile."""
    work.on_state(state)
    if not state.missing:
        return state
    dispatcher = work.choose_dispatcher(state.bytes_missing)
    dispatcher.probe(work.guard)
    rate = work.bytes_per_second
    at_once = min(len(state.missing), dispatcher.parallelism or 1)
    reading = table_reading(snapshot, merges=any(slice_.row_logs for slice_ in state.missing.values()))
    specs = [
        CheckpointSpec(
            reading,
            slice_,
            work.folder,
            digest,
            work.memory_bytes,
            None if rate is None else rate / at_once,
            work.column,
        )
        for digest, slice_ in state.missing.items()
    ]
    looked = work.clock.monotonic()

    def report(progress: Progress) -> None:
        nonlocal looked
        work.guard()
        if counters.are_kept:
            work.on_read(counters.total().read_bytes)
        work.on_group(len(state.made) + progress.finished, len(state.slices))
        if work.clock.monotonic() - looked >= _LOOK_SECONDS:
            looked = work.clock.monotonic()
            work.on_state(state.as_it_is(storage, work.folder))

    with WorkCounters(len(specs), on_this_machine=dispatcher.is_on_this_machine) as counters:
        counted = [replace(spec, counters=counters.place(index)) for index, spec in enumerate(specs)]
        outcomes = dispatcher.run(
            work.run_task, counted, description="keys of file groups for an index", on_progress=report
        )
    complete = state.as_it_is(storage, work.folder)
    work.on_state(complete)
    raise_first([outcome.error for outcome in outcomes if isinstance(outcome, Failure)])
    if complete.missing:
        raise NotFound(
            "Checkpoints of the build are gone.",
            why="Another process built the index meanwhile, or dropped it.",
            remedy="See that one process at a time builds an index.",
        )
    return complete


def make_bucket_files(spec: BucketSpec, work: BuildWork) -> list[RecordFile]:
    """The files of a record index out of the checkpoints, by tasks. Raises what tasks raise.

    Args:
        spec: of all buckets.
    """
    dispatcher = work.choose_dispatcher(sum(checkpoint.bytes for _, checkpoint in spec.made))
    dispatcher.probe(work.guard)

    def report(progress: Progress) -> None:
        work.guard()
        work.on_buckets(progress.finished, progress.total)

    outcomes = dispatcher.run(
        work.write_buckets,
        bucket_specs(spec, dispatcher.parallelism or 1),
        description="files of a record index",
        on_progress=report,
    )
    return [file for files in results_of(outcomes) for file in files]


def remove_checkpoints(storage: Storage, folder: str) -> None:
    """What was read is of no use any more: the index that was built is in its place."""
    storage.delete_folder(folder)
