"""What the commands have in common that change a table as a whole: its version, its layout.

Touches: stdout; the table, through a compaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_size
from lakeward.config.settings import Writers
from lakeward.engine.task.entry import run_operation_at
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.table.damaged_file import damaged_error

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.cli.options.engine import CommandEngines
    from lakeward.cli.options.lock import StatedLocks
    from lakeward.protocol.serviced_table import ServicedTable
    from lakeward.services.together.versions.plan.change_step import ChangeStep
    from lakeward.services.together.versions.run.changing import Compact

_SHOWN = 20
"""So many file groups or files are named for people; JSON has all."""

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Dry run: report what would be changed and why, write nothing.")
]


def check_stopped(stated: StatedLocks, opened: ConfiguredTable, *, what: str) -> None:
    """Raises `UsageError` unless the operator said that no writer is at work."""
    if stated.writers is None and (stated.lock is not None or opened.locks.writers is not Writers.STOPPED):
        raise UsageError(
            f"The {what} of a table is not changed beside writers.",
            why=f"A writer uses the {what} that the table had when it began, and no lock prevents that.",
            remedy="Stop all writers and table services, and say so: --writers stopped.",
        )


def compact_groups(
    serviced: ServicedTable, engines: CommandEngines, *, sorts: bool = False, inline_changes: bool = False
) -> Compact:
    """FULL of some file groups, whatever the configuration says of when it pays.

    Args:
        sorts: by their keys, whatever order their base files have.
        inline_changes: its changes are written to logs that versions below 10 have, too.
    """

    def compact(file_ids: Sequence[str]) -> None:
        report = Compactor(
            serviced.storage,
            serviced.base_path,
            replace(serviced.options, sorts=sorts, inline_changes=inline_changes),
            planner=planner_of(CompactionType.FULL, GroupFilter(file_groups=tuple(file_ids)), {}),
            choose_dispatcher=engines.choose,
            run_operation=partial(run_operation_at, serviced.base_path),
            clock=serviced.clock,
            processes=serviced.processes,
            observer=serviced.observer,
            guard=serviced.guard,
            excluded={},
        ).compact()
        if report.damage:
            raise damaged_error(report.damage)

    return compact


def tell_steps(steps: Sequence[ChangeStep]) -> None:
    for step in steps:
        typer.echo(f"  {step.kind.value}, since {step.why}")
        for subject in step.subjects[:_SHOWN]:
            typer.echo(f"    {subject}")
        if step.subjects:
            size = f", {format_size(step.bytes)}" if step.bytes else ""
            typer.echo(f"    {len(step.subjects):,} in all{size}")
        for key, value in step.changes.items():
            typer.echo(f"    {key} {'goes' if value is None else f'= {value}'}")


def step_as_json(step: ChangeStep) -> dict[str, object]:
    return {
        "step": step.kind.value,
        "why": step.why,
        "properties": dict(step.changes),
        "subjects": list(step.subjects),
        "bytes": step.bytes,
    }
