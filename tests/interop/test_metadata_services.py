"""The metadata table compacted and cleaned by us: its records are those of Hudi's own compaction, and Hudi goes on.
Batch writers of Hudi, each write in a JVM of its own, have not to compact it, over which they would fail
(docs/decisions/0018-the-metadata-table-before-its-writers.md); and both timelines stay bounded where writers have every
table service off.

One table by Hudi 1.2.0 whose metadata table has logs on base files; on one copy Hudi compacts it, on others we do.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import HUDI_VERSION
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once
from tests.interop.test_compaction import assert_verified
from tests.interop.test_metadata_reading import assert_as_hudi_sees_it, encoded
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import clean_metadata, compact_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHARES_TWINS = pytest.mark.turns(20, together="metadata services")
"""What takes long is to make the twins."""

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
    def make(folder: Path) -> None:
        before = HudiTable(spark, table_with_metadata, SHAPE).copy_to(folder / "before")
        # With files taken out of the listing, and with them their statistics and filters.
        cleaning = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
        upsert(spark, before, 2990, 3010, "more", **LEAVES_METADATA, **cleaning)
        by_hudi, by_us = before.copy_to(folder / "hudi"), before.copy_to(folder / "own")
        upsert(spark, by_hudi, 0, 1, "hudis", **COMPACTS_METADATA)
        for service in ("clean", "compact"):
            engine = ("--engine", "spark") if service == "compact" else ()
            exit_code, printed = lakeward("metadata", service, str(by_us.path), "--writers", "stopped", *engine)
            assert exit_code == 0, printed
        (folder / "printed.json").write_text(json.dumps(printed["metadata_compaction"]))

    folder = made_once(tmp_path_factory, "serviced-twins", make)
    before, by_hudi, by_us = (HudiTable(spark, folder / name, SHAPE) for name in ("before", "hudi", "own"))
    return Twins(before, by_hudi, by_us, json.loads((folder / "printed.json").read_text()))


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


@SHARES_TWINS
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


@SHARES_TWINS
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


@SHARES_TWINS
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


BATCHES_WRITTEN = 30
ROWS = 20
BATCHES = TableShape(
    partition_fields="part",
    options={
        "hoodie.metadata.enable": "true",
        # Hudi's defaults, which the harness turns off.
        "hoodie.clean.automatic": "true",
        "hoodie.archive.automatic": "true",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    },
)
"""A table that batches are inserted into: it has no logs, so nothing of it is ever compacted but its metadata."""

CONFIG = """
[service]
name = "before-writers"
state_folder = "{folder}/state"
listen = "127.0.0.1:0"

[locks]
writers = "share"

[defaults]
interval = "1s"

[[tables]]
name = "orders"
path = "{table}"
"""


def batch(number: int) -> str:
    return (
        f"SELECT concat('k', id) AS id, concat('p', id % 3) AS part, {number}L AS ts, 'batch {number}' AS v "
        f"FROM range({number * ROWS}, {(number + 1) * ROWS})"
    )


def write_in_fresh_jvm(path: Path, number: int, scratch: Path) -> None:
    """One write is the first and the last that its JVM does. Fails where Hudi does."""
    with OtherRelease(HUDI_VERSION, scratch / str(number)) as hudi:
        hudi.table(path, BATCHES).write(batch(number), "insert")


@contextmanager
def daemon(folder: Path, table: Path) -> Iterator[None]:
    """`lakeward run` beside the writers; it ends well when it is asked to."""
    (folder / "lakeward.toml").write_text(CONFIG.format(folder=folder, table=table))
    with (folder / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "lakeward.cli.main", "run", "--config", str(folder / "lakeward.toml")],
            stdout=log,
            stderr=log,
        )
        try:
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0, (folder / "daemon.log").read_text()[-3000:]
        finally:
            process.kill()


@pytest.mark.wide
@pytest.mark.usefixtures("short_waits")
@pytest.mark.timeout(7200)
def test_no_writer_has_to_compact_the_metadata_table(spark: SparkSession, tmp_path: Path):
    """Thirty batches, one JVM each, none fails: fifteen with the command after each, and fifteen with the daemon
    beside them. Every compaction of the metadata table is Lakeward's, in time; the rows are all there."""
    table, first = HudiTable(spark, tmp_path / "table", BATCHES), BATCHES_WRITTEN // 2
    for number in range(first):
        write_in_fresh_jvm(table.path, number, tmp_path / "jvm")
        exit_code, printed = lakeward("compact", str(table.path), "--lock", "filesystem")
        assert exit_code == 0, printed
        assert printed["metadata_left"] is None
    by_command = compactions(table)
    with daemon(tmp_path, table.path):
        for number in range(first, BATCHES_WRITTEN):
            write_in_fresh_jvm(table.path, number, tmp_path / "jvm")
    found = compactions(table)
    assert by_command and len(found) > len(by_command), "the daemon compacted it, too"
    plans = [plan_of(table, each) for each in {i.time for i in instants(table) if i.action == "compaction"}]
    assert plans and all(plan.extra_metadata["planned_by"] == "lakeward" for plan in plans)
    assert table.frame().count() == table.frame(**{"hoodie.metadata.enable": "false"}).count() == BATCHES_WRITTEN * ROWS


