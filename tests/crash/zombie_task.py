"""A task whose first attempt writes its whole file, fails, and leaves a zombie that writes on after the commit."""

from __future__ import annotations

import os
import time
from pathlib import Path

from lakeward.base.errors import LakewardError
from lakeward.engine.task.entry import run_operation_at
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.storage.local import LocalStorage

TIMEOUT_SECONDS = 120.0


def run_twice(scratch: str, location: str, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """`run_operation_at`, but for the first attempt of each operation."""
    result = run_operation_at(location, spec, task_attempt)
    if task_attempt == 0:
        if os.fork() == 0:
            os.setsid()  # out of reach of the executor that stops its workers
            try:
                _write_on(Path(scratch), spec)
            finally:
                os._exit(0)
        raise OSError("the executor lost its network after writing the file")
    return result


def _write_on(scratch: Path, spec: OperationSpec) -> None:
    storage = LocalStorage()
    held = storage.open_output(f"{spec.attempt_folder}/held-open")
    (scratch / f"zombie-{spec.index}").touch()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (scratch / "go").exists():
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)
    held.write(b"too late")
    held.close()
    try:
        storage.open_output(f"{spec.attempt_folder}/{spec.file_name(0)}").close()
        shown = "wrote"
    except LakewardError as error:
        shown = type(error).__name__
    (scratch / f"told-{spec.index}.part").write_text(shown)
    (scratch / f"told-{spec.index}.part").rename(scratch / f"told-{spec.index}")
