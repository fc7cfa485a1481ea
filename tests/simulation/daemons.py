"""The large kind of history: two daemons, whole but for Spark and HTTP, share a store and service several tables.

    a while of everything   writers write, storage and store fail, processes pause, die, stop and start again, operators
                            pause and resume tables, configurations are reloaded
    then peace              faults stop, writers finish; the daemons bring every table to rest by themselves

Writers do the services beside compaction, or leave all of them to the daemons.

What is simulated: storage, clock, threads, the work of an operation, and the calls of the store may fail. The store
itself is SQLite in memory; scheduler, watcher, planner, leases and all that touches tables are the real ones.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

from pytest import MonkeyPatch
from sqlalchemy import delete

from lakeward.base.errors import StoreUnavailable
from lakeward.config.choices import ForeignServices
from lakeward.config.discovery import find_tables
from lakeward.config.settings import (
    DiscoverySettings,
    LockSettings,
    ServiceSettings,
    Settings,
    TableOverride,
    TableSettings,
    Writers,
)
from lakeward.daemon.loop.daemon_loop import DaemonLoop, limits_of
from lakeward.daemon.loop.leases import Leases
from lakeward.daemon.runner import SCANS_AT_ONCE, Lane
from lakeward.daemon.scheduling.events import FactKind
from lakeward.daemon.scheduling.schedule import Schedule
from lakeward.daemon.scheduling.scheduler import Scheduler
from lakeward.daemon.served_table import ServedTable, served_table
from lakeward.daemon.work.watcher import Watcher
from lakeward.daemon.work.worker import Worker
from lakeward.engine.task.entry import run_operation_at
from lakeward.format.timeline.instant import format_instant_time
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult
from lakeward.services.archive.job import ArchiveService
from lakeward.services.archive.plan.hudi_archiver_keys import KEEP_MAX, KEEP_MIN
from lakeward.services.archive.settings import ArchiveSettings
from lakeward.services.clean.job import CleanService
from lakeward.services.clean.plan.policy import CleanPolicyKind
from lakeward.services.clean.settings import CleanSettings
from lakeward.services.clustering.job import ClusteringService
from lakeward.services.clustering.run.tasks import run_task_at
from lakeward.services.clustering.settings import ClusteringSettings
from lakeward.services.compaction.job import TableCompaction
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Choice
from lakeward.services.rollback.settings import RollbackSettings
from lakeward.services.service import StoredIndexes, TableFacts
from lakeward.services.services import ROUND
from lakeward.services.ttl.job import TtlService
from lakeward.services.ttl.plan.options import SELECTED
from lakeward.services.ttl.settings import TtlSettings
from lakeward.state.records import ControlKind, ControlRecord, DaemonRecord, TargetKind
from lakeward.state.store import Store, open_store
from lakeward.state.store_tables import metadata, store_identity
from lakeward.storage.storage import Storage
from lakeward.table.listing_source import ListingSource
from lakeward.table.snapshot import take_snapshot
from lakeward.table.timeline.service_instants import ServiceName
from tests.faults import Killed
from tests.simulation.compactors import SETTINGS
from tests.simulation.dispatcher import SimulatedDispatcher, merge_ids, pack_ids
from tests.simulation.history import History
from tests.simulation.process_storage import Fault, Faults, ProcessStorage
from tests.simulation.reader import is_empty, read_timeline
from tests.simulation.world import (
    Actor,
    Process,
    SimulatedClock,
    SimulatedProcesses,
    Turnstile,
    World,
)
from tests.simulation.writer import Table, create_table

T = TypeVar("T")

BUSY_SECONDS = (40.0, 60.0, 150.0)
BUSY_SECONDS_OF_ALL = (150.0, 400.0)
"""A clustering begins and ends in pauses of the writers, so it takes longer until some have met one."""
SETS_CLOCKS = 0.4
"""In how many runs clocks are set. No host sleeps here: its daemon wakes up with leases that it thinks safe, since its
monotonic clock stood meanwhile (docs/state.md)."""
PEACE_SECONDS = 1800.0
INTERVAL = 10.0
LEASE_SECONDS = 60.0
CONTROL_SECONDS = 10.0
SLACK_SECONDS = 5.0
FREEZES = 0.3
"""In how many runs processes are stopped and go on."""
FREEZE_SECONDS = (70.0, 200.0)
"""Longer than a poll's deadline, and now and then longer than a job's."""
LATE_SECONDS = (2.0, 30.0)
"""After a freeze the loop's thread goes on later than the others."""
NOTICE_SECONDS = 2 * INTERVAL + 15.0
"""In peace, a table is scanned again within two intervals and what the loop's own ticks add."""


