"""Logs of HFile blocks, which Hudi's Spark writers write and their default readers cannot read (1.0.2 and 1.2.0 fail
with a ClassCastException, and so do their compactions): we compact them, and then Hudi reads the table.

Judges of what is in such logs are hudi-rs, and Hudi 1.0.2 with its older reader.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.format.log.block import BlockType
from lakeward.read.file_slice import open_slice
from lakeward.read.logs.log_scan import NEWEST
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.local import LocalStorage
from tests.golden_tables import GOLDEN, copy_golden
from tests.hudi.golden_version_8 import by_default, first_writes
from tests.hudi.log_compacting import log_compact
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION_OF_8
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.cases import Case
from tests.interop.lakeward_cli import compact
from tests.interop.story import Story
from tests.interop.test_compaction import assert_verified
from tests.interop.test_log_operation import blocks_of
from tests.our_reader import scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OLDER_READER = {"hoodie.file.group.reader.enabled": "false"}


def rows_of(first: int, last: int, ts: int) -> str:
    """Rows whose record key is the column `key`, which HFile blocks have as the entries' keys alone."""
    return (
        f"SELECT concat('ü', lpad(id, 2, '0')) AS key, {ts}L AS ts, array(cast(id AS STRING), 'ä') AS tags, "
        f"CAST(id AS DECIMAL(20, 3)) AS price FROM range({first}, {last})"
    )


def values(rows: tuple[str, ...]) -> dict[str, Any]:
    return {row["key"]: (row["ts"], row["tags"]) for row in map(json.loads, rows)}


def test_rows_of_a_golden_table(tmp_path: Path) -> None:
    """Lakeward's rows are those of hudi-rs, to which they are the same after a LOG. No Spark is needed."""
    base = copy_golden("hfile", tmp_path / "table")
    table = HudiTable(None, base, TableShape())  # type: ignore[arg-type]  # for hudi-rs alone
    by_hudi_rs = table.read_by_hudi_rs()
    rows = merged_rows(base)
    values = {row["id"]: [row["ts"], int(row["price"])] for row in rows}
    assert values == json.loads((GOLDEN / "hfile" / "expected.json").read_text())
    assert tuple(sorted(json.dumps(row, sort_keys=True, default=repr) for row in rows)) == by_hudi_rs

    _, outputs = log_compact(base)

    blocks = [block.type for each in outputs for block in blocks_of(table, each.file_name)]
    assert blocks == [BlockType.AVRO_DATA, BlockType.DELETE]
    assert table.read_by_hudi_rs() == by_hudi_rs
    assert merged_rows(base) == rows


def merged_rows(base: Path) -> list[dict[str, Any]]:
    """The rows of a table of one file group with one base file, as we merge them, in the order of their keys."""
    snapshot = scan(base)
    assert snapshot.schema is not None
    slice_input = SliceInput(
        partition_path="",
        file_id="",
        base_file=next(base.glob("*.parquet")).name,
        log_files=tuple(sorted(path.name for path in base.glob(".*.log.*[0-9]"))),
        base_path=str(base),
        instant=NEWEST,
        schema=snapshot.schema,
        rules=merge_rules(snapshot),
    )
    with open_slice(LocalStorage(), slice_input) as merged:
        rows = [row for batch in merged.batches() for row in batch.to_pylist()]
    for row in rows:
        del row["_hoodie_file_name"]
    return sorted(rows, key=lambda row: str(row["_hoodie_record_key"]))


@pytest.mark.wide
def test_hudi_reads_what_we_made_of_them(spark: SparkSession, tmp_path: Path) -> None:
    """LOG makes Avro blocks of them; after it, and after FULL, Hudi reads the rows that were written."""
    table = HudiTable(spark, tmp_path / "table", TableShape(log_format="hfile", key_fields="key"))
    for first, last, ts, operation in ((0, 12, 10, "insert"), (3, 9, 12, "upsert"), (6, 11, 11, "upsert")):
        table.write(spark.sql(rows_of(first, last, ts)), operation)
    by_hudi_rs = table.read_by_hudi_rs()
    ts = {id: 12 if 3 <= id < 9 else 11 if 6 <= id < 11 else 10 for id in range(12)}
    expected = {f"ü{id:02}": (ts[id], [str(id), "ä"]) for id in range(12)}

    _, outputs = log_compact(table.path)

    assert {block.type for each in outputs for block in blocks_of(table, each.file_name)} == {BlockType.AVRO_DATA}
    after_log = table.snapshot()
    assert values(after_log) == expected
    assert without_key(table.read_by_hudi_rs()) == without_key(by_hudi_rs)

    table.write(spark.sql(rows_of(0, 2, 13)), "upsert")
    compact(table)

    expected |= {f"ü{id:02}": (13, [str(id), "ä"]) for id in range(2)}
    assert values(table.snapshot()) == expected
    assert {row for row in after_log if json.loads(row)["ts"] != 10} < set(table.snapshot())


def without_key(rows: Rows | str) -> list[str]:
    """hudi-rs does not put the keys of an HFile's entries into the column."""
    assert not isinstance(rows, str), rows
    return sorted(json.dumps({k: v for k, v in json.loads(row).items() if k != "key"}) for row in rows)


SHAPES = [
    Case(*line.split())
    for line in """
    SIMPLE  hive     fresh      event   hfile    composite  all  insert       soft  added  bigint
    BUCKET  flat     fresh      commit  hfile    single     all  insert       hard  no   bigint         stats
    MEMORY  encoded  fresh      commit  hfile    single     all  insert       hard  added  bigint
    SIMPLE  encoded  fresh      event   hfile    single     few  bulk_insert  hard  no   string         rli
    BUCKET  flat     fresh      event   hfile    composite  few  insert       soft  added  decimal(10,2)
    """.strip().splitlines()
]


@pytest.mark.wide
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_shapes(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    """Every type, key and kind of delete, with the metadata table and without: the rows are the model's."""
    story = Story(spark, tmp_path / "table", case)
    story.begin()
    table = story.table
    logged = table.copy_to(tmp_path / "logged")

    compact(table)
    log_compact(logged.path)
    compact(logged)

    assert table.snapshot(with_meta=False) == story.expected()
    # (LOG keeps rows' commits, FULL over either must give the same.)
    assert logged.snapshot() == table.snapshot()
    if case.has_metadata:
        assert_verified(table)


@pytest.mark.wide
def test_hudi_1_0_reads_the_same_before_and_after(tmp_path: Path) -> None:
    """Its older reader says what is in such logs, its default one reads what we made of them."""
    with OtherRelease(OLDEST_VERSION_OF_8, tmp_path / "older") as older:
        shape = by_default(**{"hoodie.logfile.data.block.format": "hfile"})
        table = older.table(tmp_path / "table", shape)
        expected = first_writes(table)
        before = table.snapshot(with_meta=True, **OLDER_READER)
        assert {row["id"]: row["v"] for row in map(json.loads, before)} == expected

        compact(HudiTable(None, table.path, shape))  # type: ignore[arg-type]  # for its path alone

        assert table.snapshot(with_meta=True) == before
