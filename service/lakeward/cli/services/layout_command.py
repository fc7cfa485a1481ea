"""`lakeward table convert TABLE --layout LAYOUT`: give a table another layout.

Touches: stdout, stderr; the table, through `services/together/versions/run/converting.py`.
Keeps:   1. nothing is written unless the operator says that no writer is at work, nor with --dry-run;
         2. each step is reported with its reason and cost, before and after it is taken.
See:     docs/decisions/0070-a-table-becomes-lsm-tree.md
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.engine import CommandEngines, StatedEngine
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.services.serviced import serviced_table
from lakeward.cli.services.table_change import (
    DryRunOption,
    check_stopped,
    compact_groups,
    step_as_json,
    tell_steps,
)
from lakeward.engine.task.entry import check_order_at
from lakeward.services.together.versions.plan.layout_change import Layout
from lakeward.services.together.versions.run.converting import LayoutWork, change_layout, preview_layout_change
from lakeward.write.handles.handle import sort_target_at
from lakeward.write.sorting import sort_slices

if TYPE_CHECKING:
    from lakeward.protocol.serviced_table import ServicedTable
    from lakeward.services.together.versions.plan.layout_change import LayoutChange


class TargetLayout(StrEnum):
    DEFAULT = "default"
    LSM_TREE = "lsm_tree"


@with_option_groups
def convert(
    *,
    table: TableArgument,
    layout: Annotated[TargetLayout, typer.Option(help="How its file groups are to be merged from then on.")],
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: DryRunOption = False,
    engine: StatedEngine,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Give a table of version 10 another layout.

    In the layout lsm_tree every file is sorted, and file groups are merged by the order of their files. To get there,
    failed writes are rolled back, every file group with logs is compacted, base files that are not sorted are
    rewritten, and the keys of all base files are read. With --layout default a table goes back; only its logs are
    compacted then. --dry-run says how much that is, and reads the keys, too. All writers must be stopped. Where the
    command was interrupted, give it again: the layout changes last.
    """
    opened = open_table(table, config)
    if not dry_run:
        check_stopped(stated, opened, what="layout")
    locks = stated.over(opened, dry_run=dry_run)
    target = Layout(layout.value)
    with serviced_table(opened, locks, timezone=timezone) as serviced:
        engines = engine.over(opened.settings, memory_bytes=opened.table.memory)
        if not dry_run:
            engines.check()
        try:
            work = _work(serviced, engines, sorts=target is Layout.LSM_TREE)
            change = (preview_layout_change if dry_run else change_layout)(serviced, target, work)
        finally:
            engines.stop()
    if as_json:
        print_json(
            {
                "found": change.found.value,
                "target": change.target.value,
                "dry_run": dry_run,
                "steps": [step_as_json(step) for step in change.steps],
            }
        )
    else:
        _tell(change, dry_run=dry_run)


def _work(serviced: ServicedTable, engines: CommandEngines, *, sorts: bool) -> LayoutWork:
    return LayoutWork(
        compact=compact_groups(serviced, engines, sorts=sorts),
        sort=lambda slices: sort_slices(serviced, slices, engines.choose, partial(sort_target_at, serviced.base_path)),
        choose_dispatcher=engines.choose,
        check_order=partial(check_order_at, serviced.base_path),
    )


def _tell(change: LayoutChange, *, dry_run: bool) -> None:
    if not change.steps:
        typer.echo(f"The table has the layout {change.target} already. Nothing to do.")
        return
    typer.echo(f"{'Would give' if dry_run else 'Gave'} the table the layout {change.target}:")
    tell_steps(change.steps)