@lru_cache(maxsize=1)
def the_store() -> Store:
    """One for all runs of a process; the clock is handed in by calls."""
    return open_store("sqlite://", clock=SimpleNamespace(now=lambda: 0.0, monotonic=lambda: 0.0, sleep=lambda s: None))


KEEP_SECONDS = (20.0, 60.0)
EXPIRING = "p=1"
"""The partition that expires, and that writers write to less often."""
STAND_INS: Mapping[Callable[..., Any], Callable[..., Any]] = {run_operation_at: merge_ids, run_task_at: pack_ids}


def empty_store() -> Store:
    store = the_store()
    with store._database.engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not store_identity:
                connection.execute(delete(table))
    return store


class FlakyStore:
    """The store, or one of its subjects, as one process reaches it."""

    def __init__(self, world: World, process: Process, store: object, faults: Faults) -> None:
        self._world = world
        self._process = process
        self._store = store
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        part = getattr(self._store, name)
        if callable(part):
            return partial(self._call, name, part)
        return FlakyStore(self._world, self._process, part, self._faults)

    def _call(self, name: str, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        world, process = self._world, self._process
        world.call(process)
        fault = None
        if self._faults.kinds and world.random.random() < self._faults.chance:
            fault = world.random.choice([Fault.BEFORE, Fault.LOST_REPLY, *self._faults.kinds])
            world.say(process, f"store {name} {fault}")
        if fault is Fault.BEFORE:
            raise StoreUnavailable("injected: the store did not answer")
        result = method(*args, **kwargs)
        if fault is Fault.PAUSE:
            world.pause(process, self._faults.pause_seconds)
        if fault in (Fault.KILL, Fault.TORN):
            world.kill(process)
        world.call(process)
        if fault is Fault.LOST_REPLY:
            raise StoreUnavailable("injected: the store's reply was lost")
        return result


class SimulatedRunner:
    """Each piece of work is an actor; those of one lane begin in order, as many at once as the real one has threads."""

    AT_ONCE: Mapping[Lane, int] = {Lane.SCAN: SCANS_AT_ONCE, Lane.JOB: 64, Lane.STORE: 1, Lane.LEASE: 1}

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._waiting: dict[Lane, deque[Callable[[], None]]] = {lane: deque() for lane in Lane}
        self._busy: Counter[Lane] = Counter()
        self._results: list[tuple[tuple[Lane, str], Callable[[], None]]] = []
        self._unanswered: Counter[tuple[Lane, str]] = Counter()
        """Work by lane and table of which the loop has not heard the end."""
        self.loop: Actor | None = None
        self.is_to_freeze = False
        """At the next scan of a table on which a job runs: then several results of one table come at once."""
        self.crowded = 0
        """How often several results of one table were heard in one step."""

    def submit(
        self, lane: Lane, work: Callable[[], T], *, then: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        about = (lane, next((given.name for given in _given(work) if isinstance(given, ServedTable)), ""))

        def carry_out() -> None:
            result: Callable[[], None]
            try:
                result = partial(then, work())
            except Exception as error:
                result = partial(failed, error)
            self._results.append((about, result))
            if self.loop is not None:
                self.loop.wake = min(self.loop.wake, self._world.time)

        self._unanswered[about] += 1
        self._waiting[lane].append(carry_out)
        if self._busy[lane] < self.AT_ONCE[lane]:
            self._busy[lane] += 1
            self._world.spawn(f"{self._process.name}-{lane}", self._process, partial(self._work, lane))
        if self.is_to_freeze and lane is Lane.SCAN and self.is_unanswered(Lane.JOB, about[1]):
            self.is_to_freeze = False
            self._freeze()

    def _freeze(self) -> None:
        """The whole process is stopped, past the deadline of what it waits for; the loop is the last one to go on."""
        world, process = self._world, self._process
        seconds = world.random.uniform(*FREEZE_SECONDS)
        world.say(process, f"freezes for {seconds:.0f} s")
        process.paused_until = process.may_wake_at = process.woke_at = world.time + seconds
        world.yield_until(process.paused_until + world.random.uniform(*LATE_SECONDS))
        if process.dead:
            raise Killed(process.name)

    def is_unanswered(self, lane: Lane, table: str) -> bool:
        return bool(self._unanswered[lane, table])

    def _work(self, lane: Lane) -> None:
        while self._waiting[lane]:
            self._waiting[lane].popleft()()
        self._busy[lane] -= 1

    def deliver(self) -> int:
        results, self._results = self._results, []
        of_a_table = Counter(table for (_, table), _ in results if table)
        self.crowded += any(number > 1 for number in of_a_table.values())
        for about, result in results:
            self._unanswered[about] -= 1
            result()
        return len(results)

    def wait(self, seconds: float) -> None:
        if not self._results:
            self._world.sleep(self._process, seconds)

    def stop(self, *, wait: bool) -> None:
        pass


def _given(work: Callable[[], object]) -> tuple[object, ...]:
    """The arguments of a piece of work, which is a partial wherever it is about one table."""
    return getattr(work, "args", ())


class SimulatedWatcher(Watcher):
    """Its locks let others run."""

    def __init__(self, world: World, process: Process, open_storage: Any, clock: SimulatedClock) -> None:
        super().__init__(open_storage, clock)
        self._turnstile = partial(Turnstile, world, process)

    def _watch(self, table: str, location: str, timezone: str | None, listing: ListingSource) -> Any:
        watched = super()._watch(table, location, timezone, listing)
        if not isinstance(watched.lock, Turnstile):
            watched.lock = self._turnstile()  # type: ignore[assignment]
        return watched


class Quiet:
    """Metrics of a daemon that is not scraped."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


class TraceLog:
    """The daemon's log goes into the trace; what it calls a bug in Lakeward is one."""

    def __init__(
        self, world: World, process: Process, runner: SimulatedRunner, about: dict[str, object] | None = None
    ) -> None:
        self._world = world
        self._process = process
        self._runner = runner
        self._about = about or {}

    def bind(self, **about: object) -> TraceLog:
        return TraceLog(self._world, self._process, self._runner, self._about | about)

    def debug(self, text: str, /, **about: object) -> None:
        pass

    def info(self, text: str, /, **about: object) -> None:
        shown = " ".join(f"{key}={value}" for key, value in {**self._about, **about}.items() if key != "job")
        self._world.say(self._process, f"log: {text} {shown}"[:400])

    def warning(self, text: str, /, **about: object) -> None:
        self.info(text, **about)
        if text == FactKind.STUCK:
            lane = Lane.JOB if str(about["text"]).startswith("Job") else Lane.SCAN
            if not self._runner.is_unanswered(lane, str(about["table"])):
                self._world.broken(f"{self._process.name} had the result that it declared missed: {about}")

    def error(self, text: str, /, **about: object) -> None:
        self.info(text, **about)
        error = about.get("exc_info")
        if isinstance(error, Exception):
            self._world.broken(f"{self._process.name} ran into a bug: {error!r}")


class Daemon:
    """One start of one daemon."""

    def __init__(self, run: Daemons, process: Process, settings: Settings) -> None:
        world = run.world
        self.process = process
        self.settings = settings
        clock = SimulatedClock(world, process)
        store: Any = FlakyStore(world, process, run.store, run.store_faults)

        def open_storage(location: str) -> tuple[Storage, str]:
            return ProcessStorage(world, process, run.storage, run.faults), location

        self.dispatcher = dispatcher = SimulatedDispatcher(
            world, process, fails=run.dispatch_fails, longest=run.longest
        )
        self.runner = SimulatedRunner(world, process)
        record = DaemonRecord(process.name, "lakeward", "0", started_at=clock.now(), beat_at=clock.now())
        processes = SimulatedProcesses(world, process)
        self.leases = Leases(store, record, seconds=LEASE_SECONDS, clock=clock, processes=processes)
        log: Any = TraceLog(world, process, self.runner)
        metrics: Any = Quiet()
        dispatchers: Any = SimpleNamespace(
            at_once=lambda *job: 2, choose=lambda *job, **limits: dispatcher, here=lambda **limits: dispatcher
        )
        worker = Worker(
            watcher=SimulatedWatcher(world, process, open_storage, clock),
            open_storage=open_storage,
            dispatchers=dispatchers,
            task_at=lambda task, location: (
                partial(STAND_INS[task], open_storage(location)[0]) if task in STAND_INS else _no_check
            ),
            database=NO_INDEXES,
            identity=ServiceName("lakeward", run.store_id),
            processes=processes,
            state_folder=Path("/nowhere"),
            clock=clock,
        )
        self.service = DaemonLoop(
            settings=settings,
            scheduler=Scheduler(limits_of(settings), Random(world.random.getrandbits(32))),
            worker=worker,
            runner=self.runner,
            store=store,
            leases=self.leases,
            find_tables=partial(find_tables, open_root=open_storage),
            metrics=metrics,
            clock=clock,
            log=log,
        )
        self.stopping = False
        self._world = world

    def live(self) -> None:
        """The loop, with the ticks that APScheduler gives; returns when it was asked to stop and is done."""
        world, service = self._world, self.service
        self.runner.loop = world.current
        service.read_controls()
        service.discover()
        due = {
            service.discover: world.time + 60.0,
            service.keep_leases: world.time + LEASE_SECONDS / 6,
            service.read_controls: world.time + CONTROL_SECONDS,
        }
        every = {service.discover: 60.0, service.keep_leases: LEASE_SECONDS / 6, service.read_controls: CONTROL_SECONDS}
        while not self.stopping:
            for tick, at in due.items():
                if at <= world.time:
                    service.post(tick)
                    due[tick] = world.time + every[tick]
            seconds = service.step()
            self.runner.wait(min(seconds, max(0.0, min(due.values()) - world.time)))
        service.begin_stop()
        end = world.time + 30.0
        while not service.is_idle and world.time < end:
            self.runner.wait(service.step())
        service.cancel_all("The daemon stops.")
        end = world.time + 20.0
        while not service.is_idle and world.time < end:
            self.runner.wait(service.step())
        if not service.is_idle:
            world.kill(self.process)
            raise Killed(self.process.name)
        try:
            service.leave()
        except StoreUnavailable as error:
            world.say(self.process, f"could not leave: {error}")
        world.kill(self.process)
        raise Killed(self.process.name)


def _no_index(base_path: str, name: str) -> AbstractContextManager[Any]:
    raise AssertionError("indexes are not simulated")


NO_INDEXES = StoredIndexes(lambda base_path: {}, _no_index)


def _no_check(check: object, task_attempt: int) -> object:
    raise AssertionError("verification is not simulated")


class Daemons(History):
    """The tables, the daemons, the operator, and what goes wrong."""

    def __init__(self, seed: int, *, all_services: bool = False) -> None:
        """
        Args:
            all_services: writers leave it to the daemons to roll back, clean and archive, too.
        """
        super().__init__(seed)
        world, random = self.world, self.world.random
        self.constants = MonkeyPatch()
        """What no operator sets, with other values; undone after the run."""
        self.all_services = all_services
        self.retained = random.choice([1, 2, 3]) if all_services else None
        self.keep = random.choice(KEEP_SECONDS) if all_services else None
        self.done: Counter[JobKind] = Counter()
        """Jobs that achieved something, as the store says."""
        self.store = empty_store()
        self.store_id = self.store.store_id()
        world.switching = random.choice([0.0, 0.02, 0.1])
        kinds = tuple(kind for kind in Fault if random.random() < 0.6)
        pause = random.choice([(10.0, 30.0), (80.0, 200.0)])
        self.faults = Faults(random.choice([0.0, 0.001, 0.003]), kinds, pause)
        self.store_faults = Faults(random.choice([0.0, 0.0, 0.02, 0.1]), kinds, pause)
        self.dispatch_fails = random.choice([0.0, 0.0, 0.1])
        self.freezes = random.random() < FREEZES
        self.longest = 60.0 if self.freezes else random.choice([1.0, 10.0, 60.0])
        self.expire = random.choice([None, None, 300.0])
        self.hosts = random.choice([("one", "one"), ("one", "two")])
        self.settings = self._settings(random)
        self.tables = self._tables(random.choice([1, 1, 2] if all_services else [1, 1, 2, 4]))
        self.daemons: list[Daemon] = []
        self.scanned_at: dict[str, float] = {}
        self.jobs = 0
        self.crowded = 0
        """How often a daemon heard several results of one table in one step."""
        self._safe_at: dict[tuple[int, str], float] = {}
        """When a process last held a safe lease on a table, for each pair of the two."""
        self._asked_at = 0.0
        self._left = ["not asked yet"]
        self._judge = world.new_process("judge", "judges")
        world.after_turn = self._check_daemons
        world.say(
            "*** world",
            f"expire={self.expire} switching={world.switching} faults={self.faults} store={self.store_faults} "
            f"longest={self.longest} hosts={self.hosts} tables={[table.base_path for table in self.tables]} "
            f"settings={self.settings.service} {self.settings.defaults}",
        )

    def _settings(self, random: Random) -> Settings:
        kind = random.choice(list(CompactionType))
        settings = Settings(
            service=ServiceSettings(
                jobs_max=random.choice([1, 2, 3]),
                state_folder=Path("/nowhere"),
                groups=random.choice([{}, {"default": 1}]),
            ),
            locks=LockSettings(writers=Writers.SHARE, expire=self.expire).waiting(random.choice([0.0, 30.0])),
            discovery=DiscoverySettings(roots=("/lake",)),
            defaults=TableSettings(
                services=ROUND if self.all_services else (JobKind.COMPACTION,),
                type=kind,
                planner=({} if kind is CompactionType.FULL else SETTINGS)
                | {"hoodie.compact.inline.max.delta.commits": random.choice(["1", "1", "5"])},
                interval=INTERVAL,
                foreign_services=ForeignServices.SHARE,
                **self._settings_of_services(random),
            ),
            tables=(TableOverride(match="*/shadow", locks=LockSettings(writers=None)),),
        )
        for name, value in {
            "loop.daemon_loop.TICK_SECONDS": 5.0,
            "work.table_planner.PLAN_EXPIRY_SECONDS": random.choice([60.0, 3600.0]),
            "served_table.Schedule": partial(
                Schedule,
                replan=120.0,
                retry_first=5.0,
                retry_max=60.0,
                failures_max=random.choice([2, 5]),
                parked_for=120.0,
                job_deadline=random.choice([60.0, 1200.0]),
            ),
        }.items():
            self.constants.setattr(f"lakeward.daemon.{name}", value)
        return settings

    def _settings_of_services(self, random: Random) -> dict[str, Any]:
        if self.retained is None:
            return {}
        for name, values in {
            "clean.job.AFTER_COMMITS": [1, 3],
            "clean.job.FOREIGN_QUIET_SECONDS": [300.0],
            "archive.job.AFTER_COMMITS": [1],
            "rollback.job.QUIET_SECONDS": [20.0, 100.0],
            "clustering.plan.pauses.WHILE_SECONDS": [5.0, 60.0],
            "clustering.run.clusterer.uuid4": [lambda: UUID(int=random.getrandbits(128))],
            "clustering.job.DAY_SECONDS": [60.0],
            "ttl.job.LOOK_SECONDS": [20.0],
        }.items():
            self.constants.setattr(f"lakeward.services.{name}", random.choice(values))
        return {
            "clean": CleanSettings(
                policy=CleanPolicyKind.COMMITS,
                retain=self.retained,
                reader_window=random.choice([0.0, 20.0]),
                keep_deleted=random.choice([0.0, 60.0]),
            ),
            "archive": ArchiveSettings(
                hudi={
                    KEEP_MIN: str(self.retained + 1),
                    KEEP_MAX: str(self.retained + 2),
                    "hoodie.timeline.compaction.batch.size": "2",
                },
            ),
            "clustering": ClusteringSettings(min_groups=2),
            "rollback": RollbackSettings(silent_after=300.0),
            "ttl": TtlSettings(keep=self.keep, notice=20.0, hudi={SELECTED: EXPIRING}),
        }

    def _tables(self, number: int) -> list[Table]:
        world = self.world
        names = [f"/lake/t{each}" for each in range(number)]
        if world.random.random() < 0.2:
            names.append("/lake/shadow")
        tables = [
            create_table(
                world, self.storage, name, partitions=2 if self.all_services else 1, lock_expire_seconds=self.expire
            )
            for name in names
        ]
        for table in tables:
            table.watch.shadow = table.base_path == "/lake/shadow"
            table.watch.retained, table.watch.keep = self.retained, self.keep
        watches = {table.base_path: table.watch for table in tables}

        def changed(change: str, path: str) -> None:
            base_path = "/".join(path.split("/")[:3])
            if base_path in watches:
                watches[base_path].changed(change, path)
            if change == "create" and "/timeline/" in path:
                self._check_lease_of_publisher(base_path, path)

        self.storage.watch = changed
        return tables

    def live(self) -> None:
        world = self.world
        for number, table in enumerate(self.tables):
            plans = 0.0 if table.watch.shadow else 0.3
            opens, services = (0.6, False) if self.all_services else (0.2, True)
            self.spawn_writer(number, table, busy=(1.0, 30.0), opens=opens, plans=plans, services=services)
        for number, host in enumerate(self.hosts):
            self.spawn(f"daemon-{number}", host, partial(self._daemon_for_ever, number), after=number * 7.0)
        self.spawn("operator", "operators", self._operate)
        if self.freezes:
            self.spawn("signals", "operators", self._freeze)
        if world.random.random() < SETS_CLOCKS:
            self.spawn_clocks(())
        busy = BUSY_SECONDS_OF_ALL if self.all_services else BUSY_SECONDS
        world.run(seconds=max(busy) if self.freezes else world.random.choice(busy))

    def end(self) -> None:
        super().end()
        self.constants.undo()

    # ------------------------------------------------------------------------------------------------ actors

    def _daemon_for_ever(self, number: int, first: Process) -> None:
        world, process = self.world, first
        while True:
            daemon = Daemon(self, process, self.settings)
            self.daemons.append(daemon)
            try:
                daemon.live()
            except Killed:
                if world.ended:
                    raise
            self.daemons.remove(daemon)
            self.crowded += daemon.runner.crowded
            process = self.restart(f"daemon-{number}", first.host, within=100.0)

    def _operate(self, process: Process) -> None:
        """Pause and resume tables, reload configurations, stop daemons."""
        world, random = self.world, self.world.random
        while not self.peace:
            world.sleep(process, random.uniform(20.0, 120.0))
            if self.peace:
                return
            table = random.choice(self.tables).base_path
            match random.choice(["pause", "resume", "cancel", "reload", "stop", "nothing"]):
                case "reload":
                    self.settings = self._settings(random)
                    world.say(process, "reloads")
                    for daemon in self.daemons:
                        daemon.service.post(partial(daemon.service.apply, self.settings))
                case "stop" if self.daemons:
                    daemon = random.choice(self.daemons)
                    world.say(process, f"stops {daemon.process.name}")
                    daemon.stopping = True
                case "pause":
                    self._control(process, ControlKind.PAUSE, table, until=world.wall + random.uniform(10.0, 200.0))
                case "resume":
                    self._control(process, ControlKind.RESUME, table)
                case "cancel":
                    self._control(process, ControlKind.CANCEL, table)

    def _freeze(self, process: Process) -> None:
        """Stop whole processes (SIGSTOP, a paused machine) while they wait for several results of one table."""
        world, random = self.world, self.world.random
        while not self.peace:
            world.sleep(process, random.uniform(1.0, 10.0))
            if self.daemons and not self.peace:
                random.choice(self.daemons).runner.is_to_freeze = True

    def _control(self, process: Process, kind: ControlKind, table: str, until: float | None = None) -> None:
        self.world.say(process, f"{kind} {table}")
        self.store.controls.add(
            ControlRecord(kind, TargetKind.TABLE, table, reason="because", by="us", at=self.world.wall, until=until)
        )

    # ------------------------------------------------------------------------------------------------ judging

    def _check_daemons(self) -> None:
        """After every turn."""
        world = self.world
        safe: dict[str, str] = {}
        for daemon in self.daemons:
            if daemon.process.dead:
                continue
            for name in daemon.leases.held:
                if daemon.leases.is_safe(name):
                    self._safe_at[daemon.process.pid, name] = world.time
                    other = safe.setdefault(name, daemon.process.name)
                    if other != daemon.process.name:
                        world.broken(f"{other} and {daemon.process.name} both hold the lease of {name}")
            watches = daemon.service.jobs.watches()
            tables = [watch.job.table for watch in watches]
            if len(set(tables)) < len(tables):
                world.broken(f"{daemon.process.name} runs two jobs on one table: {tables}")

    def _check_lease_of_publisher(self, base_path: str, path: str) -> None:
        """A daemon that lost its lease stops at its next fence; only a pause behind the fence lets it go on. It ends
        what it had begun all the same: a clustering with a commit of nothing, beside writers."""
        world = self.world
        if path.endswith(".replacecommit") and is_empty(self.storage.read(path)):
            return
        for daemon in self.daemons:
            if daemon.process is not world.acting or world.time - daemon.process.woke_at < SLACK_SECONDS:
                continue
            if daemon.leases.is_safe(base_path):
                self._safe_at[daemon.process.pid, base_path] = world.time
            elif world.time - self._safe_at.get((daemon.process.pid, base_path), 0.0) > SLACK_SECONDS:
                world.broken(f"{daemon.process.name} made {path} without a lease")

    def _note_scans(self) -> None:
        for daemon in self.daemons:
            if not daemon.process.dead:
                for name, view in daemon.service.outlooks.items():
                    if view.scanned_at is not None:
                        self.scanned_at[name] = max(self.scanned_at.get(name, 0.0), view.scanned_at)

    def come_to_rest(self) -> None:
        world = self.world
        self.peace = True
        self.faults.kinds = self.store_faults.kinds = ()
        self.store_faults.chance = 0.0
        self.longest = 1.0
        for daemon in self.daemons:
            daemon.runner.is_to_freeze = False
            daemon.dispatcher.longest = self.longest
        for table in self.tables:
            self.store.controls.add(
                ControlRecord(ControlKind.RESUME, TargetKind.TABLE, table.base_path, "peace", "us", at=world.wall)
            )

        def writers() -> list[str]:
            return [actor.name for actor in world.actors if actor.name.startswith(("writer", "operator"))]

        if not world.run(seconds=PEACE_SECONDS, until=lambda: not writers()):
            world.broken(f"{writers()} do not end")
        self.spawn_last_writer(99, rolls_back=not self.all_services)
        if not world.run(seconds=PEACE_SECONDS, until=lambda: not writers()):
            world.broken(f"{writers()} do not end")
        if not world.run(seconds=PEACE_SECONDS, until=self._is_at_rest):
            world.broken(f"the service does not catch up: {self._what_is_left()}")
        self._watch_the_scans()
        for table in self.tables:
            if table.watch.shadow:
                table.watch.check()
            else:
                table.watch.check_at_rest()
        self._check_store()
        self.crowded += sum(daemon.runner.crowded for daemon in self.daemons)

    def _is_at_rest(self) -> bool:
        return not self._what_is_left()

    def _what_is_left(self) -> list[str]:
        """Asked often, so cheap things first."""
        world = self.world
        if world.time < self._asked_at + 5.0:
            return self._left
        self._asked_at = world.time
        self._left = [
            f"{daemon.process.name} works, sleeps or stops"
            for daemon in self.daemons
            if daemon.service.jobs.watches() or daemon.process.paused_until > world.time or daemon.stopping
        ]
        if len(self.daemons) < len(self.hosts):
            self._left.append("a daemon is being started")
        self._left = self._left or [
            f"{table.base_path}: {left}"
            for table in self.tables
            if not table.watch.shadow
            for left in self._work_at(table)
        ]
        return self._left

    def _work_at(self, table: Table) -> list[str]:
        """What a daemon should still do."""
        instants = read_timeline(self.storage, table.base_path)
        pending = [time for time in instants.pending if time not in instants.completed]
        if pending:
            return [f"pending {pending}"]
        snapshot = take_snapshot(self.storage, table.base_path, clock=SimulatedClock(self.world, self._judge))
        served = served_table(self.settings, table.base_path, table.base_path, watched_since=0.0)
        now = format_instant_time(int(self.world.wall * 1000) + 1000, UTC)
        outcome = TableCompaction().rules(served.settings)(snapshot, now, {})
        wanted = [f"{each.file_id} wants {each.choice}" for each in outcome.decisions if each.choice is not Choice.NONE]
        if self.all_services:
            facts = TableFacts(self.storage, snapshot, SimulatedClock(self.world, self._judge), None, NO_INDEXES)
            for service in (ClusteringService(), TtlService(), CleanService(), ArchiveService()):
                demands = service.demand(facts, served.care_of(service, service.new_memory(), {}))
                waits = service.kind in {JobKind.CLUSTERING, JobKind.TTL}
                wanted += [demand.why for demand in demands.values() if demand.is_due or (waits and demand.why)]
        return wanted

    def _watch_the_scans(self) -> None:
        """In peace every table is scanned, interval after interval, once leases have found their holders."""
        world = self.world
        world.run(seconds=2 * LEASE_SECONDS)
        for _ in range(4):
            world.run(seconds=INTERVAL)
            self._note_scans()
        for table in self.tables:
            scanned = self.scanned_at.get(table.base_path)
            if scanned is None or world.wall - scanned > NOTICE_SECONDS:
                world.broken(f"{table.base_path} was last polled {world.wall - (scanned or 0):.0f} s ago")

    def _check_store(self) -> None:
        """What the store says of jobs is what the timelines say."""
        for table in self.tables:
            instants = read_timeline(self.storage, table.base_path)
            for job in self.store.jobs.latest(table.base_path, limit=10_000):
                self.jobs += 1
                self.done[job.service] += job.result == JobResult.COMMITTED
                if job.service != JobKind.COMPACTION or job.result != JobResult.COMMITTED:
                    continue
                for attempt in self.store.jobs.attempts(job.id):
                    time = attempt.instant or ""
                    if time in instants.pending and time not in instants.completed:
                        self.world.broken(f"the store says that {time} was done, the timeline says it is pending")
            observed = self.store.observations.plans(table.base_path)
            if observed and not table.watch.shadow:
                self.world.broken(f"the store shows plans at rest: {observed}")
