"""The daemon holds an index on trial against the one that writes use, for the commits of every writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeward.base.errors import Refused, TryLater
from lakeward.cli.main import run
from lakeward.daemon.metrics.specs import TABLE_GAUGES
from lakeward.index import update_choice
from lakeward.index.index_type import INDEX_NAME, IndexType
from lakeward.index.key_changes.table_commits import Staleness, newest_change
from lakeward.index.record.record_options import RecordOptions
from lakeward.index.tee import ComparedCommit, Tee, read_tee, tee_folder
from lakeward.index.update_choice import UpdateDecision, UpdateReason
from lakeward.protocol.index.choices import publish_choice, publish_compared
from lakeward.protocol.index_out_of_use import take_out_of_use
from lakeward.services.indexing.index_memory import TeeStatus
from lakeward.services.indexing.upkeep.comparisons import compare_tee
from lakeward.services.indexing.upkeep.tasks import TeeCompared, TeeSpec, compare_tee_at
from lakeward.state.engine import open_database
from lakeward.state.index_entries import open_entries
from tests.daemon.serving import Serving
from tests.daemon.work.test_worker import Bench
from tests.our_reader import scan
from tests.services.indexing.upkeep.parts import Reporting, indexed, memory_of, tasks_of
from tests.services.indexing.upkeep.test_updates import Kept, raising
from tests.write.own_record_index import STORAGE, plant
from tests.write.writing import write

pytestmark = pytest.mark.slow

WRONG = ComparedCommit("1", "20300101000000000", keys=9, shadow_wrong=2, primary_wrong=0)


def on_trial(kept: Kept, *, primary: IndexType = IndexType.SIMPLE, shadow: IndexType = IndexType.RECORD) -> None:
    """From here on one index is held against the other one."""
    base = str(kept.base)
    newest = newest_change(scan(kept.base).timeline)
    assert newest is not None
    choice = Tee(primary=primary, shadow=shadow, through=newest.completed)
    publish_choice(STORAGE, base, read_tee(STORAGE, base), choice)


def status_of(kept: Kept) -> TeeStatus:
    tee = kept.serving.index_memory().tee
    assert tee is not None
    return tee


def held(kept: Kept) -> Tee:
    return read_tee(STORAGE, str(kept.base))


def gauges(kept: Kept) -> dict[str, float]:
    """What is said of the shadow: keys compared and wrong, clean commits, commits behind."""
    head, table = "lakeward_table_index_shadow_", kept.serving.status().tables[0]
    found = {each.spec.name: each.read(table, 0.0) for each in TABLE_GAUGES if each.spec.name.startswith(head)}
    readings = {name.removeprefix(head): reading for name, reading in found.items()}
    assert all(isinstance(each, dict) and each.keys() == {"record"} for each in readings.values())
    return {name: each["record"] for name, each in readings.items() if isinstance(each, dict)}


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    kept = Kept(tmp_path)
    on_trial(kept)
    return kept


def test_commits_of_other_writers_are_compared(kept: Kept) -> None:
    """Not before both have them, a minute later, and then once; what was found is counted with the table, and shown. A
    shadow that was wrong is reported in events, on the page, and by the gauge that the alert uses."""
    kept.write(("k4", 5, "p", "x"), ("k1", 5, "p", "y"))
    kept.serving.run(30.0)
    assert (held(kept).compared, status_of(kept).behind.commits) == (0, 1)
    assert "brought up to date first" in status_of(kept).against

    kept.serving.run(60.0)
    tee = held(kept)
    assert (tee.compared, tee.keys_wrong, tee.clean, status_of(kept).tee) == (1, 0, 1, tee)
    assert tee.keys >= 2, "k4 came, and rows of both file groups are drawn"
    job = kept.serving.status().tables[0].last_job
    assert job is not None and (job.service, job.result) == ("index", "committed")
    assert (job.figures["index_commits"], job.figures["tee_keys_compared"]) == (1, tee.keys)
    kept.serving.run(200.0, step=10.0)
    assert held(kept) == tee, "there is nothing new"
    assert gauges(kept) == {"compared_keys": tee.keys, "wrong_keys": 0, "clean_commits": 1, "behind_commits": 0}

    plant(kept.base, "k1", RecordOptions())
    kept.write(("k2", 6, "p", "z"))
    kept.serving.run(90.0)
    assert (held(kept).compared, held(kept).wrong, held(kept).clean) == (2, 1, 0)
    assert gauges(kept)["wrong_keys"] == held(kept).keys_wrong > 0
    assert gauges(kept)["clean_commits"] == 0
    events = [each.text for each in kept.serving.store.events.latest(str(kept.base), 50)]
    assert any("k1: simple says " in each and "; its row is in " in each and " wrong. " in each for each in events)


def test_both_that_need_no_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes that each commit brings its part are compared after the same minute, or once as many commits wait."""
    monkeypatch.setattr(update_choice, "COMMITS_MAX", 3)
    kept = Kept(tmp_path)
    on_trial(kept, shadow=IndexType.BLOOM)
    kept.write(("k4", 5, "p", "x"))
    kept.serving.run(30.0)
    status = status_of(kept)
    assert status.due is not None and status.due.reason is UpdateReason.YOUNG and held(kept).compared == 0
    kept.serving.run(45.0)
    assert held(kept).compared == 1
    for number in range(3):
        kept.write((f"k{number + 5}", 7, "q", "x"))
    kept.serving.run(25.0)
    assert (held(kept).compared, held(kept).clean) == (4, 4)


