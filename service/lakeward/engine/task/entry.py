"""The entry of a task: on an executor, which shares no objects with the driver that sent it, or in process.

What a task needs beyond its spec is imported by the task. Numba with its kernels takes more than 100 MB; a daemon
that hands its work to a cluster never has them.

Touches: what the operation or the check touches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.engine.task.slice_check_spec import CheckedSlice, SliceCheck
from lakeward.storage.storage_of_url import open_storage

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.engine.task.key_checkpoint_spec import CheckpointSpec
    from lakeward.engine.task.metadata_merge_spec import MergedMetadata, MetadataMergeSpec
    from lakeward.engine.task.order_check import OrderCheck
    from lakeward.index.index import HashedIndex
    from lakeward.index.key_checkpoints import KeyCheckpoint
    from lakeward.index.lookup_runs import LookupRun
    from lakeward.table.file_order import FileOrder


def run_operation_at(location: str, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """`run_operation` on the storage of `location`."""
    from lakeward.engine.task.operation import run_operation

    storage, _ = open_storage(location)
    return run_operation(storage, spec, task_attempt)


def check_order_at(location: str, check: OrderCheck, task_attempt: int) -> FileOrder:
    """`check_order` on the storage of `location`."""
    from lakeward.engine.task.order_check import check_order

    storage, _ = open_storage(location)
    return check_order(storage, check, task_attempt)


def check_slice_at(location: str, check: SliceCheck, task_attempt: int) -> CheckedSlice:
    """`check_slice` on the storage of `location`."""
    from lakeward.engine.task.slice_check import check_slice

    storage, _ = open_storage(location)
    return check_slice(storage, check, task_attempt)


def make_checkpoint_at(location: str, spec: CheckpointSpec, task_attempt: int) -> KeyCheckpoint:
    """`make_checkpoint` on the storage of `location`."""
    from lakeward.engine.task.key_checkpoint import make_checkpoint

    storage, _ = open_storage(location)
    return make_checkpoint(storage, spec, task_attempt)


def merge_metadata_slice_at(location: str, spec: MetadataMergeSpec, task_attempt: int) -> MergedMetadata | None:
    """`merge_metadata_slice` on the storage of `location`."""
    from lakeward.engine.task.metadata_merge import merge_metadata_slice

    storage, _ = open_storage(location)
    return merge_metadata_slice(storage, spec, task_attempt)


def look_up_at(location: str, index: HashedIndex, run: LookupRun, task_attempt: int) -> pa.Table:
    """What the index says of the keys of a run, in `LOCATIONS`, on the storage of `location`."""
    from lakeward.index.location import locations_of

    storage, _ = open_storage(location)
    return locations_of(index.look_up(storage, run.part, run.keys))
