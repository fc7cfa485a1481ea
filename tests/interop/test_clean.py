"""Cleans carried out by us, and by Hudi: each takes what the other began, and each goes on after the other. Hudi sees
nothing of the quarantine, and after an undo it goes back in time again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.file_name import parse_log_file
from lakeward.format.metadata.log_file import metadata_blocks
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.services.clean.plan.orphans import OrphanKeeper, OrphanProof
from lakeward.services.clean.run.cleaner import FinishedClean
from lakeward.services.clean.run.orphans import look, set_orphans_aside
from lakeward.services.clean.run.purge import purge_quarantine
from lakeward.services.clean.run.undo import undo_clean
from lakeward.storage.local import LocalStorage
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from lakeward.table.quarantine import load_quarantine
from tests.crash.metadata_compacting import check_agrees
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.metadata_table import COLUMNS, INDEXES, written_records
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once
from tests.object_tables import bring, fetch
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import clean, completed_cleans, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.rollback.run.failed_tables import fail_last_write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHARES_TABLE = pytest.mark.turns(25, together="cleans")
"""What takes long is to make the table."""

SHAPE = TableShape(partition_fields="part", options={**INDEXES, "hoodie.metadata.compact.max.delta.commits": "100"})
CLEANS = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}


def write(spark: SparkSession, table: HudiTable, number: int, **options: str) -> None:
    rows = spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {number}L AS ts, concat('v', {number}) AS v, "
        f"{COLUMNS} FROM range(0, 20)"
    )
    table.write(rows, "upsert", **options)


def write_slices(spark: SparkSession, path: Path, shape: TableShape) -> None:
    """Three slices in each of two partitions."""
    table = HudiTable(spark, path, shape)
    for number in range(2):
        write(spark, table, number)
    table.compact()
    write(spark, table, 2)
    table.compact()
    write(spark, table, 3)


@pytest.fixture(scope="module")
def compacted_twice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three slices in each of two partitions, with every index that a clean has records for."""

    def make(folder: Path) -> None:
        write_slices(spark, folder / "table", SHAPE)

    return made_once(tmp_path_factory, "to_clean", make) / "table"


def run_hudis_clean(spark: SparkSession, table: HudiTable) -> str:
    """Hudi cleans by its procedure, with one commit retained. Returns the instant of its newest clean."""
    name = f"cleaned_{abs(hash(table.path))}"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{table.path}'")
    options = ",".join(f"{key}={value}" for key, value in INDEXES.items())
    spark.sql(f"CALL run_clean(table => '{name}', retain_commits => 1, options => '{options}')").collect()
    spark.sql(f"DROP TABLE {name}")
    return max(name.split("_")[0] for name in completed_cleans(table.path))


def deleted_keys(table: Path, instant: str, partition: str) -> set[str]:
    """The keys that the commit of the instant takes out of this partition of the metadata table."""
    found: set[str] = set()
    for path in (table / ".hoodie" / "metadata" / partition).glob(f".*_{instant}.log.1_*"):
        if parse_log_file(path.name) is None:
            continue
        with path.open("rb") as file:
            for block in metadata_blocks(file, path.stat().st_size, path.name):
                assert block.hfile is None, "a clean only takes away"
                found.update(block.deleted_keys)
    return found


def copy(table: Path, spark: SparkSession, path: Path) -> HudiTable:
    return HudiTable(spark, table, SHAPE).copy_to(path)


def verify_all(table: HudiTable) -> None:
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed
    check_agrees(table.path)


