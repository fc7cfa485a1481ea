"""The doctor's daily look, by a daemon with its real parts whose clock a test moves by days."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lakeward.base.errors import BrokenFile
from lakeward.base.quantities import DAY_SECONDS
from lakeward.cli.main import run
from lakeward.daemon.loop.daily import SECONDS_MAX, day_begun
from lakeward.daemon.loop.examinations import PATIENCE_SECONDS, changes_between
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status_report import table_detail
from lakeward.daemon.web.pages import GroupQuery, Pages
from lakeward.daemon.web.table_list import concerns
from lakeward.protocol.lock.table_lock import Guard
from lakeward.state.records import ExaminationRecord
from tests.daemon.serving import Serving
from tests.golden_tables import copy_golden
from tests.services.together.doctor.sick_tables import SICK

DAY = DAY_SECONDS
STEP = 7200.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    return folder


def examined(serving: Serving, table: Path) -> ExaminationRecord | None:
    return serving.store.observations.examinations([str(table)]).get(str(table))


def counted(serving: Serving) -> list[tuple[str, float]]:
    """Each examination that is begun from here on, with its time."""
    begun: list[tuple[str, float]] = []
    examine = serving.worker.examine

    def counting(table: ServedTable, guard: Guard) -> ExaminationRecord:
        begun.append((table.name, serving.clock.now()))
        return examine(table, guard)

    serving.worker.examine = counting  # type: ignore[method-assign]
    return begun


def page_of(serving: Serving, table: Path) -> str:
    status = next(each for each in serving.status().tables if each.name == str(table))
    detail = table_detail(status, None, serving.store, at=serving.clock.now())
    return Pages().one_table(detail, GroupQuery())


def test_days_of_tables_begin_at_their_own_times() -> None:
    """A time lies in the day that begins at or before it, each day is as long as a day, and of a hundred tables no
    hour has more than a fifth."""
    for at in (0.0, 1_800_000_000.5, 1_800_086_399.0):
        for name in ("orders", "half\udce4", "/data/lake/orders"):
            begun = day_begun(name, at)
            assert begun <= at < begun + DAY
            assert day_begun(name, begun) == begun and day_begun(name, begun + DAY) == begun + DAY
    hours = [day_begun(f"table-{number}", 1_800_000_000.0) % DAY // 3600 for number in range(100)]
    assert max(map(hours.count, hours)) <= 20


def test_each_table_is_examined_once_a_day(root: Path, tmp_path: Path) -> None:
    """Keeps 1 and 2 of daemon/loop/examinations: in each of its days, one at a time, and not before the first of its
    days that it is watched in begins; a daemon that starts again with the same store examines none again."""
    tables = [copy_golden("v9", root / name) for name in ("a", "b")]
    serving = Serving(root, tmp_path / "state")
    begun = counted(serving)
    serving.run(30, step=5)
    assert begun == [] and all(examined(serving, table) is None for table in tables)
    assert "Not looked yet" in page_of(serving, tables[0])

    serving.run(3 * DAY, step=STEP)

    for table in tables:
        days = [day_begun(str(table), at) for name, at in begun if name == str(table)]
        assert days == [days[0] + number * DAY for number in range(3)]
        assert all(at - day_begun(name, at) < 3 * STEP for name, at in begun)
    assert not serving.service._examinations.are_any

    other = Serving(root, tmp_path / "state", store=serving.store, name="two")
    other.clock = serving.clock
    for part in (other.service, other.worker):
        part._clock = serving.clock
    again = counted(other)
    serving.service.leave()
    other.run(60, step=10)
    assert again == []


def test_what_is_stored_is_what_the_verb_says(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Under default settings: the document of `lakeward doctor --json`, on the page with its evidence and its command,
    in the metrics by grade, and the finding an event once; what is cured is an event, too."""
    table = SICK["clean-of-planned-files"].make(root / "sick")
    serving = Serving(root, tmp_path / "state", settings={"locks.writers": ""})
    serving.service._metrics.show(serving.status)
    serving.run(30, step=5)
    assert serving.sample("lakeward_table_findings", table="sick", grade="danger") is None
    capfd.readouterr()

    with capture_logs() as log:
        serving.run(2 * DAY + 60, step=STEP)

    assert run(["doctor", str(table), "--json"]) == 6
    said = json.loads(capfd.readouterr().out)
    record = examined(serving, table)
    assert record is not None and record.document == said
    assert record.problem is None and record.looked_at == record.tried_at
    page = page_of(serving, table)
    assert "A pending clean is about to delete what a pending plan reads" in page
    assert "it is going to delete p/.ebf517f7" in page and f"try <code>lakeward compact {table} --dry-run" in page
    (status,) = serving.status().tables
    assert "1 danger" in concerns(status, serving.clock.now())
    assert serving.sample("lakeward_table_findings", table="sick", grade="danger") == 1
    assert serving.sample("lakeward_table_findings", table="sick", grade="unseen") == 0
    age = serving.sample("lakeward_table_examination_age_seconds", table="sick")
    assert age is not None and 0 <= age <= DAY + 3 * STEP
    assert [event.kind for event in serving.store.events.latest(str(table)) if event.kind.startswith("finding")] == [
        "finding"
    ]
    assert [each["code"] for each in log if each["event"] == "doctor"] == ["clean-of-planned-files"]

    next((table / ".hoodie/timeline").glob("*.clean.requested")).unlink()
    serving.run(DAY, step=STEP)

    kinds = [event.kind for event in serving.store.events.latest(str(table)) if event.kind.startswith("finding")]
    assert kinds == ["finding-gone", "finding"]
    assert serving.sample("lakeward_table_findings", table="sick", grade="danger") == 0
    assert "nothing found" in page_of(serving, table)


