"""Logs of every form, and what released Hudi and hudi-rs make of them: those that a LOG operation writes; logs with
bytes behind the counted records, where RFC-06 has its index; delete blocks of versions 1 and 2; and logs of HFile
blocks, which Hudi's Spark writers write and their default readers cannot read (1.0.2 and 1.2.0 fail with a
ClassCastException, and so do their compactions): we compact them, and then Hudi reads the table.

No release that can be had here writes delete blocks of versions 1 and 2, so the content of a delete block that Hudi
wrote is replaced. Judges of what is in logs of HFile blocks are hudi-rs, and Hudi 1.0.2 with its older reader.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.format.log.block import BlockType, HeaderKey, LogBlock, read_content, scan_blocks
from lakeward.read.file_slice import open_slice
from lakeward.read.logs.log_scan import NEWEST
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.local import LocalStorage
from tests.format.log.test_kryo_deletes import content
from tests.golden_tables import GOLDEN, copy_golden
from tests.hudi.golden_version_8 import by_default, first_writes
from tests.hudi.log_compacting import log_compact
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION_OF_8
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.cases import Case
from tests.interop.lakeward_cli import compact
from tests.interop.story import Story
from tests.interop.test_compaction import BEGINNING, assert_verified
from tests.our_reader import scan
from tests.read.log_files import block
from tests.runs import spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CASES = [
    Case(*line.split())
    for line in """
    BUCKET  hive     fresh      event   parquet  composite  few  insert       soft  added  timestamp
    MEMORY  flat     fresh      commit  avro     single     all  insert       hard  no   bigint
    """.strip().splitlines()
]
# No date as ordering column: Hudi 1.2.0 fails on its own deletes with one.
WIDE_CASES = [
    Case(*line.split())
    for line in """
    SIMPLE  flat     fresh      event   avro     single     few  insert       soft  added  bigint
    SIMPLE  encoded  compacted  commit  parquet  single     all  bulk_insert  soft  added  bigint
    BUCKET  hive     fresh      event   parquet  composite  all  insert       soft  added  timestamp
    SIMPLE  flat     fresh      event   parquet  single     few  insert       soft  no   int
    BUCKET  flat     fresh      event   avro     single     few  insert       soft  no   string
    BLOOM   hive     fresh      event   avro     composite  all  insert       soft  no   decimal(10,2)
    SIMPLE  flat     compacted  event   parquet  single     few  insert       soft  no   double
    BUCKET  flat     fresh      event   avro     single     few  insert       soft  no   float
    """.strip().splitlines()
]
ALL_CASES = [*spread(CASES, least=1), *(pytest.param(case, marks=pytest.mark.wide) for case in WIDE_CASES)]


@pytest.mark.turns(30)
@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_hudi_reads_the_same_before_and_after(spark: SparkSession, tmp_path: Path, case: Case):
    """Over the oldest logs with others on top, over an earlier output, under later writes, and when Hudi compacts it:
    every query answers as before."""
    story = Story(spark, tmp_path / "table", case)
    story.begin()
    table = story.table
    before = Answers(table)

    first, outputs = log_compact(table.path, logs=2)

    assert outputs
    before.assert_same(table)

    story.write_on([table])
    before = Answers(table)

    assert table.snapshot(with_meta=False) == story.expected()

    _, outputs = log_compact(table.path)

    # In place of what the first output stands for, the second names it.
    blocks = [block for each in outputs for block in blocks_of(table, each.file_name)]
    named = [block.headers[HeaderKey.COMPACTED_BLOCK_TIMES] for block in blocks]
    assert any(first in sources.split(",") for sources in named)
    before.assert_same(table)

    story.write_on([table])

    assert table.snapshot(with_meta=False) == story.expected()

    table.compact()

    assert table.snapshot() == table.read_optimized()
    assert table.snapshot(with_meta=False) == story.expected()


class Answers:
    """What Hudi and hudi-rs say about a table, now and at its last instants."""

    def __init__(self, table: HudiTable) -> None:
        self._instants = table.completed_instants()
        self._last = self._instants[-1][1]
        self._snapshot = table.snapshot()
        self._read_optimized = table.read_optimized()
        self._as_of = {instant: table.as_of(instant) for instant, _ in self._instants[-3:]}
        # A row that loses inside of a compaction is no change any more, so only the whole past can be compared.
        self._incremental = table.incremental(BEGINNING, self._last)
        self._by_hudi_rs = table.read_by_hudi_rs()

    def assert_same(self, table: HudiTable) -> None:
        assert table.snapshot() == self._snapshot
        assert table.read_optimized() == self._read_optimized
        for instant, rows in self._as_of.items():
            assert table.as_of(instant) == rows, f"time travel to {instant}"
        assert table.incremental(BEGINNING, self._last) == self._incremental
        if not isinstance(self._by_hudi_rs, str):  # the words with which it says that it cannot
            assert table.read_by_hudi_rs() == self._by_hudi_rs


def blocks_of(table: HudiTable, name: str) -> list[LogBlock]:
    (path,) = table.path.rglob(name)
    with path.open("rb") as file:
        blocks = list(scan_blocks(file, path.stat().st_size, name=name))
    assert all(isinstance(block, LogBlock) for block in blocks)
    return [block for block in blocks if isinstance(block, LogBlock)]


def test_a_log_that_holds_only_deletes(spark: SparkSession, tmp_path: Path):
    """The deletes of several logs are one log of deletes, and the keys stay deleted under Hudi's readers."""
    story = Story(spark, tmp_path / "table", CASES[0])
    rows = [story._new_row(tick=10) for _ in range(20)]
    story._write([story.table], rows, "insert", first=True)
    story._delete([story.table], rows[:4])
    story._delete([story.table], rows[2:8])
    before, by_hudi_rs = story.table.snapshot(), story.table.read_by_hudi_rs()
    assert len(before) == 12

    _, outputs = log_compact(story.table.path)

    assert {block.type for block in blocks_of(story.table, outputs[0].file_name)} == {BlockType.DELETE}
    assert story.table.snapshot() == before
    assert story.table.read_by_hudi_rs() == by_hudi_rs


