"""The daemon holds indexes of Lakeward's against the rows, and takes a wrong one out of use until it is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import LakewardError, Refused, TryLater
from lakeward.cli.main import run
from lakeward.index import update_choice
from lakeward.index.index_of_type import open_index
from lakeward.index.index_type import IndexType
from lakeward.index.update_choice import UpdateReason
from lakeward.protocol.job_report import ProblemKind
from lakeward.services.indexing.index_memory import IndexStatus
from lakeward.services.indexing.settings import record_options_of
from lakeward.services.indexing.upkeep import checks
from lakeward.services.indexing.upkeep.checks import Checks, check_indexes
from lakeward.services.indexing.upkeep.tasks import IndexChecked, IndexCheckSpec
from lakeward.state.engine import open_database
from tests.clocks import SkippingClock
from tests.daemon.serving import Serving
from tests.daemon.work.test_worker import Bench
from tests.our_reader import scan
from tests.services.indexing.upkeep.parts import Reporting, indexed, memory_of, tasks_of
from tests.services.indexing.upkeep.test_updates import Kept
from tests.write.own_record_index import STORAGE, plant

ROUND = 3600.0


@pytest.fixture(autouse=True)
def hourly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each index is checked once an hour, and not brought up to date by its age."""
    monkeypatch.setattr(checks, "ROUND_SECONDS", ROUND)
    monkeypatch.setattr(update_choice, "SECONDS_MAX", 86400.0)


def checked_every_hour(folder: Path, place: str) -> Kept:
    settings = {"defaults.index.record.location": str(folder / "indexes")} if place == "elsewhere" else {}
    return Kept(folder, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["below the table", "elsewhere"])
def test_a_record_index_that_is_wrong(tmp_path: Path, place: str) -> None:
    """It is right for a round, also with what it does not have yet; then it is found to be wrong, is out of use,
    reported of and not brought up to date. Built again it is another one, which was not checked yet. Keeps 2 of
    services/indexing/upkeep/statuses."""
    kept = checked_every_hour(tmp_path, place)
    kept.write(("k4", 5, "p", "x"))
    kept.serving.run(ROUND + 60, step=10.0)
    assert kept.index.checked_at is not None and (kept.index.wrong, kept.index.out_of_use) == (0, "")
    assert kept.index.checked == 4 + 4 and kept.index.excluded_rate == 0.0
    options = record_options_of(kept.serving.settings.table(str(kept.base), str(kept.base)))
    clock = SkippingClock()
    before = sorted(kept.base.rglob("*"))

    plant(kept.base, "k1", options)
    kept.serving.run(ROUND, step=10.0)
    assert kept.index.wrong == 1 and "1 of 4 rows" in kept.index.out_of_use
    assert kept.index.update is not None and kept.index.update.reason is UpdateReason.OUT_OF_USE
    events = [each.text for each in kept.serving.store.events.latest(str(kept.base), 50)]
    assert any("record: k1: its row is in p" in each for each in events)
    with pytest.raises(Refused, match="The record index of the table is out of use") as refused:
        open_index(STORAGE, scan(kept.base), IndexType.RECORD, clock=clock, record=options)
    assert "lakeward index rebuild TABLE --type record" in refused.value.remedy
    assert place == "below the table" or sorted(kept.base.rglob("*")) == before

    config = tmp_path / "lakeward.toml"
    location = f'location = "{options.location}"' if options.location else ""
    config.write_text(f"[defaults.index.record]\n{location}\n")
    assert run(["index", "rebuild", str(kept.base), "--type", "record", "--config", str(config)]) == 0
    again = kept.serving.clock.now()
    kept.write(("k5", 5, "p", "x"))
    kept.serving.run(60.0, step=10.0)
    assert (kept.index.out_of_use, kept.index.wrong) == ("", 0)
    assert kept.index.checked_at is None or kept.index.checked_at > again, "a round may have ended since"
    open_index(STORAGE, scan(kept.base), IndexType.RECORD, clock=clock, record=options)
    kept.serving.run(ROUND, step=10.0)
    assert kept.index.checked_at is not None and kept.index.wrong == 0


@pytest.mark.parametrize("error", [Refused("It is too far behind."), TryLater("A clean was faster.")])
def test_a_check_that_fails_keeps_no_other_one_back(tmp_path: Path, error: LakewardError) -> None:
    """Keeps 3 of services/indexing/upkeep/checks, and Keeps of services/indexing/job; what is tried again by itself is
    no problem. What was done is not done again for it."""
    bench = Bench(tmp_path, golden="v9_metadata")
    memory_of(bench).indexes = (IndexStatus(IndexType.METADATA), IndexStatus(IndexType.RECORD))
    asked: list[IndexType] = []

    def run_check(spec: IndexCheckSpec, attempt: int) -> IndexChecked:
        asked.append(spec.index.type)
        if spec.index.type is IndexType.METADATA:
            raise error
        return IndexChecked(5, 0, 0.0)

    def check() -> Checks:
        tasks = tasks_of(bench, run_check, there=Reporting(), here=Reporting())
        return check_indexes(indexed(bench), tasks, table_bytes=0)

    done = check()
    assert (done.done, done.keys, asked) == (1, 5, [IndexType.METADATA, IndexType.RECORD])
    if isinstance(error, TryLater):
        assert done.problems == []
    else:
        (problem,) = done.problems
        assert problem.kind is ProblemKind.REFUSED and problem.text.startswith("The index metadata was not checked. ")
    assert check().done == 0 and asked[2:] == [IndexType.METADATA]


@pytest.mark.services
def test_an_index_in_the_database_that_is_wrong(tmp_path: Path, postgresql_url: str) -> None:
    """An entry that went is found, by a task that opens the store's database itself; lookups and writes refuse."""
    kept = Kept(tmp_path)
    base = str(kept.base)
    assert run(["index", "build", base, "--type", "postgres", "--url", postgresql_url]) == 0
    database = open_database(postgresql_url, create=False)
    settings = {"defaults.timezone": "UTC", "defaults.services": '["index"]'}
    serving = Serving(tmp_path / "tables", tmp_path / "more", settings=settings, index_store_url=postgresql_url)
    serving.watermarks = lambda base_path: {"keys": ("20300101000000000", {})}
    serving.run(60.0)
    with database.engine.begin() as connection:
        name = connection.exec_driver_sql(
            f"SELECT 'lakeward_index.entries_' || id FROM lakeward_index.indexes WHERE base_path = '{base}'"
        ).scalar_one()
        connection.exec_driver_sql(f"DELETE FROM {name} WHERE record_key = 'k1'::bytea")
    serving.run(ROUND, step=10.0)
    (index,) = (each for each in serving.index_memory().indexes if each.type is IndexType.POSTGRES)
    assert index.wrong == 1 and "1 of 3 rows" in index.out_of_use
    job = serving.status().tables[0].last_job
    assert job is not None and (job.service, job.result) == ("index", "committed")
    asked: Any = ["index", "lookup", base, "k1", "--type", "postgres", "--url", postgresql_url]
    assert run(asked) == 2
    assert run(["index", "rebuild", base, "--type", "postgres", "--url", postgresql_url]) == 0
    assert run(asked) == 0
    database.close()
