"""Days beside Hudi's default, by a daemon with its real parts whose clock a test moves by months."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeward.base.quantities import DAY_SECONDS
from lakeward.cli.main import run
from lakeward.daemon.loop.comparisons import DAYS_BEHIND_MAX
from lakeward.daemon.loop.daily import SECONDS_MAX
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status_report import table_detail
from lakeward.daemon.web.pages import GroupQuery, Pages
from lakeward.protocol.lock.table_lock import Guard
from lakeward.services.compaction.simulation.comparison import hudi_default
from lakeward.services.compaction.simulation.replay import measure_fit, replay
from lakeward.services.compaction.simulation.table_trace import read_trace
from lakeward.state.migration import migrate
from lakeward.state.records import ComparedDay
from lakeward.state.store import open_store
from lakeward.storage.local import LocalStorage
from lakeward.surface.store_answers import StoreAnswers
from lakeward.table.new_table import COPY_ON_WRITE
from tests.clocks import SkippingClock
from tests.daemon.serving import Serving
from tests.golden_tables import copy_golden
from tests.our_reader import scan
from tests.write.writing import new_table, write

DAY = DAY_SECONDS
STEP = 7200.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    return folder


def serving_with(root: Path, tmp_path: Path, **more: object) -> Serving:
    """A daemon under default settings, but for writers that are declared."""
    settings = {"defaults.planner": "", "defaults.foreign_services": ""}
    return Serving(root, tmp_path / "state", settings=settings, **more)  # type: ignore[arg-type]


def day_of(at: float) -> int:
    return int(at // DAY)


class Compared:
    """Days in the order in which they are compared, without a look at the table."""

    def __init__(self, serving: Serving, *, seconds: float = 0.0) -> None:
        self.begun: list[tuple[str, int, int | None]] = []
        self.serving, self.seconds = serving, seconds
        self.error: Exception | None = None
        serving.worker.compare = self  # type: ignore[assignment]

    def __call__(self, table: ServedTable, day: int, before: ComparedDay | None, guard: Guard) -> ComparedDay | None:
        self.begun.append((table.name, day, None if before is None else before.day))
        if self.seconds:
            self.serving.clock.sleep(self.seconds)
            guard()
        if self.error is not None:
            raise self.error
        return ComparedDay(table.name, day, self.serving.clock.now(), carried={"merged_at": day})


@pytest.mark.parametrize("watched_days", [9, pytest.param(62, marks=pytest.mark.wide)])
def test_what_months_cost_and_what_hudi_would_have_taken(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], watched_days: int
) -> None:
    """Keeps 1 of daemon/loop/comparisons, under default settings: a table that is updated each day, over the end of a
    month and over months. Each day is compared once; their sums are what one replay of all of them says, and store,
    verb, API, page and metric say the same."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    migrate(url)
    serving = serving_with(root, tmp_path, store=open_store(url, clock=SkippingClock()))
    now = datetime.fromtimestamp(serving.clock.now(), UTC)
    next_month = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC).timestamp()
    serving.clock.sleep((next_month - serving.clock.now() - 4.5 * DAY) % (28 * DAY))
    table = new_table(root / "t", has_metadata_table=False)
    write(table, [(f"k{key}", 0, "p", "v" * 200) for key in range(400)], clock=serving.clock)
    began, number = serving.clock.now(), 0
    while serving.clock.now() < began + watched_days * DAY:
        number += 1
        write(table, [(f"k{key}", number, "p", "w" * 200) for key in range(0, 400, 7)], clock=serving.clock)
        serving.run(DAY, step=4 * STEP)

    months = serving.store.compared_days.months(str(table))
    assert len(months) >= 2 and sum(month.unknown_days for month in months) == 0
    days = sum(month.days for month in months)
    assert watched_days - 2 <= days <= watched_days - 1, "the first one did not begin while it was watched"
    # One replay of the same days, from the table's timeline and history.
    first = (day_of(began) + 1) * DAY
    trace = read_trace(LocalStorage(), scan(table), last_seconds=serving.clock.now() - first, now=serving.clock.now())
    whole = trace.between(round(first * 1000), round((first + days * DAY) * 1000))
    fit = measure_fit(whole)
    happened = replay(whole, planner=None, model=fit.model, reads_per_day=1.0)
    hudi = replay(whole, planner=hudi_default(), model=fit.model, reads_per_day=1.0, begins_merged=True)
    assert happened.jobs >= days // 7 and hudi.jobs >= (days - 4) // 5 >= 0
    assert sum(month.written_bytes for month in months) == happened.compaction_bytes
    assert sum(month.job_seconds for month in months) == pytest.approx(happened.job_seconds)
    assert sum(month.hudi_job_seconds for month in months) == pytest.approx(hudi.job_seconds, rel=0.05)
    assert sum(month.hudi_reader_seconds or 0 for month in months) == pytest.approx(hudi.reader_seconds, rel=0.05)
    assert all(month.replay.is_close and month.saved_seconds is not None for month in months)

    # What was really written is what jobs say that they wrote.
    costs = {each.month: each for each in serving.store.jobs.monthly_costs(str(table)) if each.service == "compaction"}
    whole_month = months[1] if len(months) > 2 else months[0]
    assert set(costs) >= {month.month for month in months}
    assert sum(cost.written_bytes for cost in costs.values()) >= sum(month.written_bytes for month in months)

    # The verb, the API's answer, the page and the metric.
    capfd.readouterr()
    assert run(["costs", "--url", url, "--json"]) == 0
    said = {each["month"]: each for each in json.loads(capfd.readouterr().out) if each["service"] == "compaction"}
    of_api = [each.as_json() for each in StoreAnswers(serving.store, serving.clock).costs(str(table))]
    assert said == {each["month"]: each for each in of_api if each["service"] == "compaction"}
    beside = said[whole_month.month]["beside_hudi"]
    assert beside["saved_core_seconds"] == whole_month.saved_seconds
    assert beside["days"] == whole_month.days and beside["is_close"]
    assert run(["costs", "--url", url]) == 0
    assert "Hudi would" in capfd.readouterr().out
    status = next(each for each in serving.status().tables if each.name == str(table))
    detail = table_detail(status, None, serving.store, at=serving.clock.now())
    page = Pages().one_table(detail, GroupQuery())
    assert "Beside Hudi's default" in page and "Hudi's default would have taken" in page
    of_metric = serving.sample("lakeward_compared_core_seconds_total", table="t", policy="hudi")
    assert of_metric == pytest.approx(sum(month.hudi_core_seconds for month in months))


