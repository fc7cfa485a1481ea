"""Targets and their rows, made small."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.storage.local import LocalStorage
from lakeward.write.handles.handle import write_target
from lakeward.write.keyed_rows import keyed_schema
from lakeward.write.request import FileSizes, WriteOperation
from lakeward.write.target import HandleKind, TargetResult, WriteContext, WriteTarget

INSTANT = "20261123120000000"
FILE_ID = "6a1f0c9e-7d3b-4a52-9f11-0b6f5d1c2e3a-0"
PARTITION = "p=1"
COLUMNS = pa.schema(
    [
        pa.field("k", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("v", pa.string()),
        pa.field("_hoodie_is_deleted", pa.bool_()),
    ]
)
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "t_record",
        "namespace": "hoodie.t",
        "fields": [
            {"name": "k", "type": "string"},
            {"name": "ts", "type": ["null", "long"], "default": None},
            {"name": "v", "type": ["null", "string"], "default": None},
            {"name": "_hoodie_is_deleted", "type": ["null", "boolean"], "default": None},
        ],
    }
)
EVENT_TIME = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
COMMIT_TIME = MergeRules(MergeMode.COMMIT_TIME_ORDERING)

Row = tuple[str, int | None, str | None]
"""Key, ordering value, and `v`; the text `gone` makes a delete of it."""


def context(folder: Path, **values: Any) -> WriteContext:
    """One of an upsert by event time into the table `table` in a folder."""
    attempt = folder / "attempt"
    attempt.mkdir(exist_ok=True, parents=True)
    defaults: dict[str, Any] = {
        "base_path": str(folder / "table"),
        "instant": INSTANT,
        "attempt": 7,
        "attempt_folder": str(attempt),
        "operation": WriteOperation.UPSERT,
        "schema": SCHEMA,
        "rules": EVENT_TIME,
        "deduplicates": True,
        "indexed": None,
        "sizes": FileSizes(),
        "codec": "zstd",
        "verify": True,
        "wants_keys": False,
    }
    return WriteContext(**{**defaults, **values})


def target(kind: HandleKind, **values: Any) -> WriteTarget:
    return WriteTarget(**{"index": 3, "kind": kind, "partition_path": PARTITION, "file_id": FILE_ID, **values})


def batches(rows: Sequence[Row], *, at_once: int = 1_000, partition: str = PARTITION) -> list[pa.RecordBatch]:
    """The rows in `keyed_schema`, sorted; their order is that in which they are given."""
    ordered = sorted(enumerate(rows), key=lambda each: (each[1][0].encode(), each[0]))
    records = [
        {
            "_hoodie_record_key": key,
            "_hoodie_partition_path": partition,
            "k": key,
            "ts": ts,
            "v": value,
            "_hoodie_is_deleted": value == "gone",
            "_lakeward_order": order,
        }
        for order, (key, ts, value) in ordered
    ]
    parts = [records[start : start + at_once] for start in range(0, len(records), at_once)]
    return [pa.RecordBatch.from_pylist(part, schema=keyed_schema(COLUMNS)) for part in parts]


def write(of: WriteContext, to: WriteTarget, rows: Sequence[Row], *, at_once: int = 1_000) -> TargetResult:
    return write_target(LocalStorage(), of, to, batches(rows, at_once=at_once), task_attempt=2)


def key_changes(result: TargetResult) -> list[tuple[str, str | None]]:
    assert result.key_changes is not None
    with pa.ipc.open_file(result.key_changes) as file:
        return [(row["key"], row["file_id"]) for row in file.read_all().to_pylist()]


def values_of(record: Mapping[str, Any]) -> Row:
    return record["k"], record["ts"], record["v"]
