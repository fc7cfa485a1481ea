"""Which instants a rollback or a restore rolled back: Avro files in both layouts.

    completed rollback     commitsRollback: instants
    completed restore      the rollbacks it consists of, by the instant that each one rolled back
    requested rollback     instantToRollback: the one it is going to roll back; RollbackRequests: the files of it

Touches: nothing.
Keeps:   what is written is in the schema of Hudi 1.2, to the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.format.avro.container import read_record, write_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.avro_types import TEXT, TEXTS, by_key
from lakeward.format.timeline.rollback_plan import INSTANT_INFO, VERSION, RollbackPlan, planned_path, sizes_field

_PARTITION = {
    "type": "record",
    "name": "HoodieRollbackPartitionMetadata",
    "fields": [
        {"name": "partitionPath", "type": TEXT},
        {"name": "successDeleteFiles", "type": TEXTS},
        {"name": "failedDeleteFiles", "type": TEXTS},
        sizes_field("rollbackLogFiles"),
        sizes_field("logFilesFromFailedCommit"),
    ],
}

_BY_PARTITION = by_key(_PARTITION)
_INSTANTS = {"type": "array", "items": INSTANT_INFO, "default": []}

ROLLBACK_METADATA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieRollbackMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "startRollbackTime", "type": TEXT},
        {"name": "timeTakenInMillis", "type": "long"},
        {"name": "totalFilesDeleted", "type": "int"},
        {"name": "commitsRollback", "type": TEXTS},
        {"name": "partitionMetadata", "type": _BY_PARTITION},
        {"name": "version", "type": ["int", "null"], "default": 1},
        {"name": "instantsRollback", "type": _INSTANTS, "default": []},
    ],
}


def encode_rollback_metadata(plan: RollbackPlan, *, instant: str, milliseconds: int, base_path: str) -> bytes:
    """The bytes of the completed rollback at `instant`, which did all that its plan says."""
    record = rollback_record(plan, instant=instant, milliseconds=milliseconds, base_path=base_path)
    return write_record(ROLLBACK_METADATA, record)


def rollback_record(plan: RollbackPlan, *, instant: str, milliseconds: int, base_path: str) -> dict[str, Any]:
    """What is encoded of it, alone or in a restore."""
    partitions = {
        partition_path: {
            "partitionPath": partition_path,
            "successDeleteFiles": [planned_path(base_path, partition_path, name) for name in names],
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        for partition_path, names in plan.files.items()
    }
    return {
        "startRollbackTime": instant,
        "timeTakenInMillis": milliseconds,
        "totalFilesDeleted": sum(len(names) for names in plan.files.values()),
        "commitsRollback": [plan.instant],
        "partitionMetadata": partitions,
        "version": VERSION,
        "instantsRollback": [{"commitTime": plan.instant, "action": plan.action}],
    }


def read_rolled_back(data: bytes, *, file: str) -> tuple[str, ...]:
    """The instants of a completed rollback. Raises `BrokenFile`."""
    return _fields(data, file).texts("commitsRollback")


def read_restored(data: bytes, *, file: str) -> tuple[str, ...]:
    """The instants of a completed restore. Raises `BrokenFile`."""
    rollbacks = _fields(data, file).records_by_key("hoodieRestoreMetadata")
    return tuple(time for each in rollbacks.values() for rollback in each for time in rollback.texts("commitsRollback"))


@dataclass(frozen=True, slots=True)
class UndoneInstants:
    """What a completed rollback or restore undid."""

    instants: Mapping[str, str]
    """Their actions; an empty text where none is given."""
    groups: frozenset[tuple[str, str]]
    """Partition path and file id of the file groups that it took files from."""


def read_undone(data: bytes, *, file: str, native: bool) -> UndoneInstants:
    """What a completed rollback or restore says. Raises `BrokenFile`.

    Args:
        native: the table's version has native logs.
    """
    fields = _fields(data, file)
    is_restore = fields.has("hoodieRestoreMetadata")
    rollbacks = [each for of in fields.records_by_key("hoodieRestoreMetadata").values() for each in of]
    instants: dict[str, str] = {}
    groups: set[tuple[str, str]] = set()
    for rollback in rollbacks if is_restore else [fields]:
        instants.update(dict.fromkeys(rollback.texts("commitsRollback"), ""))
        instants.update(_actions(rollback.records("instantsRollback")))
        for partition_path, partition in rollback.record_by_key("partitionMetadata").items():
            paths = (*partition.texts("successDeleteFiles"), *partition.texts("failedDeleteFiles"))
            parsed = (parse_any_data_file(path.rpartition("/")[2], native=native) for path in paths)
            groups |= {(partition_path, name.file_id) for name in parsed if name is not None}
    if is_restore:
        instants.update(_actions(fields.records("restoreInstantInfo")))
    return UndoneInstants(instants, frozenset(groups))


def _actions(infos: Iterable[RecordFields]) -> dict[str, str]:
    return {time: info.text("action") or "" for info in infos if (time := info.text("commitTime"))}


def read_rollback_plan(data: bytes, *, file: str) -> str:
    """The instant that a requested rollback is about. Raises `BrokenFile`."""
    fields = _fields(data, file)
    target = fields.record("instantToRollback")
    time = None if target is None else target.text("commitTime")
    if time is None:
        raise fields.broken("instantToRollback", "an instant")
    return time


def read_rollback_groups(data: bytes, *, file: str, native: bool) -> frozenset[tuple[str, str]]:
    """Partition path and file id of the file groups that a requested rollback takes something from; empty where it says
    none. Raises `BrokenFile`.

    Args:
        native: the table's version has native logs.
    """
    groups = set()
    for request in _fields(data, file).records("RollbackRequests"):
        partition_path = request.text("partitionPath") or ""
        names = {path.rpartition("/")[2] for path in request.texts("filesToBeDeleted")}
        parsed = [parse_any_data_file(name, native=native) for name in names]
        file_ids = {request.text("fileId"), *(name.file_id for name in parsed if name is not None)}
        groups |= {(partition_path, file_id) for file_id in file_ids if file_id}
    return frozenset(groups)


def _fields(data: bytes, file: str) -> RecordFields:
    return RecordFields(read_record(data, file=file), file=file)
