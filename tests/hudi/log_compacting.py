"""Our log compaction on a real Hudi table, without the service around it: plan, run, publish, in a few lines.

For the tests that ask what Hudi makes of our LOG outputs; what the service adds (locks, heartbeats, rollback) has
tests of its own.

Touches: the table, which no other writer may change meanwhile.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec
from lakeward.format.timeline.commit_metadata import write_commit_metadata
from lakeward.format.timeline.compaction_plan import METRICS, CompactionOperation, CompactionPlan, write_compaction_plan
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.services.compaction.run.publication import log_compaction_commit
from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot
from tests.our_reader import scan

STRATEGY = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"


def new_instant() -> str:
    """The time in UTC, which is where the tests' tables live; later than every call before."""
    time.sleep(0.002)
    return datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")[:17]


def log_compact(path: Path, *, logs: int | None = None) -> tuple[str, list[OperationResult]]:
    """LOG over the oldest `logs` log files of every slice that has more than one, all of them unless said otherwise.

    Returns the instant and what was made.
    """
    snapshot = scan(path)
    instant, slices = plan_log_compaction(path, logs=logs)
    timeline = path / ".hoodie" / "timeline"
    (timeline / f"{instant}.logcompaction.inflight").write_bytes(b"")
    results = []
    for index, slice_ in enumerate(slices):
        folder = path / slice_.partition_path
        spec = operation_spec(path, snapshot, slice_, instant=instant, folder=folder, index=index, logs=logs)
        results.append(run_operation(LocalStorage(), spec, 0))
        Path(spec.place.done_path(0, rows=results[-1].counts.rows + results[-1].counts.deleted)).unlink()
    assert snapshot.schema is not None
    metadata = log_compaction_commit(slices, results, snapshot.schema)
    (timeline / f"{instant}_{new_instant()}.deltacommit").write_bytes(write_commit_metadata(metadata))
    return instant, results


def plan_log_compaction(path: Path, *, logs: int | None = None) -> tuple[str, list[FileSlice]]:
    """Write its plan, which is then pending. Returns the instant and the slices."""
    slices = [slice_ for slice_ in scan(path).latest_slices if len(slice_.log_files[:logs]) > 1]
    instant = new_instant()
    plan = write_compaction_plan(_plan(slices, logs))
    (path / ".hoodie" / "timeline" / f"{instant}.logcompaction.requested").write_bytes(plan)
    return instant, slices


def operation_spec(
    path: Path,
    snapshot: TableSnapshot,
    slice_: FileSlice,
    *,
    instant: str,
    folder: Path,
    index: int = 0,
    logs: int | None = None,
) -> OperationSpec:
    assert snapshot.schema is not None
    merged = slice_.log_files[:logs]
    return OperationSpec(
        kind=OperationKind.LOG,
        index=index,
        slice=SliceInput(
            base_path=str(path),
            partition_path=slice_.partition_path,
            file_id=slice_.file_id,
            base_file=None,
            log_files=tuple(str(Path(slice_.partition_path, log.name.text)) for log in merged),
            instant=instant,
            schema=snapshot.schema,
            rules=merge_rules(snapshot),
        ),
        attempt=1,
        attempt_folder=str(folder),
        input_bytes=sum(log.size for log in merged),
    )


def _plan(slices: list[FileSlice], logs: int | None) -> CompactionPlan:
    operations = [
        CompactionOperation(
            partition_path=slice_.partition_path,
            file_id=slice_.file_id,
            base_instant=slice_.base_instant,
            base_file=slice_.base_file.name if slice_.base_file else None,
            log_files=tuple(log.name.text for log in slice_.log_files[:logs]),
            metrics=dict.fromkeys(METRICS, 1.0),
        )
        for slice_ in slices
    ]
    return CompactionPlan(tuple(operations), strategy=STRATEGY, preserve_metadata=True)
