"""The log of changes, byte by byte against those that Hudi 1.2.0 wrote when it compacted one table in each mode."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType, LogBlock, scan_blocks
from lakeward.format.log.change_log import ChangedRows, ChangeLogWriter, ChangeOperation, change_schema, read_changes
from lakeward.format.supplemental_logging import SupplementalLogging, parse_supplemental_logging

GOLDEN = Path(__file__).parents[2] / "golden/changes"
TABLE: dict[str, Any] = {
    "type": "record",
    "name": "t_record",
    "namespace": "hoodie.t",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "part", "type": "string"},
        {"name": "ts", "type": "long"},
        {"name": "v", "type": "string"},
    ],
}
SCHEMA_JSON = json.dumps(TABLE)
INSTANTS = {
    SupplementalLogging.OP_KEY_ONLY: "20261123114222254",
    SupplementalLogging.DATA_BEFORE: "20261123114322289",
    SupplementalLogging.DATA_BEFORE_AFTER: "20261123114419142",
}

Row = tuple[str, int, str]
CHANGES: list[tuple[Row | None, Row | None]] = [
    (("k08", 10, "a8"), ("k08", 10, "a8")),
    (None, ("n1", 11, "new")),
    (("k00", 10, "a0"), ("k00", 11, "b")),
    (("k01", 10, "a1"), ("k01", 11, "a1")),
    (("k04", 10, "a4"), None),
    (("k03", 10, "a3"), ("k03", 11, "")),
]
"""In the order of Hudi's hash map."""


def rows(*values: Row) -> pa.RecordBatch:
    found = [{"_hoodie_record_key": key, "id": key, "part": "p", "ts": ts, "v": v} for key, ts, v in values]
    return pa.RecordBatch.from_pylist(found, table_schema(SCHEMA_JSON))


def changed(before: Row | None, after: Row | None) -> ChangedRows:
    operation = ChangeOperation.DELETE if after is None else ChangeOperation.UPDATE
    return ChangedRows(
        operation if before is not None else ChangeOperation.INSERT,
        None if before is None else rows(before),
        None if after is None else rows(after),
    )


def write(mode: SupplementalLogging, changes: list[tuple[Row | None, Row | None]], **more: Any) -> bytes:
    sink = io.BytesIO()
    options = {"block_bytes": 10**6, "table_schema_json": SCHEMA_JSON, **more}
    writer = ChangeLogWriter(sink, mode=mode, instant=INSTANTS[mode], **options)
    for each in changes:
        writer.write(changed(*each))
    stats = writer.close()
    assert (stats.rows, stats.size_bytes) == (len(changes), len(sink.getvalue()))
    return sink.getvalue()


@pytest.mark.parametrize("mode", SupplementalLogging)
def test_the_bytes_are_those_that_hudi_writes(mode: SupplementalLogging) -> None:
    """The same changes in the same order make the same bytes, in all three modes.

    Remade: a MERGE_ON_READ table `t` (id, part, ts, v; ordered by ts) with `hoodie.table.cdc.enabled` and the mode, a
    bulk_insert of k00 to k09, upserts and a delete of what `CHANGES` says, `CALL run_compaction`; the `.cdc` beside the
    new base file. Java's hash map of headers has another order in some JVMs.
    """
    assert write(mode, CHANGES) == (GOLDEN / f"{mode}.cdc").read_bytes()


@pytest.mark.parametrize("mode", SupplementalLogging)
def test_what_was_written_reads_back(mode: SupplementalLogging) -> None:
    """Also in several blocks. Keeps 1 and 3 of format/log/change_log."""
    data = write(mode, CHANGES, block_bytes=60)
    found = [row for batch in read_changes(io.BytesIO(data), len(data), name="x") for row in batch.to_pylist()]

    def image(row: Row | None) -> dict[str, Any] | None:
        return row and {"id": row[0], "part": "p", "ts": row[1], "v": row[2]}

    due = []
    for before, after in CHANGES:
        operation, key = changed(before, after).operation, (before or after or ("", 0, ""))[0]
        due.append(
            {
                SupplementalLogging.OP_KEY_ONLY: {"op": operation, "record_key": key},
                SupplementalLogging.DATA_BEFORE: {"op": operation, "record_key": key, "before": image(before)},
                SupplementalLogging.DATA_BEFORE_AFTER: {
                    "op": operation,
                    "ts_ms": INSTANTS[mode],
                    "before": image(before),
                    "after": image(after),
                },
            }[mode]
        )
    assert found == due
    assert len(list(scan_blocks(io.BytesIO(data), len(data), name="x"))) > 1


