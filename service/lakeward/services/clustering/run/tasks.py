"""One task of a clustering, whichever kind it is of.

Touches: what `packed_file`, `moved_rows` and `returned_rows` touch.
"""

from __future__ import annotations

from lakeward.services.clustering.run.group_file import WrittenGroup
from lakeward.services.clustering.run.moved_rows import (
    GatheredGroup,
    GatherSpec,
    Sample,
    SampleSpec,
    SplitRows,
    SplitSpec,
    draw_sample,
    gather_group,
    split_rows,
)
from lakeward.services.clustering.run.packed_file import PackSpec, write_packed_file
from lakeward.services.clustering.run.returned_rows import (
    DigestSpec,
    ReturnSpec,
    SliceDigest,
    digest_slice,
    return_rows,
)
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.target import TargetResult, WriteContext

TaskSpec = PackSpec | SampleSpec | SplitSpec | GatherSpec | DigestSpec | ReturnSpec
TaskResult = TargetResult | Sample | SplitRows | GatheredGroup | SliceDigest | WrittenGroup


def run_task_at(location: str, context: WriteContext, spec: TaskSpec, task_attempt: int) -> TaskResult:
    """`run_task` on the storage of `location`."""
    storage, _ = open_storage(location)
    return run_task(storage, context, spec, task_attempt)


def run_task(storage: Storage, context: WriteContext, spec: TaskSpec, task_attempt: int) -> TaskResult:
    """Raises `VerificationFailed`, `Unsupported` and `BrokenFile` for slices that cannot be merged, and what
    `open_operation_output` raises."""
    match spec:
        case PackSpec():
            return write_packed_file(storage, context, spec, task_attempt)
        case SampleSpec():
            return draw_sample(storage, context, spec, task_attempt)
        case SplitSpec():
            return split_rows(storage, context, spec, task_attempt)
        case GatherSpec():
            return gather_group(storage, context, spec, task_attempt)
        case DigestSpec():
            return digest_slice(storage, context, spec, task_attempt)
        case ReturnSpec():
            return return_rows(storage, context, spec, task_attempt)
