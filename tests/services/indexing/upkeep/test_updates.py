"""The daemon brings indexes of Lakeward's up to date: its loop beside writers, and what happens to one that fails."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import LakewardError, NotFound, Refused, TaskFailed, TryLater
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import JobEnd
from lakeward.index import update_choice
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index_type import INDEX_NAME, IndexType
from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.record.record_manifest import find_manifest
from lakeward.index.record.record_options import RecordOptions
from lakeward.index.update_choice import UpdateDecision, UpdateReason
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import ProblemKind
from lakeward.services.indexing.index_memory import IndexStatus
from lakeward.services.indexing.run.index_build import build_index
from lakeward.services.indexing.settings import record_options_of
from lakeward.services.indexing.upkeep import checks
from lakeward.services.indexing.upkeep.tasks import IndexSpec, IndexUpdated, update_index_at
from lakeward.services.indexing.upkeep.updates import update_indexes
from lakeward.state.engine import open_database
from lakeward.state.index_entries import create_entries
from lakeward.table.listing_source import ListingSource
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ
from tests.clocks import SkippingClock
from tests.daemon.serving import Serving
from tests.daemon.work.test_worker import Bench
from tests.golden_tables import copy_golden
from tests.index.builds import in_process
from tests.index.following import places, truth
from tests.index.record.reopened_record_index import ReopenedRecordIndex, new_record_index
from tests.our_reader import scan
from tests.services.indexing.upkeep.parts import URL, Reporting, tasks_of
from tests.write.own_record_index import FIRST, STORAGE, built, located, write_by
from tests.write.test_whole_write import CLOCK
from tests.write.writing import Row, new_table, write

pytestmark = pytest.mark.slow

KEYS = [f"k{number}" for number in range(1, 20)]


class Kept:
    """A table with a record index, its writers, and a daemon."""

    def __init__(
        self, folder: Path, *, table_type: str = MERGE_ON_READ, names_services: bool = True, **settings: str
    ) -> None:
        (folder / "tables").mkdir()
        given = {"defaults.interval": "10s", "defaults.timezone": "UTC"} | settings
        if names_services:
            given["defaults.services"] = '["index"]'
        self.serving = Serving(folder / "tables", folder / "state", settings=given)
        self.base = new_table(folder / "tables" / "orders", table_type=table_type)
        self.write(*FIRST)
        options = record_options_of(self.serving.settings.table(str(self.base), str(self.base)))
        index = options.folder(str(self.base))
        new_record_index(Path(index), buckets=1)
        opens = partial(RecordIndexWriter.of, STORAGE, folder=index)
        build_index(STORAGE, opens, lambda: scan(self.base), in_process(self.base))
        self.serving.run(70.0)

    def write(self, *rows: Row, operation: str = "upsert") -> None:
        """Another writer commits, at the time that the daemon has."""
        write(self.base, rows, operation, clock=self.serving.clock)

    @property
    def index(self) -> IndexStatus:
        (found,) = (each for each in self.serving.index_memory().indexes if each.type is IndexType.RECORD)
        return found

    def indexed_commits(self) -> float:
        return self.serving.sample("lakeward_indexed_commits_total", table="orders") or 0.0

    def jobs(self, end: str) -> float:
        return self.serving.sample("lakeward_jobs_total", table="orders", service="index", end=end) or 0.0

    def is_covered_alone(self) -> bool:
        """Whether lookups are right by the index itself, without what commits wrote."""
        return located(self.base, KEYS, bytes_max=0) == truth(self.base)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_a_table_that_another_writer_writes(kept: Kept) -> None:
    """What it commits waits for a minute, and is then taken in though nothing changes; lookups are right at each
    moment, and need nothing beside the index afterwards. Once eight commits wait, none waits longer."""
    kept.write(("k4", 5, "p", "x"), ("k1", 5, "p", "y"))
    kept.write(("k2", 6, "p", None), operation="delete")
    kept.serving.run(30.0)
    assert kept.index.behind is not None and kept.index.behind.commits == 2
    assert kept.index.update is not None and kept.index.update.reason is UpdateReason.YOUNG
    assert located(kept.base, KEYS) == truth(kept.base) and kept.indexed_commits() == 0
    with pytest.raises(Refused):
        kept.is_covered_alone()

    kept.serving.run(60.0)
    assert kept.is_covered_alone() and kept.indexed_commits() == 2
    assert (kept.index.behind, kept.index.update) == (Staleness(), UpdateDecision(UpdateReason.CURRENT))
    job = kept.serving.status().tables[0].last_job
    assert job is not None and (job.service, job.result, job.figures["index_commits"]) == ("index", "committed", 2)

    for number in range(8):
        kept.write((f"k{number + 5}", 7, "q", "x"))
    kept.serving.run(25.0)
    assert kept.is_covered_alone() and kept.indexed_commits() == 10


def test_a_copy_on_write_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to compact, and its index is kept and checked by the services that a table gets by default."""
    monkeypatch.setattr(checks, "ROUND_SECONDS", 3600.0)
    kept = Kept(tmp_path, table_type=COPY_ON_WRITE, names_services=False)
    kept.write(("k4", 5, "p", "x"), ("k1", 5, "p", "y"))
    kept.serving.run(90.0)
    assert kept.is_covered_alone() and kept.indexed_commits() == 1
    kept.serving.run(4_600.0, step=10.0)
    assert kept.index.checked > 0 and kept.index.wrong == 0
    (table,) = kept.serving.service.outlooks.values()
    assert table.state is TableState.IDLE and table.reason == "There is nothing to compact: copy-on-write."


