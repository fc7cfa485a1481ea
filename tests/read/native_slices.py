"""Slices of table version 10 laid out by hand: the same flushes as inline logs, native logs, or some of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.format.file_name import LogFileName, NativeLogKind
from lakeward.format.log.log_writer import log_block_schema
from lakeward.format.parquet.base_file import SORTED_BY_KEY
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD, MergeMode, MergeRules
from lakeward.read.slice_input import SliceInput
from tests.format.log.native_log.native_files import FILE_ID, FOOTER, SCHEMA, TABLE_JSON, data_file, delete_file
from tests.format.log.native_log.native_files import native_name as name_of
from tests.format.log.native_log.native_files import row as row_of
from tests.read.log_files import data_block, delete_block

EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
COMMIT = MergeRules(MergeMode.COMMIT_TIME_ORDERING, ("ts",))
BLOCK_SCHEMA = json.loads(log_block_schema(TABLE_JSON))
BASE_INSTANT = "100"
NEWEST = "9" * 17


@dataclass(frozen=True)
class Flush:
    """What one write leaves in the slice: rows as (key, ts, v), deletes as (key, ts)."""

    instant: str
    rows: Sequence[tuple[str, int | None, str]] = ()
    deletes: Sequence[tuple[str, int | None]] = ()
    compacted: tuple[str, ...] = ()
    version: int = 1

    def in_order(self) -> Flush:
        return replace(
            self,
            rows=sorted(self.rows, key=lambda each: each[0].encode()),
            deletes=sorted(self.deletes, key=lambda each: each[0].encode()),
        )


def table_row(key: str, ts: int | None, v: str, instant: str) -> dict[str, Any]:
    return row_of(key, ts, v) | {"_hoodie_commit_time": instant, "_hoodie_commit_seqno": f"{instant}_0_{key}"}


def native(flush: Flush, rules: MergeRules = EVENT) -> dict[str, bytes]:
    """Up to two files by their names."""
    flush = flush.in_order()
    footer = replace(FOOTER, instant=flush.instant, compacted_instants=flush.compacted)
    parts = {"instant": flush.instant, "version": flush.version}
    files = {}
    if flush.rows:
        rows = [table_row(key, ts, v, flush.instant) for key, ts, v in flush.rows]
        files[name_of(**parts).text] = data_file(rows, footer)
    if flush.deletes:
        by_event_time = rules.mode is MergeMode.EVENT_TIME_ORDERING
        values = pa.array([ts for _, ts in flush.deletes], pa.int64()) if by_event_time else None
        fields = rules.ordering_fields if by_event_time else ()
        name = name_of(NativeLogKind.DELETES, **parts).text
        files[name] = delete_file([key for key, _ in flush.deletes], values, fields, footer)
    return files


def inline(flush: Flush, rules: MergeRules = EVENT) -> dict[str, bytes]:
    """One file of up to two blocks."""
    by_event_time = rules.mode is MergeMode.EVENT_TIME_ORDERING
    more = {"COMPACTED_BLOCK_TIMES": ",".join(flush.compacted)} if flush.compacted else {}
    data = b""
    if flush.rows:
        rows = [table_row(key, ts, v, flush.instant) for key, ts, v in flush.rows]
        data += data_block(flush.instant, rows, schema_json=BLOCK_SCHEMA, **more)
    if flush.deletes:
        deletes = [(key, ts if by_event_time else None) for key, ts in flush.deletes]
        data += delete_block(flush.instant, deletes, **more)
    return {LogFileName(FILE_ID, flush.instant, flush.version, "0-15-11").text: data}


def lay_out(
    folder: Path,
    base: Sequence[tuple[str, int | None, str]] | None,
    logs: Mapping[str, bytes],
    *,
    rules: MergeRules = EVENT,
    **more: Any,
) -> SliceInput:
    """The slice of partition `p`. The logs' names are put into their order by Hudi's rule as the grammar has it."""
    (folder / "p").mkdir(parents=True, exist_ok=True)
    base_file = None
    if base is not None:
        base_file = f"p/{FILE_ID}_0-0-0_{BASE_INSTANT}.parquet"
        rows = sorted((table_row(*each, BASE_INSTANT) for each in base), key=lambda each: each["id"].encode())
        table = pa.Table.from_pylist(rows, SCHEMA)
        pq.write_table(table.replace_schema_metadata({SORTED_BY_KEY: RECORD_KEY_FIELD}), folder / base_file)
    for name, data in logs.items():
        (folder / "p" / name).write_bytes(data)
    given: dict[str, Any] = {"schema": TABLE_JSON, "rules": rules, "instant": NEWEST} | more
    return SliceInput(
        partition_path="p",
        file_id=FILE_ID,
        base_file=base_file,
        log_files=tuple(f"p/{name}" for name in sorted(logs, key=log_order)),
        base_path=str(folder),
        **given,
    )


def log_order(name: str) -> tuple[str, int]:
    """Instant, then kind; one version and token each."""
    parts = name.removeprefix(".").split("_")
    instant = parts[2] if parts[0] + "_" == f"{FILE_ID}_" and not name.startswith(".") else parts[1].split(".")[0]
    return instant, int(".deletes." in name) + 2 * int(".cdc" in name)
