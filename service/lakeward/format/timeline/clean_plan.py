"""Clean plans: which files a requested clean is going to delete. Avro in both layouts.

    partition path -> files, each by its whole path as the engine formats it (`file:/data/t/p=1/x.parquet`)

A plan that waits is carried out by the process that finds it, so it says everything that carrying it out needs.

Touches: nothing.
Keeps:   1. read_clean_plan(write_clean_plan(plan)) == plan;
         2. every file lies directly in the partition it is listed under, below the base path: what does not is
            refused (`UntrustedName`), for these names are deleted;
         3. what is written is in the schema of Hudi 1.2, to the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import check_plain_name, check_relative_path
from lakeward.format.timeline.avro_types import TEXT, TEXTS, by_key
from lakeward.format.timeline.clean_metadata import KEEP_LATEST_COMMITS

VERSION = 2
"""In version 1 files are in another field, by name."""


@dataclass(frozen=True, slots=True)
class Retained:
    """The instant as of which, and after which, everything can still be read."""

    time: str
    action: str
    state: str
    """The state as Hudi writes it: COMPLETED."""


@dataclass(frozen=True, slots=True)
class CleanPlan:
    earliest_retained: Retained | None
    last_completed: str
    """The last commit that the planner knew of."""
    files: Mapping[str, tuple[str, ...]]
    """Names of the files to delete, by partition path."""
    policy: str = KEEP_LATEST_COMMITS
    partitions_deleted: tuple[str, ...] = ()
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    retired: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the logs that retire, by partition path: they are in slices that readers read, so that they are deleted
    after the clean is completed. They stand in the extra metadata alone, for another engine, which may carry any plan
    out, would delete first."""

    @property
    def is_empty(self) -> bool:
        return not any(self.files.values()) and not any(self.retired.values())


RETIRES = "lakeward.retires"
"""The key of the extra metadata under which they stand, as JSON."""

_EXTRA = {**by_key(TEXT), "default": None}

_INSTANT = {
    "type": "record",
    "name": "HoodieActionInstant",
    "fields": [{"name": name, "type": TEXT} for name in ("timestamp", "action", "state")],
}

_FILE = {
    "type": "record",
    "name": "HoodieCleanFileInfo",
    "fields": [
        {"name": "filePath", "type": ["null", TEXT], "default": None},
        {"name": "isBootstrapBaseFile", "type": ["null", "boolean"], "default": None},
    ],
}

_NAMES_BY_PARTITION = by_key(TEXTS)
_FILES_BY_PARTITION = by_key({"type": "array", "items": _FILE})

_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieCleanerPlan",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "earliestInstantToRetain", "type": ["null", _INSTANT], "default": None},
        {"name": "lastCompletedCommitTimestamp", "type": TEXT, "default": ""},
        {"name": "policy", "type": TEXT},
        {"name": "filesToBeDeletedPerPartition", "type": ["null", _NAMES_BY_PARTITION], "default": None},
        {"name": "version", "type": ["int", "null"], "default": 1},
        {"name": "filePathsToBeDeletedPerPartition", "type": ["null", _FILES_BY_PARTITION], "default": None},
        {"name": "partitionsToBeDeleted", "type": ["null", TEXTS], "default": None},
        {"name": "extraMetadata", "type": ["null", _EXTRA], "default": None},
    ],
}


def clean_plan_root(base_path: str) -> str:
    """How a plan of Lakeward names the base path. Hudi's writer fails over a scheme that is not its own, and one bucket
    has several (`s3`, `s3a`); without any, Hadoop takes a file to be in the table's own bucket."""
    _, found, rest = base_path.partition("://")
    return f"/{rest.partition('/')[2]}" if found else f"file:{base_path}"


def read_clean_plan(data: bytes, *, root: str, file: str) -> CleanPlan:
    """The content of a requested clean. Raises `BrokenFile`, `UntrustedName`.

    Args:
        root: as of `clean_plan_root`; an engine may write it with another scheme.
    """
    fields = RecordFields(read_record(data, file=file), file=file)
    if fields.integer("version") != VERSION:
        raise fields.broken("version", str(VERSION))
    retained = fields.record("earliestInstantToRetain")
    extra = fields.text_by_key("extraMetadata")
    return CleanPlan(
        earliest_retained=_retained(retained) if retained is not None else None,
        last_completed=fields.text("lastCompletedCommitTimestamp") or "",
        files={
            check_relative_path(path): tuple(_name(each.text("filePath") or "", root, path) for each in of)
            for path, of in fields.records_by_key("filePathsToBeDeletedPerPartition").items()
        },
        policy=fields.text("policy") or "",
        partitions_deleted=fields.texts("partitionsToBeDeleted"),
        extra_metadata={name: text for name, text in extra.items() if name != RETIRES},
        retired=_read_retired(extra[RETIRES], file) if RETIRES in extra else {},
    )


