"""`python -m benchmarks.fleet`: what the page of all tables, the API and `/metrics` cost with 500 and 3,000 tables.

The tables are statuses that were put together, a dozen of which need attention; each answer is made by the daemon's own
app, in this process, in the time and the bytes that a request takes, without the connection.

    first page      fifty tables, the worst first          page of a kind, search
    /tables         fifty of them as JSON                  /service      how many of each kind
    /metrics        the few series that each table has by default

Bounds: the first page 100 kB compressed and 50 ms; search and a page of a kind 50 ms; `/metrics` 5 MB and 0.3 s.
Milliseconds are CPU time, the least of five. Prints JSON and writes it to `benchmarks/results`; exits 1 when a bound is
broken.

Touches: a temporary folder, `benchmarks/results/fleet-<time>.json`.
"""

from __future__ import annotations

import gzip
import tempfile
import time
from typing import Any

from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from benchmarks.measure import keep_report, machine
from lakeward.config.settings import MetricsSettings
from lakeward.daemon.metrics.exposition import SHARED_SECONDS
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.status import ServiceStatus
from lakeward.surface.documents import API
from tests.clocks import SettableClock
from tests.daemon.synthetic_status import NOW, service, table, varied_tables
from tests.daemon.web.api_example import app_of, example_store

TIMES = 5
REQUESTS = {
    "first page": "/",
    "page of a kind": "/?kind=calm&page=9",
    "search": "/?search=table_0",
    "tables as JSON": f"{API}/tables",
    "service as JSON": f"{API}/service",
    "metrics": "/metrics",
}
PAGE_MS_MAX, PAGE_KB_MAX = 50.0, 100.0
METRICS_MS_MAX, METRICS_KB_MAX = 300.0, 5000.0


def main() -> int:
    figures = {f"{tables:,} tables": _asked(tables) for tables in (500, 3_000)}
    keep_report("fleet", machine(), figures)
    broken = [
        f"{name} with {tables}"
        for tables, answers in figures.items()
        for name, cost in answers.items()
        if cost["ms"] > (METRICS_MS_MAX if name == "metrics" else PAGE_MS_MAX)
        or (cost["kb"] if name == "metrics" else cost["compressed kb"])
        > (METRICS_KB_MAX if name == "metrics" else PAGE_KB_MAX)
    ]
    if broken:
        print(f"Beyond its bound: {', '.join(broken)}")
    return 1 if broken else 0


def _asked(tables: int) -> dict[str, dict[str, float]]:
    varied = varied_tables()
    status = service(
        *varied, *(table(f"lake.table_{number:04}", remembered={}) for number in range(tables - len(varied)))
    )
    with tempfile.TemporaryDirectory() as folder, example_store(f"sqlite:///{folder}/lakeward.db") as store:
        clock = SettableClock(NOW)
        app = app_of(status, store, registry=_registry(status), clock=clock)
        client = TestClient(app, base_url="http://127.0.0.1:8490")
        return {name: _cost(client, path, clock) for name, path in REQUESTS.items()}


def _registry(status: ServiceStatus) -> CollectorRegistry:
    metrics = Metrics(CollectorRegistry())
    metrics.choose(MetricsSettings().is_whole)
    metrics.show(lambda: status)
    metrics.keep({each.name: each.name for each in status.tables})
    return metrics.registry


def _cost(client: TestClient, path: str, clock: SettableClock) -> dict[str, Any]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    took = []
    for _ in range(TIMES):
        clock.sleep(SHARED_SECONDS)
        began = time.process_time()
        client.get(path)
        took.append(time.process_time() - began)
    body = answer.content
    return {
        "ms": round(1000 * min(took), 1),
        "kb": round(len(body) / 1000, 1),
        "compressed kb": round(len(gzip.compress(body)) / 1000, 1),
    }


if __name__ == "__main__":
    raise SystemExit(main())
