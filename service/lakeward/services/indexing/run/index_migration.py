"""An index of Lakeward is filled from another index of the table, once: what RFC-08 has a tool for.

    snapshot -> the other index as of it -> its locations in live file groups -> one commit of Lakeward, which is
    settled
             -> the new index is read back: as many locations as were put, or it is refused
    of some partitions alone: the file groups of all others are read, as `building` does
    then     `index_build.update_and_tidy`: what was committed meanwhile

No row is read and no log is merged, where the other index knows its keys without. An index of base files knows nothing
of logs, so that a table which has some in the partitions that are taken is refused.

    rows and entries of it are drawn: right -> it takes the place, in one step; wrong -> it goes

All of it happens beside the place. *Stopped anywhere*, the place has no index, and what lies beside it goes with the
next try, or with `drop`.

Touches: the index; the other index and the table, reading.
Keeps:   1. what the one index says and the other cannot hold is refused: no location is dropped in silence;
         2. nothing uses an index that was not checked;
         3. what was found to be wrong is not left there.
Source:  RFC-08, migration from an existing index
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import LakewardError, Refused, UsageError
from lakeward.index.index import Index
from lakeward.index.key_changes.group_changes import TableFiles
from lakeward.index.key_changes.table_commits import check_can_be_followed, newest_change
from lakeward.index.location import FILE_ID, LOCATIONS, PARTITION_PATH, group_names, names_of
from lakeward.index.overlay import current_index
from lakeward.index.settlement import check_not_built
from lakeward.services.indexing.judge.check import Moment, check_index
from lakeward.services.indexing.judge.check_result import CheckSize, IndexCheck
from lakeward.services.indexing.run.build_work import BuildWork, build_state, make_missing, remove_checkpoints
from lakeward.services.indexing.run.index_build import IndexBuild, not_built, update_and_tidy
from lakeward.services.indexing.run.merged_keys import located_keys
from lakeward.services.indexing.run.staying_files import while_files_stay
from lakeward.services.indexing.table_indexes import OpenOwnIndex, OwnIndexPlace
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class TakenPartitions:
    """Some partitions are taken from the other index, and the others are read."""

    partitions: frozenset[str]
    work: BuildWork
    """The file groups of the others are read so."""


@dataclass(frozen=True, slots=True)
class Migration:
    filled: IndexBuild
    commits: tuple[str, ...]
    """Commits that were taken in afterwards."""
    check: IndexCheck
    """The index is gone again where it found anything wrong."""


def migrate_into(
    storage: Storage,
    place: OwnIndexPlace,
    open_source: Callable[[TableSnapshot], Index],
    take: Callable[[], TableSnapshot],
    size: CheckSize,
    *,
    is_global: bool,
    taken: TakenPartitions | None = None,
    on_step: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> Migration:
    """Fill the index of a place, where there is none, from another one, and check it. Raises `Refused` before anything
    is written where the table can have no such index, the place has one or the other one is out of use; then what
    `migrate_index` and `check_index` raise, and nothing is left.

    Args:
        size: what is drawn to check it.
        on_step: called with what is done, how much of it, and how much there is of it.
    """
    snapshot = take()
    check_can_be_followed(snapshot)
    open_source(snapshot)
    if place.is_there():
        check_not_built(place.open(snapshot).indexed())
    beside = place.beside()
    try:
        beside.create(is_global=is_global)
        on_part = partial(on_step, "read {} of {} parts of the other index")
        filled = migrate_index(storage, beside.open, open_source, take, taken=taken, on_part=on_part)
        updated = update_and_tidy(storage, beside.open, take)

        def moment_now() -> Moment:
            snapshot = take()
            return Moment(snapshot, current_index(storage, snapshot, beside.open(snapshot)))

        check = check_index(storage, moment_now, size, on_step=on_step)
    except LakewardError:
        beside.drop()
        raise
    if check.wrong:
        beside.drop()
    else:
        beside.take_place()
    if taken is not None:
        remove_checkpoints(storage, place.build_folder)
    return Migration(filled, updated.commits, check)


def migrate_index(
    storage: Storage,
    open_index: OpenOwnIndex,
    open_source: Callable[[TableSnapshot], Index],
    take: Callable[[], TableSnapshot],
    *,
    taken: TakenPartitions | None = None,
    on_part: Callable[[int, int], None] = lambda done, of: None,
) -> IndexBuild:
    """Put what another index says of the table into one of Lakeward's that has nothing. One process at a time.

    Args:
        open_source: the other index as of a snapshot, with what it has not taken in yet.
        taken: None: all that the other one has.
        on_part: parts of the other index that are done, and all.

    Raises `UsageError` for a partition in which the table has nothing; `Refused` where it is built already, the other
    one does not know keys of logs, or a key has more places there than the index has for it: then it is filled all the
    same, and is to be dropped; what opening the other one and reading keys does; `TryLater` where cleans are always
    faster.
    """

    def migrate(snapshot: TableSnapshot) -> IndexBuild:
        return _migrate(storage, open_index, open_source(snapshot), snapshot, taken, on_part)

    return while_files_stay(migrate, take, or_else=not_built)


def _migrate(
    storage: Storage,
    open_index: OpenOwnIndex,
    source: Index,
    snapshot: TableSnapshot,
    taken: TakenPartitions | None,
    on_part: Callable[[int, int], None],
) -> IndexBuild:
    check_can_be_followed(snapshot)
    table = TableFiles.of(snapshot)
    groups = table.live if taken is None else _groups_in(table, taken.partitions)
    if not source.can_index_log_files:
        _check_no_logs(table, groups)
    newest = newest_change(snapshot.timeline)
    if newest is None:
        return IndexBuild(None, 0, 0)
    begun = read = None
    if taken is not None:
        begun = build_state(storage, snapshot, taken.work.folder, besides=taken.partitions)
        read = make_missing(storage, snapshot, begun, taken.work)
    live = names_of(groups)
    entries = 0

    def locations() -> Iterator[pa.RecordBatch]:
        nonlocal entries
        parts = source.parts(None if taken is None else taken.partitions)
        for done, part in enumerate(parts):
            on_part(done, len(parts))
            for batch in source.look_up(storage, part, None):
                found = batch.filter(pc.is_in(group_names(batch.column(PARTITION_PATH), batch.column(FILE_ID)), live))
                entries += found.num_rows
                instants = pa.repeat(pa.scalar(newest.instant, pa.string()), found.num_rows)
                yield pa.RecordBatch.from_arrays([*found.columns[:3], instants], schema=LOCATIONS)
        if taken is not None and read is not None:
            for batch in located_keys(storage, taken.work.folder, read.of_groups, newest.instant):
                entries += batch.num_rows
                yield batch

    open_index(snapshot).build(newest.instant, locations(), completed=newest.completed)
    index = open_index(snapshot)
    held = sum(found.num_rows for part in index.parts(None) for found in index.look_up(storage, part, None))
    if held != entries:
        raise Refused(
            "The index cannot hold what the other one says.",
            why=f"There are {entries:,} locations, and {held:,} are left here: a key has several in one "
            + ("table." if index.is_global else "partition."),
            remedy="Fold the rows of one key first, or keep a key as one in its partition (--by-partition).",
        )
    if begun is None or read is None:
        return IndexBuild(newest.instant, 0, entries)
    return IndexBuild(newest.instant, len(read.slices), entries, len(begun.made))


def _groups_in(table: TableFiles, partitions: frozenset[str]) -> frozenset[GroupId]:
    """The live file groups in these partitions, each of which has some."""
    if unknown := sorted(partitions - {path for path, _ in table.live}):
        raise UsageError(
            f"The table has nothing in the partition '{unknown[0]}'.",
            why="No file group of it is live, so that no index has a key there.",
            remedy="Name partition paths as `lakeward inspect` shows them.",
        )
    return frozenset(group for group in table.live if group[0] in partitions)


def _check_no_logs(table: TableFiles, groups: Collection[GroupId]) -> None:
    with_logs = sorted(group for group in groups if group in table.newest and table.newest[group].row_logs)
    if with_logs:
        raise Refused(
            "From an index of base files no other one can be filled where the table has logs.",
            why=f"What they deleted it still has, and keys in them alone it has not; {len(with_logs):,} file groups "
            f"have some, {with_logs[0][1]} in partition '{with_logs[0][0]}' for one.",
            remedy="Compact the table (`lakeward compact`), take the partitions without logs alone (--partition), or "
            "build the index from the rows (`lakeward index build`).",
        )
