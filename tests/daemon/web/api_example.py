"""An API over statuses that were put together and a small store: for tests, and for the examples in its document.

Touches: the file of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from lakeward.base.quantities import DAY_SECONDS
from lakeward.daemon.job_detail import job_detail
from lakeward.daemon.status import ReloadOutcome, ServiceStatus, TablePage
from lakeward.daemon.web.access import AccessRules
from lakeward.daemon.web.api import make_api
from lakeward.daemon.web.http import make_http
from lakeward.state.migration import migrate
from lakeward.state.records import ComparedDay, CostRecord, DecisionRecord, EventRecord, JobRecord, StorageRecord
from lakeward.state.store import Store, open_store
from lakeward.surface.actions import Actions
from lakeward.surface.store_answers import StoreAnswers
from tests.clocks import SettableClock
from tests.daemon.synthetic_status import NOW, detail, examination, service, storage_samples, table, varied_tables

STATUS = service(*varied_tables(), table("s3://lake/with/slashes", base_path="s3://lake/with/slashes"))
DECIDED = ((NOW - 50.0, "NONE", "no-logs"), (NOW - 10.0, "FULL", "log-ratio"))
"""When what was decided about the one file group of `orders`, and why."""


@contextmanager
def example_store(url: str) -> Iterator[Store]:
    """With two jobs of `orders`, one of which ended, three events, two decisions, one after the other, the storage of a
    month and an examination."""
    migrate(url)
    clock = SettableClock(NOW)
    store = open_store(url, clock=clock)
    store.observations.watch("orders", "/data/lake/orders", NOW - 90.0)
    ended = JobRecord("j1", "orders", "compaction", NOW - 60.0)
    store.jobs.begin(ended)
    store.jobs.end("j1", "committed", None, at=NOW - 30.0, figures={"full_operations": 2})
    cost = CostRecord("j1", "orders", "compaction", "2027-01", NOW - 30.0, "committed", 30.0)
    store.jobs.record_cost(replace(cost, predicted_seconds=12.0, cpu_seconds=14.0, saved_seconds_a_day=40.0))
    compared = ComparedDay("orders", int(NOW // DAY_SECONDS) - 1, NOW - 100.0, real_bytes=100, modelled_bytes=104)
    store.compared_days.record(replace(compared, job_seconds=40.0, hudi_job_seconds=210.0, carried={"merged_at": 1}))
    store.jobs.begin(JobRecord("j2", "orders", "clean", NOW - 20.0))
    for number in range(3):
        store.events.record(EventRecord(NOW - 30.0 + number, "commit", f"commit {number}", "orders"))
    numbers = {"base_bytes": 1000, "log_files": 2, "log_bytes": 300}
    for at, choice, reason in DECIDED:
        store.observations.record_decisions("orders", at, None, [DecisionRecord("p", "f", choice, reason, numbers)])
    for sample in storage_samples():
        store.observations.record_storage("orders", StorageRecord(sample.at, sample.bytes))
    store.observations.record_examination("orders", examination())
    try:
        yield store
    finally:
        store.close()


def client_of(status: ServiceStatus, store: Store, access: AccessRules | None = None) -> TestClient:
    return TestClient(app_of(status, store, access), base_url="http://127.0.0.1:8490")


def app_of(
    of: ServiceStatus | Callable[[], ServiceStatus],
    store: Store,
    access: AccessRules | None = None,
    registry: CollectorRegistry | None = None,
    clock: SettableClock | None = None,
) -> ASGIApp:
    def status() -> ServiceStatus:
        return of if isinstance(of, ServiceStatus) else of()

    def find(name: str) -> TablePage | None:
        found = status().table(name)
        return None if found is None else detail(found)

    clock = clock or SettableClock(NOW)
    stored = StoreAnswers(store, clock)
    return make_http(
        registry=registry or CollectorRegistry(),
        status=status,
        detail=find,
        job=lambda job_id: job_detail(status(), stored, job_id),
        reload=lambda: ReloadOutcome(True),
        take_read=len,
        clock=clock,
        api=make_api(status=status, detail=find, stored=stored, actions=Actions(store, clock), access=access),
        access=access,
    )
