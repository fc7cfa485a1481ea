"""A service as a command runs it: as a job of the daemon does, but at once, and shown by the service's own view.

Touches: the table, through the service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lakeward.cli.result import Result
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.config.settings import TableSettings
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.engine.dispatch.engine_rule import EngineRule
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.service import Care, JobOrder, Service, order_at_once
from lakeward.services.services import belonging_to, round_views
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class ServiceSteps:
    """The services of one table, for one command."""

    serviced: ServicedTable
    table: TableSettings
    scanned: Callable[[], TableSnapshot]
    choose: Callable[[int], Dispatcher]
    rule: EngineRule
    excluded: Mapping[GroupId, Reason]
    dry_run: bool

    def beside(self, kind: JobKind) -> Iterator[Result]:
        """What is done with the service of that name, since it has none of its own."""
        views = round_views()
        return (self.result(service) for service in belonging_to(kind) if service.kind in views)

    def result(self, service: Service[Any]) -> Result:
        """What the service did; of a dry run what it would do."""
        if self.dry_run:
            done = service.preview(self.serviced, self._care(service), self._order(service.kind))
        else:
            done = self.run(service, service.kind).own
        module, _, function = round_views()[service.kind].partition(":")
        shown: Result = getattr(import_module(module), function)(done, self.rule)
        return shown

    def run(self, service: Service[Any], kind: JobKind) -> JobReport:
        return service.run(self.serviced, self._care(service), self._order(kind))

    def _care(self, service: Service[Any]) -> Care[Any]:
        table = self.table
        chosen = GroupFilter(partitions=table.partitions, excluded_partitions=table.exclude_partitions)
        rules, memory = service.rules_at_once(table), service.new_memory()
        return Care(rules, memory, self.excluded, chosen.selected_partitions, {}, may_write=True)

    def _order(self, kind: JobKind) -> JobOrder:
        return order_at_once(kind, self.serviced.base_path, choose=self.choose, scanned=self.scanned)


def in_one(parts: Sequence[Result]) -> Result:
    """The parts, one below the other; the error is that of the last that has one."""

    def render(console: Terminal) -> None:
        for part in parts:
            part.show()

    return Rendered(
        document={key: value for part in parts for key, value in part.document.items()},
        render=render,
        is_nothing=all(part.is_nothing for part in parts),
        error=next((part.error for part in reversed(parts) if part.error is not None), None),
    )