def test_what_cannot_be_looked_at_is_never_well(root: Path, tmp_path: Path) -> None:
    """Keeps 3 of daemon/loop/examinations: the page says why, there is no 0 of findings, the age goes on, and what was
    seen before stays beside it."""
    table = copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state")
    serving.service._metrics.show(serving.status)
    examine = serving.worker.examine

    def broken(table: ServedTable, guard: Guard) -> ExaminationRecord:
        raise BrokenFile("The disk is <gone>.")

    serving.worker.examine = broken  # type: ignore[method-assign]
    serving.run(DAY + 60, step=STEP)

    page = page_of(serving, table)
    assert "Could not look" in page and "The disk is &lt;gone&gt;." in page and "nothing found" not in page
    assert serving.sample("lakeward_table_findings", table="orders", grade="danger") is None
    age = serving.sample("lakeward_table_examination_age_seconds", table="orders")
    assert age is not None and age >= DAY

    serving.worker.examine = examine  # type: ignore[method-assign]
    serving.run(DAY, step=STEP)
    good = examined(serving, table)
    assert good is not None and good.problem is None
    assert "nothing found" in page_of(serving, table)
    serving.worker.examine = broken  # type: ignore[method-assign]
    serving.run(2 * DAY, step=STEP)
    bad = examined(serving, table)
    assert bad is not None and (bad.looked_at, bad.document) == (good.looked_at, good.document)
    assert bad.problem and bad.tried_at > good.tried_at
    page = page_of(serving, table)
    assert "Could not look since" in page and "nothing found" not in page
    age = serving.sample("lakeward_table_examination_age_seconds", table="orders")
    assert age is not None and age > 1.9 * DAY


def test_one_that_takes_long_is_stopped(root: Path, tmp_path: Path) -> None:
    """Keeps 2 of daemon/loop/examinations: the guard ends it, and the page says that."""
    table = copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state")
    examine = serving.worker.examine

    def slow(table: ServedTable, guard: Guard) -> ExaminationRecord:
        serving.clock.sleep(SECONDS_MAX + 1)
        return examine(table, guard)

    serving.worker.examine = slow  # type: ignore[method-assign]
    serving.run(DAY + 60, step=STEP)

    record = examined(serving, table)
    assert record is not None and record.document is None and "longer than 15 min" in (record.problem or "")


def test_it_waits_while_a_job_of_its_table_runs(root: Path, tmp_path: Path) -> None:
    """Half a day of the table's day at most."""
    table = copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state")
    serving.run(30, step=5)
    (served,) = serving.service._tables.values()
    examinations = serving.service._examinations
    begun = counted(serving)
    serving.clock.slept += day_begun(str(table), serving.clock.now()) + DAY - serving.clock.now() + 1
    examinations.begin(served, is_busy=True)
    assert not examinations.are_any
    serving.clock.slept += PATIENCE_SECONDS
    examinations.begin(served, is_busy=True)
    assert examinations.are_any
    examinations.begin(served, is_busy=False)
    serving.settle()
    assert len(begun) == 1


def test_what_hangs_holds_back_no_other(root: Path, tmp_path: Path) -> None:
    """Keeps 2 of daemon/loop/examinations: the guard is not asked in a storage that hangs; others are examined all the
    same, and the one that hangs is not begun again."""
    hung, other = (copy_golden("v9", root / name) for name in ("a", "b"))
    serving = Serving(root, tmp_path / "state")
    serving.run(30, step=5)
    examinations = serving.service._examinations
    examinations._under_way[str(hung)] = serving.clock.monotonic()

    serving.run(2 * DAY, step=STEP)

    assert examined(serving, hung) is None and examined(serving, other) is not None


def test_a_table_of_another_place_is_another_table(root: Path, tmp_path: Path) -> None:
    """What was found of the one before is not shown of it."""
    table = copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state", named=table)
    serving.run(DAY + 60, step=STEP)
    assert serving.store.observations.examinations(["orders"])
    serving.store.observations.watch("orders", str(root / "moved"), serving.clock.now())
    assert serving.store.observations.examinations(["orders"]) == {}
    shutil.rmtree(table)


def found(*codes: str, unseen: tuple[str, ...] = ()) -> ExaminationRecord:
    one = {"subject": "x", "evidence": [], "remedy": "", "command": None, "dry_run": None}
    of = [
        {"code": code, "grade": "danger", "title": code.upper(), "places": 5, "symptoms": [one] * 5} for code in codes
    ]
    return ExaminationRecord(1.0, 1.0, {"found": of, "unseen": [{"code": code} for code in unseen]})


def test_what_came_and_what_went() -> None:
    """Keeps 4 of daemon/loop/examinations: a pattern that could not be looked for has neither come nor gone."""
    changes = list(changes_between(found("a", "b", "c"), found("b", "d", unseen=("c",))))
    assert [(each.code, each.has_come) for each in changes] == [("d", True), ("a", False)]
    assert changes[0].text == "danger: D (d): x, x, x and 2 more places"
    assert changes[1].text == "no more: A (a)"
    assert [each.code for each in changes_between(None, found("a"))] == ["a"]
