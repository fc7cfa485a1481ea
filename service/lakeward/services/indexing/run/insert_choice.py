"""Let new keys of a table go into its logs, or no longer.

    no longer    the choice is ended -> the table is read: with no log and no pending write no key is in a log alone

A write has its instant on the timeline before it reads the choice, so one that read it before the end is pending then,
or its logs are there.

Touches: the folder of `index/log_inserts`; the table, reading.
Keeps:   1. only a merge-on-read table is let whose properties name no other index than the record index, or than the
            bloom index where Lakeward alone writes it;
         2. that no key is in logs alone is said only of a table without logs and without pending writes.
See:     docs/decisions/0133-new-keys-in-logs.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakeward.base.errors import Refused
from lakeward.index.key_changes.key_reader import check_deletes_are_known
from lakeward.index.key_changes.table_commits import check_can_be_followed, newest_change
from lakeward.index.log_inserts import LogInserts, read_log_inserts
from lakeward.protocol.index.choices import publish_log_inserts
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import RECORD_INDEX_TYPES
from lakeward.table.timeline.timeline import WRITE_ACTIONS


def let_into_logs(storage: Storage, snapshot: TableSnapshot, *, only_lakeward: bool = False) -> LogInserts:
    """New keys go into logs from now on. Raises `Refused` where the table shows that they would be lost sight of, and
    `Conflict`.

    Args:
        only_lakeward: no other program writes the table.
    """
    _check_can_be_let(snapshot, only_lakeward=only_lakeward)
    said = read_log_inserts(storage, snapshot.base_path)
    through = said.through
    if not said.may_hold_keys:
        newest = newest_change(snapshot.timeline)
        through = None if newest is None else newest.completed
    changed = replace(said, into_logs=True, may_hold_keys=True, only_lakeward=only_lakeward, through=through)
    return publish_log_inserts(storage, snapshot.base_path, said, changed)


def end_into_logs(storage: Storage, base_path: str, snapshot_now: Callable[[], TableSnapshot]) -> LogInserts:
    """New keys go into base files from now on. Raises `Conflict`."""
    said = read_log_inserts(storage, base_path)
    if said.into_logs:
        said = publish_log_inserts(storage, base_path, said, replace(said, into_logs=False))
    if said.may_hold_keys and _has_no_logs(snapshot_now()):
        ended = replace(said, may_hold_keys=False, only_lakeward=False, through=None)
        said = publish_log_inserts(storage, base_path, said, ended)
    return said


def groups_with_logs(snapshot: TableSnapshot) -> frozenset[GroupId]:
    """The file groups of which a query reads logs."""
    return frozenset(
        slice_.group_id for group in snapshot.file_groups for slice_ in group.read_slices if slice_.row_logs
    )


def _has_no_logs(snapshot: TableSnapshot) -> bool:
    if snapshot.frozen or any(each.comparable_action in WRITE_ACTIONS for each in snapshot.timeline.pending):
        return False
    return not groups_with_logs(snapshot)


def _check_can_be_let(snapshot: TableSnapshot, *, only_lakeward: bool) -> None:
    config = snapshot.config
    known = (*RECORD_INDEX_TYPES, "BLOOM") if only_lakeward else RECORD_INDEX_TYPES
    why = None
    if not config.is_merge_on_read:
        why = "It is copied on write, and has no logs."
    elif config.index_type is not None and config.index_type not in known:
        why = f"Its writers find keys by the index {config.index_type} (hoodie.index.type), which does not find them "
        why += "in logs, or puts them there anyway."
    if why is not None:
        raise Refused(
            f"New keys do not go into logs of {snapshot.base_path}.",
            why=why,
            remedy="Nothing was changed.",
        )
    check_can_be_followed(snapshot)
    check_deletes_are_known(snapshot)