@pytest.fixture(scope="module")
def full(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """A table that we never touched and whose next writer compacts its metadata table: three builds, seven writes."""
    table = HudiTable(spark, tmp_path_factory.mktemp("full") / "table", BATCHES)
    for number in range(7):
        table.write(spark.sql(batch(number)), "insert")
    return table


@pytest.mark.wide
@pytest.mark.usefixtures("short_waits")
def test_a_writer_in_a_fresh_jvm_does_not_fail_after_us(full: HudiTable, tmp_path: Path):
    """There is nothing to compact but the metadata table, and the next writer finds that done."""
    table = full.copy_to(tmp_path / "table")

    exit_code, printed = lakeward("compact", str(table.path), "--lock", "filesystem")

    assert (exit_code, printed["compactions"]) == (0, [])
    assert (printed["metadata_table"]["delta_commits"], printed["metadata_table"]["limit"]) == (10, 10)
    assert printed["metadata_compaction"]["delta_commits"] == 10
    write_in_fresh_jvm(table.path, 7, tmp_path / "jvm")
    assert table.frame().count() == 8 * ROWS
    assert compactions(table) == [printed["metadata_compaction"]["instant"]]


@pytest.mark.wide
@pytest.mark.usefixtures("short_waits")
def test_without_us_it_fails(full: HudiTable, tmp_path: Path):
    """Which is Hudi's and not Lakeward's; once this no longer holds, decision 0018 is to be thought over."""
    table = full.copy_to(tmp_path / "table")
    with pytest.raises(AssertionError, match="streaming commit to metadata"):
        write_in_fresh_jvm(table.path, 7, tmp_path / "jvm")
    assert len(compactions(table)) == 1
    write_in_fresh_jvm(table.path, 8, tmp_path / "jvm")
    assert table.frame().count() == 8 * ROWS, "the failed write is not there, the next one is"


OFF = {
    "hoodie.metadata.enable": "true",
    "hoodie.table.services.enabled": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.clean.commits.retained": "2",
}
COMMITS = 40


def completed(timeline: Path) -> int:
    found = [parse_instant(path.name, 2) for path in timeline.iterdir()]
    return sum(instant is not None and instant.state is State.COMPLETED for instant in found)


@pytest.mark.wide
@pytest.mark.timeout(1800)
def test_writers_that_do_nothing_for_their_table(spark: SparkSession, tmp_path: Path) -> None:
    """Its timeline and its files are for Lakeward to bound; the metadata table's own timeline each Hudi write archives,
    as far as the table's lets it, whatever is switched off."""
    table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part", options=OFF))
    metadata = table.path / ".hoodie" / "metadata"
    instants, files, of_metadata = [], [], []
    numbers = ("--keep-min", "4", "--keep-max", "6", "--commits-retained", "2", "--delta-commits", "2")
    stopped = ("--writers", "stopped", "--timezone", "UTC")
    for ts in range(COMMITS):
        rows = f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, 'v{ts}' AS v FROM range(6)"
        table.write(spark.sql(rows), "upsert")
        if ts % 5 == 4:
            assert lakeward("compact", str(table.path), *stopped)[0] == 0
            cleaning = ("--policy", "commits", "--retain", "2", "--reader-window", "0")
            assert lakeward("clean", str(table.path), *cleaning, *stopped)[0] == 0
            assert lakeward("archive", str(table.path), *numbers, *stopped)[0] == 0
            timelines = (table.path / ".hoodie" / "timeline", metadata / ".hoodie" / "timeline")
            instants.append((completed(timelines[0]), completed(timelines[1])))
            files.append(len(table.data_files()))
            of_metadata.append(len(data_files(table)))
    assert max(own for own, _ in instants) <= 25, instants
    assert max(hudis for _, hudis in instants) <= 50, instants
    half = len(files) // 2
    # Hudi's writers keep too few commits to clean any of them, and Lakeward's clean counts what they archived.
    assert max(of_metadata[half:]) <= max(of_metadata[:half]) + 4, of_metadata
    assert max(files[half:]) <= max(files[:half]) + 4, files
    assert len(table.snapshot()) == 6
    assert_verified(table)
    # It reads through the metadata table, and begins its own clean where Lakeward's ended.
    assert len(table.snapshot(**{"hoodie.metadata.enable": "true"})) == 6
    rows = "SELECT 'k0' AS id, 'p0' AS part, 99L AS ts, 'last' AS v"
    table.write(
        spark.sql(rows), "upsert", **{"hoodie.table.services.enabled": "true", "hoodie.clean.automatic": "true"}
    )
    assert {row["v"] for row in table.frame().select("v").collect()} == {"last", f"v{COMMITS - 1}"}
    assert_verified(table)
