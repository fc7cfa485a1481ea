"""A daemon without its process: the real loop, worker, watcher and store on a clock that the test holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import structlog
from prometheus_client import CollectorRegistry

from lakeward.config.discovery import find_tables
from lakeward.config.file import load_settings
from lakeward.config.settings import Settings
from lakeward.daemon.loop.daemon_loop import DaemonLoop, limits_of
from lakeward.daemon.loop.leases import Leases
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.runner import Lane
from lakeward.daemon.scheduling.outlook import Outlook
from lakeward.daemon.scheduling.scheduler import Scheduler
from lakeward.daemon.status import ConfigStatus, ServicePhase, ServiceStatus, SparkStatus
from lakeward.daemon.work.watcher import Watcher
from lakeward.daemon.work.worker import Worker
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.entry import run_operation_at
from lakeward.engine.task.operation_spec import OperationResult
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.owner import Processes
from lakeward.services.indexing.index_memory import IndexMemory
from lakeward.services.indexing.upkeep.tasks import IndexUpdated, TeeCompared, compare_tee_at, update_index_at
from lakeward.services.service import StoredIndexes
from lakeward.state.records import DaemonRecord, Watermark
from lakeward.state.store import Store, index_entries_at, open_store
from lakeward.storage.storage_of_url import open_root, open_storage
from lakeward.table.backlog import Backlog
from lakeward.table.timeline.service_instants import ServiceName
from tests.clocks import SkippingClock

Result = TypeVar("Result")


class InlineRunner:
    """Works run when their answers are fetched, in the order in which they were submitted."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Lane, Callable[[], None]]] = deque()
        self._hung: dict[Lane, deque[tuple[Lane, Callable[[], None]]]] = {}

    def submit(
        self,
        lane: Lane,
        work: Callable[[], Result],
        *,
        then: Callable[[Result], None],
        failed: Callable[[Exception], None],
    ) -> None:
        def carry_out() -> None:
            try:
                result = work()
            except Exception as error:
                failed(error)
                return
            then(result)

        self._hung.get(lane, self.waiting).append((lane, carry_out))

    def deliver(self) -> int:
        count = 0
        for _ in range(len(self.waiting)):
            if self.waiting:  # one of them may have gone round itself
                self.waiting.popleft()[1]()
                count += 1
        return count

    def hang(self, lane: Lane) -> None:
        """What is submitted from here on is not answered."""
        self._hung[lane] = deque()

    def come_back(self, lane: Lane) -> None:
        """It is answered after all."""
        self.waiting.extend(self._hung.pop(lane))

    def wait(self, seconds: float) -> None:
        raise AssertionError("a test holds the clock")


class InProcess:
    """Everything runs here."""

    def at_once(self, input_bytes: int, memory_bytes: int) -> int:
        return 1

    def choose(self, input_bytes: int, *, memory_bytes: int, permit_bytes: int) -> Dispatcher:
        return InProcessDispatcher()

    def here(self, *, memory_bytes: int, permit_bytes: int) -> Dispatcher:
        return InProcessDispatcher()


class Serving:
    """One daemon; several share a store when they are given the same one."""

    def __init__(
        self,
        root: Path,
        state_folder: Path,
        *,
        store: Store | None = None,
        name: str = "one",
        settings: Mapping[str, str] | None = None,
        named: Path | None = None,
        index_store_url: str = "",
    ) -> None:
        self.clock = SkippingClock()
        self.store = store or open_store("sqlite://", clock=self.clock)
        self.settings = self.load(root, state_folder, settings or {}, named=named)
        self.registry = CollectorRegistry()
        self.runner = InlineRunner()
        self.watcher = Watcher(open_storage, self.clock)
        self.run_operation: Callable[..., OperationResult] = run_operation_at
        self.watermarks: Callable[[str], Mapping[str, Watermark]] = self.store.index_watermarks
        self.run_index_update: Callable[..., IndexUpdated] = update_index_at
        self.run_comparison: Callable[..., TeeCompared] = compare_tee_at
        self.worker = worker = Worker(
            watcher=self.watcher,
            open_storage=open_storage,
            dispatchers=InProcess(),
            task_at=self._task_at,
            database=StoredIndexes(
                lambda base_path: self.watermarks(base_path), partial(index_entries_at, index_store_url)
            ),
            identity=ServiceName(self.settings.service.name, self.store.store_id()),
            processes=Processes(),
            state_folder=state_folder,
            clock=self.clock,
        )
        record = DaemonRecord(name, "lakeward", "1", started_at=self.clock.now(), beat_at=self.clock.now())
        self.service = DaemonLoop(
            settings=self.settings,
            scheduler=Scheduler(limits_of(self.settings), Random(name)),
            worker=worker,
            runner=self.runner,
            store=self.store,
            leases=Leases(self.store, record, seconds=60.0, clock=self.clock, processes=Processes()),
            find_tables=partial(find_tables, open_root=open_root),
            metrics=Metrics(self.registry),
            clock=self.clock,
            log=structlog.stdlib.get_logger("test"),
        )
        self.service.read_controls()
        self.service.discover()

    def index_memory(self) -> IndexMemory:
        """What the first table's status says that the daemon remembers of its indexes."""
        found: IndexMemory = self.status().tables[0].remembered[JobKind.INDEX]
        return found

    def _task_at(self, task: Callable[..., object], location: str) -> Callable[..., object]:
        in_place_of = {
            run_operation_at: self.run_operation,
            update_index_at: self.run_index_update,
            compare_tee_at: self.run_comparison,
        }
        return partial(in_place_of.get(task, task), location)

    @staticmethod
    def load(root: Path, state_folder: Path, settings: Mapping[str, str], *, named: Path | None = None) -> Settings:
        """With a table that is called `orders`, where it is said to be at `named`; an empty setting is not set."""
        file = None
        if named is not None:
            file = root.parent / "lakeward.toml"
            file.write_text(f'[[tables]]\nname = "orders"\npath = "{named}"\n')
        given = {
            "discovery.roots": f'["{root}"]',
            "service.state_folder": str(state_folder),
            "locks.writers": "share",
            "defaults.foreign_services": "share",
            # The golden tables have few commits; what the default trigger does is in test_promises.
            "defaults.planner": '{ "hoodie.compact.inline.max.delta.commits" = 1 }',
        }
        return load_settings(file, {}, {name: value for name, value in (given | dict(settings)).items() if value})

    def run(self, seconds: float, *, step: float = 1.0) -> None:
        """Let so much time pass, with the ticks that the process would have."""
        passed = 0.0
        while passed < seconds:
            self.settle()
            self.clock.sleep(step)
            passed += step
            self.service.read_controls()
            if int(passed) % 10 == 0:
                self.service.keep_leases()
            if int(passed) % 60 == 0:
                self.service.discover()
        self.settle()

    def settle(self) -> None:
        """Until nothing follows from anything any more, at this moment."""
        for _ in range(200):
            self.service.step()
            if not self.runner.waiting:
                return
        raise AssertionError("the daemon goes round in circles")

    def status(self) -> ServiceStatus:
        return self.service.status(
            phase=ServicePhase.RUNNING,
            started_at=0.0,
            config=ConfigStatus("test.toml", 0.0),
            spark=SparkStatus(),
            version="1",
        )

    def backlog(self, table: str) -> Backlog | None:
        """The backlog that the page has."""
        cache = self.worker.caches.find(table)
        return None if cache is None else cache.backlog

    def view(self, table: str) -> Outlook:
        return self.service.outlooks[table]

    def sample(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)
