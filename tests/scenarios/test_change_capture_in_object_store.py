"""A table in an object store that captures changes: its compaction stopped at its writes, overtaken, and run twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, LockLost
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from tests.crash.capturing import capture_changes, change_logs, check_captured, check_capturing
from tests.crash.compacting import FULL, compactor
from tests.metadata_golden import GOLDEN
from tests.object_lake import BASE, Lake, Service, carry_out, overtaken
from tests.processes import ScriptedProcesses

SERVICE = Service("full", FULL, check_capturing, check_captured)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, GOLDEN, change=capture_changes)


def puts_change_log(write: str) -> bool:
    return write.startswith("close") and write.endswith(".cdc")


def test_a_task_that_is_run_twice_leaves_one_change_log(lake: Lake) -> None:
    """The first run was carried out and its result lost: the marker list, by which Hudi would roll back, has all four
    files, each marker came before its file, and what the first run wrote is gone when the commit is there."""
    store, processes = lake.store(), ScriptedProcesses()
    twice = compactor(BASE, store, processes, lock=StorageLockOptions(wait_seconds=0.0))  # type: ignore[arg-type]
    listed: list[str] = []
    stood: list[list[str]] = []

    def run(spec: OperationSpec, task_attempt: int) -> OperationResult:
        run_operation(store, spec, task_attempt)
        return run_operation(store, spec, task_attempt + 1)

    def look(write: str) -> None:
        if write.startswith("create") and write.endswith("/MARKERS.type"):
            (markers,) = [data for path, (data, _, _) in lake.objects.data.items() if path.endswith("/MARKERS1000")]
            listed.extend(markers.decode().split())
            stood.append(change_logs(lake.fetched()))

    twice._run_operation = run  # type: ignore[assignment]
    store.before = look
    twice.compact()

    assert stood and len(stood[0]) == 2
    check_captured(lake.fetched())
    assert change_logs(lake.fetched()) == stood[0][1:]
    assert len(listed) == 4
    for marker in listed:
        path = marker.rpartition(".marker.")[0]
        created = store.writes.index(next(write for write in store.writes if write.endswith(f"/{marker}")))
        assert created < store.writes.index(f"close {BASE}/{path}")


def test_a_task_that_wakes_too_late_leaves_no_change_log(lake: Lake) -> None:
    """Its attempt was rolled back, and its plan carried out by another process, before the last of its markers: that
    is all that is left of it, until the instant is archived."""
    writes, error = overtaken(lake, lambda write: ".parquet.marker." in write)
    assert isinstance(error, AttemptLost | LockLost)
    assert [write for write in writes if write.startswith("close")] == []
    carry_out(lake.store(), ScriptedProcesses())  # nothing is left to do but to tidy up after it
    (left,) = [path for path in lake.objects.data if "/.hoodie/.temp/" in path]
    assert left.endswith(".parquet.marker.MERGE")
    del lake.objects.data[left]
    check_captured(lake.fetched())
