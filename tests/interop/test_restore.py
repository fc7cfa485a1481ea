"""A table goes back to a commit as Hudi takes it there: the same files are left, the same timeline, the same rows, and
Hudi lives on; either ends a restore that the other began. A file of no commit whose time lies behind a savepoint Hudi
does not read, and neither do we.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LakewardError
from lakeward.services.together.restore.run.restore import restore
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from tests.called_storage import WRITES
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.clean.run.cleaning import clean
from tests.services.metadata.run.compacting_metadata import serviced_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CLEANED = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
COMPACTED = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
METADATA = {"hoodie.metadata.enable": "true"}

STAYS = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}

SHAPES = {
    "merge-on-read": METADATA,
    "copy-on-write": {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
    "merge-on-read-plain": {},
    "copy-on-write-metadata": {
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.metadata.enable": "true",
    },
    "version-8": STAYS | METADATA,
}


def over_shapes(*in_default: str) -> pytest.MarkDecorator:
    """Every kind of table; those that are not named are left to the wide suite."""
    kinds = [name if name in in_default else pytest.param(name, marks=pytest.mark.wide) for name in SHAPES]
    return pytest.mark.parametrize("shown", kinds, indirect=True)


def rows(spark: SparkSession, ts: int, first: int = 0, last: int = 10) -> DataFrame:
    return spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, 'v{ts}' AS v "
        f"FROM range({first}, {last})"
    )


@dataclass(frozen=True, slots=True)
class Reported:
    """A table with a savepoint, and what came after it; and one copy of it that Hudi restored."""

    table: HudiTable
    by_hudi: HudiTable
    target: str
    expected: tuple[str, ...]
    """Its rows as of the savepoint."""
    is_cleaned: bool
    """Hudi's cleaner ran after it, and left what the savepoint keeps."""


@pytest.fixture
def shown(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reported]:
    with of_its_version(spark, request.param):
        kept = made(spark, tmp_path_factory, request.param)
        table, by_hudi = kept.table.copy_to(tmp_path / "own"), kept.by_hudi.copy_to(tmp_path / "hudis")
        yield Reported(table, by_hudi, kept.target, kept.expected, kept.is_cleaned)


@contextmanager
def of_its_version(spark: SparkSession, name: str) -> Iterator[None]:
    """Hudi's procedures take no options, and would make version 9 of a table."""
    settings = STAYS if name == "version-8" else {}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def made(spark: SparkSession, factory: pytest.TempPathFactory, name: str) -> Reported:
    shape = TableShape(partition_fields="part", options=SHAPES[name])
    is_merged = not name.startswith("copy-on-write")
    is_cleaned = name in ("copy-on-write", "merge-on-read-plain")
    cleaned = CLEANED if is_cleaned else {}

    def make(folder: Path) -> None:
        table = HudiTable(spark, folder / "table", shape)
        table.write(rows(spark, 1), "insert")
        table.write(rows(spark, 2, 0, 5), "upsert")
        if is_merged:
            table.compact()
        table.write(rows(spark, 3, 5, 12), "upsert")
        target = table.completed_instants()[-1][0]
        spark.sql(f"CALL create_savepoint(path => '{table.path}', commit_time => '{target}')").collect()
        (folder / "target").write_text(target)
        (folder / "expected").write_text("\n".join(table.snapshot()))
        table.write(rows(spark, 4, 0, 14), "upsert", **(COMPACTED if is_merged else {}))
        table.write(rows(spark, 5, 2, 3), "insert_overwrite")
        table.write(rows(spark, 6, 2, 9), "upsert", **cleaned)
        if is_merged:
            table.schedule_compaction()
            table.write(rows(spark, 7, 2, 9), "upsert")
        by_hudi = table.copy_to(folder / "by-hudi")
        spark.sql(f"CALL rollback_to_savepoint(path => '{by_hudi.path}', instant_time => '{target}')").collect()

    folder = made_once(factory, f"restored-{name}", make)
    return Reported(
        HudiTable(spark, folder / "table", shape),
        HudiTable(spark, folder / "by-hudi", shape),
        (folder / "target").read_text(),
        tuple((folder / "expected").read_text().split("\n")),
        is_cleaned,
    )


def timeline(table: HudiTable) -> set[str]:
    """Names on the timeline, but for those of the restore, whose time differs."""
    names = {path.name for path in (table.path / ".hoodie/timeline").iterdir() if path.is_file()}
    return {name for name in names if ".restore" not in name and not name.startswith(".")}


