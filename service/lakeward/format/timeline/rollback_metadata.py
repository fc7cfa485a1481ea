"""Which instants a rollback or a restore rolled back: Avro files in both layouts.

    completed rollback     commitsRollback: instants
    completed restore      the rollbacks it consists of, by the instant that each one rolled back
    requested rollback     instantToRollback: the one it is going to roll back; RollbackRequests: the files of it

Touches: nothing.
"""

from __future__ import annotations

from lakeward.format.avro.container import read_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import parse_base_file, parse_log_file


def read_rolled_back(data: bytes, *, file: str) -> tuple[str, ...]:
    """The instants of a completed rollback. Raises `BrokenFile`."""
    return _fields(data, file).texts("commitsRollback")


def read_restored(data: bytes, *, file: str) -> tuple[str, ...]:
    """The instants of a completed restore. Raises `BrokenFile`."""
    rollbacks = _fields(data, file).records_by_key("hoodieRestoreMetadata")
    return tuple(time for each in rollbacks.values() for rollback in each for time in rollback.texts("commitsRollback"))


def read_rollback_plan(data: bytes, *, file: str) -> str:
    """The instant that a requested rollback is about. Raises `BrokenFile`."""
    fields = _fields(data, file)
    target = fields.record("instantToRollback")
    time = None if target is None else target.text("commitTime")
    if time is None:
        raise fields.broken("instantToRollback", "an instant")
    return time


def read_rollback_groups(data: bytes, *, file: str) -> frozenset[tuple[str, str]]:
    """Partition path and file id of the file groups that a requested rollback takes something from; empty where it says
    none. Raises `BrokenFile`."""
    groups = set()
    for request in _fields(data, file).records("RollbackRequests"):
        partition_path = request.text("partitionPath") or ""
        names = {path.rpartition("/")[2] for path in request.texts("filesToBeDeleted")}
        parsed = [parse_log_file(name) or parse_base_file(name) for name in names]
        file_ids = {request.text("fileId"), *(name.file_id for name in parsed if name is not None)}
        groups |= {(partition_path, file_id) for file_id in file_ids if file_id}
    return frozenset(groups)


def _fields(data: bytes, file: str) -> RecordFields:
    return RecordFields(read_record(data, file=file), file=file)
