"""Indexes of the metadata table built by us, on tables of Hudi that have none: their records are those that Hudi's own
writer makes when it enables the same index, Hudi's writers find each key by it and keep it, and it has what they
committed while it was built."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import Clock
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.format.metadata.record import BloomFilterRecord, MetadataRecord, RecordIndexRecord
from lakeward.protocol.metadata.writers_removal import find_removals
from lakeward.storage.local import LocalStorage
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_metadata_reading import assert_as_hudi_sees_it, encoded
from tests.interop.test_metadata_services import upsert, values
from tests.interop.test_written_metadata import create_secondary_index
from tests.our_reader import scan
from tests.services.metadata.run.test_compaction import records
from tests.services.metadata.run.test_removal import config
from tests.services.together.metadata_index.test_initial_build import build_between

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

BY_METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
WITHOUT = {**BY_METADATA, "hoodie.metadata.record.index.enable": "false"}
WITH = {**BY_METADATA, "hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"}
GLOBALLY = {**WITH, "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
COMPACTS = {"hoodie.metadata.compact.max.delta.commits": "1"}
WITH_RECORDS = {"hoodie.metadata.record.index.enable": "true"}
TABLE_TYPES = ["MERGE_ON_READ", pytest.param("COPY_ON_WRITE", marks=pytest.mark.wide)]


def made(spark: SparkSession, path: Path, table_type: str) -> HudiTable:
    """A table without a record index: updates and deletes, in logs where it has such."""
    shape = TableShape(partition_fields="part", options={"hoodie.datasource.write.table.type": table_type, **WITHOUT})
    table = HudiTable(spark, path, shape)
    upsert(spark, table, 0, 200, "a")
    upsert(spark, table, 50, 120, "b")
    return table


OF_FILES = ("column_stats", "partition_stats", "bloom_filters")
FILES_ALONE = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
COPIED = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
OF_ALL_FILES = {
    **FILES_ALONE,
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
BY_BLOOM = {**OF_ALL_FILES, "hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true"}


def record_index(table: HudiTable) -> dict[str, object]:
    return encoded(dict(records(table.path)[RECORD_INDEX]))


def assert_right(spark: SparkSession, table: HudiTable) -> dict[str, str]:
    """Rows are the same by every listing, and the index is where they are."""
    rows = values(table)
    assert rows == values(table, **{"hoodie.metadata.enable": "false"})
    found = records(table.path)[RECORD_INDEX]
    assert {key for key, _ in found} == rows.keys()
    for key, record in found:
        assert isinstance(record, RecordIndexRecord) and record.partition == f"p{int(key[1:]) % 3}", key
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed
    return rows


def check_a_secondary_index(spark: SparkSession, table: HudiTable, hudis: HudiTable) -> None:
    """Pairs, definition and file groups are those of `CREATE INDEX`, and a query finds rows by it."""
    create_secondary_index(spark, hudis)
    kind = ("--type", "metadata", "--kind", "secondary", "--name", "v", "--column", "v")
    exit_code, printed = lakeward("index", "build", str(table.path), *kind, "--writers", "stopped")
    assert exit_code == 0, printed
    own, found = (dict(records(each.path)["secondary_index_v"]) for each in (table, hudis))
    assert own == found
    names = [
        {path.name.split("_")[0] for path in (each.path / ".hoodie/metadata/secondary_index_v").glob("*.hfile")}
        for each in (table, hudis)
    ]
    assert names[0] == names[1]
    defined = [
        json.loads((each.path / ".hoodie/.index_defs/index.json").read_text())["indexDefinitions"]
        for each in (table, hudis)
    ]
    assert defined[0]["secondary_index_v"] == defined[1]["secondary_index_v"]
    assert defined[0]["record_index"] == defined[1]["record_index"]
    rows = values(table)
    frame = table.frame(**{"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"})
    for value in ("a", "b", "none"):
        assert frame.where(f"v = '{value}'").count() == sum(each == value for each in rows.values())


@pytest.mark.turns(80, together="built indexes")
@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_a_record_index(spark: SparkSession, tmp_path: Path, table_type: str):
    """Built by the command, and built while Hudi writes; then Hudi's writers update, insert and delete by it, and
    compact it."""
    quiet = made(spark, tmp_path / "quiet", table_type)
    hudis, busy = quiet.copy_to(tmp_path / "hudis"), quiet.copy_to(tmp_path / "busy")
    before = values(quiet)

    exit_code, printed = lakeward(
        "index", "build", str(quiet.path), "--type", "metadata", "--kind", "record", "--writers", "stopped"
    )
    assert exit_code == 0 and printed["built"]["entries"] == len(before), printed
    upsert(spark, hudis, 0, 1, "hudis", **WITH)
    assert_as_hudi_sees_it(spark, quiet.path, tmp_path)
    assert record_index(quiet) == record_index(hudis)
    check_a_secondary_index(spark, quiet, hudis.reshaped(options=WITH))

    def happens(clock: Clock) -> None:
        upsert(spark, busy, 110, 240, "meanwhile", **WITHOUT)

    built = build_between(busy.path, happens, timezone=None)
    assert built is not None and built.entries == len(before)
    rows = assert_right(spark, busy)
    upsert(spark, busy, 100, 300, "after", **GLOBALLY, **COMPACTS)
    after = assert_right(spark, busy)
    assert after.keys() - rows.keys() == {f"k{id}" for id in range(100, 300) if id % 7 and f"k{id}" not in rows}
    upsert(spark, busy, 290, 310, "last", **WITH)
    assert_right(spark, busy)
    assert_as_hudi_sees_it(spark, busy.path, tmp_path)


@pytest.mark.turns(80, together="built indexes")
@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_what_is_known_of_files(spark: SparkSession, tmp_path: Path, table_type: str):
    """Filters, ranges of columns and of partitions are Hudi's own; its writers find keys by them, its queries skip by
    them what holds no row, and both keep them right."""
    options = {**FILES_ALONE, "hoodie.datasource.write.table.type": table_type}
    table = HudiTable(spark, tmp_path / "own", TableShape(partition_fields="part", options=options))
    upsert(spark, table, 0, 200, "a")
    upsert(spark, table, 50, 120, "b")
    hudis = table.copy_to(tmp_path / "hudis")
    for kind in OF_FILES:
        exit_code, printed = lakeward(
            "index", "build", str(table.path), "--type", "metadata", "--kind", kind, "--writers", "stopped"
        )
        assert exit_code == 0 and printed["built"]["entries"] > 0, printed
    upsert(spark, hudis, 0, 0, "hudis", **OF_ALL_FILES)  # a write without rows builds what its options have on
    own, found = records(table.path), records(hudis.path)
    for kind in OF_FILES:
        assert as_said(own[kind]) == as_said(found[kind]) != {}, kind

    for value in ("a", "b"):
        counted = [
            table.frame(**{"hoodie.metadata.enable": on, "hoodie.enable.data.skipping": on})
            .filter(f"v = '{value}' AND ts > 9100")
            .count()
            for on in ("true", "false")
        ]
        assert counted[0] == counted[1] > 0
    rows = values(table)
    upsert(spark, table, 190, 260, "after", **BY_BLOOM)
    after = values(table)
    assert after.keys() - rows.keys() == {f"k{id}" for id in range(200, 260) if id % 7}
    assert after == values(table, **{"hoodie.metadata.enable": "false"})
    assert_as_hudi_sees_it(spark, table.path, tmp_path)
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed


@pytest.mark.wide
@pytest.mark.turns(80, together="built indexes")
def test_a_writer_that_has_them_off(spark: SparkSession, tmp_path: Path):
    """A Hudi writer removes what its options have off, within the hour: its commit and its option are named, and the
    command does not build it again but by a word of the operator; then writers with the option keep it."""
    table = HudiTable(spark, tmp_path / "t", TableShape(partition_fields="part", options=FILES_ALONE | COPIED))
    upsert(spark, table, 0, 50, "a")
    for kind, option in (
        ("record", "hoodie.metadata.record.index.enable"),
        ("column_stats", "hoodie.metadata.index.column.stats.enable"),
    ):
        words = ("index", "build", str(table.path), "--type", "metadata", "--kind", kind, "--writers", "stopped")
        assert lakeward(*words)[0] == 0
        upsert(spark, table, 40, 60, "b", **FILES_ALONE, **(WITH_RECORDS if kind != "record" else {}))
        (removal,) = (each for each in find_removals(LocalStorage(), scan(table.path)) if not each.is_noted)
        newest = scan(table.path).timeline.completed_writes[-1].time
        assert f"{newest} was at work then" in removal.why and f"{option} off" in removal.why
        assert lakeward(*words)[0] == 2
        assert lakeward(*words, "--again")[0] == 0
    upsert(spark, table, 50, 70, "c", **FILES_ALONE, **WITH_RECORDS)
    assert RECORD_INDEX in config(table.path).built_metadata_partitions
    assert_as_hudi_sees_it(spark, table.path, tmp_path)


def as_said(found: Sequence[tuple[str, MetadataRecord]]) -> dict[str, str]:
    """Records by their keys; of a filter without its time and the name of its type, which are Hudi's writer's."""
    return {key: str(each.bloom_filter) if isinstance(each, BloomFilterRecord) else repr(each) for key, each in found}
