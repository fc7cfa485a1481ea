"""The Avro decoder, against fastavro over random schemas and rows."""

from __future__ import annotations

import io
import json
import re
import struct
from typing import Any
from unittest.mock import patch

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.avro.decoder import decode_records
from lakeward.format.avro.program import AvroProgram, BadRecord, compile_schema
from lakeward.format.avro.schema import parse_schema

HEAP_MAX = 1 << 26

LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=9)),
    ("string", st.text(max_size=9)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, st.datetimes()),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 14, "scale": 3},
        st.decimals(-(10**10), 10**10, places=3),
    ),
    ("fixed", st.decimals(-(10**20), 10**20, places=5)),
    ("enum", st.sampled_from(["A", "BB", "C_1"])),
    ("bytes of a fixed", st.binary(min_size=3, max_size=3)),
]


@st.composite
def typed(draw: st.DrawFn, depth: int, path: str) -> tuple[Any, st.SearchStrategy[Any]]:
    """(an Avro schema, a strategy for values of it)"""
    shape = draw(st.sampled_from(["leaf", "leaf", "record", "array", "map"])) if depth else "leaf"
    if shape == "leaf":
        schema, values = draw(st.sampled_from(LEAVES))
        if schema == "fixed":
            schema = {
                "type": "fixed",
                "name": f"f{path}",
                "size": 12,
                "logicalType": "decimal",
                "precision": 26,
                "scale": 5,
            }
        elif schema == "enum":
            schema = {"type": "enum", "name": f"e{path}", "symbols": ["A", "BB", "C_1"]}
        elif schema == "bytes of a fixed":
            schema = {"type": "fixed", "name": f"b{path}", "size": 3}
    elif shape == "record":
        children = [draw(typed(depth - 1, f"{path}_{i}")) for i in range(draw(st.integers(1, 3)))]
        schema = {
            "type": "record",
            "name": f"r{path}",
            "fields": [{"name": f"c{i}", "type": child} for i, (child, _) in enumerate(children)],
        }
        values = st.fixed_dictionaries({f"c{i}": child for i, (_, child) in enumerate(children)})
    elif shape == "array":
        item, items = draw(typed(depth - 1, f"{path}_e"))
        schema, values = {"type": "array", "items": item}, st.lists(items, max_size=4)
    else:
        item, items = draw(typed(depth - 1, f"{path}_v"))
        schema = {"type": "map", "values": item}
        values = st.dictionaries(st.text(max_size=3), items, max_size=3)
    union = draw(st.sampled_from(["none", "null first", "null last"]))
    if union != "none":
        schema = ["null", schema] if union == "null first" else [schema, "null"]
        values = st.none() | values
    return schema, values


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    columns = [draw(typed(3, str(i))) for i in range(draw(st.integers(1, 4)))]
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": f"c{i}", "type": column} for i, (column, _) in enumerate(columns)],
    }
    row = st.fixed_dictionaries({f"c{i}": values for i, (_, values) in enumerate(columns)})
    return schema, draw(st.lists(row, min_size=1, max_size=8))


def program_of(schema: dict[str, Any]) -> AvroProgram:
    return compile_schema(parse_schema(json.dumps(schema), where="the test"))


def encode(schema: dict[str, Any], rows: list[dict[str, Any]]) -> bytes:
    parsed = fastavro.parse_schema(schema)
    out = b""
    for row in rows:
        record = io.BytesIO()
        fastavro.schemaless_writer(record, parsed, row)
        out += struct.pack(">i", len(record.getvalue())) + record.getvalue()
    return out


def decode_generally(program: AvroProgram, data: bytes) -> pa.RecordBatch:
    """The rows by the kernel for records of any schema."""
    with patch.object(AvroProgram, "is_flat", False):
        return decode(program, data)


def decode(
    program: AvroProgram, data: bytes, *, records_max: int = 1000, heap_bytes_max: int = HEAP_MAX
) -> pa.RecordBatch:
    decoded = decode_records(
        program, np.frombuffer(data, dtype=np.uint8), records_max=records_max, heap_bytes_max=heap_bytes_max
    )
    assert decoded is not None
    return decoded.batch


def one_column(schema: Any) -> AvroProgram:
    return program_of({"type": "record", "name": "row", "fields": [{"name": "c", "type": schema}]})


@pytest.mark.slow
@given(tables())
def test_equals_fastavro(table: tuple[dict[str, Any], list[dict[str, Any]]]):
    """Any rows of any schema come out as they went in, nulls and empty lists at every level included."""
    schema, rows = table
    program = program_of(schema)

    batch = decode(program, encode(schema, rows))

    batch.validate(full=True)
    assert batch.equals(pa.RecordBatch.from_pylist(rows, schema=program.schema))
    assert decode_generally(program, encode(schema, rows)).equals(batch)


