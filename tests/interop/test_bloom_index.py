"""Hudi's bloom index on files of ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward as command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.bloom.filter.enable": "true"}
MANY = 300_000


@pytest.mark.wide
def test_hudi_finds_keys_by_filters_of_more_than_a_megabyte(spark: SparkSession, tmp_path: Path) -> None:
    """In the footer, and in the metadata table: an upsert by its bloom index updates what is there, and adds the one
    that is not."""
    table = HudiTable(spark, tmp_path / "t", TableShape(partition_fields="part"))
    rows = tmp_path / "rows.parquet"
    columns = {"id": [f"k{n:07}" for n in range(MANY)], "ts": [1] * MANY, "part": ["p"] * MANY, "v": ["first"] * MANY}
    pq.write_table(pa.table(columns), rows)
    words = ("--record-key", "id", "--partition", "part", "--ordering", "ts", "--type", "cow", "--name", "t")
    words += ("--index", "bloom-filters", "--like", str(rows))
    assert command("table", "create", str(table.path), *words)[0] == 0
    assert command("write", str(table.path), "--input", str(rows), "--writers", "stopped")[0] == 0
    (base,) = table.path.glob("p/*.parquet")
    assert len(pq.read_metadata(base).metadata[b"org.apache.hudi.bloomfilter"]) > 2_000_000
    for turn, by_metadata in enumerate(("false", "true")):
        options = {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": by_metadata, **METADATA}
        came = [(f"k{n:07}", 2 + turn, "p", f"theirs {turn}") for n in (0, 7, MANY - 1)] + [(f"new{turn}", 2, "p", "n")]
        frame = spark.createDataFrame(came, "id string, ts bigint, part string, v string")
        table.write(frame, "upsert", **{"hoodie.datasource.write.table.type": "COPY_ON_WRITE", **options})
        read = spark.read.format("hudi").load(str(table.path))
        assert read.count() == MANY + 1 + turn
        assert read.where(f"v = 'theirs {turn}'").count() == 3
        if by_metadata == "false":  # Hudi has written the file anew, with its own filter: ours again, for the next turn
            again = tmp_path / "again.parquet"
            pq.write_table(pa.table({"id": ["k0000009"], "ts": [9], "part": ["p"], "v": ["ours"]}), again)
            assert command("write", str(table.path), "--input", str(again), "--writers", "stopped")[0] == 0