def test_each_day_is_compared_once(root: Path, tmp_path: Path) -> None:
    """Keeps 1 of daemon/loop/comparisons: from the first whole day on, each with the one before it; a daemon that goes
    on with the same store compares none again, and after a long gap begins with the newest days."""
    tables = sorted(str(copy_golden("v9", root / name)) for name in ("a", "b"))
    serving = Serving(root, tmp_path / "state")
    first = day_of(serving.clock.now()) + 1
    stub = Compared(serving)
    serving.run(6 * DAY, step=STEP)
    for table in tables:
        of_table = [(day, before) for name, day, before in stub.begun if name == table]
        assert of_table[:3] == [(first, None), (first + 1, first), (first + 2, first + 1)]
        assert len(of_table) == len(set(of_table)) and of_table[-1][0] <= day_of(serving.clock.now()) - 1

    other = Serving(root, tmp_path / "state", store=serving.store, name="two")
    serving.service.leave()
    other.clock.sleep(serving.clock.now() - other.clock.now() + 30 * DAY)
    again = Compared(other)
    other.run(3 * DAY, step=STEP)
    newest = day_of(other.clock.now()) - 1
    for table in tables:
        of_table = [(day, before) for name, day, before in again.begun if name == table]
        assert of_table[0][1] is None and newest - DAYS_BEHIND_MAX - 3 <= of_table[0][0] <= newest
        assert [day for day, _ in of_table] == list(range(of_table[0][0], of_table[-1][0] + 1))


def test_one_that_takes_too_long_is_stopped(root: Path, tmp_path: Path) -> None:
    """Keeps 2 and 3 of daemon/loop/comparisons: the day is remembered with why nothing is known of it; nothing is said
    to be saved, and the next day is compared again."""
    table = str(copy_golden("v9", root / "a"))
    serving = Serving(root, tmp_path / "state")
    stub = Compared(serving, seconds=SECONDS_MAX + 1)
    serving.run(3 * DAY + 3 * STEP, step=STEP)
    stub.seconds = 0.0
    newest = serving.store.compared_days.newest([table])[table]
    assert newest.problem is not None and "took longer" in newest.problem
    assert sum(month.unknown_days for month in serving.store.compared_days.months(table)) == len(stub.begun) >= 1
    serving.run(DAY + STEP, step=STEP)
    assert serving.store.compared_days.newest([table])[table].problem is None
    assert not serving.service._comparisons.is_any


def test_a_table_without_logs_has_no_such_days(root: Path, tmp_path: Path) -> None:
    """Copy-on-write: nothing is compared, and no day of it is unknown."""
    new_table(root / "cow", table_type=COPY_ON_WRITE, has_metadata_table=False)
    write(root / "cow", [("k", 1, "p", "v")])
    serving = Serving(root, tmp_path / "state")
    serving.run(3 * DAY + 3 * STEP, step=STEP)
    assert serving.store.compared_days.months() == ()
