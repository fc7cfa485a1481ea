"""A partition of the metadata table removed by command, or all of it, and the report of that.

Touches: stdout, stderr; the table, through `services/metadata/run/removal.py`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_size
from lakeward.cli.result import print_json
from lakeward.protocol.owner import Processes
from lakeward.services.metadata.run.removal import preview_removal, remove_metadata

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.config.settings import LockSettings
    from lakeward.services.metadata.run.removal import Removal


def remove_partition(
    opened: ConfiguredTable, partition: str | None, locks: LockSettings, *, dry_run: bool, as_json: bool
) -> None:
    """Remove it, or with None the metadata table as a whole, and say what went."""
    clock, processes = SystemClock(), Processes()
    told: set[str] = set()

    def on_wait(what: str, seconds: float) -> None:
        if what not in told:
            told.add(what)
            typer.echo(f"Waiting: {what}.", err=True)

    where = (opened.storage, opened.base_path, partition)
    if dry_run:
        removal = preview_removal(*where, clock=clock, processes=processes, on_wait=on_wait)
    else:
        removal = remove_metadata(*where, lock=locks.options, clock=clock, processes=processes, on_wait=on_wait)
    if as_json:
        document = asdict(removal) | {"dry_run": dry_run}
        print_json(document)
    else:
        for line in removal_told(removal, dry_run=dry_run):
            typer.echo(line)


def removal_told(removal: Removal, *, dry_run: bool) -> list[str]:
    """What went, or would go, in lines."""
    if removal.is_empty:
        return ["The table has no metadata table. Nothing to remove."]
    would = "Would take" if dry_run else "Took"
    lines = []
    if removal.named:
        lines.append(f"{would} {', '.join(removal.named)} out of hoodie.table.metadata.partitions.")
    if removal.left:
        lines.append(f"{'Would keep' if dry_run else 'Kept'} {', '.join(removal.left)}.")
    if removal.folders:
        size = format_size(removal.size_bytes)
        verb = "Would delete" if dry_run else "Deleted"
        lines.append(f"{verb} {', '.join(removal.folders)}: {removal.files} files, {size}.")
    if not dry_run:
        what = "it" if removal.partition is None else removal.partition
        lines.append(
            f"The next Hudi writer whose options keep {what} rebuilds it."
            if removal.is_built_anew
            else f"No release of Hudi writes tables of version 10, so nothing rebuilds {what} before the downgrade "
            "(`lakeward table downgrade`). The table works without."
        )
    return lines
