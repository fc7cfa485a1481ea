"""What released Hudi and hudi-rs make of the logs that a LOG operation writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.log.block import BlockType, HeaderKey, LogBlock, scan_blocks
from tests.hudi.log_compacting import log_compact
from tests.hudi.table import HudiTable
from tests.interop.cases import Case
from tests.interop.story import Story
from tests.interop.test_compaction import BEGINNING
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
