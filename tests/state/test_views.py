"""The views for SQL of the operator's own, on both databases, against what the store itself says."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from lakeward.state.engine import open_database
from lakeward.state.records import ComparedDay, CostRecord, JobRecord, StorageRecord
from lakeward.state.store import Store
from tests.state.state_records import NOW, decision

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "store-views.md"
VIEWS = ("lakeward_runs", "lakeward_decisions", "lakeward_costs", "lakeward_beside_hudi", "lakeward_storage_by_state")


def documented() -> dict[str, list[str]]:
    """The columns of each view that the page describes."""
    sections = PAGE.read_text().split("\n## ")[1:]
    return {
        name: re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)
        for name, _, body in (section.partition("\n") for section in sections)
        if name.startswith("lakeward_")
    }


def examples() -> list[str]:
    """The statements of the page's example."""
    block = PAGE.read_text().partition("```sql\n")[2].partition("```")[0]
    return [statement.strip() for statement in block.split(";") if statement.strip()]


def ask(url: str, query: str) -> list[dict[str, Any]]:
    database = open_database(url)
    found = database.read(lambda connection: [dict(row._mapping) for row in connection.execute(text(query))])
    database.close()
    return found


def at(value: object) -> float:
    """A time of a view, in seconds."""
    if isinstance(value, datetime):
        return value.timestamp()
    return datetime.strptime(str(value), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


@pytest.fixture
def filled(store: Store) -> Store:
    """A job that ended, one that failed and one that runs; a decision that another one followed; two samples."""
    for number, (service, result) in enumerate((("compaction", "committed"), ("clean", "failed"), ("clean", None))):
        job_id = f"j{number}"
        store.jobs.begin(JobRecord(job_id, "orders", service, NOW + number, holder="one", operations=number))
        if result is not None:
            store.jobs.end(job_id, result, None if result == "committed" else "It broke.", at=NOW + 60, instant="001")
    store.jobs.record_cost(
        CostRecord(
            *("j0", "orders", "compaction", "2027-01", NOW + 60, "committed", 60.0, 4.5),
            read_bytes=5_000_000_000,
            written_bytes=7,
            predicted_seconds=2.0,
            cpu_seconds=3.0,
            task_seconds=9.0,
        )
    )
    store.jobs.record_cost(CostRecord(*("j1", "orders", "clean", "2027-01", NOW + 60, "failed", 59.0, 0.0)))
    store.observations.record_decisions("orders", NOW, None, [decision("fg1"), decision("fg2")])
    store.observations.record_decisions("orders", NOW + 100, None, [decision("fg1", "LOG"), decision("fg2")])
    store.compared_days.record(ComparedDay("orders", 20_818, NOW))
    for number in range(2):
        store.observations.record_storage("orders", StorageRecord(NOW + 700 * number, {"live": 10**12, "dead": number}))
    return store


@pytest.mark.parametrize("view", VIEWS)
def test_columns_are_those_of_the_page(url: str, filled: Store, view: str) -> None:
    """In that order, and no view is there that the page does not describe."""
    assert tuple(documented()) == VIEWS
    (first, *_) = ask(url, f"SELECT * FROM {view}")
    assert list(first) == documented()[view]


def test_runs(url: str, filled: Store) -> None:
    """Costs stand beside the job that they are of; what runs has no end."""
    done, failed, running = ask(url, "SELECT * FROM lakeward_runs ORDER BY job_id")
    assert (done["service"], done["result"], done["seconds"], done["read_bytes"]) == (
        *("compaction", "committed", 60.0, 5_000_000_000),
    )
    assert (done["predicted_core_seconds"], done["actual_core_seconds"], done["waited_seconds"]) == (2.0, 3.0, 4.5)
    assert (at(done["began"]), at(done["ended"]), done["daemon"]) == (NOW, NOW + 60, "one")
    assert (failed["result"], failed["error"], failed["actual_core_seconds"]) == ("failed", "It broke.", None)
    assert (running["ended"], running["seconds"], running["result"], running["read_bytes"]) == (None,) * 4


def test_decisions(url: str, filled: Store) -> None:
    """What holds has no end; what another one followed has the time of that."""
    query = "SELECT * FROM lakeward_decisions ORDER BY file_id, since"
    before, now, other = ask(url, query)
    assert [(each["file_id"], each["choice"]) for each in (before, now, other)] == [
        *(("fg1", "FULL"), ("fg1", "LOG"), ("fg2", "FULL")),
    ]
    assert (at(before["since"]), at(before["until"])) == (NOW, NOW + 100)
    assert (at(now["since"]), now["until"], other["until"]) == (NOW + 100, None, None)
    figures = now["figures"]
    assert (json.loads(figures) if isinstance(figures, str) else figures) == {"log_bytes": 7, "ratio": 0.5}


def test_costs_are_those_of_lakeward_costs(url: str, filled: Store) -> None:
    """One definition: the sums of `lakeward costs`, and integers stay integers."""
    found = ask(url, "SELECT * FROM lakeward_costs ORDER BY service")
    of_store = sorted(filled.jobs.monthly_costs(), key=lambda each: each.service)
    assert [
        (
            *(row["month"], row["table_name"], row["service"], row["jobs"], row["failed"], row["seconds"]),
            *(row["waited_seconds"], row["read_bytes"], row["written_bytes"]),
            *(row["predicted_core_seconds"], row["actual_core_seconds"]),
        )
        for row in found
    ] == [
        (
            *(each.month, each.table, each.service, each.jobs, each.failed, each.seconds),
            *(each.waited_seconds, each.read_bytes, each.written_bytes),
            *(each.predicted_seconds, each.actual_seconds),
        )
        for each in of_store
    ]
    assert all(isinstance(row["read_bytes"], int) for row in found)


def test_storage_by_state(url: str, filled: Store) -> None:
    """A row for each sample and state."""
    found = ask(url, "SELECT * FROM lakeward_storage_by_state ORDER BY at, state")
    assert [(at(row["at"]), row["state"], row["bytes"]) for row in found] == [
        (NOW, "dead", 0),
        (NOW, "live", 10**12),
        (NOW + 700, "dead", 1),
        (NOW + 700, "live", 10**12),
    ]


@pytest.mark.parametrize("statement", examples())
def test_examples_of_the_page_run(url: str, filled: Store, statement: str) -> None:
    """On both databases."""
    ask(url, statement)
