"""Change the version of a table and of its metadata table, as `plan/version_change.py` says.

    no lock  heartbeats are watched until they can be told
    lock     updates of properties that were interrupted are ended -> nothing is at work, the table is looked at as it
             is -> the steps that are left to do, in their order

What the properties were is in a backup beside them until the new ones are read back (`commit/table_properties.py`).
Nothing else remembers how far a change came: a process that begins again looks at the table, and does what is left.

No lock protects a writer from this: it took the version from the properties when it began, and would write files of
another one, or fail. So all are stopped.

Touches: `hoodie.properties` of the table and of its metadata table, under the lock, with no other process at work.
Keeps:   1. stopped at any call, the table has its old version or the new one, and the next run does what is left;
         2. nothing is written to a table that is refused, nor while anything of it is at work.
See:     docs/decisions/0068-upgrade-and-downgrade.md
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.commit.lock.table_lock import Fence
from lakeward.commit.table_properties import recover_properties, update_properties
from lakeward.errors import NotATable
from lakeward.execute.rollback.failed_writes import watch_writers
from lakeward.execute.serviced_table import ServicedTable
from lakeward.execute.stuck_services import check_nothing_lives
from lakeward.plan.eligibility import TableService
from lakeward.plan.version_change import StepKind, VersionChange, plan_version_change
from lakeward.storage.storage import join
from lakeward.table.listing import ListingSource
from lakeward.table.metadata.metadata_table import metadata_base_path
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import (
    BACKUP_FILE,
    VERSION,
    TableConfig,
    hoodie_folder,
    load_table_config,
)

_OTHERWISE = "it goes by the version that the table had when it began"


def preview_version_change(table: ServicedTable, target: int, *, is_upgrade: bool) -> VersionChange:
    """What `change_version` would do now, or why it would not: raises as that does. Writes nothing, and may wait for
    heartbeats."""
    watch_writers(table, _scan(table))
    return _prepare(table, target, is_upgrade=is_upgrade)


def change_version(table: ServicedTable, target: int, *, is_upgrade: bool) -> VersionChange:
    """Bring the table to this version. Returns what was done. Idempotent.

    Raises:
        UsageError: the table has a version on the other side of it.
        Refused: the table, or what is on its timeline, does not allow it; nothing was written.
        LockHeld, TryLater: another process is at work.
        BrokenFile: properties that are not whole.
    """
    assert table.options.writers_stopped, "nothing protects a writer from a change of the version"
    places = (metadata_base_path(table.base_path), table.base_path)
    if any(table.storage.stat(join(hoodie_folder(place), BACKUP_FILE)) is not None for place in places):
        with table.locked() as fence:
            for place in places:
                recover_properties(table.storage, place, fence=fence)
    watch_writers(table, _scan(table))
    with table.locked() as fence:
        change = _prepare(table, target, is_upgrade=is_upgrade)
        for step in change.steps:
            _update(table, step.kind, step.changes, fence)
    return change


def _scan(table: ServicedTable) -> TableSnapshot:
    return table.snapshot(only=(), service=TableService.UPGRADING)


def _prepare(table: ServicedTable, target: int, *, is_upgrade: bool) -> VersionChange:
    # All of its files: names of another version's logs, which readers of the new one would take for the table's, are
    # refused.
    snapshot = table.snapshot(service=TableService.UPGRADING, listing=ListingSource.STORAGE)
    check_nothing_lives(table, snapshot, otherwise=_OTHERWISE)
    metadata = _metadata_config(table)
    return plan_version_change(table.base_path, snapshot.config, metadata, target, is_upgrade=is_upgrade)


def _metadata_config(table: ServicedTable) -> TableConfig | None:
    """The properties of the metadata table, also of one that the table does not name any more: Hudi finds it by its
    folder. None where there is none."""
    try:
        return load_table_config(table.storage, metadata_base_path(table.base_path), clock=table.clock).config
    except NotATable:
        return None


def _update(table: ServicedTable, kind: StepKind, changes: Mapping[str, str | None], fence: Fence) -> None:
    is_metadata = kind is StepKind.METADATA_PROPERTIES
    place = metadata_base_path(table.base_path) if is_metadata else table.base_path
    update_properties(table.storage, place, changes, fence=fence)
    table.observer.step(f"{'the metadata table' if is_metadata else 'the table'} has version {changes[VERSION]}")
