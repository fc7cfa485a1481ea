"""Compaction plans: what a pending compaction or log compaction is going to merge. Avro in both layouts.

A plan names files, it does not carry paths: each operation gives the partition path, the file id and the names of
the base file and of the logs of one file slice.

Hudi has no word for a LOG operation that names all logs of its slice, as one must that another engine may carry out as
FULL, and takes some of them. The names of those, its *run*, are in the plan's extra metadata (`RUNS_KEY`).

Touches: nothing.
Keeps:   1. read_compaction_plan(write_compaction_plan(plan)) == plan;
         2. every name that is read fits the file-name grammar, and every file belongs to its operation's file group;
         3. no file group is in a plan twice, and no log in an operation;
         4. without operation types the bytes are in the schema of Hudi 1.2, to the field;
         5. a run is made of logs that its operation names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from lakeward.base.errors import UntrustedName
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import PARQUET, check_file_id, check_relative_path, parse_any_log, parse_base_file
from lakeward.format.timeline.avro_types import TEXT, TEXTS, by_key

METRICS = ("TOTAL_LOG_FILES", "TOTAL_LOG_FILES_SIZE", "TOTAL_IO_READ_MB", "TOTAL_IO_WRITE_MB", "TOTAL_IO_MB")
"""Hudi fails with a null pointer on an operation that lacks one of them."""

RUNS_KEY = "lakeward.log_runs"
"""A key of the extra metadata: `{partition path: {file id: [names of logs]}}`, as JSON."""

MEBIBYTE = 1024 * 1024
"""What Hudi means by MB in a plan's metrics."""

# Version 1 is of Hudi 0.5 and older, and holds whole paths. Version 3 brought operation types.
_VERSIONS = (2, 3)
_VERSION_WITH_TYPES = 3


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """Work on one file slice."""

    partition_path: str
    """The path below the base path; empty for the one partition of an unpartitioned table."""
    file_id: str
    base_instant: str | None
    """The base instant of the slice."""
    base_file: str | None
    """Name of the base file, None for a slice of logs only."""
    log_files: tuple[str, ...]
    """Names of the log files."""
    metrics: Mapping[str, float]
    bootstrap_file: str | None = None
    """A path outside the table, as it is written; no file-name grammar can check it."""
    operation_type: str | None = None
    """FULL or LOG in plans of version 3; None means FULL."""
    run: tuple[str, ...] | None = None
    """Which of the logs a LOG takes, and what they stand for; None: all."""

    @property
    def file_names(self) -> tuple[str, ...]:
        """Names of all files that it reads."""
        return (*(() if self.base_file is None else (self.base_file,)), *self.log_files)

    @property
    def read_bytes(self) -> int:
        """What its planner expected it to read; 0 where the plan does not say."""
        return round(self.metrics.get("TOTAL_IO_READ_MB", 0.0) * MEBIBYTE)

    @property
    def write_bytes(self) -> int:
        """The same for what it writes."""
        return round(self.metrics.get("TOTAL_IO_WRITE_MB", 0.0) * MEBIBYTE)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    operations: tuple[CompactionOperation, ...]
    version: int = 2
    strategy: str | None = None
    """Class name of the executor; None for compaction."""
    strategy_params: Mapping[str, str] = field(default_factory=dict)
    preserve_metadata: bool = False
    """Hudi sets it for log compaction."""
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    missing_partitions: tuple[str, ...] = ()
    """Partitions that hold logs which the plan leaves. Hudi since 1.1 plans its next compaction only for these and for
    partitions written to since (BaseTableServicePlanActionExecutor), so one that is not here is forgotten."""


_TEXT_BY_KEY = by_key(TEXT)
_DOUBLE_BY_KEY = by_key("double")
_VERSION = {"name": "version", "type": ["int", "null"], "default": 1}
_OPERATION_TYPE = {"name": "operationType", "type": ["null", TEXT], "default": None}

_OPERATION_FIELDS: list[dict[str, Any]] = [
    {"name": "baseInstantTime", "type": ["null", TEXT]},
    {"name": "deltaFilePaths", "type": ["null", TEXTS], "default": None},
    {"name": "dataFilePath", "type": ["null", TEXT], "default": None},
    {"name": "fileId", "type": ["null", TEXT]},
    {"name": "partitionPath", "type": ["null", TEXT], "default": None},
    {"name": "metrics", "type": ["null", _DOUBLE_BY_KEY], "default": None},
    {"name": "bootstrapFilePath", "type": ["null", TEXT], "default": None},
]

_STRATEGY = {
    "type": "record",
    "name": "HoodieCompactionStrategy",
    "fields": [
        {"name": "compactorClassName", "type": ["null", TEXT], "default": None},
        {"name": "strategyParams", "type": ["null", _TEXT_BY_KEY], "default": None},
        _VERSION,
    ],
}


def _plan_schema(*, with_types: bool) -> dict[str, Any]:
    operation = {
        "type": "record",
        "name": "HoodieCompactionOperation",
        "fields": [*_OPERATION_FIELDS, _OPERATION_TYPE] if with_types else _OPERATION_FIELDS,
    }
    return {
        "type": "record",
        "name": "HoodieCompactionPlan",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {"name": "operations", "type": ["null", {"type": "array", "items": operation}], "default": None},
            {"name": "extraMetadata", "type": ["null", _TEXT_BY_KEY], "default": None},
            _VERSION,
            {"name": "strategy", "type": ["null", _STRATEGY], "default": None},
            {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
            {"name": "missingSchedulePartitions", "type": ["null", TEXTS], "default": None},
        ],
    }


