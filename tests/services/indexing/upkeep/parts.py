"""One table as the parts of the service need it, with tasks that a test replaces."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.protocol.job_kind import JobKind
from lakeward.services.indexing.index_memory import IndexCare, IndexMemory
from lakeward.services.indexing.settings import IndexSettings
from lakeward.services.indexing.upkeep.tasks import IndexTasks
from tests.daemon.work.test_worker import Bench
from tests.write.own_record_index import STORAGE

URL = "postgresql://lakeward:secret@database/lakeward"


class Reporting(InProcessDispatcher):
    """It returns what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.specs: list[Any] = []

    def run(self, task: Any, specs: Any, **words: Any) -> Any:
        self.specs += specs
        return super().run(task, specs, **words)


def indexed(bench: Bench) -> IndexCare:
    database: Any = None
    settings, memory = bench.table.settings.section(IndexSettings), memory_of(bench)
    return IndexCare(STORAGE, str(bench.path), settings, memory, True, database, bench.serving.clock)


def memory_of(bench: Bench) -> IndexMemory:
    found: IndexMemory = bench.worker.caches.of("orders").memory(JobKind.INDEX)
    return found


def tasks_of(bench: Bench, run: Callable[[Any, int], object], *, there: Reporting, here: Reporting) -> IndexTasks:
    """Tasks that all are `run`, on these two engines."""
    options = SimpleNamespace(timezone=None, listing=None)
    table: Any = SimpleNamespace(options=options, guard=lambda: None)
    database = SimpleNamespace(open=SimpleNamespace(url=URL))
    order: Any = SimpleNamespace(choose=lambda size: there, here=lambda: here, task=lambda task: run, database=database)
    return IndexTasks(table, bench.table.settings.section(IndexSettings), order)
