"""Tasks over buckets of a record index in processes of this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lakeward.base.errors import TaskFailed
from lakeward.engine.dispatch.local import LocalDispatcher, Places
from lakeward.index.record.record_file import RecordFile
from lakeward.protocol.index import bucket_tasks
from lakeward.protocol.index.bucket_tasks import BucketTask, run_bucket_task
from lakeward.services.indexing.run.bucket_dispatch import BucketDispatch
from lakeward.storage.local import LocalStorage
from tests.index.record.reopened_record_index import ReopenedRecordIndex, new_record_index
from tests.index.test_writable_index import changes, found

KEYS = [f"k{number:03}" for number in range(200)]


def run(task: BucketTask, task_attempt: int) -> tuple[RecordFile, ...]:
    return run_bucket_task(LocalStorage(), task, task_attempt)


def killed(task: BucketTask, task_attempt: int) -> tuple[RecordFile, ...]:
    run_bucket_task(LocalStorage(), task, task_attempt)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it is dead")


def test_processes_write_the_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What processes write is there; where one is killed with its files written, the index is as it was."""
    monkeypatch.setattr(bucket_tasks, "SPREAD_SECONDS", -1.0)
    new_record_index(tmp_path, buckets=5)
    dispatcher = LocalDispatcher(Places(2, 2**30), memory_bytes=2**29)
    index = ReopenedRecordIndex(
        tmp_path, lambda of: {each: each for each in of}, spread=BucketDispatch(lambda size: dispatcher, run)
    )
    index.update("1", changes([(key, "p", "p-1") for key in KEYS]), completed="1")
    assert [row[:3] for row in found(index, *KEYS)] == [(key, "p", "p-1") for key in KEYS]
    assert len(index.open().manifest.files) == 5
    dying = ReopenedRecordIndex(
        tmp_path, lambda of: {each: each for each in of}, spread=BucketDispatch(lambda size: dispatcher, killed)
    )
    with pytest.raises(TaskFailed):
        dying.update("2", changes([(key, "p", "p-2") for key in KEYS]), completed="2")
    assert [row[:3] for row in found(index, *KEYS)] == [(key, "p", "p-1") for key in KEYS]