def printed(batch: pa.RecordBatch) -> str:
    """All of its values, with the types."""
    columns = [column.to_string(window=10_000, container_window=10_000) for column in batch.columns]
    return "\n".join([str(batch.schema), *columns])


@given(tables(), st.data())
def test_columns_that_are_not_wanted_are_walked_over(
    table: tuple[dict[str, Any], list[dict[str, Any]]], data: st.DataObject
):
    """The others come out as they do beside all columns, and take no memory for what is not wanted."""
    schema, rows = table
    encoded = encode(schema, rows)
    names = [field["name"] for field in schema["fields"]]
    wanted = data.draw(st.sets(st.sampled_from(names), min_size=1))
    program = compile_schema(parse_schema(json.dumps(schema), where="the test"), wanted)

    assert (
        decode(program, encoded).to_pydict()
        == decode(program_of(schema), encoded).select([name for name in names if name in wanted]).to_pydict()
    )


@given(tables(), st.data())
def test_damaged_bytes_are_an_error_or_rows(table: tuple[dict[str, Any], list[dict[str, Any]]], data: st.DataObject):
    """Whatever bytes are damaged, nothing is read outside of the record, and the outcome is rows or `BadRecord`; which
    of them is the same in both ways to decode, all columns or some. Keeps 1 and 2 of format/avro/flat_records."""
    schema, rows = table
    encoded = bytearray(encode(schema, rows[:1]))
    if len(encoded) == 4:
        return
    encoded[data.draw(st.integers(4, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    wanted = data.draw(st.none() | st.sets(st.sampled_from([each["name"] for each in schema["fields"]]), min_size=1))
    program = compile_schema(parse_schema(json.dumps(schema), where="the test"), wanted)
    try:
        batch = decode(program, bytes(encoded))
    except BadRecord as bad:
        assert bad.record == 0
        with pytest.raises(BadRecord, match=re.escape(bad.why)):
            decode_generally(program, bytes(encoded))
        return
    assert batch.num_rows == 1
    found = decode_generally(program, bytes(encoded))
    # A damaged number may be NaN, which equals nothing; printed it does.
    assert found.equals(batch) or ("nan" in printed(batch) and printed(found) == printed(batch))


def test_what_lies_behind_the_last_wanted_column_is_left_alone():
    """Damage there is met by those who ask for it; the record still ends where its length says."""
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}],
    }
    encoded = bytearray(encode(schema, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]))
    encoded[5] = 99  # the length of the first text
    columns = parse_schema(json.dumps(schema), where="the test")
    for read in (decode, decode_generally):
        assert read(compile_schema(columns, ["a"]), bytes(encoded)).to_pydict() == {"a": [1, 2]}
        with pytest.raises(BadRecord, match="outside of the record"):
            read(compile_schema(columns), bytes(encoded))


def test_three_hundred_columns():
    """A record of many columns, of each type in turn, every third of them null."""
    kinds = ["int", "string", "double", {"type": "array", "items": "long"}, "boolean"]
    fields = [{"name": f"c{n}", "type": ["null", kinds[n % 5]]} for n in range(300)]
    schema = {"type": "record", "name": "row", "fields": fields}
    values = [7, "ü", 0.5, [1, 2], True]
    rows = [{f"c{n}": None if (n + row) % 3 == 0 else values[n % 5] for n in range(300)} for row in range(4)]

    assert decode(program_of(schema), encode(schema, rows)).to_pylist() == rows


def test_cut_short_record_is_bad_at_every_length():
    """A record that ends early is named by its number; one that is not there completely waits for more bytes."""
    schema = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "a", "type": ["null", {"type": "array", "items": "string"}]},
            {"name": "b", "type": "double"},
            {"name": "c", "type": {"type": "map", "values": "float"}},
        ],
    }
    row = {"a": ["x", "yy"], "b": 1.5, "c": {"k": 0.5}}
    whole = encode(schema, [row])
    for length in range(len(whole) - 4):
        short = whole + struct.pack(">i", length) + whole[4 : 4 + length]
        with pytest.raises(BadRecord) as raised:
            decode(program_of(schema), short)
        assert raised.value.record == 1
        assert decode(program_of(schema), whole + whole[: 4 + length]).num_rows == 1
    with pytest.raises(BadRecord, match="left over"):
        decode(program_of(schema), struct.pack(">i", len(whole) - 3) + whole[4:] + b"\x00")


