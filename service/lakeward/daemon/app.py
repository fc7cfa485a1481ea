"""One daemon process, from its settings to its end.

    settings -> store (migrated) -> components -> HTTP -> ticks -> the loop -> SIGTERM: ... -> nothing left behind

    SIGHUP, POST /-/reload   reload the configuration: all of it is in force, or none
    SIGTERM, SIGINT          not ready; nothing new begins; what runs may end within `service.grace`, then it is
                             stopped at its next fence and rolled back; leases go back. A second one ends it now.

What a process leaves that ends in any other way is rolled forward or back by the next one that services the table, so
nothing here has to succeed for a table's sake.

Touches: signals, threads, a port, the store; everything that the components touch.
Keeps:   1. `setup` is one straight line: what is made first ends last;
         2. nothing begins before the store is there and its schema fits;
         3. the process ends, whatever hangs: a storage, the store, a Spark that does not start.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from math import inf
from pathlib import Path
from random import SystemRandom
from types import FrameType

import structlog
from apscheduler.schedulers.background import BackgroundScheduler
from prometheus_client import CollectorRegistry

from lakeward.base.clock import Clock, SystemClock
from lakeward.base.kernel_process import KernelProcess, is_needed
from lakeward.base.printable import names_secret, secrets_around
from lakeward.config.discovery import find_tables
from lakeward.config.effective import table_settings
from lakeward.config.file import no_tables, read_config, wrong_configuration
from lakeward.config.reload import reload
from lakeward.config.settings import Settings
from lakeward.daemon.engines import Engines
from lakeward.daemon.fleet_month import FleetMonth
from lakeward.daemon.job_detail import job_detail
from lakeward.daemon.kernels import Kernels
from lakeward.daemon.log import configure_logging
from lakeward.daemon.loop.daemon_loop import DaemonLoop, TraceJob, limits_of
from lakeward.daemon.loop.leases import LEASE_SECONDS, Leases
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.runner import Lane, ThreadRunner
from lakeward.daemon.scheduling.scheduler import Scheduler
from lakeward.daemon.status import (
    ConfigStatus,
    Limitation,
    ReloadOutcome,
    ServicePhase,
    ServiceStatus,
    SettingLine,
    TablePage,
)
from lakeward.daemon.status_report import table_detail
from lakeward.daemon.web.access import access_to
from lakeward.daemon.web.api import make_api
from lakeward.daemon.web.http import HttpServer, make_http
from lakeward.daemon.web.pushed_reads import PushedReads
from lakeward.daemon.work.watcher import Watcher
from lakeward.daemon.work.worker import Worker
from lakeward.protocol.owner import Processes
from lakeward.services.compaction.plan.planner import not_readers_of
from lakeward.services.service import StoredIndexes
from lakeward.state.migration import migrate
from lakeward.state.records import DaemonRecord
from lakeward.state.store import index_entries_at, open_store
from lakeward.storage.storage_of_url import open_root, open_storage
from lakeward.surface.actions import Actions
from lakeward.surface.store_answers import StoreAnswers
from lakeward.table.timeline.service_instants import ServiceName, daemon_of

CONTROLS_SECONDS = 2.0
"""How soon a pause or a cancellation is heard."""

TRIM_SECONDS = 3600.0
LEARN_SECONDS = 3600.0
"""How soon the planner hears of another day's reads."""

ENGINE_SECONDS = 30.0
"""Between two looks at whether the Spark session still answers, or is idle."""

VERSION = version("lakeward")
SHOW_SECONDS = 2.0
"""How old the status may be that pages and metrics see while they ask for it."""
SHOW_UNREAD_SECONDS = 30.0
"""The same for the first that ask after nothing did for a while: a status is work for each table."""
RELOAD_SHOWN_SECONDS = 5.0
"""How long a reload waits until pages show it; a loop that is busy for longer applies it all the same."""

DISCOVERY_SECONDS = 60.0
"""Between two searches for tables: each asks for the properties of every folder down to `discovery.DEPTH_MAX`."""