def goes_on(spark: SparkSession, shown: Reported) -> None:
    """Hudi reads, reads as of earlier, upserts, compacts, cleans, and reads again: the same on both copies."""
    answers = []
    for table in (shown.table, shown.by_hudi):
        assert table.snapshot() == shown.expected
        earlier = () if shown.is_cleaned else table.as_of(table.completed_instants()[0][0])
        assert earlier or shown.is_cleaned
        # What was committed after the savepoint is rewritten, and more.
        table.write(rows(spark, 20, 3, 25), "upsert", **CLEANED)
        if table.compactions():
            table.compact()
        table.write(rows(spark, 21, 4, 6), "delete", **CLEANED)
        answers.append((earlier, table.snapshot(with_meta=False), len(table.completed_instants())))
    assert answers[0] == answers[1]
    code, printed = lakeward("verify", str(shown.table.path), "--timezone", "UTC")
    assert code == 0, printed


@over_shapes()
def test_hudi_ends_what_we_began(shown: Reported, spark: SparkSession, tmp_path: Path) -> None:
    """A process of Lakeward dies in the middle, and Hudi restores to the same savepoint: it ends our restore."""
    for number in interrupted_at(shown, tmp_path):
        copy = shown.table.copy_to(tmp_path / f"died-{number}")
        die_at(copy, shown.target, number)
        (begun,) = [each.name for each in (copy.path / ".hoodie/timeline").glob("[0-9]*.restore.requested")]
        spark.sql(f"CALL rollback_to_savepoint(path => '{copy.path}', instant_time => '{shown.target}')").collect()
        (ended,) = (copy.path / ".hoodie/timeline").glob("[0-9]*_*.restore")
        assert ended.name.partition("_")[0] == begun.partition(".")[0], number
        assert copy.snapshot() == shown.expected, number
        assert copy.data_files() == shown.by_hudi.data_files(), number
        assert timeline(copy) == timeline(shown.by_hudi), number
        copy.write(rows(spark, 20), "upsert")


@pytest.mark.turns
@over_shapes("merge-on-read")
def test_we_end_what_hudi_began(shown: Reported, spark: SparkSession) -> None:
    """Hudi dies when it has unpublished the newest commit and deleted a file of it."""
    table = shown.table
    (requested,) = (shown.by_hudi.path / ".hoodie/timeline").glob("[0-9]*.restore.requested")
    folder = table.path / ".hoodie/timeline"
    (folder / requested.name).write_bytes(requested.read_bytes())
    (folder / requested.name.replace("requested", "inflight")).touch()
    newest = table.completed_instants()[-1][0]
    next(folder.glob(f"{newest}_*")).unlink()
    gone = next(name for name in table.data_files() if newest in name)
    (table.path / gone).unlink()

    assert lakeward("restore", str(table.path), "--to", newest, "--writers", "stopped")[0] == 2
    code, done = lakeward("restore", str(table.path), "--to", shown.target, "--writers", "stopped")

    assert (code, done["was_begun"], done["restore"]) == (0, True, requested.name.partition(".")[0])
    assert table.data_files() == shown.by_hudi.data_files()
    assert timeline(table) == timeline(shown.by_hudi)
    goes_on(spark, shown)


