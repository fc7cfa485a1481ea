"""The source of the names of a table's files: the storage, or the table's metadata table.

A file system is listed: that needs nothing to be in step, and it also finds files of
instants that never completed. In an object store each partition is a request or more, and the metadata table is a few.

Which partitions there are is asked here alone: they are those that the table's Hudi readers see. Where folders that
look like partitions lie below a partition, the storage cannot know, and the metadata table's list says it.

Touches: storage, reading only.
Keeps:   where that list is needed and cannot be read, nothing is found instead: the error says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.partition import FoundPartitions, Partition, find_partitions, folder_names, list_partitions
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.timeline import Timeline

if TYPE_CHECKING:
    from lakeward.table.metadata.metadata_listing import MetadataListing


class ListingSource(StrEnum):
    STORAGE = "storage"
    METADATA = "metadata"
    """The metadata table where the table has one, else the storage."""


def listing_source(base_path: str) -> ListingSource:
    """The source that suits the storage."""
    return ListingSource.METADATA if "://" in base_path else ListingSource.STORAGE


def find_table_partitions(
    storage: Storage,
    base_path: str,
    config: TableConfig,
    timeline: Timeline,
    *,
    clock: Clock,
    source: ListingSource = ListingSource.STORAGE,
    only: Iterable[str] | None = None,
    files_enough: int | None = None,
) -> FoundPartitions:
    """The partitions of the table and their files. `timeline` was read before.

    Args:
        only: the partitions that matter; those of them that are none are left out.
        files_enough: as in `find_partitions`, where `only` is None.
    """
    assert only is None or files_enough is None, "partitions that are named are all listed"
    if source is ListingSource.METADATA and has_metadata_table(config):
        listing = _load_listing(storage, base_path, config, timeline, clock=clock)
        known = listing.partitions()
        if files_enough is not None:
            return _first_partitions(listing, known, files_enough)
        return FoundPartitions(listing.list_partitions(known if only is None else set(only).intersection(known)))
    if only is not None:
        return list_partitions(storage, base_path, only)
    return find_partitions(
        storage,
        base_path,
        timeline,
        list_nested=partial(_list_nested, storage, base_path, config, timeline, clock),
        native=config.version.has_native_logs,
        files_enough=files_enough,
    )


def _first_partitions(listing: MetadataListing, paths: Iterable[str], files_enough: int) -> FoundPartitions:
    """Each look-up is of twice as many partitions as all before, since it opens the metadata table's files again."""
    left = sorted(paths, key=folder_names)
    found: list[Partition] = []
    while left and sum(len(each.files) for each in found) < files_enough:
        step = len(found) + 1
        found += listing.list_partitions(left[:step])
        left = left[step:]
    return FoundPartitions(tuple(sorted(found, key=lambda each: each.path)), is_whole=not left)


def _list_nested(
    storage: Storage, base_path: str, config: TableConfig, timeline: Timeline, clock: Clock
) -> frozenset[str]:
    if not has_metadata_table(config):
        return frozenset()
    try:
        return frozenset(_load_listing(storage, base_path, config, timeline, clock=clock).partitions())
    except (BrokenFile, Unsupported) as error:
        raise type(error)(
            f"Folders below partitions of {base_path} may be partitions, and the list of these cannot be read.",
            why=f"Hudi's readers use the metadata table's list: {error}",
            remedy="Let a Hudi writer write once with the metadata table on; or move the folders below partitions "
            "out of the table, if they are copies.",
        ) from error


def _load_listing(
    storage: Storage, base_path: str, config: TableConfig, timeline: Timeline, *, clock: Clock
) -> MetadataListing:
    # A daemon that watches tables by listing them needs no Arrow in memory.
    from lakeward.table.metadata.metadata_listing import load_listing

    return load_listing(storage, base_path, config, timeline, clock=clock)