def read_compaction_plan(data: bytes, *, file: str, extension: str = PARQUET, native: bool = False) -> CompactionPlan:
    """The content of a requested compaction or log compaction. Raises `BrokenFile`, `UntrustedName`.

    Args:
        extension: of the table's base files.
        native: the table's version has native logs.
    """
    fields = RecordFields(read_record(data, file=file), file=file)
    version = fields.integer("version")
    if version not in _VERSIONS:
        raise fields.broken("version", " or ".join(str(known) for known in _VERSIONS))
    operations = tuple(_operation(each, extension, native=native) for each in fields.records("operations"))
    groups = {(operation.partition_path, operation.file_id) for operation in operations}
    if len(groups) < len(operations):
        raise fields.broken("operations", "one operation for each file group")
    strategy = fields.record("strategy")
    extra_metadata = fields.text_by_key("extraMetadata")
    if (runs := extra_metadata.pop(RUNS_KEY, None)) is not None:
        operations = _with_runs(fields, operations, runs)
    return CompactionPlan(
        operations=operations,
        version=version,
        strategy=strategy.text("compactorClassName") if strategy else None,
        strategy_params=strategy.text_by_key("strategyParams") if strategy else {},
        preserve_metadata=fields.boolean("preserveHoodieMetadata") or False,
        extra_metadata=extra_metadata,
        missing_partitions=fields.texts("missingSchedulePartitions"),
    )


def write_compaction_plan(plan: CompactionPlan, *, extension: str = PARQUET, native: bool = False) -> bytes:
    """The bytes of a requested compaction, in either layout.

    Args:
        extension: of the table's base files.
        native: the table's version has native logs.
    """
    with_types = any(operation.operation_type is not None for operation in plan.operations)
    assert plan.version in _VERSIONS and (not with_types or plan.version >= _VERSION_WITH_TYPES), "types are version 3"
    assert plan.strategy is not None or not plan.strategy_params, "parameters are a strategy's"
    strategy = {"compactorClassName": plan.strategy, "strategyParams": dict(plan.strategy_params), "version": 1}
    return write_record(
        _plan_schema(with_types=with_types),
        {
            "operations": [
                _operation_record(each, extension, with_types=with_types, native=native) for each in plan.operations
            ],
            "extraMetadata": {**plan.extra_metadata, **_runs(plan.operations)},
            "version": plan.version,
            "strategy": None if plan.strategy is None else strategy,
            "preserveHoodieMetadata": plan.preserve_metadata,
            "missingSchedulePartitions": list(plan.missing_partitions),
        },
    )


def _runs(operations: Iterable[CompactionOperation]) -> dict[str, str]:
    runs: dict[str, dict[str, list[str]]] = {}
    for operation in operations:
        if operation.run is not None:
            assert set(operation.run) <= set(operation.log_files), "a run is made of the operation's logs"
            runs.setdefault(operation.partition_path, {})[operation.file_id] = list(operation.run)
    return {RUNS_KEY: orjson.dumps(runs).decode()} if runs else {}


def _with_runs(
    fields: RecordFields, operations: tuple[CompactionOperation, ...], runs: str
) -> tuple[CompactionOperation, ...]:
    try:
        given = orjson.loads(runs)
        found = tuple(
            replace(each, run=None if run is None else tuple(run))
            for each in operations
            for run in (given.get(each.partition_path, {}).get(each.file_id),)
        )
        is_right = all(each.run is None or set(each.run) <= set(each.log_files) for each in found)
    except (AttributeError, TypeError, ValueError):
        is_right = False
    if not is_right:
        raise fields.broken("extraMetadata", f"logs of their operations in {RUNS_KEY}")
    return found


def _operation(fields: RecordFields, extension: str, *, native: bool) -> CompactionOperation:
    operation = CompactionOperation(
        partition_path=fields.text("partitionPath") or "",
        file_id=fields.text("fileId") or "",
        base_instant=fields.text("baseInstantTime"),
        base_file=fields.text("dataFilePath") or None,
        log_files=fields.texts("deltaFilePaths"),
        metrics=fields.number_by_key("metrics"),
        bootstrap_file=fields.text("bootstrapFilePath") or None,
        operation_type=fields.text("operationType"),
    )
    _check_names(operation, extension, native=native)
    if len(set(operation.log_files)) < len(operation.log_files):
        raise fields.broken("deltaFilePaths", "a list that names each log once")
    return operation


def _check_names(operation: CompactionOperation, extension: str, *, native: bool) -> None:
    check_relative_path(operation.partition_path)
    check_file_id(operation.file_id)
    if operation.base_file is not None:
        base = parse_base_file(operation.base_file, extension=extension)
        if base is None or base.file_id != operation.file_id:
            raise _foreign(operation, operation.base_file, "base file")
    for name in operation.log_files:
        log = parse_any_log(name, native=native)
        if log is None or log.file_id != operation.file_id:
            raise _foreign(operation, name, "log file")


def _foreign(operation: CompactionOperation, name: str, kind: str) -> UntrustedName:
    return UntrustedName(
        f"A compaction plan names {name!r}, which is not trusted.",
        why=f"It is not the name of a {kind} of file group {operation.file_id!r}.",
        remedy="Find out who wrote the plan; nothing was opened or deleted by that name.",
    )


def _operation_record(
    operation: CompactionOperation, extension: str, *, with_types: bool, native: bool
) -> dict[str, Any]:
    _check_names(operation, extension, native=native)
    assert set(METRICS) <= operation.metrics.keys(), "Hudi needs all five"
    record = {
        "baseInstantTime": operation.base_instant,
        "deltaFilePaths": list(operation.log_files),
        "dataFilePath": operation.base_file,
        "fileId": operation.file_id,
        "partitionPath": operation.partition_path,
        "metrics": dict(operation.metrics),
        "bootstrapFilePath": operation.bootstrap_file,
    }
    return record | {"operationType": operation.operation_type} if with_types else record
