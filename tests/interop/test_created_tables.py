"""Tables that `lakeward table create` made, to which released Hudi writes with its defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.cli.main import run
from lakeward.format.java_properties import parse_properties
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COLUMNS = """
    concat('k', id) AS id, 10L AS ts, concat('p', id % 2) AS part, CAST(id AS tinyint) AS tiny,
    CAST(id / 4 AS decimal(12,3)) AS price, date'2024-03-04' AS day, timestamp'2024-03-04 05:06:07' AS at,
    CAST('2024-03-04 05:06:07' AS timestamp_ntz) AS local, CAST('raw' AS binary) AS raw, 1.5f AS half, 2.5d AS real,
    true AS truth, named_struct('a', 1, 'b', array(named_struct('d', CAST(1 AS decimal(5,1)), 'e', 'x'))) AS inner,
    map('x', CAST(id AS bigint)) AS counts
"""


@pytest.mark.parametrize(
    "kind, shape, words",
    [
        ("mor", TableShape(partition_fields="part"), ["--partition", "part"]),
        pytest.param("cow", TableShape(), [], marks=pytest.mark.wide),
        pytest.param(
            "mor",
            TableShape(partition_fields="part", key_fields="id,day", hive_style=True),
            ["--partition", "part", "--hive-style"],
            marks=pytest.mark.wide,
        ),
    ],
)
def test_hudi_goes_on(spark: SparkSession, tmp_path: Path, kind: str, shape: TableShape, words: list[str]) -> None:
    """Our schema is the one that its first write has, no property of ours is another one to it, and the metadata table
    that it makes and our compaction go on from there."""
    spark.sql(f"SELECT {COLUMNS} FROM range(25)").coalesce(1).write.parquet(str(tmp_path / "rows"))
    (like,) = (tmp_path / "rows").glob("*.parquet")
    rows = spark.read.parquet(str(like))
    base = tmp_path / "t"
    given = ["--record-key", shape.key_fields, "--ordering", "ts", "--type", kind, *words]
    assert run(["table", "create", str(base), "--like", str(like), *given]) == 0
    ours = parse_properties((base / ".hoodie/hoodie.properties").read_bytes())

    options = {"hoodie.metadata.enable": "true", "hoodie.datasource.write.table.type": ours["hoodie.table.type"]}
    table = HudiTable(spark, base, shape)
    twin = HudiTable(spark, tmp_path / "twin", shape)
    named = {"hoodie.datasource.write.partitionpath.field": shape.partition_fields}  # said, also where there are none
    twin.write(rows, "upsert", **named, **{"hoodie.datasource.write.table.type": ours["hoodie.table.type"]})
    of_hudi = parse_properties((twin.path / ".hoodie/hoodie.properties").read_bytes())
    assert {key: value for key, value in ours.items() if key != "hoodie.table.create.schema"} == of_hudi
    table.write(rows.where("counts['x'] < 20"), "upsert", **options)
    table.write(rows.where("counts['x'] >= 5").withColumn("ts", rows["ts"] + 1), "upsert", **options)

    after = parse_properties((base / ".hoodie/hoodie.properties").read_bytes())
    assert {key: value for key, value in after.items() if not key.startswith("hoodie.table.metadata.")} == {
        **ours,
        "hoodie.table.index.defs.path": ".hoodie/.index_defs/index.json",
    }
    commit = max((base / ".hoodie/timeline").glob("*_*.*commit"))
    written = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2).extra_metadata["schema"]
    assert ours["hoodie.table.create.schema"] == written
    found = {row["id"]: row["ts"] for row in map(json.loads, table.snapshot(with_meta=False))}
    assert found == {f"k{n}": 11 if n >= 5 else 10 for n in range(25)}
    if kind == "mor":
        before = table.snapshot()
        assert compact(table)["compactions"]
        assert table.snapshot() == table.read_optimized() == before