def test_a_table_of_version_6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon reports once that it keeps no index there, and goes on with the table: no job for the index, none
    that fails."""
    monkeypatch.setattr(checks, "ROUND_SECONDS", 3600.0)
    (tmp_path / "tables").mkdir()
    base = copy_golden("v6", tmp_path / "tables" / "orders")
    folder = RecordOptions().folder(str(base))
    new_record_index(Path(folder), buckets=1)
    ReopenedRecordIndex(Path(folder), lambda instants: {}).build("1", [], completed="1")
    given = {"defaults.interval": "10s", "defaults.services": '["compaction", "index"]', "defaults.timezone": "UTC"}
    serving = Serving(tmp_path / "tables", tmp_path / "state", settings=given)
    serving.run(70.0)
    serving.run(7_300.0, step=60.0)
    (status,) = serving.index_memory().indexes
    assert (status.type, status.behind) == (IndexType.RECORD, None)
    assert status.problem.startswith("Lakeward keeps no indexes of tables of version 6.")
    for end in JobEnd:
        assert serving.sample("lakeward_jobs_total", table="orders", service="index", end=end) in (None, 0.0)
    assert serving.sample("lakeward_plans_total", table="orders", result="failed") in (None, 0.0)


def test_writers_that_report_the_index_themselves(kept: Kept) -> None:
    """It lacks nothing of other writers, and once a bucket has eight files of commits they are merged, and not
    again."""
    for number in range(4, 12):
        write_by(kept.base, [(f"k{number}", number, "p", "v")], clock=kept.serving.clock)
    kept.serving.run(25.0)
    _, manifest = find_manifest(STORAGE, RecordOptions().folder(str(kept.base))) or pytest.fail()
    assert (len(manifest.files), kept.index.unmerged, kept.indexed_commits()) == (1, 0, 0)
    assert kept.is_covered_alone()
    kept.serving.run(120.0)
    assert find_manifest(STORAGE, RecordOptions().folder(str(kept.base)))[1].number == manifest.number


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"defaults.index.update": "false"}, UpdateReason.OFF),
        ({}, UpdateReason.UNWRITTEN),
        ({}, UpdateReason.YOUNG),
    ],
)
def test_what_is_not_due(
    tmp_path: Path, settings: dict[str, str], reason: UpdateReason, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps 1 of services/indexing/upkeep/updates: the settings keep it as it is, or that nothing is said about
    writers; how far it is behind is reported all the same."""
    monkeypatch.setattr(update_choice, "SECONDS_MAX", 3600.0)
    kept = Kept(tmp_path, **settings)
    if reason is UpdateReason.UNWRITTEN:
        locks = kept.serving.settings.locks.model_copy(update={"writers": None})
        kept.serving.service.apply(kept.serving.settings.model_copy(update={"locks": locks}))
    kept.write(("k4", 5, "p", "x"))
    kept.serving.run(200.0)
    assert kept.index.behind is not None and kept.index.behind.commits == 1
    assert kept.index.update is not None and kept.index.update.reason is reason
    assert kept.indexed_commits() == 0


def raising(error: Exception) -> Callable[..., IndexUpdated]:
    def run(*given: object) -> IndexUpdated:
        raise error

    return run


