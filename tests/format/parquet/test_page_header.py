import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.parquet.page_header import PageHeader, read_page_header
from lakeward.format.parquet.thrift_compact import CompactReader, EndsTooEarly

# Fields as (step to their number, type, value): of the numbers and types that mean something, and of others.
INTEGERS = st.tuples(st.integers(1, 4), st.sampled_from([4, 5, 6]), st.integers(-(2**40), 2**40))
OTHERS = st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 3, 7, 8, 9]), st.just(0))
INNER = st.lists(INTEGERS | OTHERS, max_size=5)
STRUCTS = st.tuples(st.integers(1, 5), st.just(12), INNER | st.lists(st.tuples(st.integers(1, 3), st.just(12), INNER)))
FIELDS = st.lists(INTEGERS | STRUCTS | OTHERS, max_size=7)


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encoded(fields) -> bytes:
    out = b""
    for step, kind, value in fields:
        out += bytes([step << 4 | kind])
        if kind == 12:
            out += encoded(value)
        elif kind in (4, 5, 6):
            out += varint((value << 1) ^ (value >> 63))
        else:
            out += {1: b"", 2: b"", 3: b"x", 7: b"12345678", 8: b"\x03abc", 9: b"\x25\x02\x04"}[kind]
    return out + b"\x00"


def by_the_other_reader(data: bytes, at: int) -> PageHeader:
    reader = CompactReader(data, at)
    header = reader.struct()

    def integer(fields, number):
        return fields[number] if isinstance(fields.get(number), int) else 0

    kind = integer(header, 1)
    details = header.get({0: 5, 2: 7, 3: 8}.get(kind, 0))
    details = details if isinstance(details, dict) else {}
    encoding = integer(details, 4 if kind == 3 else 2)
    return PageHeader(kind, integer(header, 2), integer(header, 3), integer(details, 1), encoding, reader.position)


@given(fields=FIELDS, kind=st.sampled_from([0, 1, 2, 3]), head=st.binary(max_size=3))
def test_the_kernel_finds_what_the_other_reader_finds(fields, kind, head):
    """Any fields in any order, known or not. Keeps of format/parquet/page_header."""
    data = encoded([(1, 5, kind), *fields])
    assert read_page_header(head + data + b"page", len(head)) == by_the_other_reader(head + data, len(head))
    for length in range(len(data)):
        with pytest.raises(EndsTooEarly):
            read_page_header(data[:length], 0)


def test_headers_that_the_library_writes_are_left_to_no_other_reader(monkeypatch):
    """Pages of both versions, with dictionaries and statistics."""
    monkeypatch.setattr("lakeward.format.parquet.page_header.CompactReader", None)
    for version in ("1.0", "2.0"):
        sink = io.BytesIO()
        table = pa.table({"s": ["a", "b", None] * 100})
        pq.write_table(table, sink, data_page_version=version, write_statistics=True)
        chunk = pq.ParquetFile(sink).metadata.row_group(0).column(0)
        data = sink.getvalue()
        dictionary = read_page_header(data, chunk.dictionary_page_offset)
        assert (dictionary.kind, dictionary.values) == (2, 2)
        page = read_page_header(data, dictionary.end + dictionary.stored_bytes)
        assert (page.kind, page.values, page.encoding) == (0 if version == "1.0" else 3, 300, 8)
        assert page.end + page.stored_bytes == chunk.dictionary_page_offset + chunk.total_compressed_size


def test_a_string_that_is_longer_than_memory_ends_too_early():
    """No address beyond the bytes is looked at."""
    for length in (2**62, 2**63 - 1):
        with pytest.raises(EndsTooEarly):
            read_page_header(bytes([0x18]) + varint(length) + b"abc", 0)
