"""The metadata table compacted and cleaned by us: its records are those of Hudi's own compaction, and Hudi goes on.

One table by Hudi 1.2.0 whose metadata table has logs on base files; on one copy Hudi compacts it, on others we do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.file_name import HFILE, parse_base_file
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.record import MetadataRecord
from lakeward.format.timeline.clean_metadata import CleanMetadata, read_clean_metadata
from lakeward.format.timeline.compaction_plan import CompactionPlan, read_compaction_plan
from lakeward.format.timeline.instant import Instant, State, parse_instant
from lakeward.storage.local import LocalStorage
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.metadata_table import COLUMNS, OPTIONS
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_metadata_reading import assert_as_hudi_sees_it, encoded
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import clean_metadata, compact_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHAPE = TableShape(partition_fields="part", options=OPTIONS)
WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}
COMPACTS_METADATA = {"hoodie.metadata.compact.max.delta.commits": "1"}
"""Before Hudi's next write."""
LEAVES_METADATA = {"hoodie.metadata.compact.max.delta.commits": "100"}


@dataclass(frozen=True)
class Twins:
    before: HudiTable
    by_hudi: HudiTable
    by_us: HudiTable
    printed: dict[str, object]
    """What our command printed."""


def upsert(spark: SparkSession, table: HudiTable, first: int, last: int, value: str, **options: str) -> None:
    rows = spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 3) AS part, 9000L + id AS ts, '{value}' AS v, "
        f"id % 7 = 0 AS _hoodie_is_deleted, {COLUMNS} FROM range({first}, {last})"
    )
    table.write(rows, "upsert", **options)