HUDIS_LOG_COMPACTION = {
    "hoodie.log.compaction.enable": "true",
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
}


# In each run of CI test_hybrid_compaction.py has the same turns through the service, and holds their rows.
@pytest.mark.wide
def test_hudi_and_we_log_compact_in_turns(spark: SparkSession, tmp_path: Path):
    """Hudi's log compaction over our output, then Lakeward's over Hudi's: each names the other's instant, and rows
    stay."""
    story = Story(spark, tmp_path / "table", CASES[0])
    story.begin()
    table = story.table
    own, _ = log_compact(table.path, logs=2)

    story.write_on([table.reshaped(options=HUDIS_LOG_COMPACTION)])  # two writes: Hudi counts from our log compaction on

    (hudis,) = {name.partition(".")[0] for name in timeline(table) if name.endswith("logcompaction.inflight")} - {own}
    assert own in sources_of(table, hudis)
    assert table.snapshot(with_meta=False) == story.expected()

    story.write_on([table])
    before = table.snapshot()
    # Hudi's log compaction puts deletes with and without ordering value into one block, which hudi-rs cannot read.
    assert "mixes ordering types" in table.read_by_hudi_rs()
    again, _ = log_compact(table.path)

    assert hudis in sources_of(table, again)
    assert table.snapshot() == before
    assert len(table.read_by_hudi_rs()) == len(before)
    assert table.snapshot(with_meta=False) == story.expected()


def timeline(table: HudiTable) -> list[str]:
    return [file.name for file in (table.path / ".hoodie" / "timeline").iterdir() if not file.name.startswith(".")]


def sources_of(table: HudiTable, instant: str) -> set[str]:
    """What the logs of a log compaction stand for."""
    names = [path.name for path in table.path.rglob(f".*_{instant}.log.1_*") if not path.name.endswith(".crc")]
    headers = [block.headers[HeaderKey.COMPACTED_BLOCK_TIMES] for name in names for block in blocks_of(table, name)]
    return {source for header in headers for source in header.split(",")}


