"""Tables whose rows are filled from those that they win over, by real Hudi: what it answers before FULL it answers
afterwards.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.test_compaction import hudi_compacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

PAYLOAD = "hoodie.datasource.write.payload.class"
PACKAGE = "org.apache.hudi.common.model."
UNAVAILABLE = "__debezium_unavailable_value"

STORIES = {
    "OverwriteNonDefaultsWithLatestAvroPayload": "",
    "PartialUpdateAvroPayload": "ts",
    "debezium.PostgresDebeziumAvroPayload": "_event_lsn",
}
"""Payload classes, and what orders their tables."""


def write(
    spark: SparkSession, tables: list[HudiTable], chance: random.Random, tick: int, keys: str, operation: str = "upsert"
) -> None:
    """A row for each key: some values missing or unavailable, early and late, and some deleted where a mark says so."""
    rows = []
    for key in keys:
        of_row = [f"'{key}'", f"{chance.choice([tick - 3, tick, tick + 2])}L"]
        of_row += [chance.choice(["NULL", f"'{UNAVAILABLE}'", f"'{tick}{column}'"]) for column in "ab"]
        of_row.append(chance.choice(["NULL", f"{tick}"]))
        of_row.append(chance.choice(["NULL", f"array({tick})"]))
        of_row.append(chance.choice(["NULL", f"named_struct('x', {tick}, 'y', CAST(NULL AS int))"]))
        of_row.append("'d'" if operation == "upsert" and chance.random() < 0.15 else "'u'")
        rows.append(f"({', '.join(of_row)})")
    columns = ("id", "n", "a", "b", "number", "list", "inner", "_change_operation_type")
    for table in tables:
        order = table.shape.ordering_fields or "ts"
        frame = spark.sql(
            f"SELECT id, n AS {order}, CAST(a AS string) a, CAST(b AS string) b, CAST(number AS int) number, "
            "CAST(list AS array<int>) list, CAST(inner AS struct<x:int,y:int>) inner, _change_operation_type "
            f"FROM VALUES {', '.join(rows)} AS t({', '.join(columns)})"
        )
        table.write(frame, operation)


@pytest.mark.parametrize("log_format", ["avro", "parquet"])
@pytest.mark.parametrize("payload", STORIES)
def test_hudi_reads_the_same_before_and_after(spark: SparkSession, tmp_path: Path, payload: str, log_format: str):
    """Random rows and deletes of a few keys; FULL twice, the second time over a base file of Lakeward, and Hudi goes
    on.
    """
    chance = random.Random(payload)
    shape = TableShape(
        ordering_fields=STORIES[payload],
        merge_mode="",
        log_format=log_format,
        options={PAYLOAD: f"{PACKAGE}{payload}"},
    )
    table = HudiTable(spark, tmp_path / "table", shape)
    keys = "abcdefghijklmnopqrstuvwxyz"
    write(spark, [table], chance, 10, keys, "insert")
    for tick in (11, 12, 13):
        write(spark, [table], chance, tick, "".join(chance.sample(keys + keys.upper(), 24)))
        if tick == 12:
            table.write(
                table.frame().limit(3).drop(*[name for name in table.frame().columns if "hoodie" in name]), "delete"
            )
    before = table.snapshot()
    twin = table.copy_to(tmp_path / "twin")

    compact(table)
    hudi_compacts(twin)

    assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
    both = [table, twin]
    for tick in (14, 15):
        state = chance.getstate()
        for each in both:
            chance.setstate(state)
            write(spark, [each], chance, tick, "".join(chance.sample(keys + keys.upper(), 24)))
    before = table.snapshot()
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    code, plan = lakeward("explain", str(table.path), "--type", "log")
    assert code == 0 and '"choice": "LOG"' not in str(plan).replace("'", '"'), plan
    compact(table)
    assert table.snapshot() == table.read_optimized() == before
    table.compact() if table.pending_instants() else None
