"""The slices of a table that readers of its newest state do not read: as of an older commit, and for savepoints.

As of an older commit there are also the file groups that were replaced since. A savepoint pins a slice, whole, of which
it names a file: the cleaner leaves all of it.

Touches: nothing.
Keeps:   groups whose slices cannot be told apart are named, not left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.format.timeline.instant import is_before
from lakeward.table.file_group import FileGroup, FileSlice, FrozenGroup
from lakeward.table.snapshot import TableSnapshot


def groups_as_of(snapshot: TableSnapshot, instant: str) -> tuple[FileGroup | FrozenGroup, ...]:
    """The file groups that were not replaced by then, with all slices that there are, later ones too."""
    since = (
        group
        for group in snapshot.replaced_groups
        if is_before(instant, snapshot.replaced[group.partition_path, group.file_id])
    )
    return (*snapshot.file_groups, *snapshot.frozen, *since)


def past_slices(snapshot: TableSnapshot) -> Iterator[FileSlice]:
    """The slices that no reader of the newest state reads."""
    for group in snapshot.file_groups:
        yield from group.slices[len(group.read_slices) :]
    for replaced in snapshot.replaced_groups:
        if isinstance(replaced, FileGroup):
            yield from replaced.slices


def pinned_slices(snapshot: TableSnapshot) -> Iterator[tuple[FileSlice, tuple[str, ...]]]:
    """The past slices that savepoints pin, each with the savepoints, oldest first."""
    if not snapshot.savepointed:
        return
    savepoints = sorted(snapshot.savepointed.items())
    for slice_ in past_slices(snapshot):
        paths = {file.path for file in slice_.files}
        if by := tuple(instant for instant, named in savepoints if not named.isdisjoint(paths)):
            yield slice_, by
