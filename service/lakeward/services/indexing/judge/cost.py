"""What an index costs beside its lookups: what building it reads, and what a commit of the table writes for it.

    simple      nothing: it is the base files
    bloom       nothing to build, since the filters come with the base files; a commit writes those of its base files
    metadata    the keys of all rows; a commit writes the record index's part of its commit on the metadata table
    record      the keys of all rows; a commit writes a delta file for each bucket that it touches, and a manifest
    postgres    the keys of all rows; a commit puts a row for each key that it changes, of the size that the database
                says, to which come its trees and its log

Of base files a sample of footers is opened, and stands for the others by their sizes; so figures are estimates.

Touches: storage, reading: footers of base files, commits on the timeline of the metadata table, a manifest; the
         database, by what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import NotFound
from lakeward.base.paths import join
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.unreadable import broken_if_unreadable
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import comparable_time
from lakeward.index.index_type import IndexType, LookupType
from lakeward.index.location import RECORD_KEY
from lakeward.index.record.record_file import FileKind
from lakeward.index.record.record_manifest import find_manifest
from lakeward.read.newest_slice import newest_slice
from lakeward.services.indexing.judge.footer_sample import filter_bytes, sample_bases
from lakeward.storage.storage import Storage
from lakeward.table.file_group import BaseFile
from lakeward.table.metadata.metadata_table import is_initial_build, load_metadata_timeline, metadata_base_path
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.instant_content import InstantContents

COMMITS = 20
"""The newest commits whose part is looked at."""


@dataclass(frozen=True, slots=True)
class IndexCost:
    build_bytes: int
    """Bytes of the table that are read to build it: column chunks of keys, and logs."""
    commit_bytes: int | None
    """Bytes that a commit writes for it: the mean of the newest ones; None where that is not known."""
    commits: int
    """So many commits that is the mean of."""
    commit_entries: int | None = None
    """Entries that such a commit puts into an index of Lakeward's; None where that is not known."""


@dataclass(frozen=True, slots=True)
class PutByCommits:
    """What the newest commits put into an index, together."""

    commits: int
    entries: int
    bytes: int
    """What these take; of rows in a database without the trees that find them."""


def index_cost(
    storage: Storage,
    snapshot: TableSnapshot,
    kind: LookupType,
    *,
    record_folder: str,
    in_database: Callable[[int], PutByCommits] | None,
    clock: Clock,
) -> IndexCost:
    """Raises `BrokenFile`, and `Unsupported` of a metadata table that cannot be read.

    Args:
        record_folder: where Lakeward's record index of the table is, if there is one.
        in_database: what so many of the newest commits put into the index in a database, if there is one.
    """
    if kind is IndexType.SIMPLE:
        return IndexCost(0, 0, 0)
    if kind is IndexType.BLOOM:
        return IndexCost(0, *_filters(storage, snapshot))
    read = _key_bytes(storage, snapshot)
    match kind:
        case IndexType.METADATA:
            return IndexCost(read, *_metadata_commits(storage, snapshot, clock))
        case IndexType.RECORD:
            put = _deltas(storage, record_folder)
        case IndexType.POSTGRES:
            put = PutByCommits(0, 0, 0) if in_database is None else in_database(COMMITS)
        case IndexType.HBASE:
            return IndexCost(0, None, 0)
    if not put.commits:
        return IndexCost(read, None, 0)
    return IndexCost(read, round(put.bytes / put.commits), put.commits, round(put.entries / put.commits))


def _key_bytes(storage: Storage, snapshot: TableSnapshot) -> int:
    bases, logs = [], 0
    for group in snapshot.file_groups:
        slice_ = newest_slice(group.slices)
        if slice_ is not None:
            logs += sum(log.size for log in slice_.row_logs)
            bases += [] if slice_.base_file is None else [slice_.base_file]
    read = seen = 0
    for base in sample_bases(bases):
        try:
            with broken_if_unreadable(base.path), storage.open_input(join(snapshot.base_path, base.path)) as source:
                read += _chunk_bytes(ParquetBatches(source, where=f"the base file {base.path}"))
            seen += base.size
        except NotFound:
            continue  # cleaned meanwhile
    return logs + (round(read / seen * sum(base.size for base in bases)) if seen else 0)


def _chunk_bytes(file: ParquetBatches) -> int:
    metadata = file.metadata
    chunks = (
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    )
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema == RECORD_KEY)


def _filters(storage: Storage, snapshot: TableSnapshot) -> tuple[int | None, int]:
    """Filters of the base files that the newest commits wrote and that are there still."""
    by_instant: dict[str, list[BaseFile]] = {}
    for group in snapshot.file_groups:
        for slice_ in group.slices:
            if (base := slice_.base_file) is not None:
                by_instant.setdefault(base.instant, []).append(base)
    newest = sorted(by_instant, key=comparable_time)[-COMMITS:]
    files = [base for instant in newest for base in by_instant[instant]]
    chosen = sample_bases(files)
    if not chosen:
        return None, 0
    found = sum(filter_bytes(storage, snapshot, base) or 0 for base in chosen)
    return round(found / len(chosen) * len(files) / len(newest)), len(newest)


def _metadata_commits(storage: Storage, snapshot: TableSnapshot, clock: Clock) -> tuple[int | None, int]:
    config, timeline = load_metadata_timeline(storage, snapshot.base_path, snapshot.config, clock=clock)
    contents = InstantContents(storage, metadata_base_path(snapshot.base_path), config, timeline)
    sizes: list[int] = []
    for instant in reversed(timeline.completed):
        if len(sizes) == COMMITS:
            break
        if instant.action != "deltacommit" or is_initial_build(instant.time):
            continue
        said = read_commit_metadata(contents.read(instant.file_name), file=instant.file_name, layout=config.layout)
        stats = said.partition_to_write_stats.get(RECORD_INDEX, ())
        if said.partition_to_write_stats:
            sizes.append(sum(stat.total_write_bytes or 0 for stat in stats))
    return (round(sum(sizes) / len(sizes)), len(sizes)) if sizes else (None, 0)


def _deltas(storage: Storage, folder: str) -> PutByCommits:
    """The commits whose delta files are not merged yet."""
    found = find_manifest(storage, folder)
    deltas = [] if found is None else [file for file in found[1].files if file.kind is FileKind.DELTA]
    instants = {file.instant for file in deltas}
    return PutByCommits(len(instants), sum(file.entries for file in deltas), sum(file.size for file in deltas))
