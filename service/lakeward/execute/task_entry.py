"""Where a task starts: on an executor, which shares no objects with whoever sent it, or in process.

What a task needs beyond its spec is imported by the task. Numba with its kernels takes more than 100 MB; a daemon
that hands its work to a cluster never has them.

Touches: what the operation or the check touches.
"""

from __future__ import annotations

from lakeward.execute.operation_spec import OperationResult, OperationSpec
from lakeward.execute.slice_check_spec import CheckedSlice, SliceCheck
from lakeward.storage.opening import open_storage


def run_operation_at(location: str, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """`run_operation` on the storage of `location`."""
    from lakeward.execute.operation import run_operation

    storage, _ = open_storage(location)
    return run_operation(storage, spec, task_attempt)


def check_slice_at(location: str, check: SliceCheck, task_attempt: int) -> CheckedSlice:
    """`check_slice` on the storage of `location`."""
    from lakeward.execute.slice_check import check_slice

    storage, _ = open_storage(location)
    return check_slice(storage, check, task_attempt)
