"""Avro files of one record: what is written is read, and nothing torn or hostile is."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakeward.errors import BrokenFile
from lakeward.format.avro_container import read_record, write_record

GOLDEN = Path(__file__).parents[1] / "golden"
HUDI_FILES = sorted(path for path in (GOLDEN / "v9/table/.hoodie/timeline").iterdir() if path.stat().st_size)

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Plan",
    "namespace": "org.example",
    "fields": [
        {"name": "text", "type": ["null", "string"], "default": None},
        {"name": "numbers", "type": {"type": "array", "items": "long"}},
    ],
}
RECORD = {"text": "ü", "numbers": [1, -(2**63), 2**63 - 1]}


def container(schema: Any, bodies: list[bytes], *, codec: str | None = None, count: int = 1) -> bytes:
    """A container with hand-made bytes in it, by the Avro specification; the twin of `write_record`."""

    def long(value: int) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, "long", value)
        return out.getvalue()

    def sized(data: bytes) -> bytes:
        return long(len(data)) + data

    entries = {"avro.schema": json.dumps(schema).encode()} | ({"avro.codec": codec.encode()} if codec else {})
    meta = b"".join(sized(key.encode()) + sized(value) for key, value in entries.items())
    sync = b"0123456789abcdef"
    blocks = b"".join(long(count) + sized(body) + sync for body in bodies)
    return b"Obj\x01" + long(len(entries)) + meta + long(0) + sync + blocks


def encoded(schema: Any, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def test_record_survives_being_written() -> None:
    """What is written is read back, by us and by fastavro."""
    data = write_record(SCHEMA, RECORD)

    assert read_record(data, file="x") == RECORD
    assert list(fastavro.reader(io.BytesIO(data))) == [RECORD]


def test_file_has_the_form_of_hudis_own() -> None:
    """The schema is the only metadata, word for word, and there is no codec; equal records give equal bytes."""
    data = write_record(SCHEMA, RECORD)
    metadata = fastavro.reader(io.BytesIO(data)).metadata
    hudis = fastavro.reader(io.BytesIO(HUDI_FILES[0].read_bytes())).metadata

    assert metadata.keys() == hudis.keys() == {"avro.schema"}
    assert json.loads(metadata["avro.schema"]) == SCHEMA
    assert write_record(SCHEMA, RECORD) == data


@pytest.mark.parametrize("record", [{"text": "a"}, {**RECORD, "typo": 1}, {"text": 1, "numbers": []}])
def test_record_that_does_not_fit_is_not_written(record: dict[str, Any]) -> None:
    """A missing field, an unknown one or a wrong type is our mistake, found before anything is on disk."""
    with pytest.raises((ValueError, TypeError)):
        write_record(SCHEMA, record)


@pytest.mark.parametrize("path", HUDI_FILES, ids=lambda path: path.name)
def test_every_torn_copy_of_a_hudi_file_is_refused(path: Path) -> None:
    """However short a file is cut, it is broken and says so with its name; never a part of a record."""
    data = path.read_bytes()
    assert read_record(data, file=path.name)
    for length in range(len(data)):
        with pytest.raises(BrokenFile, match=path.name):
            read_record(data[:length], file=path.name)


def test_bytes_overwritten_by_zeros_never_surprise() -> None:
    """A file whose blocks were lost in a crash is read or refused, but raises nothing else."""
    data = HUDI_FILES[0].read_bytes()
    for start in range(0, len(data), 7):
        damaged = data[:start] + bytes(min(64, len(data) - start)) + data[start + 64 :]
        try:
            read_record(damaged, file="x")
        except BrokenFile:
            continue


@pytest.mark.parametrize("bodies", [[], [b"\x00\x00", b"\x00\x00"]], ids=["none", "two"])
def test_file_holds_exactly_one_record(bodies: list[bytes]) -> None:
    """No record, or two of them, is no plan."""
    with pytest.raises(BrokenFile, match="instead of one"):
        read_record(container(SCHEMA, bodies), file="x")


def test_deflate_is_read_and_other_codecs_are_not() -> None:
    """Deflate is what the Avro specification demands of every reader; Hudi itself writes none."""
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, [RECORD], codec="deflate")
    assert read_record(out.getvalue(), file="x") == RECORD
    with pytest.raises(BrokenFile, match="bzip2"):
        read_record(container(SCHEMA, [encoded(SCHEMA, RECORD)], codec="bzip2"), file="x")


def record_of(avro_type: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "x", "type": avro_type}]}


HUGE = encoded("long", 1 << 40)
EMPTY_RECORD = {"type": "record", "name": "E", "fields": []}


@pytest.mark.parametrize(
    "avro_type",
    [["null", "n.R"], ["null", "R"], {"type": "array", "items": ["null", {"type": "map", "values": "R"}]}],
)
def test_recursive_records_are_refused(avro_type: Any) -> None:
    """A megabyte of nested records would end the process inside fastavro, which never looks at its stack."""
    with pytest.raises(BrokenFile, match="recursive"):
        read_record(container(record_of(avro_type), [b"\x02" * 1_000_000 + b"\x00"]), file="x")


@pytest.mark.parametrize(
    "items", ["null", {"type": "null"}, EMPTY_RECORD, {"type": "fixed", "name": "F", "size": 0}], ids=str
)
def test_values_without_bytes_are_refused(items: Any) -> None:
    """A few bytes would claim a million million of them."""
    with pytest.raises(BrokenFile, match="take no bytes"):
        read_record(container(record_of({"type": "array", "items": items}), [HUGE + b"\x00"]), file="x")


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (record_of({"type": "array", "items": "boolean"}), HUGE + b"\x00"),
        (record_of("string"), HUGE + b"abc"),
        (record_of({"type": "map", "values": "string"}), HUGE + b"\x00"),
        ("string", b"\x02a"),
        ({"type": "nonsense"}, b""),
        ([], b""),
        (None, b""),
    ],
)
def test_lengths_and_types_that_are_not_there_are_refused(schema: Any, body: bytes) -> None:
    """A length is believed only as far as there are bytes, and what is no record of Avro is no record."""
    with pytest.raises(BrokenFile):
        read_record(container(schema, [body]), file="x")


def test_deeply_nested_schema_is_refused() -> None:
    """Nesting is bounded, whatever the types."""
    schema: Any = "long"
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    with pytest.raises(BrokenFile, match="nested"):
        read_record(container(record_of(schema), [b"\x00"]), file="x")
