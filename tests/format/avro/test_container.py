"""Avro files of one record: what is written is read, and nothing torn or hostile is."""

from __future__ import annotations

import contextlib
import io
import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.avro.record import decode_record

GOLDEN = Path(__file__).parents[2] / "golden"
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


def deflated(data: bytes) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def peak_of(read: Callable[[], object]) -> int:
    """Bytes that Python held at most while the call ran."""
    tracemalloc.start()
    try:
        with contextlib.suppress(BrokenFile):
            read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


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


def test_schema_that_is_deep_by_names_is_refused() -> None:
    """A schema can be flat and its values deep: each record names the one before it."""
    records: list[Any] = [{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "boolean"}]}]
    for level in range(1, 3000):
        records.append({"type": "record", "name": f"R{level}", "fields": [{"name": "x", "type": f"R{level - 1}"}]})
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": each["name"], "type": each} for each in records],
    }
    with pytest.raises(BrokenFile, match="nested"):
        read_record(container(schema, [b"\x01" * 3000]), file="x")


@pytest.mark.parametrize(
    "schema", [b"[" * 500_000, b'{"type":' * 500_000, b'{"type": "long"' + b" " * 2_000_000 + b"}"]
)
def test_text_of_a_schema_is_bounded(schema: bytes) -> None:
    """Half a million brackets are an error, not the end of the stack."""

    def sized(data: bytes) -> bytes:
        return encoded("long", len(data)) + data

    header = b"Obj\x01" + encoded("long", 1) + sized(b"avro.schema") + sized(schema) + b"\x00" + bytes(16)
    with pytest.raises(BrokenFile):
        read_record(header + b"\x02" + sized(b"\x00") + bytes(16), file="x")


NESTED_RECORDS: Any = "boolean"
for _level in range(20):
    NESTED_RECORDS = {"type": "record", "name": f"N{_level}", "fields": [{"name": "x", "type": NESTED_RECORDS}]}


@pytest.mark.parametrize(
    ("items", "item"),
    [
        ({"type": "array", "items": "long"}, b"\x00"),
        ({"type": "map", "values": "long"}, b"\x00"),
        (NESTED_RECORDS, b"\x01"),
        ("string", b"\x00"),
    ],
    ids=["lists", "maps", "records", "texts"],
)
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_memory_is_bounded_whatever_a_byte_stands_for(items: Any, item: bytes, codec: str) -> None:
    """A byte can stand for an empty map of 64 bytes, or for twenty records in each other; and deflate makes two
    megabytes of nothing out of two kilobytes. What would take more than the file justifies is refused before."""
    count = 4 * 1024 * 1024
    body = encoded("long", count) + item * count + b"\x00"
    packed = deflated(body) if codec == "deflate" else body
    data = container(record_of({"type": "array", "items": items}), [packed], codec=codec)

    assert peak_of(lambda: read_record(data, file="x")) < 64 * 1024 * 1024 + 20 * len(data)


def test_each_record_has_its_whole_budget() -> None:
    """Records of one schema are read by one reader; what one of them took, or was refused, is nothing to the next."""
    schema = record_of({"type": "array", "items": "long"})
    few, many = (encoded(schema, {"x": [0] * count}) for count in (100, 200))
    text = json.dumps(schema).encode()

    for _ in range(2):
        assert len(decode_record(text, few, memory_max=6000)["x"]) == 100
        with pytest.raises(ValueError, match="more than 6000 bytes"):
            decode_record(text, many, memory_max=6000)
        assert len(decode_record(text, many, memory_max=12000)["x"]) == 200


def test_bomb_of_one_block_is_refused() -> None:
    """Two megabytes of plan took 4.1 GB: what a block inflates to is bounded while it is inflated."""
    size = 256 * 1024 * 1024
    data = container(record_of("string"), [deflated(encoded("long", size) + bytes(size))], codec="deflate")

    assert len(data) < 300_000
    with pytest.raises(BrokenFile, match="Inflated, it has more than"):
        read_record(data, file="x")
    assert peak_of(lambda: read_record(data, file="x")) < 160 * 1024 * 1024


def test_memory_of_hudis_own_files_is_far_from_the_bound() -> None:
    """A commit of ten thousand files, every field of every write stat in use, is read."""
    stats = {f"f{number}": number for number in range(30)}
    schema = record_of(
        {
            "type": "array",
            "items": {"type": "record", "name": "S", "fields": [{"name": n, "type": ["null", "long"]} for n in stats]},
        }
    )
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {"x": [stats] * 10_000})

    assert len(read_record(container(schema, [out.getvalue()]), file="x")["x"]) == 10_000


SOME_OF_EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "namespace": "org.example",
    "fields": [
        {"name": "a", "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]}},
        {"name": "b", "type": ["null", "Inner", "string", {"type": "array", "items": "Inner"}]},
        {"name": "c", "type": {"type": "map", "values": {"type": "map", "values": "float"}}},
        {"name": "d", "type": {"type": "enum", "name": "E", "symbols": ["ONE", "TWO"]}},
        {"name": "e", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "f", "type": {"type": "string", "avro.java.string": "String"}},
        {"name": "g", "type": ["int", "null"]},
        {"name": "h", "type": "boolean"},
        {"name": "i", "type": "org.example.E"},
        {"name": "j", "type": {"type": "bytes"}},
    ],
}


@pytest.mark.parametrize("branch", [None, {"x": 0.5}, "ü", [{"x": 1.0}, {"x": -2.0}]], ids=str)
def test_every_type_is_read_as_fastavro_reads_it(branch: Any) -> None:
    """The decoder is Lakeward's; what other implementations write, and how they read it, says whether it is right."""
    record = {
        "a": {"x": 1.5},
        "b": branch,
        "c": {"k": {"l": 0.25}, "m": {}},
        "d": "TWO",
        "e": b"abc",
        "f": "text",
        "g": -(2**31),
        "h": True,
        "i": "ONE",
        "j": b"\x00\xff",
    }
    data = container(SOME_OF_EVERYTHING, [encoded(SOME_OF_EVERYTHING, record)])

    assert read_record(data, file="x") == record == next(fastavro.reader(io.BytesIO(data)))


@pytest.mark.parametrize("path", HUDI_FILES, ids=lambda path: path.name)
def test_hudis_files_are_read_as_fastavro_reads_them(path: Path) -> None:
    """Each file that released Hudi left on a timeline gives the same record."""
    data = path.read_bytes()

    assert [read_record(data, file="x")] == list(fastavro.reader(io.BytesIO(data)))