def test_there_is_a_block_where_nothing_was_changed() -> None:
    """Hudi's compaction leaves one, too. Keeps 2 of format/log/change_log."""
    data = write(SupplementalLogging.DATA_BEFORE_AFTER, [])
    (block,) = scan_blocks(io.BytesIO(data), len(data), name="x")
    assert isinstance(block, LogBlock)
    assert block.type is BlockType.CDC_DATA
    assert list(read_changes(io.BytesIO(data), len(data), name="x")) == []


def test_dictionaries_and_nested_columns_are_rows_as_others() -> None:
    """A merge hands dictionaries out; a table may have lists and records."""
    inner = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "int"], "default": None}]}
    more = [
        {"name": "city", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": None},
        {"name": "place", "type": ["null", inner], "default": None},
    ]
    schema_json = json.dumps({**TABLE, "fields": [*TABLE["fields"], *more]})
    row = {"id": "a", "part": "p", "ts": 1, "v": "", "city": "lima", "tags": ["x", None], "place": {"x": 1}}
    schema = table_schema(schema_json)
    batch = pa.RecordBatch.from_pylist([{**row, "_hoodie_record_key": "a"}], schema)
    at = schema.get_field_index("city")
    batch = batch.set_column(at, "city", batch.column(at).dictionary_encode())
    sink = io.BytesIO()
    mode = SupplementalLogging.DATA_BEFORE_AFTER
    writer = ChangeLogWriter(sink, mode=mode, instant="1", table_schema_json=schema_json, block_bytes=10**6)
    writer.write(ChangedRows(ChangeOperation.UPDATE, batch, batch))
    writer.close()
    (found,) = read_changes(sink, len(sink.getvalue()), name="x")
    assert found.to_pylist() == [{"op": "u", "ts_ms": "1", "before": row, "after": row}]


def test_a_row_that_the_schema_has_no_place_for_is_refused() -> None:
    """A null in a column that may hold none would be a change that no reader can read."""
    batch = rows(("a", 1, "x"))
    batch = batch.set_column(batch.schema.get_field_index("v"), "v", pa.nulls(1, pa.string()))
    mode = SupplementalLogging.DATA_BEFORE
    writer = ChangeLogWriter(io.BytesIO(), mode=mode, instant="1", table_schema_json=SCHEMA_JSON, block_bytes=10**6)
    with pytest.raises(Unsupported, match="cannot be written to a log of changes"):
        writer.write(ChangedRows(ChangeOperation.DELETE, batch, None))


def test_another_log_is_not_read_as_changes() -> None:
    data = write(SupplementalLogging.OP_KEY_ONLY, CHANGES)
    with pytest.raises(BrokenFile, match="something else"):
        list(read_changes(io.BytesIO(data[:-1]), len(data) - 1, name="x"))


def test_the_schema_of_a_table_without_a_namespace() -> None:
    """Its name is found again in no namespace."""
    alone = json.dumps({"type": "record", "name": "r", "fields": TABLE["fields"]})
    schema = json.loads(change_schema(SupplementalLogging.DATA_BEFORE_AFTER, alone))
    assert (schema["namespace"], schema["fields"][3]["type"]) == ("", ["null", "r"])


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (None, SupplementalLogging.DATA_BEFORE_AFTER),
        ("data_before", SupplementalLogging.DATA_BEFORE),
        ("OP_KEY_ONLY", SupplementalLogging.OP_KEY_ONLY),
        ("AFTER", None),
    ],
)
def test_modes_as_the_property_says_them(text: str | None, mode: SupplementalLogging | None) -> None:
    """In any case; where it says nothing, Hudi keeps both rows."""
    assert parse_supplemental_logging(text) is mode
