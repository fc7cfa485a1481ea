"""Encryption is seen in the footer, before a Parquet library opens the file."""

from __future__ import annotations

import base64
import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.parquet.footer import (
    TAIL_BYTES,
    footer_bytes,
    is_encrypted,
    without_bloom,
)
from lakeward.format.parquet.metadata_without_bloom import metadata_without_bloom

TABLE = pa.table(
    {
        "a": [1, 2],
        "b": ["x", "y"],
        "c": [[1.5], []],
        "d": [{"e": True}, None],
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
    }
)


class ClearKeys(pe.KmsClient):
    """Wraps keys in nothing: only the shape of the files matters here."""

    def __init__(self, _config: object) -> None:
        pe.KmsClient.__init__(self)

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def parquet_bytes(*, plaintext_footer: bool | None = None) -> bytes:
    properties = None
    if plaintext_footer is not None:
        config = pe.EncryptionConfiguration(footer_key="f", column_keys={"k": ["a"]}, plaintext_footer=plaintext_footer)
        factory = pe.CryptoFactory(ClearKeys)
        properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, TABLE.schema, encryption_properties=properties) as writer:
        writer.write_table(TABLE)
        writer.add_key_value_metadata({"org.apache.hudi.bloomfilter": "x" * 5000})
    return sink.getvalue()


def encrypted(data: bytes) -> bool:
    tail = data[-TAIL_BYTES:]
    length = footer_bytes(tail, file="f")
    return is_encrypted(tail, data[-TAIL_BYTES - length : -TAIL_BYTES], file="f")


@pytest.mark.parametrize(("plaintext_footer", "expected"), [(None, False), (False, True), (True, True)])
def test_encryption_is_seen(plaintext_footer: bool | None, expected: bool) -> None:
    """An encrypted footer and a plain footer over encrypted columns are both seen; a plain file is plain."""
    assert encrypted(parquet_bytes(plaintext_footer=plaintext_footer)) is expected


def test_what_is_no_parquet_is_broken() -> None:
    """A file that ends otherwise is no Parquet file."""
    for tail in (b"", b"PAR1", b"12345678"):
        with pytest.raises(BrokenFile):
            footer_bytes(tail, file="f")


def test_a_damaged_footer_is_broken_or_read_but_never_anything_else() -> None:
    """Whatever bytes a footer holds, the walk ends, with an answer or with `BrokenFile`."""
    data = parquet_bytes()
    length = footer_bytes(data[-TAIL_BYTES:], file="f")
    footer = bytearray(data[-TAIL_BYTES - length : -TAIL_BYTES])
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    for _ in range(2000):
        damaged = bytearray(footer[: dice.randrange(1, len(footer) + 1)])
        for _ in range(dice.randrange(4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        try:
            is_encrypted(data[-TAIL_BYTES:], bytes(damaged), file="f")
        except BrokenFile:
            pass
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def _with_entries(entries: dict[str, str], *, rows: int = 2) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, TABLE.schema) as writer:
        for _ in range(rows):
            writer.write_table(TABLE)
        writer.add_key_value_metadata(entries)
    return sink.getvalue()


BLOOM = "org.apache.hudi.bloomfilter"
LARGE = "QUJD" * 30_000


@pytest.mark.parametrize(
    "entries", [{BLOOM: LARGE}, {"a": "b", BLOOM: LARGE, "z": BLOOM}, {BLOOM: LARGE, "z": "y" * 99_999}]
)
def test_a_footer_is_read_without_its_bloom_filter(entries: dict[str, str]) -> None:
    """Invariant 1: only the filter is missing."""
    data = _with_entries(entries)
    whole = pq.ParquetFile(io.BytesIO(data)).metadata
    found = metadata_without_bloom(io.BytesIO(data))
    assert found is not None
    assert found.metadata == {**whole.metadata, BLOOM.encode(): b""}
    assert found.to_dict() == whole.to_dict() | {"serialized_size": found.serialized_size}
    assert whole.serialized_size - found.serialized_size >= len(LARGE)
    assert pq.ParquetFile(io.BytesIO(data), metadata=found).read() == pq.ParquetFile(io.BytesIO(data)).read()


def test_a_footer_that_is_not_understood_stays() -> None:
    """Invariant 1: what only looks like a filter is none, and a broken end is left to the library."""
    text = b"\x18\x1b" + BLOOM.encode() + b"\x18\xc0\xa9\x07" + b"A" * 120_000 + b"\0"
    table = pa.table({"b": pa.array([text])})
    sink = io.BytesIO()
    pq.write_table(table, sink, write_statistics=True)
    data = sink.getvalue()
    footer = data[-TAIL_BYTES - footer_bytes(data[-TAIL_BYTES:], file="f") : -TAIL_BYTES]
    assert without_bloom(footer) == footer
    assert without_bloom(footer[:40] + text + footer[40:]) == footer[:40] + text + footer[40:]
    for broken in (b"", b"PAR1", data[:-1], data[:-TAIL_BYTES] + b"\xff\xff\xff\x7fPAR1", data[:-4] + b"PARE"):
        assert metadata_without_bloom(io.BytesIO(broken)) is None