TAIL = b"\xffLAKEWARD" + bytes(range(256)) * 40


@pytest.mark.wide
def test_hudi_and_we_read_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Each data block and each delete block gets bytes at its end. Hudi's snapshot, Lakeward's rows, and the table
    after Hudi's next upsert and compaction have the rows as before."""
    table = HudiTable(spark, tmp_path / "table", TableShape())
    table.write(spark.sql("SELECT 'k' || id AS id, id AS ts FROM range(20)"), "insert")
    table.write(spark.sql("SELECT 'k' || id AS id, id + 100 AS ts FROM range(5)"), "upsert")
    table.write(spark.sql("SELECT 'k7' AS id, 200L AS ts"), "delete")
    before = table.snapshot()
    assert len(before) == 19

    assert add_tails(table) == {BlockType.AVRO_DATA: 1, BlockType.DELETE: 1}
    assert table.snapshot() == before
    assert our_rows(table) == {row["id"]: row["ts"] for row in map(json.loads, before)}

    table.write(spark.sql("SELECT 'k8' AS id, 300L AS ts"), "upsert")
    merged = our_rows(table)
    table.compact()
    assert {row["id"]: row["ts"] for row in map(json.loads, table.snapshot())} == merged


def add_tails(table: HudiTable) -> dict[BlockType, int]:
    """How many blocks of each kind have got bytes."""
    found: dict[BlockType, int] = {}
    for path in table.path.glob(".*.log.*[0-9]"):
        with path.open("rb") as file:
            blocks = [(each, read_content(file, each)) for each in blocks_of(table, path.name)]
        path.write_bytes(b"".join(block(each.type, each.headers, content + TAIL) for each, content in blocks))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        for each, _ in blocks:
            found[each.type] = found.get(each.type, 0) + 1
    return found


def our_rows(table: HudiTable) -> dict[str, int]:
    """The rows that the file slice has; a scan of the table refuses logs whose sizes their commits do not say."""
    return {row["id"]: row["ts"] for row in merged_rows(table.path)}


KEYS = {"k0": -3, "k1": 0, "k2": 0, "k3": 0, "k4": 2, "k5": 5, "k2ä": 7, "😀é": 7}
"""Each key and its ordering value. Fixtures delete k0 to k5 at -2 to 3, or some keys without such a value."""


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "version", "left"),
    [
        ("v1", 1, {"k0", "k2", "k3", "k4", "k5"}),
        ("v2int", 2, {"k0", "k2", "k3", "k4", "k5"}),
        ("v2Long", 2, {"k1", "k5", "k2ä", "😀é"}),
    ],
)
def test_hudi_deletes_what_we_delete(
    spark: SparkSession, tmp_path: Path, name: str, version: int, left: set[str]
) -> None:
    """Hudi deletes by key alone, and by ordering value, as we do."""
    table = HudiTable(spark, tmp_path / "table", TableShape())
    values = ", ".join(f"('{key}', {ts}L)" for key, ts in KEYS.items())
    table.write(spark.sql(f"SELECT * FROM VALUES {values} AS t(id, ts)"), "insert")
    table.write(spark.sql("SELECT 'k0' AS id, -3L AS ts"), "upsert")
    table.write(spark.sql("SELECT 'k3' AS id, 0L AS ts"), "delete")
    replace_deletes(table, content(name, version))

    assert {json.loads(row)["id"] for row in table.snapshot()} == left
    assert {row["id"] for row in merged_rows(table.path)} == left


def replace_deletes(table: HudiTable, new: bytes) -> None:
    """The one log with a delete block has this content then, and no record positions: they are of the old one."""
    for path in table.path.glob(".*.log.*[0-9]"):
        (found,) = blocks_of(table, path.name)
        if found.type is BlockType.DELETE:
            keep = {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}
            headers = {key: value for key, value in found.headers.items() if key in keep}
            path.write_bytes(block(BlockType.DELETE, headers, new))
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            return
    raise AssertionError("no log has a delete block")


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
