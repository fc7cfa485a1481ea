"""Cleans of tables of version 8: Lakeward's and those of Hudi 1.0.2, which wrote them, and what it makes of an undo.

With statistics in their metadata table none of Lakeward is made (`services/clean/run/cleaner.py`), so here they have
none.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run.undo import undo_clean
from lakeward.storage.local import LocalStorage
from tests.conftest import IN_CI
from tests.hudi.golden_version_8 import by_default, rows_of
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.spark import OLDEST_VERSION_OF_8, HudiMissing
from tests.hudi.table import Rows
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_clean_plan import RETAIN, planned_at
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import clean, completed_cleans, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}
WITH_METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
UNTOUCHED = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
}
POLICIES = (
    CleanPolicy(CleanPolicyKind.COMMITS, 1),
    CleanPolicy(CleanPolicyKind.COMMITS, 3),
    CleanPolicy(CleanPolicyKind.VERSIONS, 1),
    CleanPolicy(CleanPolicyKind.VERSIONS, 2),
)


@dataclass(frozen=True)
class Made:
    table: OtherTable
    second: str
    """The instant of the second write."""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherRelease]:
    try:
        release = OtherRelease(OLDEST_VERSION_OF_8, tmp_path_factory.mktemp("older"))
    except HudiMissing as missing:
        (pytest.fail if IN_CI else pytest.skip)(str(missing))
    with release:
        yield release


@pytest.fixture(
    scope="module",
    params=[("COPY_ON_WRITE", WITHOUT_METADATA), ("MERGE_ON_READ", WITHOUT_METADATA), ("MERGE_ON_READ", WITH_METADATA)],
    ids=["copy-on-write", "merge-on-read", "merge-on-read with a metadata table"],
)
def made(request: pytest.FixtureRequest, older: OtherRelease, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Some writes with compactions between, a savepoint, and a partition that is overwritten and written to again."""
    kind, metadata = request.param
    shape = by_default(**UNTOUCHED, **metadata, **{"hoodie.datasource.write.table.type": kind})
    table = older.table(tmp_path_factory.mktemp("made") / "table", shape)
    for number in range(4):
        table.write(rows_of(0, 20, number, f"v{number}"), "upsert")
        if kind == "MERGE_ON_READ" and number in (1, 2):
            table.compaction("op => 'scheduleAndExecute'")
        if number == 2:
            table.procedure(f"create_savepoint(path => '{{path}}', commit_time => '{writes(table)[-1]}')")
    table.write(f"SELECT * FROM ({rows_of(0, 20, 4, 'v4')}) WHERE part = 'p1'", "insert_overwrite")
    for number in (5, 6):
        table.write(rows_of(0, 20, number, f"v{number}"), "upsert")
    return Made(table, writes(table)[1])


def writes(table: OtherTable) -> list[str]:
    """Instants of the completed commits."""
    names = (path.name for path in (table.path / ".hoodie/timeline").glob("*_*.*commit"))
    return sorted(name.partition("_")[0] for name in names)


def copy_of(made: Made, path: Path) -> OtherTable:
    return made.table.at(Path(shutil.copytree(made.table.path, path, copy_function=shutil.copy2)))


def test_it_deletes_what_we_would(made: Made, tmp_path: Path):
    """Its cleaner on a copy of each table deletes what our plan names, by each policy."""
    gone: set[str] = set()
    for number, policy in enumerate(POLICIES):
        table = copy_of(made, tmp_path / str(number))
        own, before = planned_at(table.path, policy), data_files(table.path)
        options = ",".join(f"{key}={value}" for key, value in table.shape.options.items() if ".metadata." in key)
        table.procedure(
            f"run_clean(table => '{{table}}', clean_policy => '{policy.hudi_name}', {RETAIN[policy.kind]} => "
            f"{policy.retain}, options => '{options},hoodie.clean.failed.writes.policy=NEVER')"
        )
        assert before - data_files(table.path) == own, policy
        gone |= own
    assert gone, "this history says nothing"


def test_it_goes_back_in_time_after_an_undo(made: Made, tmp_path: Path):
    """Cleaned by us, and what went set aside: it reads the newest rows, and as of the second write nothing. Undone: the
    rows of then, by its metadata table and by listing; it writes, cleans what had come back, and reads on."""
    table = copy_of(made, tmp_path / "table")
    has_metadata = (table.path / ".hoodie/metadata").exists()
    ways = [WITHOUT_METADATA, *([WITH_METADATA] if has_metadata else [])]
    now, then, files = table.snapshot(), as_of(table, made.second), data_files(table.path)
    assert then
    (cleaned,) = clean(table.path, LocalStorage(), keep_seconds=3600.0).cleans
    assert files - data_files(table.path)
    for way in ways:
        assert table.snapshot(**way) == now
        assert as_of(table, made.second, **way) != then
    verify(table)

    undone = undo_clean(serviced_table(str(table.path), LocalStorage(), ScriptedProcesses()), cleaned.instant)
    assert undone.completion_time is not None and data_files(table.path) == files
    for way in ways:
        assert table.snapshot(**way) == now
        assert as_of(table, made.second, **way) == then
    verify(table)
    own = set(completed_cleans(table.path))
    cleans = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
    table.write(rows_of(0, 20, 7, "v7"), "upsert", **cleans)
    assert set(completed_cleans(table.path)) - own and files - data_files(table.path)
    for way in ways:
        rows = table.snapshot(**way)
        assert len(rows) == 20 and all('"v":"v7"' in row for row in rows)
    verify(table)


def as_of(table: OtherTable, instant: str, **options: str) -> Rows:
    return table.snapshot(**{"as.of.instant": instant}, **options)


def verify(table: OtherTable) -> None:
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed
