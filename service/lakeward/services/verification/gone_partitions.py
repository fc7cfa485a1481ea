"""Partitions that no listing shows any more, though what completed commits wrote into them was never rolled back.

Where a file is gone, the rest of its partition is listed and held against the commits (`table/written_files.py`). Where
the whole folder is gone, or its partition metadata, nothing is listed that could be held against anything, and every
reader is content with the rows that are left. So the commits are asked which partitions they name.

Touches: reads the completed writes of the active timeline.
Keeps:   1. a partition whose file groups were all replaced, as delete_partition does, may be gone;
         2. so may one that only archived commits wrote into: nothing says what happened to it;
         3. one that a link stands for, that is an unlisted folder, or whose name no program reads, is reported
            elsewhere.
"""

from __future__ import annotations

from lakeward.services.verification.check_report import Problem
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FrozenGroup
from lakeward.table.file_system_view import build_file_groups, sort_files
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.reader import TimelineReader
from lakeward.table.written_files import find_damage

_UNREADABLE = frozenset("\ufffd?")
"""What Java makes of bytes in a folder's name that are no text."""


def find_gone_partitions(storage: Storage, snapshot: TableSnapshot, *, check: str) -> list[Problem]:
    """One problem of `check` for each."""
    config, timeline = snapshot.config, snapshot.timeline
    reader = TimelineReader(storage, snapshot.base_path, config, timeline)
    named = {path for told in reader.written_files() for path, files in told.files.items() if files}
    absent = sorted(path for path in named.difference(snapshot.partitions) if not _is_told_elsewhere(path, snapshot))
    if not absent:
        return []
    empty = [sort_files(path, ()) for path in absent]
    view = build_file_groups(
        empty,
        timeline,
        layout=config.layout,
        archived={},
        pending_compactions=snapshot.pending_compactions,
        replaced=snapshot.replaced,
        damage=find_damage(empty, reader.written_files(), timeline, native=config.version.has_native_logs),
    )
    lost: dict[str, list[FrozenGroup]] = {}
    for group in view.frozen:
        lost.setdefault(group.partition_path, []).append(group)
    return [_problem(check, path, groups) for path, groups in lost.items()]


def _is_told_elsewhere(path: str, snapshot: TableSnapshot) -> bool:
    if any(path == link.path or path.startswith(f"{link.path}/") for link in snapshot.links):
        return True
    if any(path == folder.path for folder in snapshot.unlisted):
        return True
    return not _UNREADABLE.isdisjoint(path) and any(not group.is_nameable for group in snapshot.frozen)


def _problem(check: str, path: str, groups: list[FrozenGroup]) -> Problem:
    files = [file for group in groups for file in group.damage]
    return Problem(
        check,
        path,
        f"The partition is not listed, though completed commits name {len(files)} files of it that were not replaced, "
        f"such as {files[0].path} of instant {files[0].instant}.",
        "Restore its folder, with its partition metadata, from a copy, or wait until the storage has it again. If it "
        "was removed by hand, its rows are gone: let Hudi delete partitions.",
    )
