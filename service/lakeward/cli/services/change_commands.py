"""`lakeward table upgrade|downgrade TABLE --to N` and `lakeward table convert TABLE --layout LAYOUT`: a table changes
its version, or its layout.

Touches: stdout, stderr; the table, through `version_step` and `layout_step` of `services/together/versions/run`.
Keeps:   1. nothing is written unless the operator says that no writer is at work, nor with --dry-run;
         2. each step is reported with its reason and cost, before and after it is taken.
See:     docs/decisions/0068-upgrade-and-downgrade.md, 0070-a-table-becomes-lsm-tree.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_size
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import serviced_table
from lakeward.engine.task.entry import check_order_at
from lakeward.services.together.versions.plan.layout_change import StorageLayout
from lakeward.services.together.versions.run.layout_step import LayoutWork, change_layout, preview_layout_change
from lakeward.services.together.versions.run.version_step import change_version, full_compaction, preview_version_change
from lakeward.write.file_sort import sort_slices
from lakeward.write.handles.handle import sort_target_at

if TYPE_CHECKING:
    from lakeward.services.together.versions.plan.change_step import ChangeStep


_SHOWN = 20
"""So many file groups or files are named for people; JSON has all."""


def _check_stopped(given: LockArguments, opened: ConfiguredTable, *, what: str) -> None:
    """Raises `UsageError` unless the operator said that no writer is at work."""
    if not given.says_stopped(opened):
        raise UsageError(
            f"The {what} of a table is not changed beside writers.",
            why=f"A writer uses the {what} that the table had when it began, and no lock prevents that.",
            remedy="Stop all writers and table services, and say so: --writers stopped.",
        )


def _changed(found: Any, target: Any, steps: Sequence[ChangeStep], *, did: str, is_there: str, dry_run: bool) -> Result:
    """What was changed, or would be.

    Args:
        did: a line about it.
        is_there: the same where there was nothing to change.
    """
    return Result(
        document={
            "found": found,
            "target": target,
            "dry_run": dry_run,
            "steps": [_step_as_json(step) for step in steps],
        },
        lines=[did, *_step_lines(steps)] if steps else [is_there],
        is_nothing=not steps,
    )


def _step_lines(steps: Sequence[ChangeStep]) -> Iterator[str]:
    for step in steps:
        yield (f"  {step.kind.value}, since {step.why}")
        for subject in step.subjects[:_SHOWN]:
            yield (f"    {subject}")
        if step.subjects:
            size = f", {format_size(step.bytes)}" if step.bytes else ""
            yield (f"    {len(step.subjects):,} in all{size}")
        for key, value in step.changes.items():
            yield (f"    {key} {'goes' if value is None else f'= {value}'}")


def _step_as_json(step: ChangeStep) -> dict[str, object]:
    return {
        "step": step.kind.value,
        "why": step.why,
        "properties": dict(step.changes),
        "subjects": list(step.subjects),
        "bytes": step.bytes,
    }


def upgrade(
    *,
    opened: ZonedTable,
    to: Annotated[int, typer.Option("--to", metavar="VERSION", help="The table version to go to: 10, from 9.")],
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Give a table of version 9 the version 10, in which new logs are files of the base files' format.

    Only properties change: what was written before stays as it is and is read with what comes. From then on programs
    that know no version 10 refuse the table, every released Hudi among them; `lakeward table downgrade` goes back. All
    writers must be stopped. Where the command was interrupted, give it again.
    """
    return _change_version(opened, given, to, EngineArguments(), is_upgrade=True, drop_changes=False, dry_run=dry_run)


