"""Tables that several fields order, by real Hudi: what it answers before LOG and FULL it answers afterwards.

hudi-rs 0.5 does not read such tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.log.block import BlockType
from tests.hudi.log_compacting import log_compact
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact
from tests.interop.test_compaction import hudi_compacts
from tests.interop.test_log_operation import blocks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

Change = tuple[str, str, str, bool]
"""What a row is called, its two ordering values as SQL, and whether it is deleted."""

VALUES = {
    "bigint": ("10L", "11L", "9L"),
    "int": ("0", "1", "-1"),
    "smallint": ("5S", "6S", "4S"),
    "string": ("'m'", "'n'", "'a'"),
    "double": ("0D", "1.5D", "-0D"),
    "timestamp": ("TIMESTAMP'2024-01-02 00:00:00'", "TIMESTAMP'2024-01-02 00:00:01'", "TIMESTAMP'1960-01-01 00:00:00'"),
    "decimal(10,2)": ("CAST(5.25 AS decimal(10,2))", "CAST(5.26 AS decimal(10,2))", "CAST(-5.25 AS decimal(10,2))"),
    "date": ("DATE'2024-01-02'", "DATE'2024-01-03'", "DATE'1969-01-01'"),
}
"""A value of each type, a greater one and a smaller one."""


def write(spark: SparkSession, tables: list[HudiTable], rows: dict[str, tuple[str, str, bool]], what: str) -> None:
    values = ", ".join(f"('{key}', {a}, {b}, '{what}', {str(gone).lower()})" for key, (a, b, gone) in rows.items())
    for table in tables:
        frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, a, b, v, _hoodie_is_deleted)")
        table.write(frame, "insert" if what == "base" else "upsert")


@pytest.mark.parametrize(
    ("first", "second", "log_format"),
    [
        ("bigint", "string", "avro"),
        ("string", "int", "avro"),
        ("int", "int", "parquet"),
        ("smallint", "timestamp", "parquet"),
        ("decimal(10,2)", "double", "avro"),
        ("bigint", "date", "parquet"),
    ],
)
def test_hudi_reads_the_same_before_and_after(
    spark: SparkSession, tmp_path: Path, first: str, second: str, log_format: str
):
    """All nine relations of two values to the base row's, as data, as deletes and as deletes over data, and deletes by
    key alone; after LOG, further writes, and FULL, which ends as Hudi's own compaction does."""
    table = HudiTable(
        spark,
        tmp_path / "table",
        TableShape(ordering_fields="a,b", merge_mode="EVENT_TIME_ORDERING", log_format=log_format),
    )
    pairs = [(a, b) for a in VALUES[first] for b in VALUES[second]]
    base = VALUES[first][0], VALUES[second][0], False
    has_deletes = "date" not in (first, second)  # Hudi 1.2.0 cannot read its own
    keys = [f"{kind}{number}" for kind in ("put", "delete", "both", "gone", "last") for number in range(len(pairs))]
    write(spark, [table], dict.fromkeys(keys, base), "base")
    changed = {f"put{number}": (*pair, False) for number, pair in enumerate(pairs)}
    changed |= {f"both{number}": (*pairs[1], False) for number in range(len(pairs))}
    write(spark, [table], changed, "changed")
    if has_deletes:
        deleted = {f"{kind}{number}": (*pair, True) for kind in ("delete", "both") for number, pair in enumerate(pairs)}
        write(spark, [table], deleted, "deleted")
    by_key = ", ".join(f"('gone{number}', {a}, {b})" for number, (a, b) in enumerate(pairs))
    table.write(
        spark.sql(f"SELECT *, 'x' AS v, false AS _hoodie_is_deleted FROM VALUES {by_key} AS t(id, a, b)"), "delete"
    )
    write(spark, [table], {"gone0": (*pairs[-1], False), "gone1": base}, "again")
    before = table.snapshot()
    assert ('"v":"changed"' in str(before)) and len(before) < len(keys)

    _, outputs = log_compact(table.path)

    kinds = [block.type for each in outputs for block in blocks_of(table, each.file_name)]
    assert kinds.count(BlockType.DELETE) == 1 + has_deletes, "deletes without ordering values, and with"
    assert table.snapshot() == before
    write(spark, [table], {f"last{number}": (*pair, False) for number, pair in enumerate(pairs)}, "last")
    before = table.snapshot()
    twin = table.copy_to(tmp_path / "twin")

    compact(table)
    hudi_compacts(twin)

    assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
    both = [table, twin]
    write(spark, both, {f"put{number}": (*pair, has_deletes) for number, pair in enumerate(pairs)}, "more")
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    table.compact()
    assert table.snapshot(with_meta=False) == table.read_optimized(with_meta=False) == twin.snapshot(with_meta=False)
