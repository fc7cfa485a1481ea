"""An index of ours: built from all file slices as they are, and then kept at pace.

    build    snapshot -> the keys of each live file group, sorted -> one commit of the index, which is settled: it has
             what completed on the table up to that snapshot
    update   `updating.update_index`, then what was rolled back is forgotten and what was archived is settled

*Stopped anywhere* in a build, the index has no commit and the next build begins anew; a lookup is right meanwhile, or
refused, as of an index that is far behind.

Touches: the index; the table, reading; spill files.
Keeps:   what completes while an index is built comes with its next update.
Memory:  what sorting the keys of one file group takes.
See:     docs/decisions/0075-an-index-follows-its-table.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeward.errors import NotFound, Refused, TryLater
from lakeward.execute.indexing.updating import IndexUpdate, update_index
from lakeward.index.index import OwnIndex
from lakeward.index.key_changes.group_changes import CommitChanges, ReadAnew, TableFiles
from lakeward.index.key_changes.reading import KeyReader
from lakeward.index.key_changes.table_commits import check_can_be_followed, newest_change
from lakeward.index.location import LOCATIONS
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

_SNAPSHOTS = 3
"""Snapshots of a table whose files go while they are read."""

OpenOwnIndex = Callable[[TableSnapshot], OwnIndex]


@dataclass(frozen=True, slots=True)
class IndexBuild:
    instant: str | None
    """The last commit that it has; None of a table without any."""
    groups: int
    entries: int


def build_index(
    storage: Storage,
    open_index: OpenOwnIndex,
    take: Callable[[], TableSnapshot],
    *,
    on_group: Callable[[int, int], None] = lambda done, of: None,
) -> IndexBuild:
    """Put all keys of the table into an index that has none. One process at a time.

    Args:
        on_group: file groups that are done, and all.

    Raises `Refused` where it is built already or a file group cannot be told, `Unsupported`, `BrokenFile`; `TryLater`
    where cleans are always faster.
    """
    return while_files_stay(lambda snapshot: _build(storage, open_index, snapshot, on_group), take)


def while_files_stay(build: Callable[[TableSnapshot], IndexBuild], take: Callable[[], TableSnapshot]) -> IndexBuild:
    """Build from the table as it is; again from a later one where a clean took files meanwhile. Raises `TryLater`."""
    for look in range(_SNAPSHOTS):
        try:
            return build(take())
        except NotFound as gone:
            if look + 1 == _SNAPSHOTS:
                raise TryLater(
                    "The index is not built: files of the table go while they are read.",
                    why=str(gone),
                    remedy="Run the command again when no clean is at work.",
                ) from gone
    raise AssertionError("the loop returns or raises")


def update_and_tidy(storage: Storage, open_index: OpenOwnIndex, take: Callable[[], TableSnapshot]) -> IndexUpdate:
    """Bring the index up to date. One process at a time. Raises what `update_index` does."""
    done = update_index(storage, open_index, take)
    if done.through is None:
        return done
    snapshot = take()
    return replace(done, is_tidied=open_index(snapshot).tidy(snapshot.timeline, through=done.through))


def _build(
    storage: Storage, open_index: OpenOwnIndex, snapshot: TableSnapshot, on_group: Callable[[int, int], None]
) -> IndexBuild:
    check_can_be_followed(snapshot)
    table = TableFiles.of(snapshot)
    if table.frozen:
        (partition_path, file_id), why = min(table.frozen.items())
        raise Refused(
            "The index cannot be built.",
            why=f"Which keys the file group {file_id} in partition {partition_path!r} has cannot be told: {why}",
            remedy="See to that file group first (`lakeward inspect`).",
        )
    commit = newest_change(snapshot.timeline)
    if commit is None:
        return IndexBuild(None, 0, 0)
    index = open_index(snapshot)
    reader = KeyReader(storage, snapshot)
    entries = 0

    def locations() -> Iterator[pa.RecordBatch]:
        nonlocal entries
        for done, (group, newest) in enumerate(sorted(table.newest.items())):
            on_group(done, len(table.newest))
            chosen = CommitChanges(commit, (ReadAnew(group, newest),))
            for batch in reader.changes(chosen, is_global=index.is_global):
                entries += batch.num_rows
                instants = pa.repeat(pa.scalar(commit.instant, pa.string()), batch.num_rows)
                yield pa.RecordBatch.from_arrays([*batch.columns[:3], instants], schema=LOCATIONS)

    index.build(commit.instant, locations(), completed=commit.completed)
    return IndexBuild(commit.instant, len(table.newest), entries)