def downgrade(
    *,
    opened: ZonedTable,
    to: Annotated[int, typer.Option("--to", metavar="VERSION", help="The table version to go to: 9, from 10.")],
    given: LockArguments,
    drop_changes: Annotated[
        bool,
        typer.Option(
            "--drop-changes",
            help="Delete the logs of changes (.cdc) of version 10 that would stay; --dry-run lists them with commits "
            "and bytes. Hudi's queries of changes that would read them fail from then on.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
    engine: EngineArguments,
) -> Result:
    """Give a table of version 10 the version 9, so that released Hudi reads it and writes on.

    To its readers the logs of version 10 are base files, so none may be left anywhere. Failed writes are rolled back,
    the metadata table is removed if it has such logs (Hudi's next writer that has it on rebuilds it), what they hold
    is compacted into base files, and the slices that have them are cleaned away, with all that is older: the table can
    no longer be read as of then, and an incremental query that ends at a commit of then gives, by Hudi's default, only
    the rows that no later commit wrote again, as after any clean. --dry-run says how much that is. What holds such a
    log (a savepoint, the quarantine) is named and the table refused; logs of changes whose slices stay, and which no
    other file has, are deleted with --drop-changes only. All writers must be stopped. Where the command was
    interrupted, give it again: the version changes last.
    """
    return _change_version(opened, given, to, engine, is_upgrade=False, drop_changes=drop_changes, dry_run=dry_run)


def _change_version(
    opened: ConfiguredTable,
    given: LockArguments,
    to: int,
    engine: EngineArguments,
    *,
    is_upgrade: bool,
    drop_changes: bool,
    dry_run: bool,
) -> Result:
    if not dry_run:
        _check_stopped(given, opened, what="version")
    locks = given.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks) as serviced:
        if dry_run:
            change = preview_version_change(serviced, to, is_upgrade=is_upgrade, drop_changes=drop_changes)
        else:
            with engine.over(opened.settings, memory_bytes=opened.table.memory) as engines:
                engines.check()
                compact = full_compaction(serviced, engines.choose, inline_changes=True)
                change = change_version(serviced, to, compact, is_upgrade=is_upgrade, drop_changes=drop_changes)
    verb = "upgrade" if change.target >= change.found else "downgrade"
    return _changed(
        change.found,
        change.target,
        change.steps,
        did=f"{f'Would {verb}' if dry_run else f'{verb}d'.capitalize()} the table to version {change.target}:",
        is_there=f"The table has version {change.target} already. Nothing to do.",
        dry_run=dry_run,
    )


class TargetLayout(StrEnum):
    DEFAULT = "default"
    LSM_TREE = "lsm_tree"


def convert(
    *,
    opened: ZonedTable,
    layout: Annotated[TargetLayout, typer.Option(help="How its file groups are to be merged from then on.")],
    given: LockArguments,
    dry_run: DryRunOption = False,
    engine: EngineArguments,
) -> Result:
    """Give a table of version 10 another layout.

    In the layout lsm_tree every file is sorted, and file groups are merged by the order of their files. To get there,
    failed writes are rolled back, every file group with logs is compacted, base files that are not sorted are
    rewritten, and the keys of all base files are read. With --layout default a table goes back; only its logs are
    compacted then. --dry-run says how much that is, and reads the keys, too. All writers must be stopped. Where the
    command was interrupted, give it again: the layout changes last.
    """
    if not dry_run:
        _check_stopped(given, opened, what="layout")
    locks = given.over(opened, dry_run=dry_run)
    target = StorageLayout(layout.value)
    with (
        serviced_table(opened, locks) as serviced,
        engine.over(opened.settings, memory_bytes=opened.table.memory) as engines,
    ):
        if not dry_run:
            engines.check()
        work = LayoutWork(
            compact=full_compaction(serviced, engines.choose, sorts=target is StorageLayout.LSM_TREE),
            sort=lambda slices: sort_slices(
                serviced, slices, engines.choose, partial(sort_target_at, serviced.base_path)
            ),
            choose_dispatcher=engines.choose,
            check_order=partial(check_order_at, serviced.base_path),
        )
        change = (preview_layout_change if dry_run else change_layout)(serviced, target, work)
    return _changed(
        change.found.value,
        change.target.value,
        change.steps,
        did=f"{'Would give' if dry_run else 'Gave'} the table the layout {change.target}:",
        is_there=f"The table has the layout {change.target} already. Nothing to do.",
        dry_run=dry_run,
    )
