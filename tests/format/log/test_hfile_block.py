"""HFile data blocks: rows by real Hudi, the column that Hudi blanks, bounds and damage."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.hfile.writer import HFileWriter
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock
from lakeward.format.log.data_block import read_data_block, read_hfile_records
from tests.format.log.test_data_block import TYPES, comparable, only_block

SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "n", "type": "long"}, {"name": "key", "type": ["null", "string"]}],
}


def hfile(entries: list[tuple[str, bytes]], *, block_bytes: int = 1024 * 1024) -> bytes:
    out = io.BytesIO()
    writer = HFileWriter(out, block_bytes=block_bytes)
    for key, value in entries:
        writer.add(key.encode(), value)
    writer.finish()
    return out.getvalue()


def avro(row: dict[str, Any], schema: Any = SCHEMA) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def block_of(content: bytes, schema: Any = SCHEMA) -> tuple[io.BytesIO, LogBlock]:
    headers = {HeaderKey.SCHEMA: json.dumps(schema)}
    return io.BytesIO(b"head " + content + b" tail"), LogBlock(
        BlockType.HFILE_DATA, headers, 5, len(content), "x.log", 0
    )


def read(content: bytes, **options: Any) -> list[pa.RecordBatch]:
    return list(read_data_block(*block_of(content), **options))


def test_all_spark_types() -> None:
    """Rows of an HFile block by released Hudi are those that it wrote into an Avro block."""

    def rows_of(name: str) -> list[dict[str, Any]]:
        with (TYPES / name).open("rb") as file:
            rows = comparable(list(read_data_block(file, only_block(TYPES / name), batch_rows=5)))
        written_at = ("_hoodie_commit_time", "_hoodie_commit_seqno")
        return [{column: value for column, value in row.items() if column not in written_at} for row in rows]

    assert rows_of("hfile.log") == rows_of("avro.log")
    assert only_block(TYPES / "hfile.log").type is BlockType.HFILE_DATA


@pytest.mark.parametrize("key", ["text", "number", "none"])
def test_the_column_that_hudi_blanks(key: str) -> None:
    """A text column `key` is stored as an empty string, and its value as the entry's key; null and others stand."""
    kinds: dict[str, tuple[Any, list[Any]]] = {
        "text": (["null", "string"], ["", "", None, ""]),
        "number": ("int", [7, 8, 9, 10]),
        "none": (None, []),
    }
    kind, stored = kinds[key]
    fields: list[Any] = [{"name": "n", "type": "long"}]
    fields += [{"name": "key", "type": kind}] if kind is not None else []
    schema = {**SCHEMA, "fields": fields}
    entries = []
    for number, name in enumerate(["", "a", "b", "ü"]):
        row = {"n": number} | ({"key": stored[number]} if kind is not None else {})
        entries.append((name, avro(row, schema)))

    (batch,) = read_data_block(*block_of(hfile(entries), schema))

    assert batch.column("n").to_pylist() == [0, 1, 2, 3]
    expected = {"text": ["", "a", None, "ü"], "number": [7, 8, 9, 10]}
    assert kind is None or batch.column("key").to_pylist() == expected[key]


def test_rows_stream() -> None:
    """Many data blocks of an HFile come one by one, each in batches, each row with its own key."""
    entries = [(f"k{number:04}", avro({"n": number, "key": ""})) for number in range(1000)]
    content = hfile(entries, block_bytes=4000)

    batches = read(content, batch_rows=70)

    assert max(batch.num_rows for batch in batches) == 70
    rows = pa.Table.from_batches(batches)
    assert rows["n"].to_pylist() == list(range(1000))
    assert rows["key"].to_pylist() == [key for key, _ in entries]
    held = [len(records.keys) for records in read_hfile_records(*block_of(content))]
    assert max(held) < 200 and sum(held) == 1000


def test_no_rows() -> None:
    """An HFile without entries is a block without rows."""
    assert read(hfile([])) == []


def test_damage_is_named() -> None:
    """A record that is not of its schema, and text that is none, are errors that name the file; nothing is left out."""
    good = avro({"n": 1, "key": None})
    for bad in (good + b"\0", good[:-1], b"", avro({"n": 1, "key": "x"})[:-1] + b"\xff"):
        with pytest.raises(BrokenFile, match=r"x\.log"):
            read(hfile([("a", good), ("b", bad)]))
    with pytest.raises(BrokenFile, match=r"x\.log"):
        read(b"no HFile")
    with pytest.raises(BrokenFile, match=r"x\.log"):
        read(hfile([("a", good)])[:-1])


def test_file_info_that_is_not_known_is_passed_over() -> None:
    """A later release may say there which keys the block has (RFC-06)."""
    out = io.BytesIO()
    writer = HFileWriter(out)
    writer.add(b"a", avro({"n": 1, "key": ""}))
    writer.finish({"log.keys.bloom": b"\x00\xff" * 5_000})
    assert [row["n"] for rows in read(out.getvalue()) for row in rows.to_pylist()] == [1]


def test_a_key_that_is_no_text() -> None:
    """Bytes of a key that stand for the column `key` are checked as all text is."""
    out = io.BytesIO()
    writer = HFileWriter(out)
    writer.add(b"\xff", avro({"n": 1, "key": ""}))
    writer.finish()
    with pytest.raises(BrokenFile, match=r"not of its type"):
        read(out.getvalue())