@SHARES_TABLE
def test_we_end_a_clean_that_hudi_planned(spark: SparkSession, compacted_twice: Path, tmp_path: Path) -> None:
    """The same files go, the completed file says the same, and the metadata table has the same records."""
    by_hudi, by_us = (copy(compacted_twice, spark, tmp_path / name) for name in ("hudi", "lake"))
    instant = run_hudis_clean(spark, by_hudi)
    requested = f".hoodie/timeline/{instant}.clean.requested"
    # Hudi names files by their whole path, and reads these without asking which table they are of.
    plan = (by_hudi.path / requested).read_bytes().replace(b"/hudi/", b"/lake/")
    (by_us.path / requested).write_bytes(plan)
    report = clean(by_us.path, LocalStorage())

    assert [(each.instant, each.recovered, dict(each.kept)) for each in report.cleans][:1] == [(instant, True, {})]
    assert data_files(by_us.path) == data_files(by_hudi.path)
    (hudis,), (own,) = (completed_cleans(table.path).values() for table in (by_hudi, by_us))
    assert {path: sorted(each.deleted) for path, each in own.partitions.items()} == {
        path: sorted(each.deleted) for path, each in hudis.partitions.items()
    }
    for name in ("version", "instant", "earliest_retained", "last_completed", "policy", "extra_metadata"):
        assert getattr(own, name) == getattr(hudis, name), name
    assert written_records(by_us.path, instant, "files") == written_records(by_hudi.path, instant, "files")
    for partition in ("column_stats", "bloom_filters"):
        expected = deleted_keys(by_hudi.path, instant, partition)
        assert deleted_keys(by_us.path, instant, partition) == expected and expected, partition
    verify_all(by_us)


