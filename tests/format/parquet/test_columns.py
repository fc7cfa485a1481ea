"""Columns of Parquet files that other programs wrote."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.format.parquet.columns import read_columns


def test_moments_of_spark_are_moments(tmp_path: Path) -> None:
    """Between leaves of other columns, which stay as they are. Keeps of format/parquet/columns."""
    inner = pa.struct([("a", pa.int8()), ("at", pa.timestamp("ns")), ("b", pa.decimal128(5, 1))])
    types = {
        "list": pa.list_(pa.field("element", inner)),
        "map": pa.map_(pa.string(), inner),
        "at": pa.timestamp("ns"),
        "large": pa.string(),
    }
    as_int96, plain = tmp_path / "spark.parquet", tmp_path / "plain.parquet"
    pq.write_table(pa.schema(types.items()).empty_table(), as_int96, use_deprecated_int96_timestamps=True)
    moment = pa.timestamp("us", "UTC")
    of_spark = pa.struct([("a", pa.int8()), ("at", moment), ("b", pa.decimal128(5, 1))])
    read = read_columns(as_int96)
    assert [field.type for field in read] == [
        pa.list_(pa.field("element", of_spark)),
        pa.map_(pa.string(), of_spark),
        moment,
        pa.string(),
    ]
    never_null = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    whole = pa.schema([pa.field("x", never_null, nullable=False), pa.field("local", pa.timestamp("us"))])
    pq.write_table(whole.empty_table(), plain)
    assert read_columns(plain) == pa.schema([("x", pa.struct([("a", pa.int64())])), ("local", pa.timestamp("us"))])
