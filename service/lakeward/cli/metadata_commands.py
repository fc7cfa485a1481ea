"""`lakeward metadata disable|rebuild TABLE`: take the metadata table away, or a partition of it, to be built anew.

Touches: stdout, stderr; the table, through `execute/metadata_removal.py`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, ConfiguredTable, TableArgument, open_table
from lakeward.cli.lock_options import (
    LockExpireOption,
    LockOption,
    LockWaitOption,
    LockZooKeeperKeyOption,
    LockZooKeeperOption,
    LockZooKeeperPathOption,
    WritersOption,
    stated_locks,
)
from lakeward.cli.store_options import DebugOption, JsonOption, print_json
from lakeward.clock import SystemClock
from lakeward.commit.owner import Processes
from lakeward.daemon.config import LockSettings
from lakeward.execute.metadata_removal import Removal, preview_removal, remove_metadata
from lakeward.quantities import spell_size

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, write nothing.")]


metadata_app = typer.Typer(
    help="The table's metadata table: safely off, or one partition rebuilt.", no_args_is_help=True
)


@metadata_app.command()
def disable(
    table: TableArgument,
    config: ConfigOption = None,
    writers: WritersOption = None,
    lock: LockOption = None,
    lock_zookeeper: LockZooKeeperOption = None,
    lock_zookeeper_path: LockZooKeeperPathOption = None,
    lock_zookeeper_key: LockZooKeeperKeyOption = None,
    lock_wait: LockWaitOption = None,
    lock_expire: LockExpireOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove the metadata table: readers list the storage. The next Hudi writer with it on builds it anew."""
    opened = open_table(table, config)
    locks = stated_locks(
        opened,
        writers,
        lock,
        zookeeper=(lock_zookeeper, lock_zookeeper_path, lock_zookeeper_key),
        lock_wait=lock_wait,
        expire_minutes=lock_expire,
        dry_run=dry_run,
    )
    _remove(opened, None, locks, dry_run=dry_run, as_json=as_json)


@metadata_app.command()
def rebuild(
    table: TableArgument,
    partition: Annotated[
        str,
        typer.Argument(metavar="PARTITION", help="A partition of the metadata table, for example column_stats."),
    ],
    config: ConfigOption = None,
    writers: WritersOption = None,
    lock: LockOption = None,
    lock_zookeeper: LockZooKeeperOption = None,
    lock_zookeeper_path: LockZooKeeperPathOption = None,
    lock_zookeeper_key: LockZooKeeperKeyOption = None,
    lock_wait: LockWaitOption = None,
    lock_expire: LockExpireOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove one partition of the metadata table. The next Hudi writer that keeps it builds it anew."""
    opened = open_table(table, config)
    locks = stated_locks(
        opened,
        writers,
        lock,
        zookeeper=(lock_zookeeper, lock_zookeeper_path, lock_zookeeper_key),
        lock_wait=lock_wait,
        expire_minutes=lock_expire,
        dry_run=dry_run,
    )
    _remove(opened, partition, locks, dry_run=dry_run, as_json=as_json)


def _remove(
    opened: ConfiguredTable, partition: str | None, locks: LockSettings, *, dry_run: bool, as_json: bool
) -> None:
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
        for line in _told(removal, dry_run=dry_run):
            typer.echo(line)


def _told(removal: Removal, *, dry_run: bool) -> list[str]:
    if removal.is_empty:
        return ["The table has no metadata table. Nothing to remove."]
    would = "Would take" if dry_run else "Took"
    lines = []
    if removal.named:
        lines.append(f"{would} {', '.join(removal.named)} out of hoodie.table.metadata.partitions.")
    if removal.left:
        lines.append(f"There {'would stay' if dry_run else 'stay'} {', '.join(removal.left)}.")
    if removal.folders:
        size = spell_size(removal.size_bytes)
        verb = "Would delete" if dry_run else "Deleted"
        lines.append(f"{verb} {', '.join(removal.folders)}: {removal.files} files, {size}.")
    if not dry_run:
        what = "it" if removal.partition is None else removal.partition
        lines.append(f"The next Hudi writer whose options keep {what} builds it anew.")
    return lines