def test_an_index_that_fails(kept: Kept) -> None:
    """The job fails with the index's name, is tried again after a while that grows, and holds nothing of the table; a
    success forgets that. Another process that changes the index is no failure."""
    kept.write(("k4", 5, "p", "x"))
    kept.serving.run_index_update = raising(Refused("A commit cannot be known."))
    kept.serving.run(90.0)
    table = kept.serving.status().tables[0]
    job = table.last_job
    assert job is not None and job.result == "refused" and job.error is not None
    assert job.error.startswith("The index record was not brought up to date. A commit cannot be known.")
    (trouble,) = table.outlook.service_troubles
    assert trouble.service is JobKind.INDEX and trouble.failures >= 1
    assert table.outlook.holds == () and kept.index.behind is not None and kept.index.behind.commits == 1

    kept.serving.run_index_update = raising(TryLater("Another process changes the index."))
    failures = kept.jobs("refused")
    kept.serving.run(1000.0, step=10.0)
    assert kept.jobs("refused") == failures and kept.jobs("nothing") >= 1 and kept.jobs("temporary") == 0

    kept.serving.run_index_update = update_index_at
    kept.serving.run(4000.0, step=10.0)
    assert kept.is_covered_alone() and kept.serving.status().tables[0].outlook.service_troubles == ()


def due(type_: IndexType) -> IndexStatus:
    return IndexStatus(type_, behind=Staleness(1, 10, 99.0), update=UpdateDecision(UpdateReason.AGE))


@pytest.mark.parametrize("error", [NotFound("gone"), TaskFailed("killed")], ids=["failure", "killed"])
def test_one_that_fails_keeps_no_other_one_back(tmp_path: Path, error: LakewardError) -> None:
    """Keeps 2 of services/indexing/upkeep/updates, and Keeps 1 of services/indexing/upkeep/tasks: the address of the
    store goes to a task of this machine alone, and is not shown."""
    bench = Bench(tmp_path)
    there, here = Reporting(), Reporting()

    def run(spec: IndexSpec, attempt: int) -> IndexUpdated:
        if spec.type is IndexType.RECORD:
            raise error
        return IndexUpdated(3, False)

    indexes = [due(IndexType.RECORD), due(IndexType.POSTGRES), IndexStatus(IndexType.METADATA)]
    done = update_indexes(indexes, tasks_of(bench, run, there=there, here=here))
    assert (done.commits, len(done.problems)) == (3, 1)
    assert done.problems[0].text.startswith("The index record was not brought up to date. ")
    assert done.problems[0].kind is (ProblemKind.TEMPORARY if isinstance(error, NotFound) else ProblemKind.FAILED)
    assert [spec.open_entries for spec in there.specs] == [None]
    assert [spec.type for spec in here.specs] == [IndexType.POSTGRES] and here.specs[0].open_entries.url == URL
    assert "secret" not in repr(here.specs)


def test_specs_and_results_load_no_kernels() -> None:
    """The daemon's process, which sends the one and takes the other in, has none."""
    values = pickle.dumps((IndexSpec(IndexType.RECORD, None, ListingSource.STORAGE), IndexUpdated(1, True)))
    shown = f"import pickle, sys; pickle.loads({values!r}); print(sorted({{'numba', 'llvmlite'}} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.services
def test_an_index_in_the_database(tmp_path: Path, postgresql_url: str) -> None:
    """It is brought up to date by a task that opens the store's database itself."""
    base = built(tmp_path / "tables" / "orders")
    database = open_database(postgresql_url, create=False)
    entries = create_entries(database, str(base), INDEX_NAME, is_global=True)

    def opened(snapshot: Any) -> ExternalIndex:
        return ExternalIndex.of(entries, STORAGE, snapshot, limit=RateLimit(None, clock=SkippingClock()))

    build_index(STORAGE, opened, lambda: scan(base), in_process(base))
    write(base, [("k4", 5, "p", "x")], clock=CLOCK)
    settings = {"defaults.timezone": "UTC"}
    serving = Serving(tmp_path / "tables", tmp_path / "state", settings=settings, index_store_url=postgresql_url)
    serving.clock.sleep(CLOCK.slept)  # the commit is not of tomorrow, however many tests wrote before this one
    serving.watermarks = lambda base_path: {INDEX_NAME: entries.commits()}
    serving.run(100.0)
    assert places(opened(scan(base)), KEYS) == truth(base)
    of_record_and_this = serving.sample("lakeward_indexed_commits_total", table="orders")
    assert of_record_and_this is not None and of_record_and_this >= 2
    database.close()
