"""`lakeward.Table.service(name)`: one service of `services/services`, planned or run at once, from Python.

It does what `lakeward service` has it do: what the daemon waits for is not waited for. Which services there are says
the list; none is known here by its name.

Touches: with `plan` the table, reading only; with `run` what the service touches.
Keeps:   1. nothing is written without a statement about the table's other writers;
         2. a service that the table refuses raises `Refused`, and nothing was written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakeward.base.clock import SystemClock
from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import UsageError
from lakeward.config.file import load_settings
from lakeward.config.settings import Settings, TableSettings
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.protocol.job_report import JobReport
from lakeward.protocol.lock.lock_choice import LockOptions, stopped_writers_options
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.refusals.eligibility import find_refusals, refuse
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.service import NO_DATABASE, Care, JobOrder, Service, TableFacts, order_at_once
from lakeward.services.services import load_services
from lakeward.storage.storage import Storage
from lakeward.table.listing_source import listing_source
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.entry import lock_of


def open_service(
    name: str,
    storage: Storage,
    base_path: str,
    *,
    config: Path | None,
    timezone: str | None,
    scanned: Callable[[], TableSnapshot],
) -> TableServiceCall:
    """Raises `UsageError` for a name that no service has, and `ConfigurationError`."""
    known = {service.kind.value: service for service in load_services()}
    if name not in known:
        raise UsageError(
            f"There is no service {name!r}.",
            remedy=did_you_mean(name, known) or f"The services are {', '.join(known)}.",
        )
    settings = Settings() if config is None else load_settings(config, os.environ)
    table = settings.table_alone(base_path, timezone=timezone, is_given=config is not None)
    return TableServiceCall(known[name], storage, base_path, table, scanned)


class TableServiceCall:
    """A service of one table. What is asked is answered as of the call, not as of the table's moment."""

    def __init__(
        self,
        service: Service[Any],
        storage: Storage,
        base_path: str,
        settings: TableSettings,
        scanned: Callable[[], TableSnapshot],
    ) -> None:
        self._service = service
        self._storage = storage
        self._base_path = base_path
        self._settings = settings
        self._scanned = scanned

    @property
    def name(self) -> str:
        return self._service.kind.value

    def plan(self) -> Any:
        """What `run` would do now, as the service's own value; of a service that has none what there is to do. Writes
        nothing. Raises `Refused`, and what reading the table raises."""
        snapshot = self._permitted()
        serviced = self._opened(stopped_writers_options(wait_seconds=0.0), writers_stopped=False)
        planned = self._service.preview(serviced, self._care(may_write=False), self._order())
        if planned is not None:
            return planned
        facts = TableFacts(self._storage, snapshot, SystemClock(), None, NO_DATABASE)
        return self._service.demand(facts, self._care(may_write=False)).get(self._service.kind)

    def run(self, *, writers_stopped: bool = False, lock: LockOptions | None = None) -> JobReport:
        """Do all that there is to do now, in this process. Returns what was done; its `own` is the service's report.

        Raises `UsageError` where nothing is said of the table's other writers, `Refused`, and what went wrong; nothing
        is published after an error.

        Args:
            writers_stopped: the caller's word that no other writer or table service is at work on the table now.
            lock: how the table is shared with writers that go on. One of the two must be said.
        """
        serviced = self._opened(lock_of(writers_stopped, lock), writers_stopped=writers_stopped)
        self._permitted()
        return self._service.run(serviced, self._care(may_write=True), self._order())

    def _permitted(self) -> TableSnapshot:
        snapshot = self._scanned()
        refuse(self._base_path, find_refusals(snapshot, self._service.permission))
        return snapshot

    def _opened(self, lock: LockOptions, *, writers_stopped: bool) -> ServicedTable:
        options = CompactionOptions(
            writers_stopped=writers_stopped,
            lock=lock,
            silent_after=self._settings.silent_after,
            timezone=self._settings.timezone,
            listing=listing_source(self._base_path),
            codec=self._settings.codec.value,
            verify=self._settings.verify,
            memory_bytes=self._settings.memory,
        )
        return ServicedTable.for_one_attempt(
            self._storage, self._base_path, options, clock=SystemClock(), processes=Processes()
        )

    def _care(self, *, may_write: bool) -> Care[Any]:
        service = self._service
        return Care(
            service.rules_at_once(self._settings), service.new_memory(), {}, lambda paths: None, {}, may_write=may_write
        )

    def _order(self) -> JobOrder:
        return order_at_once(
            self._service.kind,
            self._base_path,
            choose=lambda input_bytes: InProcessDispatcher(),
            scanned=self._scanned,
        )
