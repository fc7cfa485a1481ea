"""One operation of Lakeward on the slice, in process, as a task carries it out.

Touches: a new folder beside the slice.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.merge.files import FILE_ID, INSTANT, SliceFiles
from benchmarks.merge.shape import ORDERING_COLUMN
from benchmarks.merge.watched import Watched, watched
from lakeward.base.kernel import make_imported
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationKind, OperationSpec
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.read.slice_input import SliceInput
from lakeward.storage.local import LocalStorage


def by_lakeward(
    files: SliceFiles, *, verify: bool, memory_bytes: int = MEMORY_BYTES
) -> tuple[Watched, list[Path], dict[str, Any]]:
    spec = operation_spec(files, verify=verify, memory_bytes=memory_bytes)
    make_imported()  # a worker is forked with its kernels
    cost, result = watched(lambda: run_operation(LocalStorage(), spec, 0))
    path = Path(spec.attempt_folder) / result.file_name
    counts = result.counts
    said = {"merged_by": str(counts.merged_by), "log_records": counts.log_records}
    return cost, [path], said | {"row_groups_copied": counts.row_groups_copied}


def operation_spec(files: SliceFiles, *, verify: bool, memory_bytes: int = MEMORY_BYTES) -> OperationSpec:
    slice_input = SliceInput(
        partition_path="",
        file_id=FILE_ID,
        base_file=None if files.base_file is None else files.base_file.name,
        log_files=tuple(path.name for path in files.logs),
        base_path=str(files.table),
        instant=INSTANT,
        schema=files.shape.schema_json,
        rules=MergeRules(MergeMode.EVENT_TIME_ORDERING, (ORDERING_COLUMN,), by_rank=files.shape.native),
        memory_bytes=memory_bytes,
    )
    return OperationSpec(
        0,
        slice_input,
        attempt=1,
        attempt_folder=tempfile.mkdtemp(dir=files.folder),
        input_bytes=files.input_bytes,
        verify=verify,
        kind=OperationKind.LOG if files.shape.is_log_operation else OperationKind.FULL,
    )
