"""An index of ours is filled from another index of the table, once: what RFC-08 has a tool for.

    snapshot -> the other index as of it -> its locations in live file groups -> one commit of ours, which is settled
             -> ours is read back: as many locations as were put, or it is refused
    then     `building.update_and_tidy`: what was committed meanwhile

No row is read and no log is merged, where the other index knows its keys without. An index of base files knows nothing
of logs, so that a table which has some is refused.

*Stopped anywhere* before the commit of ours, the index has none and the next try begins anew. Stopped behind it, the
index was not read back: the caller has it filled beside the place where it is looked for.

Touches: the index; the other index and the table, reading.
Keeps:   what the one index says and the other cannot hold is refused: no location is dropped in silence.
Source:  RFC-08, migration from an existing index
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.errors import Refused
from lakeward.execute.indexing.building import IndexBuild, OpenOwnIndex, while_files_stay
from lakeward.index.index import Index
from lakeward.index.key_changes.group_changes import TableFiles
from lakeward.index.key_changes.table_commits import check_can_be_followed, newest_change
from lakeward.index.location import FILE_ID, LOCATIONS, PARTITION_PATH, group_names
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


def migrate_index(
    storage: Storage,
    open_index: OpenOwnIndex,
    open_source: Callable[[TableSnapshot], Index],
    take: Callable[[], TableSnapshot],
    *,
    on_part: Callable[[int, int], None] = lambda done, of: None,
) -> IndexBuild:
    """Put what another index says of the table into one of ours that has nothing. One process at a time.

    Args:
        open_source: the other index as of a snapshot, with what it has not taken in yet.
        on_part: parts of the other index that are done, and all.

    Raises `Refused` where it is built already, the other one does not know keys of logs, or a key has more places there
    than the index has for it: then it is filled all the same, and is to be dropped; what opening the other one does;
    `TryLater` where cleans are always faster.
    """

    def migrate(snapshot: TableSnapshot) -> IndexBuild:
        return _migrate(storage, open_index, open_source(snapshot), snapshot, on_part)

    return while_files_stay(migrate, take)


def _migrate(
    storage: Storage,
    open_index: OpenOwnIndex,
    source: Index,
    snapshot: TableSnapshot,
    on_part: Callable[[int, int], None],
) -> IndexBuild:
    check_can_be_followed(snapshot)
    table = TableFiles.of(snapshot)
    if not source.can_index_log_files:
        _check_no_logs(table)
    newest = newest_change(snapshot.timeline)
    if newest is None:
        return IndexBuild(None, 0, 0)
    paths, file_ids = zip(*sorted(table.live), strict=True) if table.live else ((), ())
    live = group_names(pa.array(paths, pa.string()), pa.array(file_ids, pa.string()))
    entries = 0

    def locations() -> Iterator[pa.RecordBatch]:
        nonlocal entries
        parts = source.parts(None)
        for done, part in enumerate(parts):
            on_part(done, len(parts))
            for batch in source.look_up(storage, part, None):
                found = batch.filter(pc.is_in(group_names(batch.column(PARTITION_PATH), batch.column(FILE_ID)), live))
                entries += found.num_rows
                instants = pa.repeat(pa.scalar(newest.instant, pa.string()), found.num_rows)
                yield pa.RecordBatch.from_arrays([*found.columns[:3], instants], schema=LOCATIONS)

    open_index(snapshot).build(newest.instant, locations(), completed=newest.completed)
    index = open_index(snapshot)
    held = sum(found.num_rows for part in index.parts(None) for found in index.look_up(storage, part, None))
    if held != entries:
        raise Refused(
            "The index cannot hold what the other one says.",
            why=f"That one has {entries:,} locations, and {held:,} are left here: a key has several in one "
            + ("table." if index.is_global else "partition."),
            remedy="Fold the rows of one key first, or keep a key as one in its partition (--by-partition).",
        )
    return IndexBuild(newest.instant, len(table.newest), entries)


def _check_no_logs(table: TableFiles) -> None:
    with_logs = sorted(group for group, slice_ in table.newest.items() if slice_.row_logs)
    if with_logs:
        raise Refused(
            "From an index of base files no other one can be filled while the table has logs.",
            why=f"What they deleted it still has, and keys in them alone it has not; {len(with_logs):,} file groups "
            f"have some, {with_logs[0][1]} in partition '{with_logs[0][0]}' for one.",
            remedy="Compact the table (`lakeward compact`), or build the index from the rows (`lakeward index build`).",
        )