def read_extra_metadata(data: bytes, *, file: str) -> dict[str, str]:
    """What else a requested clean says, whatever files it names. Raises `BrokenFile`."""
    return RecordFields(read_record(data, file=file), file=file).text_by_key("extraMetadata")


def read_earliest_retained(data: bytes, *, file: str) -> str:
    """The instant as of which, and after which, everything can be read once a requested clean is done. Empty under the
    policy of file versions. Raises `BrokenFile`."""
    retained = RecordFields(read_record(data, file=file), file=file).record("earliestInstantToRetain")
    return _retained(retained).time if retained is not None else ""


def read_retention(data: bytes, *, file: str) -> tuple[str, str, str, Mapping[str, str]]:
    """How much a requested clean keeps: its policy, the earliest instant that it retains, the last commit that its
    planner knew of, and what else it says. Raises `BrokenFile`."""
    fields = RecordFields(read_record(data, file=file), file=file)
    retained = fields.record("earliestInstantToRetain")
    return (
        fields.text("policy") or "",
        _retained(retained).time if retained is not None else "",
        fields.text("lastCompletedCommitTimestamp") or "",
        fields.text_by_key("extraMetadata"),
    )


def write_clean_plan(plan: CleanPlan, *, root: str) -> bytes:
    """The bytes of a requested clean, in either layout. `root` as for `read_clean_plan`."""
    retained = plan.earliest_retained
    return write_record(
        _SCHEMA,
        {
            "earliestInstantToRetain": retained
            and {"timestamp": retained.time, "action": retained.action, "state": retained.state},
            "lastCompletedCommitTimestamp": plan.last_completed,
            "policy": plan.policy,
            "filesToBeDeletedPerPartition": {},
            "version": VERSION,
            "filePathsToBeDeletedPerPartition": {
                check_relative_path(path): [
                    {"filePath": _prefix(root, path) + name, "isBootstrapBaseFile": False} for name in names
                ]
                for path, names in plan.files.items()
            },
            "partitionsToBeDeleted": list(plan.partitions_deleted),
            "extraMetadata": dict(plan.extra_metadata) | _retired_text(plan.retired),
        },
    )


def _retired_text(retired: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {RETIRES: orjson.dumps({path: list(names) for path, names in retired.items()}).decode()} if retired else {}


def _read_retired(text: str, file: str) -> dict[str, tuple[str, ...]]:
    try:
        said = orjson.loads(text).items()
        return {check_relative_path(path): tuple(check_plain_name(str(name)) for name in names) for path, names in said}
    except (ValueError, AttributeError, TypeError) as error:
        raise BrokenFile(f"{file} does not say which logs retire.", why=f"{RETIRES}: {error}.") from error


def _retained(fields: RecordFields) -> Retained:
    return Retained(*(fields.text(name) or "" for name in ("timestamp", "action", "state")))


def _prefix(root: str, partition_path: str) -> str:
    return f"{root}/{partition_path}/" if partition_path else f"{root}/"


_SCHEME = re.compile(r"(file:(//)?(?=/))|([a-z][a-z0-9+.-]*://[^/]+(?=/))")
"""What says that a path is of a file system, or of an object store: then with the bucket, the table's own."""


def _name(path: str, root: str, partition_path: str) -> str:
    prefix = _prefix(_SCHEME.sub("", root, count=1), partition_path)
    path_below = _SCHEME.sub("", path, count=1)
    name = path_below.removeprefix(prefix)
    if not path_below.startswith(prefix) or not name or name in (".", "..") or "/" in name:
        raise UntrustedName(
            f"A clean plan names {path!r}, which is not trusted.",
            why=f"It is not a file directly below {prefix}.",
            remedy="Find out who wrote the plan; nothing was opened or deleted by that name.",
        )
    return name
