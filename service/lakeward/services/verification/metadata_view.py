"""What a check of a metadata table reads: the table and its metadata table at one moment.

Touches: storage, reading.

The timeline of the table is read before the metadata table, as readers of Hudi do: the caller brings the snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile
from lakeward.format.metadata.index_definitions import IndexDefinitions
from lakeward.format.metadata.partition import COLUMN_STATS, FILES
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.storage.storage import Storage
from lakeward.table.file_group import BaseFile, FileSlice
from lakeward.table.index_definitions import IndexedColumns, load_index_definitions, load_indexed_columns
from lakeward.table.metadata.metadata_listing import MetadataListing
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class MetadataView:
    storage: Storage
    snapshot: TableSnapshot
    reader: MetadataReader
    listing: MetadataListing
    partitions: tuple[str, ...]
    """Partitions of the metadata table that can be read."""
    indexed: IndexedColumns | None
    definitions: IndexDefinitions
    meter: ReadMeter = field(default_factory=ReadMeter)
    """What is read of the table's own files."""

    @property
    def base_files(self) -> dict[str, BaseFile]:
        """Base files of the newest slices that have one, by path."""
        found = (base_of(group.slices) for group in self.snapshot.file_groups)
        return {base.path: base for base in found if base is not None}


def base_of(slices: Iterable[FileSlice]) -> BaseFile | None:
    return next((slice_.base_file for slice_ in slices if slice_.base_file is not None), None)


def view_metadata(
    storage: Storage, snapshot: TableSnapshot, clock: Clock, *, without: Collection[str] = ()
) -> MetadataView:
    """The metadata table of a table that has one.

    Raises `BrokenFile` and `Unsupported`.

    Args:
        without: partitions of the metadata table that are known not to be there.
    """
    config, base_path = snapshot.config, snapshot.base_path
    partitions = tuple(name for name in config.built_metadata_partitions if name not in without)
    if FILES not in partitions:
        raise BrokenFile(f"The metadata table of {base_path} has no files.", why="Its partition `files` is missing.")
    table = load_metadata_table(storage, base_path, config, snapshot.timeline, clock=clock, partitions=partitions)
    reader = MetadataReader(storage, table)
    indexed = None
    if snapshot.schema is not None and COLUMN_STATS in partitions:
        indexed = load_indexed_columns(storage, base_path, config, snapshot.schema)
    return MetadataView(
        storage=storage,
        snapshot=snapshot,
        reader=reader,
        listing=MetadataListing(reader, base_path),
        partitions=partitions,
        indexed=indexed,
        definitions=load_index_definitions(storage, base_path, config),
    )