def without_writers(kept: Kept) -> None:
    locks = kept.serving.settings.locks.model_copy(update={"writers": None})
    kept.serving.service.apply(kept.serving.settings.model_copy(update={"locks": locks}))


def out_of_use(kept: Kept) -> None:
    take_out_of_use(STORAGE, str(kept.base), IndexType.RECORD, "It was wrong.", RecordOptions())


def young(kept: Kept) -> None:
    """No commit is old enough to be taken in."""


@pytest.mark.parametrize(
    ("settings", "change", "shadow", "against"),
    [
        ({"defaults.index.update": "false"}, None, IndexType.RECORD, "index.update is false"),
        ({}, without_writers, IndexType.RECORD, "Nothing is said about the table's writers"),
        ({}, out_of_use, IndexType.RECORD, "The index record is out of use"),
        ({}, None, IndexType.POSTGRES, "The index postgres is not known to this daemon"),
        ({}, young, IndexType.RECORD, "The index record lacks commits"),
    ],
)
def test_what_is_not_compared(
    tmp_path: Path,
    settings: dict[str, str],
    change: Callable[[Kept], None] | None,
    shadow: IndexType,
    against: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keeps 1 of services/indexing/upkeep/comparisons: it says what prevents it, and how many commits wait."""
    if change is young:
        monkeypatch.setattr(update_choice, "SECONDS_MAX", 3600.0)
    kept = Kept(tmp_path, **settings)
    on_trial(kept, shadow=shadow)
    if change is not None:
        change(kept)
    kept.write(("k4", 5, "p", "x"))
    kept.serving.run(200.0, step=5.0)
    assert held(kept).compared == 0
    assert status_of(kept).against.startswith(against) and status_of(kept).behind.commits == 1


def test_a_comparison_that_fails(kept: Kept) -> None:
    """Keeps 2 of services/indexing/upkeep/comparisons: the job fails with the index's name, the update stays, and it is
    tried again; that another process changes an index is no failure."""
    kept.serving.run_comparison = raising(Refused("A commit cannot be known."))
    kept.write(("k4", 5, "p", "x"))
    kept.serving.run(90.0)
    table = kept.serving.status().tables[0]
    job = table.last_job
    assert job is not None and job.result == "refused" and job.error is not None
    assert job.error.startswith("The index record, on trial, was not compared. A commit cannot be known.")
    assert kept.indexed_commits() == 1 and kept.is_covered_alone() and held(kept).compared == 0

    kept.serving.run_comparison = raising(TryLater("Another process changes the index."))
    kept.serving.run(300.0, step=10.0)
    assert kept.jobs("nothing") >= 1 and kept.jobs("temporary") == 0
    kept.serving.run_comparison = compare_tee_at
    kept.serving.run(1500.0, step=10.0)
    assert held(kept).clean == 1 and kept.serving.status().tables[0].outlook.service_troubles == ()


def test_a_commit_is_counted_once(kept: Kept) -> None:
    """Keeps 2 of services/indexing/upkeep/comparisons: where the command was faster, what the daemon found is dropped;
    and an index that another process brings up to date meanwhile is not compared before it has what it lacked."""
    by_hand = ComparedCommit("1", "20300101000000000", keys=7, shadow_wrong=0, primary_wrong=0)

    def beside(location: str, spec: TeeSpec, attempt: int) -> TeeCompared:
        found = compare_tee_at(location, spec, attempt)
        assert len(found.commits) == 1
        publish_compared(STORAGE, location, held(kept), [by_hand])
        return found

    kept.serving.run_comparison = beside
    kept.write(("k4", 5, "p", "x"))
    update, kept.serving.run_index_update = kept.serving.run_index_update, raising(TryLater("Another one does it."))
    kept.serving.run(90.0)
    assert held(kept).compared == 0 and kept.jobs("nothing") >= 1
    kept.serving.run_index_update = update
    kept.serving.run(300.0, step=10.0)
    assert (held(kept).compared, held(kept).keys, kept.jobs("failed")) == (1, 7, 0)


def test_a_choice_that_cannot_be_read(kept: Kept) -> None:
    """It is reported with the table, and everything else goes on."""
    (manifest,) = (path for path in Path(tee_folder(str(kept.base))).iterdir() if path.name.endswith("1.json"))
    manifest.write_bytes(b"{}")
    kept.write(("k4", 5, "p", "x"))
    kept.serving.run(90.0)
    assert kept.indexed_commits() == 1
    assert status_of(kept).tee == Tee() and status_of(kept).against
    demand = kept.serving.status().tables[0].outlook.demand
    assert demand is not None and "choice of the table's indexes cannot be read" in str(demand)


@pytest.mark.parametrize("shadow", [IndexType.RECORD, IndexType.POSTGRES])
def test_where_it_runs(tmp_path: Path, shadow: IndexType) -> None:
    """With an index in a database on this machine alone, which is given the address; that is not shown, and the spec of
    the other index has none."""
    bench = Bench(tmp_path)
    base, memory = str(bench.path), memory_of(bench)
    choice = publish_choice(STORAGE, base, Tee(), Tee(primary=IndexType.SIMPLE, shadow=shadow))
    memory.tee = TeeStatus(choice, Staleness(1, 10, 99.0), UpdateDecision(UpdateReason.AGE))
    there, here = Reporting(), Reporting()
    tasks = tasks_of(bench, lambda spec, attempt: TeeCompared((WRONG,), ("k1: no",)), there=there, here=here)
    done = compare_tee(indexed(bench), tasks, left=[])
    assert (done.commits, done.keys, done.wrong, done.reasons) == (1, 9, 2, ["k1: no"])
    assert memory.tee is not None and memory.tee.tee == read_tee(STORAGE, base)
    used, unused = (here, there) if shadow is IndexType.POSTGRES else (there, here)
    ((spec,), nothing) = (used.specs, unused.specs)
    assert nothing == [] and "secret" not in repr(spec)
    shown: TeeSpec = spec
    assert shown.primary.open_entries is None and bool(shown.shadow.open_entries) == (shadow is IndexType.POSTGRES)


@pytest.mark.services
def test_an_index_in_the_database_on_trial(tmp_path: Path, postgresql_url: str) -> None:
    """The task opens the store's database itself; an entry that went is found with the commit of its file group."""
    kept = Kept(tmp_path)
    base = str(kept.base)
    assert run(["index", "build", base, "--type", "postgres", "--url", postgresql_url]) == 0
    on_trial(kept, shadow=IndexType.POSTGRES)
    settings = {"defaults.timezone": "UTC", "defaults.services": '["index"]', "defaults.interval": "10s"}
    serving = Serving(tmp_path / "tables", tmp_path / "more", settings=settings, index_store_url=postgresql_url)
    database = open_database(postgresql_url, create=False)
    entries = open_entries(database, base, INDEX_NAME)
    serving.watermarks = lambda base_path: {INDEX_NAME: entries.commits()}
    serving.clock.sleep(kept.serving.clock.now() - serving.clock.now())
    write(kept.base, [("k4", 5, "p", "x")], clock=serving.clock)
    serving.run(90.0)
    assert (held(kept).compared, held(kept).clean) == (1, 1)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM lakeward_index.entries_1 WHERE record_key = 'k1'::bytea")
    write(kept.base, [("k2", 6, "p", "y")], clock=serving.clock)
    serving.run(90.0)
    assert (held(kept).compared, held(kept).wrong, held(kept).keys_wrong) == (2, 1, 1)
    database.close()
