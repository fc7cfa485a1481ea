"""`lakeward service TABLE`: all that there is to do for a table now, in the daemon's order, and one report of it.

    recover -> roll back -> compact, the metadata table too -> cluster -> expire partitions -> clean -> archive

Each step is what the verb of its name does, at once: what the daemon waits for (a number of commits, a pause after a
write failed) is not waited for. A step that is refused on this table is reported and skipped.

Touches: stdout, stderr; the table, through what each step executes.
Keeps:   1. nothing is written without a statement about the table's other writers, nor with --dry-run;
         2. a step that is refused holds no other one back, and makes the exit code that of its error; after one that
            failed none follows, and what was done before is reported;
         3. what the configuration leaves out, and file groups that are parked, are left out with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Cancelled, LakewardError, Refused
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.engine import CommandEngines, EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.result import DryRunOption, Result, Show
from lakeward.cli.serviced import serviced_table
from lakeward.cli.services.service_steps import ServiceSteps, in_one
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.config.permitted_services import permitted_services_of
from lakeward.protocol.job_kind import JobKind
from lakeward.services.service import Service
from lakeward.services.services import NAMED, load_services, merging_service, round_views

if TYPE_CHECKING:
    from lakeward.protocol.serviced_table import ServicedTable
    from lakeward.services.compaction.plan.decision import Reason
    from lakeward.table.file_system_view import GroupId


def service(
    *,
    opened: ZonedTable,
    given: LockArguments,
    dry_run: DryRunOption = False,
    engine: EngineArguments,
    show: Show,
) -> Result:
    """Recover a table, roll failed writes back, compact, cluster, delete expired partitions, clean and archive it: all
    there is to do, in this order.

    It does at once what the daemon does when it is due, by the same settings: a service that the configuration leaves
    out is left out, and so are file groups that are parked. It waits for no window, and pauses do not hold it. Before
    partitions of a table expire for the first time it gives notice, as the daemon does.
    """
    locks = given.over(opened, dry_run=dry_run)
    parked = ParkedGroups(opened, SystemClock(), say=partial(typer.echo, err=True))
    done: dict[str, Result] = {}
    with engine.over(opened.settings, memory_bytes=opened.table.memory) as engines:
        if not dry_run:
            engines.check()
        parked_now = parked.records()
        excluded = parked.excluded(parked_now)
        with serviced_table(opened, locks) as serviced:
            round_ = _Round(opened, serviced, engines, excluded, dry_run=dry_run)
            for name, step in round_.steps():
                result = _do(step)
                if result is None:
                    continue
                done[name] = result
                show(_headed(name, result))
                if result.error is not None and not isinstance(result.error, Refused):
                    parked.park(result.error)
                    break
    return Result(
        document={
            "dry_run": dry_run,
            "parked": parked.as_json(parked_now),
            **{name: result.document for name, result in done.items()},
        },
        is_nothing=all(result.is_nothing for result in done.values()),
        error=next((result.error for result in done.values() if result.error is not None), None),
    )


def _headed(name: str, result: Result) -> Result:
    def render(console: Terminal) -> None:
        console.print(f"[bold]{name}[/bold]", highlight=False)
        result.show()

    return Rendered(document=None, render=render)


def _do(step: Callable[[], Result | None]) -> Result | None:
    """The step, or what its error leaves to be said of it; a command that is interrupted stops at once."""
    try:
        return step()
    except Cancelled:
        raise
    except LakewardError as error:
        word = "refused" if isinstance(error, Refused) else "failed"
        return Result(
            document={word: str(error)}, lines=[f"{word.capitalize()}: {error}"], is_nothing=True, error=error
        )


class _Round:
    """The services of `services/services.ROUND` that a command shows, each as the daemon runs it, but at once."""

    def __init__(
        self,
        opened: ZonedTable,
        serviced: ServicedTable,
        engines: CommandEngines,
        excluded: Mapping[GroupId, Reason],
        *,
        dry_run: bool,
    ) -> None:
        self._opened, self._dry_run = opened, dry_run
        self._steps = ServiceSteps(
            serviced, opened.table, opened.snapshot, engines.choose, engines.rule, excluded, dry_run
        )
        beside_writers = not serviced.options.writers_stopped
        self._permitted = permitted_services_of(opened.table, opened.snapshot(), beside_writers=beside_writers)

    def steps(self) -> Iterator[tuple[str, Callable[[], Result | None]]]:
        """Recovery, then each service that has a name, with those that belong to it."""
        if not self._dry_run and merging_service().kind in self._opened.table.services:
            yield "recovery", self._recover
        views = round_views()
        for service in load_services():
            if service.kind in NAMED and service.kind in views:
                given = service.kind in self._opened.table.services
                step = partial(self._step, service) if given else partial(_left_out, service.kind)
                yield service.kind.value, step

    def _recover(self) -> Result | None:
        service = merging_service()
        if service.kind in self._permitted.stopped:
            return None  # the step that is compaction's says why
        gone = self._steps.run(service, JobKind.RECOVERY).instants
        return Result(
            document={"rolled_back": list(gone)},
            lines=[f"Rolled back an attempt at {instant} that died." for instant in gone],
            is_nothing=not gone,
        )

    def _step(self, service: Service[Any]) -> Result:
        why = self._permitted.no_work
        if why and service.is_of_merges:
            return Result(document={"no_work": why}, lines=[f"Nothing to compact: {why}."], is_nothing=True)
        return in_one([self._steps.result(service), *self._steps.beside(service.kind)])


def _left_out(kind: JobKind) -> Result:
    why = f"services of the configuration does not have {kind}"
    return Result(document={"left_out": why}, lines=[f"Left out: {why}."], is_nothing=True)
