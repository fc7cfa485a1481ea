from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lakeward.daemon.metrics.exposition import SHARED_SECONDS, Exposition
from tests.clocks import SettableClock


class Counted(Collector):
    """Says how often it was asked, and how many asked it at once."""

    def __init__(self) -> None:
        self.times = 0
        self.at_once = 0
        self._inside = threading.Semaphore(1)
        self._met = threading.Event()

    def collect(self) -> Iterator[Metric]:
        self.times += 1
        if not self._inside.acquire(blocking=False):
            self.at_once += 1
            self._met.set()
            return
        self._met.wait(0.02)  # for another one, which must not come
        family = GaugeMetricFamily("times", "How often.")
        family.add_metric((), self.times)
        yield family
        self._inside.release()


def test_a_text_serves_those_who_ask_within_a_second():
    """After that a new one is made, so that what is scraped is never older (Keeps 1 of daemon/metrics/exposition)."""
    clock = SettableClock(1000.0)
    registry = CollectorRegistry()
    registry.register(counted := Counted())
    exposition = Exposition(registry, clock)
    before = counted.times

    first = exposition.scrape(openmetrics=False)
    clock.sleep(SHARED_SECONDS / 2)
    assert exposition.scrape(openmetrics=False) is first
    assert exposition.scrape(openmetrics=True).content_type.startswith("application/openmetrics-text")
    clock.sleep(SHARED_SECONDS / 2)
    assert exposition.scrape(openmetrics=False).body != first.body
    assert counted.times - before == 3


def test_two_are_never_made_at_once():
    """A crowd that asks in one moment waits for one text (Keeps 2 of daemon/metrics/exposition)."""
    registry = CollectorRegistry()
    registry.register(counted := Counted())
    exposition = Exposition(registry, SettableClock(1000.0))
    before = counted.times
    with ThreadPoolExecutor(16) as crowd:
        bodies = {each.body for each in crowd.map(lambda _: exposition.scrape(openmetrics=False), range(64))}
    assert len(bodies) == 1
    assert (counted.times - before, counted.at_once) == (1, 0)