@pytest.mark.wide
def test_a_clean_that_hudi_completes_a_second_time(spark: SparkSession, compacted_twice: Path, tmp_path: Path) -> None:
    """A Hudi writer had begun to carry our clean out when we completed it. Both go on, nothing is refused, and Hudi
    cleans and archives further."""
    table = copy(compacted_twice, spark, tmp_path / "table")
    (cleaned,) = clean(table.path, LocalStorage()).cleans
    timeline = table.path / ".hoodie/timeline"
    (own,) = timeline.glob(f"{cleaned.instant}_*.clean")
    content = own.read_bytes()
    own.unlink()
    own.with_name(f".{own.name}.crc").unlink(missing_ok=True)
    write(spark, table, 4, **CLEANS)
    assert len([*timeline.glob(f"{cleaned.instant}_*.clean")]) == 1, "Hudi took it for pending, and ended it"
    in_metadata = (table.path / ".hoodie/metadata/.hoodie/timeline").glob(f"{cleaned.instant}_*.deltacommit")
    assert len([*in_metadata]) == 1, "Hudi rolled our commit back there, and wrote its own"
    own.write_bytes(content)

    assert lakeward("verify", str(table.path), "--all")[0] == 0
    assert lakeward("inspect", str(table.path))[1]["refusals"] == []
    assert clean(table.path, LocalStorage()).waiting == ()
    table.compact()
    for number in range(5, 8):
        write(spark, table, number, **CLEANS, **{"hoodie.metadata.compact.max.delta.commits": "1"})
    numbers = ("--keep-min", "2", "--keep-max", "3", "--commits-retained", "1", "--writers", "stopped")
    assert lakeward("archive", str(table.path), *numbers)[0] == 0
    assert not [*timeline.glob(f"{cleaned.instant}*")], "both files are gone"
    verify_all(table)
    write(spark, table, 8, **CLEANS, **{"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    assert {row["v"] for row in table.frame(**{"hoodie.metadata.enable": "true"}).select("v").collect()} == {"v8"}


@SHARES_TABLE
@pytest.mark.parametrize("place", ["first deletion", "half of the deletions", "metadata table's commit"])
def test_hudi_ends_a_clean_that_we_died_over(
    spark: SparkSession, compacted_twice: Path, tmp_path: Path, place: str
) -> None:
    """A Hudi writer that cleans finds our `.clean.inflight` and completes it; readers miss nothing in between."""
    trial = FaultyStorage()
    clean(copy(compacted_twice, spark, tmp_path / "trial").path, trial)
    deletions = [n for n, call in enumerate(trial.calls) if call.startswith("remove ") and "/p" in call]
    links = [n for n, call in enumerate(trial.calls) if call.startswith("link ")]
    call = {
        "first deletion": deletions[0],
        "half of the deletions": deletions[len(deletions) // 2],
        "metadata table's commit": links[0],
    }[place]
    table = copy(compacted_twice, spark, tmp_path / "table")
    before = table.snapshot(**{"hoodie.metadata.enable": "true"})
    with pytest.raises(Killed):
        clean(table.path, FaultyStorage(Fault(FaultKind.KILL, call)))
    assert not completed_cleans(table.path)
    assert table.snapshot(**{"hoodie.metadata.enable": "true"}) == before
    # An hour later, for all that Hudi knows: what is left of us says nothing to it.
    write(spark, table, 4, **CLEANS)

    assert completed_cleans(table.path)
    verify_all(table)
    frame = table.frame(**{"hoodie.metadata.enable": "true"})
    assert {row["v"] for row in frame.select("v").collect()} == {"v4"}
    assert clean(table.path, LocalStorage()).waiting == ()
    verify_all(table)


LISTED = {"hoodie.metadata.enable": "false"}
SHAPES = {
    "metadata table": TableShape(
        partition_fields="part", options={**INDEXES, "hoodie.metadata.compact.max.delta.commits": "100"}
    ),
    "listed": TableShape(partition_fields="part", options=LISTED),
}


@pytest.fixture(scope="module", params=["metadata table", pytest.param("listed", marks=pytest.mark.wide)])
def made(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """Three slices in each of two partitions."""
    shape = SHAPES[request.param]

    def make(folder: Path) -> None:
        write_slices(spark, folder / "table", shape)

    path = made_once(tmp_path_factory, f"to_undo_{request.param.replace(' ', '_')}", make) / "table"
    return HudiTable(spark, path, shape)


def values(table: HudiTable, instant: str | None = None, **options: str) -> set[str]:
    as_of = {} if instant is None else {"as.of.instant": instant}
    rows = table.frame(**as_of, **options).select("v").collect()
    return {row["v"] for row in rows}


def undo(table: HudiTable, run: str) -> None:
    undone = undo_clean(serviced_table(str(table.path), LocalStorage(), ScriptedProcesses()), run)
    assert undone.completion_time is not None


def has_metadata(table: HudiTable) -> bool:
    return (table.path / ".hoodie" / "metadata").exists()


def verify(table: HudiTable) -> None:
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed
    if has_metadata(table):
        check_agrees(table.path)


def test_hudi_builds_its_metadata_table_beside_a_quarantine(
    spark: SparkSession, made: HudiTable, tmp_path: Path
) -> None:
    """What it lists for it is the partitions, and nothing of what was set aside."""
    table = made.copy_to(tmp_path / "table")
    clean(table.path, LocalStorage(), keep_seconds=3600.0)
    if has_metadata(table):
        exit_code, printed = lakeward("metadata", "disable", str(table.path), "--writers", "stopped")
        assert exit_code == 0, printed
    grown = table.reshaped(options={**INDEXES})
    write(spark, grown, 4)
    assert has_metadata(grown)
    verify(grown)
    assert values(grown, **{"hoodie.metadata.enable": "true"}) == {"v4"}


@pytest.mark.parametrize("place", [pytest.param("requested", marks=pytest.mark.wide), "half of the files"])
def test_hudi_ends_an_undo_that_we_died_over(spark: SparkSession, made: HudiTable, tmp_path: Path, place: str) -> None:
    """For Hudi it is a clean of no files. It completes it and brings nothing back; readers miss nothing, and the undo
    can be asked for again."""
    table = made.copy_to(tmp_path / "table")
    second = _second_commit(table)
    files = data_files(table.path)
    (cleaned,) = clean(table.path, LocalStorage(), keep_seconds=3600.0).cleans
    unhurt = FaultyStorage()
    undo_clean(
        serviced_table(str(table.copy_to(tmp_path / "trial").path), unhurt, ScriptedProcesses()), cleaned.instant
    )
    moves = [n for n, call in enumerate(unhurt.calls) if call.startswith("move ") and "/.hoodie/" not in call]
    call = {
        "requested": next(n for n, each in enumerate(unhurt.calls) if each.endswith(".clean.requested")),
        "half of the files": moves[len(moves) // 2],
    }[place]
    with pytest.raises(Killed):
        storage = FaultyStorage(Fault(FaultKind.KILL, call))
        undo_clean(serviced_table(str(table.path), storage, ScriptedProcesses()), cleaned.instant)
    assert values(table) == {"v3"}
    write(spark, table, 4, **{"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "100"})
    assert len(completed_cleans(table.path)) == 2, "Hudi ended Lakeward's, and planned none of its own"
    assert values(table) == {"v4"}

    undo(table, cleaned.instant)
    assert files <= data_files(table.path)
    verify(table)
    assert values(table, second) == {"v1"}


@pytest.mark.turns
@pytest.mark.services
@pytest.mark.parametrize("end", ["undone", pytest.param("purged", marks=pytest.mark.wide)])
def test_in_an_object_store(spark: SparkSession, made: HudiTable, bucket: str, tmp_path: Path, end: str) -> None:
    """The files stand in their places, and Hudi, who gets them in a folder, reads what it read. Undone: as of the
    second commit there are the rows again, and Hudi writes, compacts and cleans what had come back. Purged: the files
    are gone, and Hudi goes on as after any clean."""
    store, base, lock = ObjectStore(parse_object_url(bucket)), f"{bucket}/t", StorageLockOptions(wait_seconds=0.0)
    bring(made.copy_to(tmp_path / "brought").path, store, base)
    second, files = _second_commit(made), data_files(made.path)
    (cleaned,) = clean(base, store, lock=lock, keep_seconds=3600.0).cleans

    def fetched(name: str) -> HudiTable:
        return HudiTable(spark, fetch(store, base, tmp_path / name), made.shape)

    table = fetched("cleaned")
    by_metadata = {"hoodie.metadata.enable": "true"} if has_metadata(table) else LISTED
    assert cleaned.files and data_files(table.path) == files
    assert values(table, **by_metadata) == values(table, **LISTED) == {"v3"}
    assert values(table, second, **by_metadata) == (set() if has_metadata(table) else {"v1"})
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed

    service = serviced_table(base, store, ScriptedProcesses(), lock=lock)
    if end == "undone":
        assert undo_clean(service, cleaned.instant).completion_time is not None
    else:
        service.clock.sleep(7200.0)
        assert [each.run for each in purge_quarantine(service, bytes_max=None)] == [cleaned.instant]
    table = fetched(end)
    assert load_quarantine(store, base).runs == ()
    assert files - data_files(table.path) == (set() if end == "undone" else taken(cleaned, files, table))
    expected = {"v1"} if end == "undone" else set()
    assert values(table, second, **by_metadata) == values(table, second, **LISTED) == expected
    assert values(table, **by_metadata) == values(table, **LISTED) == {"v3"}
    verify(table)
    write(spark, table, 4)
    table.compact()
    write(spark, table, 5, **CLEANS)
    assert len(completed_cleans(table.path)) == (3 if end == "undone" else 2)
    assert values(table, **by_metadata) == values(table, **LISTED) == {"v5"}
    verify(table)


def taken(cleaned: FinishedClean, files: set[str], table: HudiTable) -> set[str]:
    """The files that the clean names, all of them gone."""
    (metadata,) = (each for name, each in completed_cleans(table.path).items() if name.startswith(cleaned.instant))
    named = {f"{path}/{name}" for path, each in metadata.partitions.items() for name in each.deleted}
    assert named <= files and len(named) == cleaned.files
    return named


def _second_commit(table: HudiTable) -> str:
    names = sorted(path.name for path in (table.path / ".hoodie" / "timeline").glob("*_*.deltacommit"))
    return names[1].split("_")[0]


@pytest.mark.turns
def test_what_a_rollback_of_hudis_left_is_an_orphan_file(spark: SparkSession, made: HudiTable, tmp_path: Path) -> None:
    """The markers of a failed write are gone, so Hudi's rollback deletes none of its files: it proves them, the
    second look removes them, and Hudi reads and writes on. Files of a write that is pending stay."""
    table = made.copy_to(tmp_path / "table")
    instant = fail_last_write(table.path)
    left = {path for path in data_files(table.path) if f"_{instant}" in path}
    serviced = serviced_table(str(table.path), LocalStorage(), ScriptedProcesses())
    assert left and {each.keepers[0] for each in look(serviced, age_seconds=0.0)} == {OrphanKeeper.PENDING}
    write(spark, table, 4)
    before = values(table)

    found = look(serviced, age_seconds=0.0)
    assert {each.file.path for each in found} == left and {each.proof for each in found} == {OrphanProof.ROLLED_BACK}
    assert set_orphans_aside(serviced, age_seconds=60.0, keep_seconds=60.0).recorded == len(left)
    serviced.clock.sleep(120.0)
    assert set_orphans_aside(serviced, age_seconds=60.0, keep_seconds=60.0).run is not None
    assert not left & data_files(table.path)
    assert values(table) == before
    write(spark, table, 5, **CLEANS)
    verify(table)
    assert values(table) == {"v5"}