COLLECTOR_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables of OpenTelemetry, of which one says where traces go."""

RENEWALS_PER_LEASE = 6
"""The leases are read while one lasts: often enough to take over soon, and to renew in time when one reading fails."""

ABANDON_SECONDS = 20.0
"""After the grace time: how long stopped jobs may take to roll back what they did, before the process ends anyway."""

HUNG_SECONDS = 10.0
"""How long scans, calls of the store, and Spark may take to end when all else has."""


@dataclass(slots=True)
class _Signals:
    """What was asked for by signal. A handler may run between any two instructions, so it does nothing else."""

    stops: int = 0
    reload: bool = False


class StatusBoard:
    """The newest status: the loop makes it, now and then, and the HTTP thread reads it."""

    def __init__(self, make: Callable[[], ServiceStatus], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._status: ServiceStatus | None = None
        self._was_read = False
        self._made_at = -inf
        self._awaited: list[threading.Event] = []

    def read(self) -> ServiceStatus:
        """From any thread."""
        assert self._status is not None, "set up first"
        self._was_read = True
        return self._status

    def renew(self, shown: threading.Event | None = None) -> None:
        """Have the next `show` make a status, whatever the age of this one, and set `shown`."""
        self._made_at = -inf
        self._awaited += [shown] if shown is not None else []

    def show(self) -> None:
        """Make a status if the last one is too old for those who read it."""
        now = self._clock.monotonic()
        if now < self._made_at + (SHOW_SECONDS if self._was_read else SHOW_UNREAD_SECONDS):
            return
        self._made_at, self._was_read = now, False
        self._status = self._make()
        while self._awaited:
            self._awaited.pop().set()


class App:
    """A daemon in this process. `run` returns when it has ended."""

    def __init__(
        self,
        config_path: Path | None,
        *,
        environ: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Reads the configuration. Raises `ConfigurationError`."""
        self._config_path = config_path
        self._environ = environ
        self._overrides = dict(overrides or {})
        self._clock = clock or SystemClock()
        reading = read_config(config_path, environ, self._overrides)
        if reading.settings is None:
            raise wrong_configuration(config_path, reading.problems)
        self._settings, self._origins = reading.settings, reading.origins
        self._signals = _Signals()
        self._phase = ServicePhase.STARTING
        self._reloading = threading.Lock()
        self._is_hung = False
        """Some thread does not end, so that the process has to be ended around it."""
        self._no_traces: Limitation | None = None

    def run(self, *, once: bool = False) -> int:
        """Service all tables until stopped; with `once`, until each was scanned and nothing is left to do.

        Returns the exit code. Raises `ConfigurationError` where the configuration names no place to look for tables.
        """
        if not self._settings.names_tables:
            raise wrong_configuration(self._config_path, [no_tables(self._config_path)])
        with ExitStack() as ending:
            self._setup(ending, serve=not once)
            try:
                code = self._loop_once() if once else self._loop()
            except Exception:
                # Without its loop the process would keep its leases, answer no request and look alive.
                self._log.critical("the loop ended", exc_info=True)
                self._service.cancel_all("The daemon ends because of a bug in Lakeward.")
                self._is_hung, code = not self._runner.stop(timeout=ABANDON_SECONDS), 70
        if self._is_hung:
            self._log.warning("ending around what hangs")
            os._exit(code)
        return code

    # ------------------------------------------------------------------------------------------------- setup

    def _setup(self, ending: ExitStack, *, serve: bool) -> None:
        """A long straight line: every step needs those before it."""
        settings, clock = self._settings, self._clock
        _configure_logging(settings)
        self._log = structlog.stdlib.get_logger("lakeward.daemon")
        registry = CollectorRegistry()
        self._metrics = Metrics(registry)
        self._metrics.choose(settings.metrics.is_whole)

        settings.service.state_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        migrated = migrate(settings.store_url)
        self._store = store = open_store(settings.store_url, clock=clock, on_operation=self._store_operation)
        ending.callback(store.close)
        self._log.info("store open", store=store.name, migrations=list(migrated.applied))

        processes = Processes()
        holder = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        daemon = DaemonRecord(
            holder,
            settings.service.name,
            VERSION,
            started_at=clock.now(),
            beat_at=clock.now(),
            address=settings.service.listen,
            process=processes.new_owner().to_line().decode().strip(),
        )
        self._engines = engines = Engines(
            settings, on_replaced=self._metrics.spark_restarted, clock=clock, log=self._log
        )
        ending.callback(self._stop_engines)
        self._kernels = Kernels(KernelProcess() if is_needed() else None, clock=clock, log=self._log)
        ending.callback(self._kernels.stop)
        self._watcher = Watcher(open_storage, clock)
        self._worker = Worker(
            watcher=self._watcher,
            open_storage=open_storage,
            dispatchers=engines,
            database=StoredIndexes(store.index_watermarks, partial(index_entries_at, settings.store_url)),
            identity=ServiceName(
                settings.service.name,
                store.store_id(),
                daemon_of(pid=os.getpid(), host=socket.gethostname(), store=store.name),
            ),
            processes=processes,
            state_folder=settings.service.state_folder,
            clock=clock,
            before_jobs=self._kernels.wait,
        )
        self._leases = Leases(store, daemon, seconds=LEASE_SECONDS, clock=clock, processes=processes)
        self._runner = ThreadRunner()
        self._service = DaemonLoop(
            settings=settings,
            scheduler=Scheduler(limits_of(settings), SystemRandom()),
            worker=self._worker,
            runner=self._runner,
            store=store,
            leases=self._leases,
            find_tables=partial(find_tables, open_root=open_root),
            metrics=self._metrics,
            clock=clock,
            log=self._log,
            trace_job=self._trace_job(holder, ending),
        )
        self._started_at = clock.now()
        self._config = ConfigStatus(str(self._config_path or "defaults"), clock.now())
        self._board = StatusBoard(self._current_status, clock)
        self._board.show()
        self._metrics.show(self._board.read)

        for number in (signal.SIGTERM, signal.SIGINT):
            ending.callback(signal.signal, number, signal.signal(number, self._on_stop))
        ending.callback(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, self._on_reload))
        if serve:
            reads = PushedReads(
                base_path_of=store.observations.base_path,
                not_readers=self._not_readers,
                record=store.reads.record,
                clock=clock,
            )
            stored = StoreAnswers(store, clock)
            access = access_to(settings.service.listen, hosts=settings.http.hosts, token=settings.http_token)
            http = make_http(
                registry=registry,
                status=self._board.read,
                detail=self._detail,
                job=lambda job_id: job_detail(self._board.read(), stored, job_id),
                reload=self._reload,
                take_read=reads.take,
                clock=clock,
                api=make_api(
                    status=self._board.read,
                    detail=self._detail,
                    stored=stored,
                    actions=Actions(store, clock),
                    access=access,
                ),
                month=FleetMonth(lambda since: store.jobs.monthly_costs(since=since), clock).read,
                access=access,
            )
            server = HttpServer(http, settings.service.listen)
            server.start()
            ending.callback(server.stop)
            self._log.info("serving", address=server.address)
        ticks = self._ticks()
        ticks.start()
        ending.callback(ticks.shutdown, wait=False)
        self._service.read_controls()
        self._service.discover()

    def _trace_job(self, holder: str, ending: ExitStack) -> TraceJob | None:
        """None where the environment names no collector of traces, or nothing is installed that sends them."""
        if not any(self._environ.get(name) for name in COLLECTOR_VARIABLES):
            return None
        try:
            from lakeward.daemon.history.traces import open_traces
        except ImportError as error:
            what = f"No traces are sent: the environment names a collector, and {error.name} is not installed."
            self._no_traces = Limitation(what, "Install the extra: pip install 'lakeward[traces]'.")
            self._log.warning("no traces are sent", why=what)
            return None
        traces = open_traces(self._environ, holder=holder, version=VERSION)
        ending.callback(traces.stop)
        return traces.job_ended

    def _ticks(self) -> BackgroundScheduler:
        """Each tick asks the loop to do something; nothing is done on APScheduler's threads."""
        service = self._service
        ticks = BackgroundScheduler(job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None})
        every: tuple[tuple[str, Callable[[], None], float], ...] = (
            ("discovery", service.discover, DISCOVERY_SECONDS),
            ("leases", service.keep_leases, LEASE_SECONDS / RENEWALS_PER_LEASE),
            ("controls", service.read_controls, CONTROLS_SECONDS),
            ("trim", service.trim, TRIM_SECONDS),
            ("reads", service.learn_reads, LEARN_SECONDS),
            ("engine", self._check_engine, ENGINE_SECONDS),
        )
        for name, call, seconds in every:
            ticks.add_job(service.post, "interval", seconds=seconds, args=(call,), id=name)
        return ticks

    def _check_engine(self) -> None:
        self._runner.submit(
            Lane.SCAN,
            self._engines.check,
            then=lambda nothing: None,
            failed=lambda error: self._log.warning("Spark could not be asked how it is", error=str(error)),
        )

    # -------------------------------------------------------------------------------------------------- loop

    def _loop(self) -> int:
        """0: a loop that ends was asked to."""
        while not self._signals.stops:
            wait_seconds = self._service.step()
            if self._phase is ServicePhase.STARTING and self._service.has_begun:
                self._phase = ServicePhase.RUNNING
                self._log.info("ready")
                self._kernels.begin()
                self._board.renew()
            self._board.show()
            if self._signals.reload:
                self._signals.reload = False
                threading.Thread(target=self._reload, name="lakeward-reload", daemon=True).start()
            self._runner.wait(wait_seconds)
        self._stop()
        return 0

    def _loop_once(self) -> int:
        """0 when all is well, 4 when a table or a root could not be read or serviced, 130 when interrupted."""
        self._kernels.begin()
        while not self._signals.stops:
            wait_seconds = self._service.step()
            self._board.show()
            if self._service.is_settled:
                break
            self._runner.wait(wait_seconds)
        interrupted = self._signals.stops > 0
        self._stop()
        if interrupted:
            return 130
        for problem in self._service.unread:
            self._log.error("nothing serviced there", problem=problem)
        return 4 if self._service.troubled_tables or self._service.unread else 0

    def _stop(self) -> None:
        self._phase = ServicePhase.STOPPING
        self._board.renew()
        self._board.show()
        grace = self._settings.service.grace
        self._log.info("stopping", running=len(self._service.jobs.watches()), grace_seconds=grace)
        self._service.begin_stop()
        self._kernels.stop()
        asked = self._signals.stops
        self._drain(grace, until_signal=asked)
        if self._service.jobs.watches() and self._signals.stops == asked:
            self._log.warning("abandoning", running=len(self._service.jobs.watches()))
            self._service.cancel_all("The daemon stops, and its grace time is over.")
            self._drain(ABANDON_SECONDS, until_signal=asked)
        if self._service.jobs.watches():
            # Their threads would keep the process; what they left is rolled back by the next daemon of the table.
            self._log.warning("ending at once", running=len(self._service.jobs.watches()))
            self._stop_engines()
            os._exit(130 if self._signals.stops > asked else 1)
        self._is_hung = not self._runner.stop(timeout=HUNG_SECONDS)
        self._service.leave()
        self._log.info("stopped")

    def _stop_engines(self) -> None:
        """A Spark that is starting, or that has died, may not let itself be stopped."""
        stopping = threading.Thread(
            target=partial(self._engines.stop, within=HUNG_SECONDS - 1), name="lakeward-engines", daemon=True
        )
        stopping.start()
        stopping.join(HUNG_SECONDS)
        self._is_hung = self._is_hung or stopping.is_alive()

    def _drain(self, seconds: float, *, until_signal: int) -> None:
        """Go round without beginning anything, until nothing runs, time is over, or another signal came."""
        end = self._clock.monotonic() + seconds
        while self._clock.monotonic() < end and self._signals.stops == until_signal:
            wait_seconds = self._service.step()
            self._board.show()
            if self._service.is_idle:
                return
            self._runner.wait(min(wait_seconds, max(0.0, end - self._clock.monotonic())))

    # ------------------------------------------------------------------------------------- signals and reload

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._signals.stops += 1

    def _on_reload(self, number: int, frame: FrameType | None) -> None:
        self._signals.reload = True

    def _reload(self) -> ReloadOutcome:
        """Read, check, and hand over to the loop; pages show it when this returns. On the caller's thread."""
        with self._reloading:
            reloaded = reload(self._settings, self._config_path, self._environ, self._overrides)
            if reloaded.settings is None:
                problems = tuple(str(problem) for problem in reloaded.problems)
                self._config = ConfigStatus(self._config.path, self._config.loaded_at, "; ".join(problems))
                self._metrics.config_reloaded(applied=False)
                self._log.error("configuration not reloaded", problems=list(problems))
                self._show_after(lambda: None)
                return ReloadOutcome(False, problems)
            self._settings, self._origins = reloaded.settings, reloaded.origins
            _configure_logging(reloaded.settings)
            self._engines.apply(reloaded.settings)
            self._config = ConfigStatus(self._config.path, self._clock.now())
            self._metrics.config_reloaded(applied=True)
            self._metrics.choose(reloaded.settings.metrics.is_whole)
            self._log.info(
                "configuration reloaded",
                changed=list(reloaded.changed),
                needs_restart=list(reloaded.needs_restart),
            )
            self._show_after(partial(self._service.apply, reloaded.settings))
            return ReloadOutcome(True)

    def _not_readers(self, name: str, base_path: str) -> tuple[str, ...]:
        return not_readers_of(self._settings.table(name, base_path).planner)

    def _show_after(self, change: Callable[[], None]) -> None:
        """Have the loop do this now, and wait until pages show it."""
        shown = threading.Event()

        def on_loop() -> None:
            change()
            self._board.renew(shown)

        self._service.post(on_loop)
        self._runner.wake()
        shown.wait(RELOAD_SHOWN_SECONDS)

    # ------------------------------------------------------------------------------------------------ status

    def _current_status(self) -> ServiceStatus:
        status = self._service.status(
            phase=self._phase,
            started_at=self._started_at,
            config=self._config,
            spark=self._engines.status,
            version=VERSION,
        )
        own = [each for each in (self._kernels.limitation, self._no_traces) if each is not None]
        return replace(status, limitations=(*own, *status.limitations)) if own else status

    def _detail(self, name: str) -> TablePage | None:
        status = self._board.read()
        table = status.table(name)
        if table is None:
            return None
        lines, _ = table_settings(self._settings, self._origins, table.served.base_path)
        return table_detail(
            table,
            self._worker.snapshot(table.name),
            self._store,
            at=status.at,
            settings=[SettingLine(text.removeprefix("# "), where) for text, where in lines if where],
            cores=status.cores,
        )

    def _store_operation(self, name: str, seconds: float, outcome: str) -> None:
        self._metrics.store_operation(name, seconds, failed=outcome != "ok")


def _configure_logging(settings: Settings) -> None:
    configure_logging(settings.service.log_level, secrets=_secrets(settings))


def _secrets(settings: Settings) -> tuple[str, ...]:
    """Values that must never be in a log."""
    spark = settings.spark
    token = settings.http_token or ""
    urls = (
        token,
        settings.store_url,
        spark.remote.get_secret_value() if spark.remote is not None else "",
        spark.master if "://" in spark.master else "",  # `local[*]` hides nothing
    )
    conf = (value for key, value in spark.conf.items() if names_secret(key))
    return tuple(secret for secret in (*urls, *conf, *secrets_around(os.environ)) if secret)
