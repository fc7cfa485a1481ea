"""Rollback plans: which files of a failed write a requested rollback is going to delete. Avro in both layouts.

    instantToRollback   the write
    RollbackRequests    one for each file: partition path, file id, and the file by its whole path without a scheme

Whichever process finds a plan that waits carries it out, so it says everything that carrying it out needs. From table
version 8 on a write's files carry its instant in their names, base files and logs alike, and are deleted whole; of
version 10 rows, deletes and changes of one flush are files of their own.

Touches: nothing.
Keeps:   1. read_planned_rollback(encode_rollback_plan(plan)) == plan;
         2. every file lies directly in the partition it is listed under, below the base path, and carries the instant
            of the write in its name: what does not is refused (`UntrustedName`), for these names are deleted;
         3. what is written is in the schema of Hudi 1.2, to the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.base.errors import UntrustedName
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import AnyLogName, BaseFileName, check_relative_path, parse_any_data_file
from lakeward.format.timeline.avro_types import TEXT, by_key

VERSION = 1


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    instant: str
    """The write that is rolled back."""
    action: str
    """What it is called on the timeline while it is pending."""
    files: Mapping[str, tuple[str, ...]]
    """Names of the files to delete, by partition path, sorted."""


INSTANT_INFO = {
    "type": "record",
    "name": "HoodieInstantInfo",
    "fields": [{"name": "commitTime", "type": TEXT}, {"name": "action", "type": TEXT}],
}


def sizes_field(name: str) -> dict[str, Any]:
    """A field that maps log files to numbers; since table version 8 there are none."""
    values = by_key("long")
    return {"name": name, "type": ["null", values], "default": None}


_REQUEST = {
    "type": "record",
    "name": "HoodieRollbackRequest",
    "fields": [
        {"name": "partitionPath", "type": TEXT},
        {"name": "fileId", "type": ["null", TEXT], "default": None},
        {"name": "latestBaseInstant", "type": ["null", TEXT], "default": None},
        {"name": "filesToBeDeleted", "type": {"type": "array", "items": TEXT, "default": []}, "default": []},
        sizes_field("logBlocksToBeDeleted"),
    ],
}

_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieRollbackPlan",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {
            "name": "instantToRollback",
            "type": ["null", INSTANT_INFO],
            "doc": "Hoodie instant that needs to be rolled back",
            "default": None,
        },
        {"name": "RollbackRequests", "type": ["null", {"type": "array", "items": _REQUEST}], "default": None},
        {"name": "version", "type": ["int", "null"], "default": 1},
    ],
}

_PLACE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://[^/]*)?(?P<path>/.*)", re.DOTALL)
"""A scheme, and what comes between two slashes and the next one: one bucket has several of both."""


def written_file(name: str, instant: str, *, native: bool) -> BaseFileName | AnyLogName | None:
    """The name of a data file that `instant` wrote; None for any other.

    Args:
        native: the table's version has native logs.
    """
    parsed = parse_any_data_file(name, native=native)
    return parsed if parsed is not None and parsed.instant == instant else None


def planned_path(base_path: str, partition_path: str, name: str) -> str:
    """A file as a plan names it. Without a scheme, since Hudi's writer fails over one that is not its own."""
    return "/".join(part for part in (_place(base_path), partition_path, name) if part)


def read_planned_rollback(data: bytes, *, base_path: str, file: str, native: bool) -> RollbackPlan:
    """The content of a requested rollback; `native` as in `written_file`. Raises `BrokenFile`, `UntrustedName`."""
    fields = RecordFields(read_record(data, file=file), file=file)
    target = fields.record("instantToRollback")
    instant = target.text("commitTime") if target is not None else None
    action = target.text("action") if target is not None else None
    if instant is None or action is None:
        raise fields.broken("instantToRollback", "an instant and its action")
    files: dict[str, set[str]] = {}
    for request in fields.records("RollbackRequests"):
        if request.integer_by_key("logBlocksToBeDeleted"):
            raise request.broken("logBlocksToBeDeleted", "empty, on a table whose logs carry their writer's instant")
        partition_path = check_relative_path(request.text("partitionPath") or "")
        for path in request.texts("filesToBeDeleted"):
            name = path.rpartition("/")[2]
            is_there = _PLACE.fullmatch(path) and _place(path) == planned_path(base_path, partition_path, name)
            if not is_there or written_file(name, instant, native=native) is None:
                raise _untrusted(path, partition_path=partition_path, instant=instant)
            files.setdefault(partition_path, set()).add(name)
    return RollbackPlan(instant, action, {path: tuple(sorted(names)) for path, names in sorted(files.items())})


def encode_rollback_plan(plan: RollbackPlan, *, base_path: str) -> bytes:
    """The bytes of a requested rollback."""
    requests = []
    for partition_path, names in plan.files.items():
        for name in names:
            written = written_file(name, plan.instant, native=True)
            assert written is not None, "only what the write wrote is planned"
            requests.append(
                {
                    "partitionPath": check_relative_path(partition_path),
                    "fileId": written.file_id,
                    "latestBaseInstant": plan.instant,
                    "filesToBeDeleted": [planned_path(base_path, partition_path, name)],
                    "logBlocksToBeDeleted": {},
                }
            )
    target = {"commitTime": plan.instant, "action": plan.action}
    return write_record(_SCHEMA, {"instantToRollback": target, "RollbackRequests": requests, "version": VERSION})


def _place(path: str) -> str:
    found = _PLACE.fullmatch(path)
    assert found is not None, "a base path is absolute"
    return found["path"].rstrip("/")


def _untrusted(path: str, *, partition_path: str, instant: str) -> UntrustedName:
    return UntrustedName(
        f"A rollback plan names {path!r}, which is not trusted.",
        why=f"It is no file that {instant} wrote, directly in the partition {partition_path!r} of this table.",
        remedy="Find out who wrote the plan; nothing was opened or deleted by that name.",
    )
