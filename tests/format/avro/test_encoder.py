"""The Avro encoder, against the decoder and fastavro over random schemas and rows."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.avro.encoder import UnwritableRecord, encode_records, write_number
from lakeward.format.avro.program import AvroProgram
from tests.format.avro.test_decoder import decode, one_column, program_of, tables

PLENTY = 1 << 20


def encode(program: AvroProgram, rows: list[dict[str, Any]], *, framed: bool = True) -> bytes:
    batch = pa.RecordBatch.from_pylist(rows, schema=program.schema)
    encoded = encode_records(program, batch, bytes_max=PLENTY, framed=framed)
    assert encoded.records == len(rows)
    return encoded.data


@given(tables(), st.data())
def test_the_decoder_gives_the_rows_back(table: tuple[dict[str, Any], list[dict[str, Any]]], data: st.DataObject):
    """Any rows of any schema come back, wherever in Arrow's buffers they start, nulls and empty lists at every level
    included."""
    schema, rows = table
    program = program_of(schema)
    batch = pa.RecordBatch.from_pylist(rows, schema=program.schema).slice(data.draw(st.integers(0, len(rows) - 1)))

    encoded = encode_records(program, batch, bytes_max=PLENTY)

    assert encoded.records == batch.num_rows
    assert decode(program, encoded.data).equals(batch)


@given(tables())
def test_fastavro_reads_the_same(table: tuple[dict[str, Any], list[dict[str, Any]]]):
    """An independent decoder, row by row, uses every byte and finds every value."""
    schema, rows = table
    parsed = fastavro.parse_schema(schema)
    source = io.BytesIO(encode(program_of(schema), rows, framed=False))

    assert [fastavro.schemaless_reader(source, parsed) for _ in rows] == rows
    assert source.read() == b""


@given(tables(), st.integers(0, 200))
def test_as_many_records_as_fit(table: tuple[dict[str, Any], list[dict[str, Any]]], bytes_max: int):
    """Records are never cut; one is written even where it alone is too large."""
    schema, rows = table
    program = program_of(schema)
    batch = pa.RecordBatch.from_pylist(rows, schema=program.schema)

    parts = []
    while batch.num_rows:
        encoded = encode_records(program, batch, bytes_max=bytes_max)
        assert len(encoded.data) <= bytes_max or encoded.records == 1
        parts.append(encoded.data)
        batch = batch.slice(encoded.records)

    assert b"".join(parts) == encode(program, rows)


def test_null_without_a_branch_for_it():
    """A value that the schema requires is missing: the row is named and nothing is written."""
    for schema in ("int", ["int"], {"type": "array", "items": "string"}):
        program = one_column(schema)
        value = ["x"] if isinstance(schema, dict) else 1
        with pytest.raises(UnwritableRecord, match="no value") as raised:
            encode(program, [{"c": value}, {"c": None}])
        assert raised.value.row == 1


def test_a_null_list_may_hide_elements():
    """Arrow allows elements under a null list; they are not written, and those behind it are still found."""
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), pa.array([1, 2, 3, 4], pa.int32()))
    hidden = pa.Array.from_buffers(lists.type, 3, [pa.py_buffer(b"\x05"), lists.buffers()[1]], children=[lists.values])
    program = one_column(["null", {"type": "array", "items": "int"}])
    batch = pa.RecordBatch.from_arrays([hidden.cast(program.schema.field(0).type)], schema=program.schema)

    encoded = encode_records(program, batch, bytes_max=PLENTY)

    assert decode(program, encoded.data).column(0).to_pylist() == [[1], None, [4]]


@pytest.mark.parametrize("unscaled", [0, 1, -1, 127, 128, -128, -129, 2**31 - 1, -(2**31)])
def test_decimals_as_java_writes_them(unscaled: int):
    """Type `bytes` holds the shortest two's complement there is; `fixed` all bytes of the schema, the sign in front."""
    decimal = {"logicalType": "decimal", "precision": 20, "scale": 0}
    row = [{"c": Decimal(unscaled)}]
    # One bit more than the number needs, for the sign; of a negative number the complement counts.
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1

    as_bytes = encode(one_column({"type": "bytes", **decimal}), row, framed=False)
    as_fixed = encode(one_column({"type": "fixed", "name": "f", "size": 9, **decimal}), row, framed=False)

    assert as_bytes == write_number(length) + unscaled.to_bytes(length, "big", signed=True)
    assert as_fixed == unscaled.to_bytes(9, "big", signed=True)


def test_a_decimal_that_its_bytes_cannot_hold():
    """A schema may claim more digits than its bytes have room for; such a value is never cut."""
    decimal = {"logicalType": "decimal", "precision": 9, "scale": 0}
    program = one_column({"type": "fixed", "name": "f", "size": 2, **decimal})
    assert encode(program, [{"c": Decimal(32767)}, {"c": Decimal(-32768)}], framed=False) == b"\x7f\xff\x80\x00"
    with pytest.raises(UnwritableRecord, match="does not fit"):
        encode(program, [{"c": Decimal(32768)}])


def test_values_that_an_enum_or_a_fixed_cannot_hold():
    """What another writer made of the column since may not be in the schema that a block is written with."""
    symbols = one_column(["null", {"type": "enum", "name": "e", "symbols": ["A"]}])
    with pytest.raises(UnwritableRecord, match="symbol") as raised:
        encode(symbols, [{"c": None}, {"c": "A"}, {"c": "B"}])
    assert raised.value.row == 2
    with pytest.raises(UnwritableRecord, match="bytes than a fixed"):
        encode(one_column({"type": "fixed", "name": "f", "size": 2}), [{"c": b"abc"}])


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers(number: int):
    """Every long is encoded as fastavro encodes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    assert write_number(number) == out.getvalue()
