"""An index of Lakeward: built from all file slices as they are, and then kept up to date.

    build    snapshot -> the keys of each live file group, by tasks, a checkpoint each (`build_work`) -> merged by keys
             (`merged_keys`), for a record index of the whole table by tasks that write its buckets (`bucket_build`) ->
             one commit of the index, which is settled: it has what completed on the table up to that snapshot
    update   `index_update.update_index`; then what was rolled back is forgotten and what was archived is settled

    rebuild  the same beside the index that there is, which it replaces in one step

*Stopped anywhere* in a build, the index has no commit, and the next build reads what has no checkpoint, or was written
since; a lookup is right meanwhile, or refused, as of an index that is far behind. The checkpoints go when the index is
in its place.

Touches: the index; the table, reading; the folder of the build; processes of this machine or Spark; spill files.
Keeps:   1. what completes while an index is built comes with its next update;
         2. stopped at any call, a build that is begun again makes the same index;
         3. a checkpoint that is broken is made again, and nothing that was read of it counts.
Memory:  what merging one slice takes, and a frame of each run that is merged.
See:     docs/decisions/0075-an-index-follows-its-table.md, docs/decisions/0085-builds-that-go-on.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeward.base.errors import NotFound, TryLater
from lakeward.index.build_state import BuildState
from lakeward.index.key_changes.table_commits import TableCommit
from lakeward.index.settlement import check_not_built
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.services.indexing.run.bucket_build import BucketSpec
from lakeward.services.indexing.run.build_work import (
    BuildWork,
    build_state,
    make_bucket_files,
    make_missing,
    remove_checkpoints,
)
from lakeward.services.indexing.run.index_update import IndexUpdate, update_index
from lakeward.services.indexing.run.merged_keys import located_keys
from lakeward.services.indexing.run.staying_files import while_files_stay
from lakeward.services.indexing.table_indexes import OpenOwnIndex, OwnIndexPlace
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class IndexBuild:
    instant: str | None
    """The last commit that it has; None of a table without any."""
    groups: int
    """File groups of which the keys were read."""
    entries: int
    resumed: int = 0
    """File groups of which the keys were there from a build that was stopped."""


def build_index(
    storage: Storage, open_index: OpenOwnIndex, take: Callable[[], TableSnapshot], work: BuildWork
) -> IndexBuild:
    """Put all keys of the table into an index that has none. One process at a time.

    Raises `Refused` where it is built already or a file group cannot be known, `Unsupported`, `BrokenFile`; `TryLater`
    where cleans are always faster.
    """
    return while_files_stay(lambda snapshot: _build(storage, open_index, snapshot, work), take, or_else=not_built)


def build_in_place(
    storage: Storage, place: OwnIndexPlace, take: Callable[[], TableSnapshot], work: BuildWork, *, is_global: bool
) -> IndexBuild:
    """Make the index of a place and build it. Raises what `build_index` does."""
    place.create(is_global=is_global)
    built = build_index(storage, place.open, take, work)
    remove_checkpoints(storage, place.build_folder)
    return built


def rebuild_in_place(
    storage: Storage, place: OwnIndexPlace, take: Callable[[], TableSnapshot], work: BuildWork, *, is_global: bool
) -> IndexBuild:
    """Build another index beside that of the place, and let it be the one. Raises what `build_index` does; then the old
    one stays."""
    beside = place.beside()
    beside.create(is_global=is_global)
    built = build_index(storage, beside.open, take, work)
    update_and_tidy(storage, beside.open, take)
    beside.take_place()
    remove_checkpoints(storage, place.build_folder)
    return built


def not_built(gone: NotFound) -> TryLater:
    return TryLater(
        "The index is not built: files go while they are read.",
        why=str(gone),
        remedy="Run the command again when no clean is at work; what was read stays.",
    )


def update_and_tidy(storage: Storage, open_index: OpenOwnIndex, take: Callable[[], TableSnapshot]) -> IndexUpdate:
    """Bring the index up to date. One process at a time. Raises what `update_index` does."""
    done = update_index(storage, open_index, take)
    if done.through is None:
        return done
    snapshot = take()
    return replace(done, is_tidied=open_index(snapshot).tidy(snapshot.timeline, through=done.through))


def _build(storage: Storage, open_index: OpenOwnIndex, snapshot: TableSnapshot, work: BuildWork) -> IndexBuild:
    begun = build_state(storage, snapshot, work.folder)
    commit = begun.commit
    if commit is None:
        return IndexBuild(None, 0, 0)
    index = open_index(snapshot)
    check_not_built(index.indexed())
    made = make_missing(storage, snapshot, begun, work)
    if isinstance(index, RecordIndexWriter) and index.is_global:
        entries = _build_by_buckets(index, commit, made, work)
        return IndexBuild(commit.instant, len(made.slices), entries, len(begun.made))
    entries = 0

    def locations() -> Iterator[pa.RecordBatch]:
        nonlocal entries
        for batch in located_keys(storage, work.folder, made.of_groups, commit.instant):
            entries += batch.num_rows
            yield batch

    index.build(commit.instant, locations(), completed=commit.completed)
    return IndexBuild(commit.instant, len(made.slices), entries, len(begun.made))


def _build_by_buckets(index: RecordIndexWriter, commit: TableCommit, made: BuildState, work: BuildWork) -> int:
    """Its files are written by tasks, each those of some buckets; so many entries they have."""
    groups = tuple(made.of_groups)
    manifest = index.shape_of_build(sum(checkpoint.rows for _, checkpoint in groups))
    spec = BucketSpec(index.folder, manifest, work.folder, groups, commit.instant, commit.completed, part=0, parts=1)
    files = make_bucket_files(spec, work)
    index.end_build(manifest, files, completed=commit.completed)
    return sum(file.entries for file in files)