def interrupted_at(shown: Reported, tmp_path: Path) -> Iterator[int]:
    """Some writing calls of a restore that come after its request."""
    clean = FaultyStorage()
    copy = shown.table.copy_to(tmp_path / "clean")
    restored(copy, shown.target, clean)
    writes = [number for number, call in enumerate(clean.calls) if call.split()[0] in WRITES]
    begun = next(n for n in writes if clean.calls[n].endswith(".restore.inflight"))
    # Its deletions: the first, one in the middle, the last.
    completed = next(n for n in writes if clean.calls[n].startswith("link ") and ".restore" in clean.calls[n])
    deletes = [n for n in writes if begun < n < completed and clean.calls[n].split()[0] in ("delete", "remove")]
    yield from (begun, deletes[0], deletes[len(deletes) // 2], deletes[-1])


def die_at(table: HudiTable, target: str, call: int) -> None:
    with suppress(LakewardError, OSError, Killed):
        restored(table, target, FaultyStorage(Fault(FaultKind.KILL, call)))
        raise AssertionError("it did not die")


def restored(table: HudiTable, target: str, storage: FaultyStorage) -> None:
    processes = ScriptedProcesses()
    processes.stillness = LookedOn()
    restore(serviced_table(str(table.path), storage, processes), target)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["copy-on-write-metadata", *(name for name in SHAPES if "copy" not in name)])
def test_what_our_cleans_set_aside_comes_back_first(
    name: str, spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two cleans took the slices before. To the second commit the newer clean is undone, to the first both: Hudi then
    reads what it read as of it, goes back in time as far as no clean stands in between, and lives on. Where the logs of
    the second commit were compacted, both are needed for it, too."""
    # With statistics of columns a clean of version 8 is refused.
    plain = {"hoodie.metadata.index.column.stats.enable": "false"} if name == "version-8" else {}
    shape = TableShape(partition_fields="part", options=SHAPES[name] | plain)
    is_merged = not name.startswith("copy-on-write")

    def make(folder: Path) -> None:
        table = HudiTable(spark, folder / "table", shape)
        for number in range(1, 5):
            table.write(rows(spark, number), "insert" if number == 1 else "upsert")
            if number in (2, 3) and is_merged:
                table.compact()
            if number == 2:
                first, second = (each[0] for each in table.completed_instants()[:2])
                (folder / "commits").write_text(f"{first} {second}")
                (folder / "rows").write_text("\n\n".join("\n".join(table.as_of(each)) for each in (first, second)))
                assert clean(table.path, LocalStorage(), keep_seconds=3600.0).cleans
        assert clean(table.path, LocalStorage(), keep_seconds=3600.0).cleans

    with of_its_version(spark, name):
        made = made_once(tmp_path_factory, f"brought-back-{name}", make)
        _comes_back_to_each(spark, made, shape, tmp_path, is_merged=is_merged)


def _comes_back_to_each(spark: SparkSession, made: Path, shape: TableShape, tmp_path: Path, *, is_merged: bool) -> None:
    commits = (made / "commits").read_text().split()
    expected = [tuple(each.split("\n")) for each in (made / "rows").read_text().split("\n\n")]
    # The compaction goes as well, and the logs that it merged went with the older clean.
    to_second = 2 if is_merged else 1
    for cleans, commit, was in ((to_second, commits[1], expected[1]), (2, commits[0], expected[0])):
        table = HudiTable(spark, made / "table", shape).copy_to(tmp_path / commit)
        assert table.as_of(commit) != was
        code, shown = lakeward("restore", str(table.path), "--to", commit, "--dry-run")
        assert (code, len(shown["cleans_undone"])) == (0, cleans)

        code, done = lakeward("restore", str(table.path), "--to", commit, "--writers", "stopped")

        assert (code, done["cleans_undone"]) == (0, shown["cleans_undone"]), done
        assert table.snapshot() == table.as_of(commit) == was
        assert (table.as_of(commits[0]) == expected[0]) is (cleans == 2)
        table.write(rows(spark, 20, 3, 25), "upsert")
        assert table.as_of(commit) == was
        if is_merged:
            table.compact()
        table.write(rows(spark, 21, 3, 25), "upsert", **CLEANED)
        table.write(rows(spark, 22, 3, 25), "upsert", **CLEANED)
        assert {row for row in table.snapshot() if '"v":"v22"' in row}
        assert len(table.snapshot()) == 25
        code, printed = lakeward("verify", str(table.path), "--timezone", "UTC")
        assert code == 0, printed


@pytest.mark.wide
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_timeline_starts_with_the_savepoint(spark: SparkSession, tmp_path: Path, table_type: str) -> None:
    """Before it whatever has a file counts as archived, for Hudi's readers as for Lakeward's; after it nothing does."""
    shape = TableShape(options={"hoodie.datasource.write.table.type": table_type})
    table = HudiTable(spark, tmp_path / "table", shape)
    table.write(spark.sql("SELECT 'a' AS id, 1L AS ts"), "insert")
    (first,) = (path.name.split("_")[0] for path in (table.path / ".hoodie" / "timeline").glob("*_*commit"))
    spark.sql(f"CALL create_savepoint(path => '{table.path}', commit_time => '{first}')").collect()
    table.write(spark.sql("SELECT 'b' AS id, 2L AS ts"), "insert")
    (base,) = table.path.glob(f"*_{first}.parquet")
    for instant, is_read in ((int(first) + 1, False), (int(first) - 1, True)):
        stray = table.path / f"stray-0_0-9-9_{instant}.parquet"
        shutil.copy(base, stray)
        snapshot = take_snapshot(LocalStorage(), str(table.path), timezone="UTC", clock=SystemClock())
        own = [group.file_id for group in snapshot.file_groups]
        assert ("stray-0" in own, len(own)) == (is_read, 3 if is_read else 2)
        assert table.frame().count() == len(own)
        stray.unlink()