def values(table: HudiTable, **options: str) -> dict[str, str]:
    rows = table.frame(**options).select("id", "v").collect()
    found = {row["id"]: row["v"] for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


@pytest.fixture(scope="module")
def twins(spark: SparkSession, table_with_metadata: Path, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    folder = tmp_path_factory.mktemp("twins")
    before = HudiTable(spark, table_with_metadata, SHAPE).copy_to(folder / "before")
    # With files taken out of the listing, and with them their statistics and filters.
    cleaning = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
    upsert(spark, before, 2990, 3010, "more", **LEAVES_METADATA, **cleaning)
    by_hudi, by_us = before.copy_to(folder / "hudi"), before.copy_to(folder / "own")
    upsert(spark, by_hudi, 0, 1, "hudis", **COMPACTS_METADATA)
    for service in ("clean", "compact"):
        exit_code, printed = lakeward("metadata", service, str(by_us.path), "--writers", "stopped")
        assert exit_code == 0, printed
    return Twins(before, by_hudi, by_us, printed["metadata_compaction"])


def metadata(table: HudiTable) -> Path:
    return table.path / ".hoodie" / "metadata"


def instants(table: HudiTable) -> list[Instant]:
    """Instants of the metadata table: one for each timeline file, by name."""
    names = sorted(path.name for path in (metadata(table) / ".hoodie" / "timeline").iterdir())
    return [instant for name in names if (instant := parse_instant(name, 2)) is not None]


def compactions(table: HudiTable) -> list[str]:
    """Instants of completed ones, oldest first."""
    return [each.time for each in instants(table) if each.action == "commit" and each.state is State.COMPLETED]


def cleans(table: HudiTable) -> list[CleanMetadata]:
    """What the completed ones did, oldest first."""
    completed = [each for each in instants(table) if each.action == "clean" and each.state is State.COMPLETED]
    paths = [metadata(table) / ".hoodie" / "timeline" / each.file_name for each in completed]
    return [read_clean_metadata(path.read_bytes(), file=path.name) for path in paths]


def deleted_files(clean: CleanMetadata) -> set[str]:
    """Paths below the metadata table; those that were gone already count, for Hudi."""
    return {f"{path}/{name}" for path, each in clean.partitions.items() for name in (*each.deleted, *each.failed)}


def data_files(table: HudiTable) -> set[str]:
    """Data files of the metadata table, by path below it."""
    paths = [
        path for path in metadata(table).glob("*/*") if path.suffix != ".crc" and not path.name.startswith(".hood")
    ]
    return {str(path.relative_to(metadata(table))) for path in paths}


def base_files(table: HudiTable, instant: str) -> dict[tuple[str, str], Path]:
    found = {}
    for path in metadata(table).glob(f"*/*_{instant}.{HFILE}"):
        name = parse_base_file(path.name, extension=HFILE)
        assert name is not None
        found[path.parent.name, name.file_id] = path
    return found


def records(path: Path) -> Iterator[tuple[str, MetadataRecord]]:
    with path.open("rb") as file:
        reader = HFileReader(file, length=path.stat().st_size, name=path.name)
        codec = metadata_codec(reader.info["schema"].decode())
        yield from ((key.decode(), codec.decode(payload, path.name)) for key, payload in reader.entries())


def plan_of(table: HudiTable, instant: str) -> CompactionPlan:
    path = metadata(table) / ".hoodie" / "timeline" / f"{instant}.compaction.requested"
    return read_compaction_plan(path.read_bytes(), file=path.name, extension=HFILE)


def test_records_are_hudis(twins: Twins):
    """A base file in every file group that Hudi made one in, with equal records; the plans name the same logs."""
    hudis, own = (compactions(table)[-1] for table in (twins.by_hudi, twins.by_us))
    assert own == twins.printed["instant"]
    found = {group: dict(records(path)) for group, path in base_files(twins.by_us, own).items()}
    expected = {group: dict(records(path)) for group, path in base_files(twins.by_hudi, hudis).items()}
    assert found.keys() == expected.keys()
    for group, of in expected.items():
        assert encoded(found[group]) == encoded(of), group
    assert sum(map(len, found.values())) == twins.printed["entries"] > 3000
    merged = [
        {(each.partition_path, each.file_id): (each.base_file, each.log_files) for each in plan.operations}
        for plan in (plan_of(twins.by_us, own), plan_of(twins.by_hudi, hudis))
    ]
    assert merged[0] == merged[1]


@pytest.mark.turns
def test_hudi_reads_them_and_goes_on(spark: SparkSession, twins: Twins, tmp_path: Path):
    """Hudi reads the same rows with the metadata table and without it; an upsert finds its keys by the record index;
    and Hudi compacts the metadata table itself, on top of our base files."""
    table = twins.by_us.copy_to(tmp_path / "table")
    rows = values(twins.before, **WITHOUT_METADATA)
    assert values(table) == values(table, **WITHOUT_METADATA) == rows
    skipping = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    assert len(table.frame(**skipping).where("small = 3499").collect()) == 1
    assert_as_hudi_sees_it(spark, table.path, tmp_path)

    upsert(spark, table.reshaped(index="GLOBAL_RECORD_LEVEL_INDEX"), 3001, 3003, "index", **LEAVES_METADATA)
    assert compactions(table)[-1] == twins.printed["instant"]
    upsert(spark, table, 3003, 3006, "simple", **COMPACTS_METADATA)
    assert compactions(table)[-1] > str(twins.printed["instant"])

    rows |= {f"k{number}": "index" if number < 3003 else "simple" for number in range(3001, 3006) if number % 7}
    for deleted in (number for number in range(3001, 3006) if number % 7 == 0):
        rows.pop(f"k{deleted}", None)
    assert values(table) == values(table, **WITHOUT_METADATA) == rows
    assert_as_hudi_sees_it(spark, table.path, tmp_path)


@pytest.mark.parametrize(
    "moved", [pytest.param(0, marks=pytest.mark.wide), 3], ids=["nothing moved in", "some files moved in"]
)
def test_hudi_finishes_what_we_died_over(spark: SparkSession, twins: Twins, tmp_path: Path, moved: int):
    """Our plan is on the metadata table's timeline, begun: Hudi's next writer rolls the attempt back and carries the
    plan out, and what it lists is right; our next run clears the rest away."""
    clean = FaultyStorage()
    compact_metadata(twins.before.copy_to(tmp_path / "clean").path, clean)
    moves = [
        number
        for number, call in enumerate(clean.calls)
        if call.startswith(("move", "rename")) and call.endswith(HFILE)
    ]
    table = twins.before.copy_to(tmp_path / "table")
    processes = ScriptedProcesses()
    with pytest.raises(Killed):
        compact_metadata(table.path, FaultyStorage(Fault(FaultKind.KILL, moves[moved])), processes)
    processes.kill_all()
    (table.path / ".hoodie" / "lock").unlink()
    (own,) = {each.time for each in instants(table) if each.action == "compaction"} - set(compactions(table))
    assert len(base_files(table, own)) >= moved

    upsert(spark, table, 0, 1, "next")

    assert compactions(table)[-1] == own
    assert len(base_files(table, own)) == len(plan_of(table, own).operations)
    rows = values(table, **WITHOUT_METADATA)
    assert values(table) == rows
    compact_metadata(table.path, FaultyStorage(), processes)
    assert not list((metadata(table) / ".hoodie" / ".temp").rglob("attempt-*"))
    assert values(table) == rows


@pytest.mark.turns
def test_hudi_ends_a_clean_that_we_died_over(
    spark: SparkSession, twins: Twins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Some files are deleted, and the plan is on the metadata table's timeline, begun. Hudi's writers work beside it,
    and once they would clean it themselves they delete the others; what they list is right all the while."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)
    clean = FaultyStorage()
    trial = twins.by_us.copy_to(tmp_path / "trial")
    before = data_files(trial)
    clean_metadata(trial.path, clean)
    dead = before - data_files(trial)
    assert len(dead) > 3
    assert values(trial) == values(trial, **WITHOUT_METADATA)
    deletions = [
        n for n, call in enumerate(clean.calls) if call.startswith(("delete ", "remove ")) and f".{HFILE}" in call
    ]

    table = twins.by_us.copy_to(tmp_path / "table")
    with pytest.raises(Killed):
        clean_metadata(table.path, FaultyStorage(Fault(FaultKind.KILL, deletions[0])))
    (table.path / ".hoodie" / "lock").unlink()
    assert 0 < len(dead & data_files(table)) < len(dead)
    done = len(cleans(table))
    for number in range(4):  # it does not clean within three instants of a compaction
        upsert(spark, table, number, number + 1, "next", **LEAVES_METADATA)

    assert len(cleans(table)) == done + 1
    assert not dead & data_files(table)
    (ended,) = cleans(table)[done:]
    assert deleted_files(ended) == dead
    rows = values(table, **WITHOUT_METADATA)
    assert values(table) == rows
    assert clean_metadata(table.path, LocalStorage()) is not None, "what was old is younger than what Hudi keeps"
    assert values(table) == rows


@pytest.mark.wide
def test_hudi_cleans_where_we_stopped(
    spark: SparkSession, twins: Twins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It asks the last clean, which is Lakeward's, from where on something can be deleted, and deletes what is old
    since."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)
    table = twins.by_us.copy_to(tmp_path / "table")
    assert clean_metadata(table.path, LocalStorage()) is not None
    own, before = len(cleans(table)), data_files(table)
    for number in range(28):
        upsert(spark, table, number, number + 1, "next", **(COMPACTS_METADATA if number % 5 == 2 else LEAVES_METADATA))

    assert len(cleans(table)) > own
    deleted = {
        f"{path}/{name}" for of in cleans(table)[own:] for path, each in of.partitions.items() for name in each.deleted
    }
    assert deleted & before
    assert not deleted & data_files(table)
    assert values(table) == values(table, **WITHOUT_METADATA)
    assert_as_hudi_sees_it(spark, table.path, tmp_path)