@pytest.mark.parametrize(
    ("schema", "body", "why"),
    [
        ("int", "8080808010", "32 bits"),
        ("long", "ffffffffffffffffffff01", "64 bits"),
        ("long", "ffffffffffffffffff02", "64 bits"),
        ("boolean", "02", "boolean"),
        (["null", "int"], "04", "branch"),
        (["null", "int"], "01", "branch"),
        ("string", "01", "length"),
        ("string", "fe", "middle"),
        ("bytes", "feffffffffffffffff01", "length"),
        ({"type": "array", "items": "int"}, "feffffffffffffffff01", "length"),
        ({"type": "array", "items": "int"}, "ffffffffffffffffff0100", "length"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "02", "symbol"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "01", "symbol"),
        ({"type": "fixed", "name": "f", "size": 3}, "0102", "length"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 0}, "00", "decimal"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 0}, "22" + "00" * 17, "decimal"),
    ],
)
def test_values_outside_of_their_type(schema: Any, body: str, why: str):
    """Numbers, lengths and branches that the type does not have are errors, never wrapped or cut."""
    data = bytes.fromhex(body)
    for way in (decode, decode_generally):
        with pytest.raises(BadRecord, match=why):
            way(one_column(schema), struct.pack(">i", len(data)) + data)


def test_text_of_any_length_lies_where_it_was():
    """Text is copied in blocks, which go beyond it: neither its neighbours nor the end of the bytes suffer."""
    schema = {"type": "record", "name": "row", "fields": [{"name": n, "type": ["null", "string"]} for n in "ab"]}
    rows = [{"a": "x" * length, "b": None if length % 5 == 0 else "y" * (70 - length)} for length in range(71)]
    for last in range(1, len(rows) + 1):
        assert decode(program_of(schema), encode(schema, rows[:last])).to_pylist() == rows[:last]


def test_wide_records_come_in_parts():
    """The more columns there are, the fewer records are decoded at once. Keeps 3 of format/avro/flat_records."""
    fields = [{"name": f"c{n}", "type": ["null", "int"]} for n in range(300)]
    schema = {"type": "record", "name": "row", "fields": fields}
    data = encode(schema, [{}]) * 4000
    rows = decode(program_of(schema), data, records_max=4000).num_rows
    assert 0 < 9 * 300 * rows <= 4 * 1024 * 1024 < 9 * 300 * (rows + 1)


def test_negative_record_length():
    """A record cannot have a negative length."""
    with pytest.raises(BadRecord, match="length"):
        decode(one_column("int"), struct.pack(">i", -1) + b"\x00")


def test_runs_of_elements_with_their_bytes():
    """Arrays may come in several runs, and a negative count is followed by the run's size in bytes."""
    data = bytes.fromhex("04" + "0204" + "01" + "02" + "06" + "00")  # 2 elements, then -1 with 1 byte, then the end

    batch = decode(one_column({"type": "array", "items": "int"}), struct.pack(">i", len(data)) + data)

    assert batch.column(0).to_pylist() == [[1, 2, 3]]


def test_extreme_numbers():
    """The ends of int and long survive zigzag."""
    schema = {"type": "record", "name": "row", "fields": [{"name": "i", "type": "int"}, {"name": "l", "type": "long"}]}
    rows = [{"i": i, "l": number} for i, number in [(-(2**31), -(2**63)), (2**31 - 1, 2**63 - 1), (0, 0), (-1, -1)]]

    assert decode(program_of(schema), encode(schema, rows)).to_pylist() == rows


def test_no_more_records_than_asked_and_no_more_memory():
    """A call stops at its count of records, and takes fewer where their columns would need too much memory."""
    schema = {"type": "record", "name": "row", "fields": [{"name": "s", "type": "string"}]}
    data = encode(schema, [{"s": "x" * 1000}] * 100)

    assert decode(program_of(schema), data, records_max=7).num_rows == 7
    assert 1 <= decode(program_of(schema), data, heap_bytes_max=20_000).num_rows < 20
    with pytest.raises(BadRecord, match="bytes of memory"):
        decode(program_of(schema), data, heap_bytes_max=500)


def test_cheap_nulls_do_not_explode():
    """A byte that is a null struct with many fields becomes a thousand bytes of columns: refused before allocating."""
    inner = {"type": "record", "name": "w", "fields": [{"name": f"c{i}", "type": "long"} for i in range(100)]}
    program = one_column({"type": "array", "items": ["null", inner]})
    count = 1 << 10
    number = count << 1
    head = b""
    while number > 127:
        head += bytes([number & 127 | 128])
        number >>= 7
    body = head + bytes([number]) + bytes(count) + b"\x00"
    with pytest.raises(BadRecord, match="bytes of memory"):
        decode(program, struct.pack(">i", len(body)) + body, heap_bytes_max=500_000)
