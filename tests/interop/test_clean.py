"""Cleans carried out by us, and by Hudi: each takes what the other began, and each goes on after the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.cli.configured_table import open_table
from lakeward.cli.explain_command import explanation_of
from lakeward.format.file_name import parse_log_file
from lakeward.format.metadata.log_file import metadata_blocks
from lakeward.services.clean.plan.storage_states import FileState
from lakeward.services.together.explaining.file_explanation import FileExplanation, Gone
from lakeward.storage.local import LocalStorage
from tests.crash.metadata_compacting import check_agrees
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.metadata_table import COLUMNS, INDEXES, written_records
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once
from tests.services.clean.run.cleaning import clean, completed_cleans, data_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHAPE = TableShape(partition_fields="part", options={**INDEXES, "hoodie.metadata.compact.max.delta.commits": "100"})
CLEANS = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}


def write(spark: SparkSession, table: HudiTable, number: int, **options: str) -> None:
    rows = spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {number}L AS ts, concat('v', {number}) AS v, "
        f"{COLUMNS} FROM range(0, 20)"
    )
    table.write(rows, "upsert", **options)


@pytest.fixture(scope="module")
def compacted_twice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three slices in each of two partitions, with every index that a clean has records for."""

    def make(folder: Path) -> None:
        table = HudiTable(spark, folder / "table", SHAPE)
        for number in range(2):
            write(spark, table, number)
        table.compact()
        write(spark, table, 2)
        table.compact()
        write(spark, table, 3)

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


def verify(table: HudiTable) -> None:
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed
    check_agrees(table.path)


def test_what_explain_says_is_what_hudis_clean_does(spark: SparkSession, compacted_twice: Path, tmp_path: Path) -> None:
    """The files that explain calls dead are those that Hudi's clean deletes, and no others; after it each is reported
    to be deleted by that clean, and each that is left is as it was."""
    table = copy(compacted_twice, spark, tmp_path / "t")
    config = tmp_path / "lakeward.toml"
    config.write_text('[defaults.clean]\npolicy = "commits"\nretain = 1\nreader_window = "0s"\n')

    def verdicts(names: set[str]) -> dict[str, FileExplanation]:
        explained = explanation_of(open_table(str(table.path), config, timezone="UTC"))
        return {name: explained.file(name) for name in names}

    files = data_files(table.path)
    before = verdicts(files)
    instant = run_hudis_clean(spark, table)
    after = verdicts(files)

    dead = {name for name, shown in before.items() if shown.verdict is FileState.DEAD}
    assert dead == files - data_files(table.path) and dead
    assert {shown.verdict for name, shown in before.items() if name not in dead} == {FileState.LIVE}
    assert {(after[name].verdict, after[name].cleaned_by) for name in dead} == {(Gone.CLEANED, instant)}
    assert all(after[name].verdict is before[name].verdict for name in files - dead)


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
    verify(by_us)


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
    verify(table)
    write(spark, table, 8, **CLEANS, **{"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    assert {row["v"] for row in table.frame(**{"hoodie.metadata.enable": "true"}).select("v").collect()} == {"v8"}


@pytest.mark.turns
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
    verify(table)
    frame = table.frame(**{"hoodie.metadata.enable": "true"})
    assert {row["v"] for row in frame.select("v").collect()} == {"v4"}
    assert clean(table.path, LocalStorage()).waiting == ()
    verify(table)
